"""Who may do what: callers, roles, users, keys, sessions, workspaces, and which user an actor of a channel is."""
