"""Who really asks, when the one that connects is a proxy that we trust. Pure."""

import ipaddress
from collections.abc import Iterable
from typing import Final

Forwarded = tuple[str | None, str | None]
"""The address and the scheme that a proxy names; nothing where it names none."""
_HOPS: Final = 16
"""Addresses of one `X-Forwarded-For` that are looked at, from its end."""


class TrustedProxies:
    """Addresses and networks that are believed."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def forwarded(self, headers: Iterable[tuple[bytes, bytes]]) -> Forwarded:
        """What a trusted proxy says: the last address that is not a proxy of ours. What stands before it anybody could
        have written."""
        hops: list[str] = []
        scheme: str | None = None
        for name, value in headers:
            if name == b"x-forwarded-for":
                hops += value.decode("latin-1").split(",")
            elif name == b"x-forwarded-proto" and value in (b"http", b"https"):
                scheme = value.decode()
        for hop in reversed(hops[-_HOPS:]):
            address = _address(hop.strip())
            if address is None:
                break
            if address not in self:
                return address, scheme
        return None, scheme


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
