"""Where a request outside goes, and what it may carry. Pure values, checked once."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urljoin, urlsplit

import msgspec

from bollard.host.errors import EgressDenied
from bollard.host.limits import (
    EGRESS_ANSWER_S,
    EGRESS_BODY_BYTES,
    EGRESS_HEADER_CHARACTERS,
    EGRESS_HEADERS,
    EGRESS_REDIRECTS,
    EGRESS_URL_CHARACTERS,
)

Address = IPv4Address | IPv6Address
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
_PORTS: Final = {"http": 80, "https": 443}
_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-language",
        "api-key",
        "apikey",
        "authorization",
        "cache-control",
        "content-language",
        "content-type",
        "idempotency-key",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-unmodified-since",
        "prefer",
        "private-token",
        "range",
        "user-agent",
    }
)
_HEADER_FAMILIES: Final = ("x-", "webhook-")
_FORGING: Final = ("x-forwarded", "x-real-ip", "x-http-method", "x-method", "x-original", "x-rewrite", "x-host")
"""Headers that tell a server behind a proxy who asks, or for what."""
_ANYWHERE: Final = frozenset({"accept", "accept-language", "content-language", "content-type", "user-agent"})
"""Headers that another host may see too, when one sends a request on to it."""
_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """One URL, taken apart."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def of(cls, url: str) -> "Destination":
        """Raises `ValueError`."""
        if len(url) > EGRESS_URL_CHARACTERS:
            raise ValueError(f"is longer than {EGRESS_URL_CHARACTERS} characters")
        if any(character <= " " or character > "~" or character == "\\" for character in url):
            raise ValueError("has a character that does not belong in a URL")
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname or parts.username or parts.password or parts.fragment:
            raise ValueError("is no http or https URL without a user and a fragment")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(scheme=parts.scheme, host=parts.hostname, port=parts.port or _PORTS[parts.scheme], path=path)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        return self.origin + self.path


class EgressRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants from outside."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    max_bytes: int = EGRESS_BODY_BYTES
    """What is read of the answer's body; the rest is cut off, and the answer says so."""
    timeout_s: float = EGRESS_ANSWER_S
    redirects: int = EGRESS_REDIRECTS
    """How often it may be sent on; 0 gives back the redirect itself."""


class EgressResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What came back. The body is as it was sent: nothing is unpacked."""

    url: str
    """Where it came from in the end."""
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    truncated: bool = False

    def header(self, name: str) -> str | None:
        """The first of this name, which is given in small letters."""
        return next((value for each, value in self.headers if each == name), None)


def check_request(request: EgressRequest) -> Destination:
    """Where it goes; raises `EgressDenied` for what may not be sent at all."""
    if request.method not in METHODS:
        raise EgressDenied(f"{request.method[:20]!r} is not sent", hint=f"use one of {', '.join(sorted(METHODS))}")
    if len(request.headers) > EGRESS_HEADERS:
        raise EgressDenied(f"there are more than {EGRESS_HEADERS} headers", hint="send fewer")
    for name, value in request.headers:
        _check_header(name, value)
    if request.body and request.method in SAFE_METHODS:
        raise EgressDenied(f"a {request.method} has no body", hint="use POST, or send none")
    return place_of(request.url)


def place_of(url: str) -> Destination:
    """Raises `EgressDenied`."""
    try:
        return Destination.of(url)
    except ValueError as error:
        raise EgressDenied(f"the URL {error}", hint="use something like https://example.org/page") from error


def _check_header(name: str, value: str) -> None:
    plain = name.lower()
    known = plain in _HEADERS or plain.startswith(_HEADER_FAMILIES)
    if _NAME.fullmatch(plain) is None or not known or plain.startswith(_FORGING):
        raise EgressDenied(f"the header {name[:40]!r} is not sent", hint="leave it out, or use one that begins with x-")
    if len(value) > EGRESS_HEADER_CHARACTERS or _VALUE.fullmatch(value) is None:
        raise EgressDenied(
            f"the value of the header {plain} cannot be sent",
            hint=f"at most {EGRESS_HEADER_CHARACTERS} characters on one line",
        )


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """Where an answer sends a request, and what of it goes there."""

    place: Destination
    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def sent_on(place: Destination, request: Redirect, response: EgressResponse) -> Redirect | None:
    """The next hop; `None` where the answer is one. Raises `EgressDenied`."""
    location = response.header("location")
    if response.status not in _REDIRECTS or location is None:
        return None
    there = place_of(urljoin(place.url, location).partition("#")[0])
    if place.scheme == "https" and there.scheme == "http":
        raise EgressDenied(f"{place.origin} sends on to plain http", hint="ask for the other address yourself")
    method, body = request.method, request.body
    if response.status == 303 or (response.status in (301, 302) and method == "POST"):
        method, body = ("HEAD" if method == "HEAD" else "GET"), b""
    headers = request.headers
    if there.origin != place.origin:
        headers = tuple(each for each in headers if each[0].lower() in _ANYWHERE)
        if method not in SAFE_METHODS:
            raise EgressDenied(
                f"{place.origin} sends a {method} on to {there.origin}", hint="ask for the other address yourself"
            )
    return Redirect(place=there, method=method, headers=headers, body=body)
