"""The client behind a trusted proxy, from its `X-Forwarded-*` headers. Pure."""

import ipaddress
from collections.abc import Iterable
from typing import Final

Forwarded = tuple[str | None, str | None]
"""The client address and the scheme that a proxy reports, if it does."""
_HOPS: Final = 16
"""Addresses of `X-Forwarded-For` that are read, from its end."""


class TrustedProxies:
    """Addresses and networks of trusted proxies."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(network) for network in networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def forwarded(self, headers: Iterable[tuple[bytes, bytes]]) -> Forwarded:
        """The last address that is not a trusted proxy: any client could have written the addresses before it."""
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
