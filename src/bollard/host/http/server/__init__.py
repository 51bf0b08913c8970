"""The HTTP/1.1 server: connections, strict requests, WebSockets and time-outs."""
