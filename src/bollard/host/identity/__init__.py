"""Callers, roles, users, keys, sessions and workspaces, and the links of actors to users."""
