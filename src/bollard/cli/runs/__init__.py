"""Commands for events, runs, conversations, artifacts and state."""
