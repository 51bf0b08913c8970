"""Live streams: server-sent events and WebSockets."""
