"""The edge of the API: `Host`, `Origin`, CORS and proxy rules, checked before the app sees a request.

It wraps the app and adds no task and no queue; requests from other clients than browsers get no second `send`.
"""

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bollard.host.errors import HostError
from bollard.host.exposure import LOOPBACK_NAMES, read_origin
from bollard.host.http.answers import error_answer
from bollard.host.http.errors import ForbiddenHost, ForbiddenOrigin, MalformedRequest
from bollard.host.settings import Settings

_CACHED_HOSTS: Final = 64
"""Valid `Host` headers that are not parsed again."""
_ANYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- nothing binds to it here


class HostRules:
    """The names of this host, at any port. Protects against DNS rebinding: a page whose name resolves to this host
    still sends that name in `Host`."""

    def __init__(self, settings: Settings) -> None:
        own = set[str]() if settings.host in _ANYWHERE else {settings.host.lower()}
        own.update(read_origin(origin)[1] for origin in settings.origins)
        self._names = frozenset(LOOPBACK_NAMES | own | set(settings.allowed_hosts))
        self._valid: set[bytes] = set()

    def check(self, header: bytes | None, bound_to: str | None) -> HostError | None:
        """The error for a `Host` header that is not ours. The local address of the connection (`bound_to`) is
        accepted."""
        if header in self._valid:
            return None
        name = host_name(header) if header else None
        if name is None or header is None:
            return MalformedRequest(
                "the Host header has no host name", reason="host_header", hint="send the host name of the URL"
            )
        if name not in self._names and name != bound_to:
            return ForbiddenHost(
                f"{name[:100]} is not a name of this host",
                reason="host_name",
                hint="add the name to the setting allowed_hosts, or its URL to origins",
                name=name[:100],
            )
        if name in self._names and len(self._valid) < _CACHED_HOSTS:
            self._valid.add(header)
        return None


def host_name(header: bytes) -> str | None:
    """The name in a `Host` header, without its port and in lower case; `None` if it is malformed."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else ""
        valid = bool(bracket) and _all(name, "0123456789abcdef:.") and (not rest or rest.startswith(":"))
    else:
        name, colon, port = text.partition(":")
        valid = _all(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") and (not colon or bool(port))
        name = name.removesuffix(".")
    valid = valid and len(port) <= 5 and (not port or (port.isascii() and port.isdigit()))
    return name or None if valid else None


def _all(text: str, known: Iterable[str]) -> bool:
    return set(text) <= set(known)


SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_SAME_SITE: Final = frozenset({b"same-origin", b"none"})
"""`Sec-Fetch-Site` of our own pages and of URLs that a person typed."""
_COOKIE: Final = re.compile(rb"bollard(?:-\d+)?=")
"""How the names of our cookie end, with or without a port."""
_READ: Final = frozenset({b"origin", b"sec-fetch-site", b"cookie", b"host", b"authorization"})


class RequestOrigin(msgspec.Struct):
    """The headers that tell where a request comes from and which host it is for."""

    origin: bytes | None = None
    site: bytes | None = None
    host: bytes | None = None
    cookie: bool = False
    authorizations: int = 0


def read_origin_headers(headers: Iterable[tuple[bytes, bytes]]) -> RequestOrigin:
    """Read the headers in one pass: this is on the hot path."""
    request = RequestOrigin()
    for name, value in headers:
        if name in _READ:
            if name == b"host":
                request.host = value
            elif name == b"origin":
                # Two values count as a foreign origin.
                request.origin = value if request.origin is None else b"null"
            elif name == b"sec-fetch-site":
                request.site = value
            elif name == b"authorization":
                request.authorizations += 1
            elif _COOKIE.search(value):
                request.cookie = True
    return request


class OriginRules:
    """The allowed origins: those of the settings and the host's own address.

    `Origin` and `Sec-Fetch-Site` cannot be forged by a page. Only requests that a browser would send by itself are
    checked: those with our cookie, those that change something, and WebSockets. Other clients need a token anyway.
    """

    def __init__(self, settings: Settings) -> None:
        self._listed = frozenset(origin.encode() for origin in settings.origins)

    def is_listed(self, origin: bytes) -> bool:
        """Whether pages of this origin may read responses (CORS)."""
        return origin in self._listed

    def check(self, request: RequestOrigin, scheme: str, *, guarded: bool) -> HostError | None:
        """The error for a page that may not send this. `guarded`: it changes something, or opens a WebSocket."""
        if request.origin is not None:
            if request.origin in self._listed or self._is_own(request, scheme) or not (guarded or request.cookie):
                return None
            origin = request.origin.decode("latin-1")[:200]
            return ForbiddenOrigin(
                f"pages of {origin} may not use this host",
                reason="origin",
                hint=f"to allow them, add {origin} to the setting origins",
                origin=origin,
            )
        if request.site is not None:
            if request.site in _SAME_SITE or not (guarded or request.cookie):
                return None
            return ForbiddenOrigin(
                "the request comes from a page of another site",
                reason="cross_site",
                hint="use a page of an origin in the setting origins",
            )
        if guarded and request.cookie:  # every browser sends Origin or Sec-Fetch-Site here
            return ForbiddenOrigin(
                "a request with the session cookie needs an Origin header",
                reason="origin_missing",
                hint="send the Origin header, or `Authorization: Bearer …` instead of the cookie",
            )
        return None

    @staticmethod
    def _is_own(request: RequestOrigin, scheme: str) -> bool:
        """Whether the page is from this host. `Host` was checked before."""
        secure = scheme in ("https", "wss")
        return (
            request.host is not None
            and request.origin == (b"https://" if secure else b"http://") + request.host.lower()
        )


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


PROXIED: Final = "bollard.proxied"
"""In the scope of a request that came from a trusted proxy."""
_PREFLIGHT: Final = [
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, bollard-workspace, content-type, idempotency-key, if-match, if-none-match, last-event-id, "
        b"mcp-method, mcp-name, mcp-protocol-version",
    ),
    (b"access-control-max-age", b"600"),
    (b"vary", b"Origin"),
]
_READABLE: Final = (
    b"access-control-expose-headers",
    b"bollard-run-id, etag, idempotency-replayed, location, retry-after, ratelimit, ratelimit-policy",
)


class Edge:
    """An app behind its `Host`, `Origin` and proxy rules."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = HostRules(settings)
        self._origins = OriginRules(settings)
        self._proxies = TrustedProxies(settings.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if self._proxies:
            self._apply_forwarded(scope)
        request = read_origin_headers(scope["headers"])
        refusal = self._refusal(scope, request)
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)
        elif request.origin is not None and scope["type"] == "http" and self._origins.is_listed(request.origin):
            await self._call_with_cors(request.origin, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, request: RequestOrigin) -> HostError | None:
        if request.authorizations > 1:  # a proxy may have checked the other one
            return MalformedRequest(
                "the request has more than one Authorization header", reason="two_authorizations", hint="send one"
            )
        server = scope.get("server")
        refusal = self._hosts.check(request.host, server[0] if server else None)
        if refusal is not None or (request.origin is None and request.site is None and not request.cookie):
            return refusal
        guarded = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        return self._origins.check(request, scope["scheme"], guarded=guarded)

    def _apply_forwarded(self, scope: Scope) -> None:
        client = scope.get("client")
        if client is None or client[0] not in self._proxies:
            return
        scope[PROXIED] = True
        address, scheme = self._proxies.forwarded(scope["headers"])
        if address is not None:
            scope["client"] = (address, 0)
        if scheme is not None:
            socket = scope["type"] == "websocket"
            scope["scheme"] = {"http": "ws", "https": "wss"}[scheme] if socket else scheme

    async def _call_with_cors(self, origin: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a page of a listed origin: answer a preflight, and add the CORS headers to other responses."""
        allowed = [(b"access-control-allow-origin", origin), (b"access-control-allow-credentials", b"true")]
        if scope["method"] == "OPTIONS" and any(
            name == b"access-control-request-method" for name, _ in scope["headers"]
        ):
            await send({"type": "http.response.start", "status": 204, "headers": [*allowed, *_PREFLIGHT]})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_with_cors(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [*message["headers"], *allowed, _READABLE, (b"vary", b"Origin")]
                message = {**message, "headers": own}
            await send(message)

        await self._app(scope, receive, send_with_cors)


async def _refuse(refusal: HostError, scope: Scope, receive: Receive, send: Send) -> None:
    answer = error_answer(refusal)
    if scope["type"] == "http":
        await answer(scope, receive, send)
        return
    await receive()  # the handshake
    if "websocket.http.response" in scope.get("extensions", {}):
        start = {"type": "websocket.http.response.start", "status": answer.status_code, "headers": answer.raw_headers}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": answer.body})
    else:
        code = 1008 if isinstance(refusal, ForbiddenOrigin) else 1002
        await send({"type": "websocket.close", "code": code, "reason": refusal.code})
