"""Checks the URLs of providers and MCP servers. Pure.

A URL that an authorized person saves may be in the own network (ADR 0060). Refused are schemes other than http and
https, plain http to other networks, and link-local addresses. A URL that an MCP server names, such as its authorization
server, must not be in the own network unless the server itself is.
"""

import ipaddress
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_LOOPBACK: Final = ipaddress.IPv6Address("::1")


class AddressKind(msgspec.Struct, frozen=True, kw_only=True):
    """The kind of a URL, with the terms for its errors."""

    of: str
    example: str
    has_query: bool
    """Whether the URL may have a query."""
    instead: str
    """The hint for a URL with credentials."""


UrlReason = Literal[
    "url_malformed",
    "url_scheme",
    "url_credentials",
    "url_credentials_or_query",
    "url_http_name",
    "url_http_elsewhere",
    "url_link_local",
]


class UrlProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a URL is refused: a sentence without its subject, and the reason with details for other languages."""

    reason: UrlReason
    message: str
    hint: str
    details: dict[str, str] = {}


def url_problem(url: str, kind: AddressKind) -> UrlProblem | None:
    """The problem of a URL; `None` if it is allowed."""
    example = f"use something like {kind.example}"
    details = {"example": kind.example}
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        message = f"is not a valid address: {error}"
        return UrlProblem(reason="url_malformed", message=message, hint=example, details=details)
    if parts.scheme not in {"http", "https"} or not host or any(character <= " " for character in url):
        message = "is not an http or https address"
        return UrlProblem(reason="url_scheme", message=message, hint=example, details=details)
    has_extras = parts.username is not None or parts.password is not None or bool(parts.fragment)
    if kind.has_query:
        if has_extras:
            message = "contains a user name, a password or a fragment"
            return UrlProblem(reason="url_credentials", message=message, hint=kind.instead)
    elif has_extras or parts.query:
        message = "contains a user name, a password, a query or a fragment"
        return UrlProblem(reason="url_credentials_or_query", message=message, hint=kind.instead)
    return _network_problem(parts, host, kind)


def _network_problem(parts: SplitResult, host: str, kind: AddressKind) -> UrlProblem | None:
    numbers = _addresses_of(host)
    if not numbers:
        if parts.scheme == "http" and host != "localhost":
            return UrlProblem(
                reason="url_http_name",
                message="uses plain http with a host name",
                hint="use https, or the IP address if it is in your own network",
            )
        return None
    if any(number.is_link_local or number.is_multicast or number.is_unspecified for number in numbers):
        return UrlProblem(
            reason="url_link_local",
            message=f"{host} is not an address of a {kind.of}",
            hint="use another address; link-local, multicast and unspecified addresses are refused",
            details={"host": host},
        )
    if parts.scheme == "http" and not all(number.is_private or number.is_loopback for number in numbers):
        return UrlProblem(reason="url_http_elsewhere", message="uses plain http to another network", hint="use https")
    return None


def carried_address(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address inside an IPv6 address: mapped, compatible, 6to4, Teredo or NAT64."""
    if any(address in form for form in (_MAPPED, _NAT64, _COMPATIBLE)) and address != _LOOPBACK:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.teredo[1] if address.teredo is not None else address.sixtofour


def _addresses_of(host: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...]:
    """The address of a host and the IPv4 address inside it, only the latter if it is mapped. Empty for a name."""
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return ()
    carried = carried_address(number) if isinstance(number, ipaddress.IPv6Address) else None
    if carried is None:
        return (number,)
    return (carried,) if number in _MAPPED else (number, carried)


def is_loopback(host: str) -> bool:
    """Whether a host is `localhost` or a loopback address. Does not resolve names."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_SERVER: Final = AddressKind(
    of="server", example="https://mcp.example.org/mcp", has_query=True, instead="use headers with secret:NAME"
)


def address_problem(url: str) -> UrlProblem | None:
    """The problem of the URL of an MCP server; `None` if it is allowed."""
    return url_problem(url, _SERVER)


class NamedUrlProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a URL that an MCP server names is refused."""

    reason: UrlReason | Literal["url_own_network"]
    message: str


def named_address_problem(url: str, server: str) -> NamedUrlProblem | None:
    """The problem of a URL that the MCP server at `server` names."""
    if (problem := address_problem(url)) is not None:
        return NamedUrlProblem(reason=problem.reason, message=problem.message)
    if _is_own(url) and not _is_own(server):
        message = "is in the own network, but the server that names it is not"
        return NamedUrlProblem(reason="url_own_network", message=message)
    return None


def _is_own(url: str) -> bool:
    """Whether a URL is in the own network, without resolving names."""
    host = urlsplit(url).hostname or ""
    numbers = _addresses_of(host)
    if not numbers:
        return host == "localhost" or host.endswith(".localhost")
    return not all(number.is_global for number in numbers)
