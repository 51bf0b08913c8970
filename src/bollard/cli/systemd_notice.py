"""Tells systemd how the host is (`Type=notify`): one datagram on the socket that it named. Nothing without systemd."""

import contextlib
import socket
from collections.abc import Mapping
from typing import Final

__all__ = ["tell_systemd"]

_VARIABLE: Final = "NOTIFY_SOCKET"


def tell_systemd(environment: Mapping[str, str], *states: str) -> bool:
    """`READY=1`, `STOPPING=1`, `STATUS=…`; whether anybody was told. A notice that fails changes nothing."""
    address = environment.get(_VARIABLE, "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # a name in the abstract namespace
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
        line.sendto("\n".join(states).encode(), address)
        return True
    return False
