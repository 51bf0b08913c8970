"""Commands for agents and for what agents can use."""
