"""The edge of the API: what is decided about a request before anything of ours sees it. Wraps the app; adds no task, no
queue and, where no browser asks, no second `send`."""

from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bollard.host.errors import HostError
from bollard.host.exposure import LOOPBACK_NAMES, read_origin
from bollard.host.http.answers import error_answer
from bollard.host.http.edge.proxies import TrustedProxies
from bollard.host.http.errors import ForbiddenHost, ForbiddenOrigin, MalformedRequest
from bollard.host.settings import Settings

# Whether a request is meant for this host, by its `Host` header: a page whose name was made to lead here (DNS
# rebinding) still says that name. Pure.


_REMEMBERED: Final = 64
"""Headers that were found good and are not read again."""
_ANYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- it is not bound here, only known


class HostRules:
    """The names that this host goes by. Any port is taken: a forwarded port is still this host."""

    def __init__(self, settings: Settings) -> None:
        own = set[str]() if settings.host in _ANYWHERE else {settings.host.lower()}
        own.update(read_origin(origin)[1] for origin in settings.origins)
        self._names = frozenset(LOOPBACK_NAMES | own | set(settings.allowed_hosts))
        self._good: set[bytes] = set()

    def check(self, header: bytes | None, bound_to: str | None) -> HostError | None:
        """Why the request is for somebody else. `bound_to` is the address that it came in at: who asks for an address
        was not sent by a name."""
        if header in self._good:
            return None
        name = host_name(header) if header else None
        if name is None or header is None:
            return MalformedRequest("the Host header names no host", hint="send the host's name, as in its address")
        if name not in self._names and name != bound_to:
            return ForbiddenHost(
                f"this host is not called {name[:100]}",
                hint="if it is, say so in the setting allowed_hosts, or in origins with its whole address",
            )
        if name in self._names and len(self._good) < _REMEMBERED:
            self._good.add(header)
        return None


def host_name(header: bytes) -> str | None:
    """The name of a `Host` header, without its port and in small letters; nothing where it is none."""
    text = header.decode("latin-1").lower()
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        port = rest[1:] if rest.startswith(":") else ""
        good = bool(bracket) and _all(name, "0123456789abcdef:.") and (not rest or rest.startswith(":"))
    else:
        name, colon, port = text.partition(":")
        good = _all(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") and (not colon or bool(port))
        name = name.removesuffix(".")
    good = good and len(port) <= 5 and (not port or (port.isascii() and port.isdigit()))
    return name or None if good else None


def _all(text: str, known: Iterable[str]) -> bool:
    return set(text) <= set(known)


# Whether a page in a browser may ask this: by `Origin` and `Sec-Fetch-Site`, which a page cannot forge. Pure.
#
# Only what a browser would send by itself is guarded here: requests with our cookie, requests that change something,
# and WebSockets. Whoever is no browser sends neither header and needs a token anyway.


SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""What changes nothing."""
_NEAR: Final = frozenset({b"same-origin", b"none"})
"""What `Sec-Fetch-Site` says of our own pages and of what a person typed."""
_COOKIE: Final = b"bollard="
"""The end of both names of our cookie."""
_READ: Final = frozenset({b"origin", b"sec-fetch-site", b"cookie", b"host", b"authorization"})


class RequestOrigin:
    """What a request says about where it comes from and where it goes."""

    __slots__ = ("authorizations", "cookie", "host", "origin", "site")

    def __init__(self) -> None:
        self.origin: bytes | None = None
        self.site: bytes | None = None
        self.host: bytes | None = None
        self.cookie = False
        self.authorizations = 0


def said_in(headers: Iterable[tuple[bytes, bytes]]) -> RequestOrigin:
    """One pass over the headers: this is on the hot path."""
    said = RequestOrigin()
    for name, value in headers:
        if name in _READ:
            if name == b"host":
                said.host = value
            elif name == b"origin":
                # Two of them are as good as a foreign one.
                said.origin = value if said.origin is None else b"null"
            elif name == b"sec-fetch-site":
                said.site = value
            elif name == b"authorization":
                said.authorizations += 1
            elif _COOKIE in value:
                said.cookie = True
    return said


class OriginRules:
    """The origins that may ask: those of the settings, and the host's own address."""

    def __init__(self, settings: Settings) -> None:
        self._listed = frozenset(origin.encode() for origin in settings.origins)

    def is_listed(self, origin: bytes) -> bool:
        """Whether pages of this origin may read our answers (CORS)."""
        return origin in self._listed

    def check(self, said: RequestOrigin, scheme: str, *, guarded: bool) -> HostError | None:
        """Why a page may not ask this. `guarded`: it changes something, or opens a WebSocket."""
        if said.origin is not None:
            if said.origin in self._listed or self._is_own(said, scheme) or not (guarded or said.cookie):
                return None
            shown = said.origin.decode("latin-1")[:200]
            return ForbiddenOrigin(
                f"pages of {shown} may not ask this host",
                hint=f"if they may, add it to the setting origins: {shown}",
            )
        if said.site is not None:
            if said.site in _NEAR or not (guarded or said.cookie):
                return None
            return ForbiddenOrigin(
                "a page of another site asks", hint="ask from a page of an origin in the setting origins"
            )
        if guarded and said.cookie:  # every browser says where such a request comes from
            return ForbiddenOrigin(
                "a request with the session's cookie must say where it comes from",
                hint="send the Origin header, or `Authorization: Bearer …` instead of the cookie",
            )
        return None

    @staticmethod
    def _is_own(said: RequestOrigin, scheme: str) -> bool:
        """The page came from the address that it asks. `Host` was checked before."""
        secure = scheme in ("https", "wss")
        return said.host is not None and said.origin == (b"https://" if secure else b"http://") + said.host.lower()


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
            self._believe_proxy(scope)
        said = said_in(scope["headers"])
        refusal = self._refusal(scope, said)
        if refusal is not None:
            await _refuse(refusal, scope, receive, send)
        elif said.origin is not None and scope["type"] == "http" and self._origins.is_listed(said.origin):
            await self._shared(said.origin, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, said: RequestOrigin) -> HostError | None:
        if said.authorizations > 1:  # a proxy in front may have judged the other one
            return MalformedRequest("there is more than one Authorization header", hint="send one")
        server = scope.get("server")
        refusal = self._hosts.check(said.host, server[0] if server else None)
        if refusal is not None or (said.origin is None and said.site is None and not said.cookie):
            return refusal
        guarded = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        return self._origins.check(said, scope["scheme"], guarded=guarded)

    def _believe_proxy(self, scope: Scope) -> None:
        client = scope.get("client")
        if client is None or client[0] not in self._proxies:
            return
        address, scheme = self._proxies.forwarded(scope["headers"])
        if address is not None:
            scope["client"] = (address, 0)
        if scheme is not None:
            socket = scope["type"] == "websocket"
            scope["scheme"] = {"http": "ws", "https": "wss"}[scheme] if socket else scheme

    async def _shared(self, origin: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """For a page of a listed origin: a preflight is answered here, any other answer says that it may be read."""
        allowed = [(b"access-control-allow-origin", origin), (b"access-control-allow-credentials", b"true")]
        if scope["method"] == "OPTIONS" and any(
            name == b"access-control-request-method" for name, _ in scope["headers"]
        ):
            await send({"type": "http.response.start", "status": 204, "headers": [*allowed, *_PREFLIGHT]})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_shared(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [*message["headers"], *allowed, _READABLE, (b"vary", b"Origin")]
                message = {**message, "headers": own}
            await send(message)

        await self._app(scope, receive, send_shared)


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
