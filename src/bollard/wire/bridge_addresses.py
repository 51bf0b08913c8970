"""Which addresses are reached for an MCP server: those that people save, and those that a server names. Pure.

What a person with the right to it saves is reached as it stands (docs/decisions/0060). What a server names, such as its
authorization server, is a stranger's word: the same holds for it, and it leads into the own network only where the
server itself is there.
"""

import ipaddress
from typing import Final
from urllib.parse import SplitResult, urlsplit

__all__ = ["address_problem", "named_address_problem"]

_EXAMPLE: Final = "use something like https://mcp.example.org/mcp"
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def address_problem(url: str) -> tuple[str, str] | None:
    """What is wrong with an address, and what to do; nothing where it may be reached."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"is no address: {error}", _EXAMPLE
    if parts.scheme not in {"http", "https"} or not host or any(character <= " " for character in url):
        return "is no http or https address", _EXAMPLE
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "has a name, a password or a fragment in it", "use headers with secret:NAME"
    return _place_problem(parts, host)


def named_address_problem(url: str, server: str) -> str | None:
    """What is wrong with an address that a server at the address `server` names."""
    if (problem := address_problem(url)) is not None:
        return problem[0]
    if _is_own(url) and not _is_own(server):
        return "is in the own network, and the server that names it is not"
    return None


def _place_problem(parts: SplitResult, host: str) -> tuple[str, str] | None:
    address = _number(host)
    if address is None:
        if parts.scheme == "http" and host != "localhost":
            return "is plain http to a name", "use https, or the address itself if it is in your own network"
        return None
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return f"{host} is no address of a server", "link-local addresses are never called"
    if parts.scheme == "http" and not (address.is_private or address.is_loopback):
        return "is plain http to another network", "use https"
    return None


def _is_own(url: str) -> bool:
    """Whether it says itself that it is of this machine or this network."""
    host = urlsplit(url).hostname or ""
    address = _number(host)
    if address is None:
        return host == "localhost" or host.endswith(".localhost")
    return not address.is_global


def _number(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
