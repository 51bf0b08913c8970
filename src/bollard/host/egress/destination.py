"""Outgoing requests: destination, method, headers and redirects, checked once. Pure."""

import re
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urljoin, urlsplit

import msgspec

from bollard.host.errors import EgressDenied, caused_by
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
"""Headers that servers behind a proxy trust for the client's identity or the request."""
_ANYWHERE: Final = frozenset({"accept", "accept-language", "content-language", "content-type", "user-agent"})
"""Headers that follow a redirect to another origin."""
_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed URL."""

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
            raise ValueError("is not an http or https URL, or has a user or a fragment")
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
    """An outgoing request."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    max_bytes: int = EGRESS_BODY_BYTES
    """The limit of the response body; a longer body is truncated and marked."""
    timeout_s: float = EGRESS_ANSWER_S
    redirects: int = EGRESS_REDIRECTS
    """The number of redirects to follow; with 0 the redirect itself is returned."""


class EgressResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response. The body is not decompressed."""

    url: str
    """The final URL."""
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    truncated: bool = False

    def header(self, name: str) -> str | None:
        """The first header of this name, which must be in lower case."""
        return next((value for each, value in self.headers if each == name), None)


def check_request(request: EgressRequest) -> Destination:
    """Check a request and return its destination. Raises `EgressDenied`."""
    if request.method not in METHODS:
        methods = ", ".join(sorted(METHODS))
        raise EgressDenied(
            f"the method {request.method[:20]!r} is not allowed",
            reason="method_denied",
            hint=f"use one of {methods}",
            method=request.method[:20],
            methods=methods,
        )
    if len(request.headers) > EGRESS_HEADERS:
        raise EgressDenied(
            f"there are more than {EGRESS_HEADERS} headers",
            reason="too_many_headers",
            hint="send fewer",
            limit=EGRESS_HEADERS,
        )
    for name, value in request.headers:
        _check_header(name, value)
    if request.body and request.method in SAFE_METHODS:
        raise EgressDenied(
            f"a {request.method} has no body",
            reason="body_denied",
            hint="use POST, or send no body",
            method=request.method,
        )
    return place_of(request.url)


def place_of(url: str) -> Destination:
    """Raises `EgressDenied`."""
    try:
        return Destination.of(url)
    except ValueError as error:
        raise EgressDenied(
            f"the URL {error}", reason="url_invalid", hint="use a URL like https://example.org/page", **caused_by(error)
        ) from error


def _check_header(name: str, value: str) -> None:
    plain = name.lower()
    known = plain in _HEADERS or plain.startswith(_HEADER_FAMILIES)
    if _NAME.fullmatch(plain) is None or not known or plain.startswith(_FORGING):
        raise EgressDenied(
            f"the header {name[:40]!r} is not allowed",
            reason="header_denied",
            hint="leave it out, or use one that begins with x-",
            header=name[:40],
        )
    if len(value) > EGRESS_HEADER_CHARACTERS or _VALUE.fullmatch(value) is None:
        raise EgressDenied(
            f"the value of the header {plain} is not valid",
            reason="header_value_invalid",
            hint=f"use at most {EGRESS_HEADER_CHARACTERS} characters on one line",
            header=plain,
            limit=EGRESS_HEADER_CHARACTERS,
        )


class Redirect(msgspec.Struct, frozen=True, kw_only=True):
    """The next hop of a request: its destination, and the parts that are sent there."""

    place: Destination
    method: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


def sent_on(place: Destination, request: Redirect, response: EgressResponse) -> Redirect | None:
    """The next hop; `None` if the response is no redirect. Raises `EgressDenied`."""
    location = response.header("location")
    if response.status not in _REDIRECTS or location is None:
        return None
    there = place_of(urljoin(place.url, location).partition("#")[0])
    if place.scheme == "https" and there.scheme == "http":
        raise EgressDenied(
            f"{place.origin} redirects to plain http",
            reason="redirect_to_http",
            hint="request the other address directly",
            origin=place.origin,
        )
    method, body = request.method, request.body
    if response.status == 303 or (response.status in (301, 302) and method == "POST"):
        method, body = ("HEAD" if method == "HEAD" else "GET"), b""
    headers = request.headers
    if there.origin != place.origin:
        headers = tuple(each for each in headers if each[0].lower() in _ANYWHERE)
        if method not in SAFE_METHODS:
            raise EgressDenied(
                f"{place.origin} redirects a {method} to {there.origin}",
                reason="redirect_to_other_origin",
                hint="request the other address directly",
                origin=place.origin,
                method=method,
                target=there.origin,
            )
    return Redirect(place=there, method=method, headers=headers, body=body)
