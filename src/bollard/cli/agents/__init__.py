"""Commands for agents, and for the resources that agents use."""
