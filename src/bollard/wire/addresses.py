"""Addresses that a person names, such as a provider's or a server's: which of them are reached. Pure.

What a person with the right to it saves is reached as it stands, also in the own network (docs/decisions/0060). What is
refused is what nobody means: no http, plain http to others, addresses of one link.
"""

import ipaddress
from urllib.parse import SplitResult, urlsplit

import msgspec

__all__ = ["AddressKind", "is_loopback", "number_of", "url_problem"]

Number = ipaddress.IPv4Address | ipaddress.IPv6Address


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
    number = number_of(host)
    if number is None:
        if parts.scheme == "http" and host != "localhost":
            return "is plain http to a name", "use https, or the address itself if it is in your own network"
        return None
    if number.is_link_local or number.is_multicast or number.is_unspecified:
        return f"{host} is no address of a {kind.of}", "link-local addresses are never called"
    if parts.scheme == "http" and not (number.is_private or number.is_loopback):
        return "is plain http to another network", "use https"
    return None


def number_of(host: str) -> Number | None:
    """The address that a host is written as, an IPv4 one also where it is in the clothes of IPv6; `None` for a name."""
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = number.ipv4_mapped if isinstance(number, ipaddress.IPv6Address) else None
    return mapped or number


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by what is written: its name for itself, or a loopback address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
