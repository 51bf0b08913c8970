"""Ports for servers that tests start as processes, and start again."""

import random
import socket

__all__ = ["free_port"]

_FIRST, _LAST = 20_000, 32_767
"""Below the kernel's range for clients: while a server is down, no connection of another test takes its port."""

_claims: list[socket.socket] = []
"""The same number for datagrams, bound for as long as this process lives: test processes run beside each other, and a
port without a listener may belong to a server that another process is starting or restarting."""


def free_port() -> int:
    """A free port on loopback that no other caller of this function gets."""
    dice = random.SystemRandom()  # the common ones are seeded alike by property tests
    while True:
        port = dice.randint(_FIRST, _LAST)
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
