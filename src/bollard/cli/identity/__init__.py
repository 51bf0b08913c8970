"""Commands for users, keys, workspaces and sessions."""
