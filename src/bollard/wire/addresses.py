"""Addresses that a person names, such as a provider's or a server's: which of them are reached. Pure.

What a person with the right to it saves is reached as it stands, also in the own network (docs/decisions/0060). What is
refused is what nobody means: no http, plain http to others, addresses of one link.
"""

import ipaddress
from typing import Final
from urllib.parse import SplitResult, urlsplit

import msgspec

__all__ = ["AddressKind", "address_problem", "carried_address", "is_loopback", "named_address_problem", "url_problem"]


_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_LOOPBACK: Final = ipaddress.IPv6Address("::1")


class AddressKind(msgspec.Struct, frozen=True, kw_only=True):
    """Whose address it is, in the words that are told of it."""

    of: str
    example: str
    has_query: bool
    """Whether a query may be in it."""
    instead: str
    """Where to put what must not be in an address."""


def url_problem(url: str, kind: AddressKind) -> tuple[str, str] | None:
    """What is wrong with an address, and what to do; nothing where it may be reached."""
    example = f"use something like {kind.example}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"is no address: {error}", example
    if parts.scheme not in {"http", "https"} or not host or any(character <= " " for character in url):
        return "is no http or https address", example
    named = parts.username is not None or parts.password is not None or bool(parts.fragment)
    if kind.has_query:
        if named:
            return "has a name, a password or a fragment in it", kind.instead
    elif named or parts.query:
        return "has a name, a password, a query or a fragment in it", kind.instead
    return _place_problem(parts, host, kind)


def _place_problem(parts: SplitResult, host: str, kind: AddressKind) -> tuple[str, str] | None:
    numbers = _numbers_of(host)
    if not numbers:
        if parts.scheme == "http" and host != "localhost":
            return "is plain http to a name", "use https, or the address itself if it is in your own network"
        return None
    if any(number.is_link_local or number.is_multicast or number.is_unspecified for number in numbers):
        return f"{host} is no address of a {kind.of}", "link-local addresses are never called"
    if parts.scheme == "http" and not all(number.is_private or number.is_loopback for number in numbers):
        return "is plain http to another network", "use https"
    return None


def carried_address(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address is a form of: mapped, compatible, 6to4, Teredo or NAT64."""
    if any(address in form for form in (_MAPPED, _NAT64, _COMPATIBLE)) and address != _LOOPBACK:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.teredo[1] if address.teredo is not None else address.sixtofour


def _numbers_of(host: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...]:
    """The address that a host is written as, and the one that it carries; a mapped one is IPv4. Empty for a name."""
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return ()
    carried = carried_address(number) if isinstance(number, ipaddress.IPv6Address) else None
    if carried is None:
        return (number,)
    return (carried,) if number in _MAPPED else (number, carried)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by what is written: its name for itself, or a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# Which addresses are reached for an MCP server: those that people save, and those that a server names. Pure.
#
# What a person with the right to it saves is reached as it stands (docs/decisions/0060). What a server names, such as
# its authorization server, is a stranger's word: the same holds for it, and it leads into the own network only where
# the server itself is there.


_SERVER: Final = AddressKind(
    of="server", example="https://mcp.example.org/mcp", has_query=True, instead="use headers with secret:NAME"
)


def address_problem(url: str) -> tuple[str, str] | None:
    """What is wrong with an address, and what to do; nothing where it may be reached."""
    return url_problem(url, _SERVER)


def named_address_problem(url: str, server: str) -> str | None:
    """What is wrong with an address that a server at the address `server` names."""
    if (problem := address_problem(url)) is not None:
        return problem[0]
    if _is_own(url) and not _is_own(server):
        return "is in the own network, and the server that names it is not"
    return None


def _is_own(url: str) -> bool:
    """Whether it says itself that it is of this machine or this network."""
    host = urlsplit(url).hostname or ""
    numbers = _numbers_of(host)
    if not numbers:
        return host == "localhost" or host.endswith(".localhost")
    return not all(number.is_global for number in numbers)
