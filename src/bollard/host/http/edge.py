"""The edge of the API: what is decided about a request before anything of ours sees it. Wraps the app; adds no task, no
queue and, where no browser asks, no second `send`."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bollard.host.errors import HostError
from bollard.host.http.answers import error_answer
from bollard.host.http.edge_hosts import HostRules
from bollard.host.http.edge_origin import SAFE_METHODS, OriginRules, Said, said_in
from bollard.host.http.edge_proxies import TrustedProxies
from bollard.host.http.errors import ForbiddenOrigin
from bollard.host.settings import Settings

__all__ = ["Edge"]

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

    def _refusal(self, scope: Scope, said: Said) -> HostError | None:
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
