"""Authentication: which caller makes a request."""
