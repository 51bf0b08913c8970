"""Ports for servers that tests start as processes, and start again."""

import random
import socket

__all__ = ["free_port"]

_FIRST, _LAST = 20_000, 32_767
"""Below what the kernel gives to clients: while a server is down, no connection of another test takes its port."""


def free_port() -> int:
    """A port on loopback where nobody listens."""
    while True:
        port = random.randint(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
