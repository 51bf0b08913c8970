"""One request and its response, as the ASGI app sees them.

The head of a response is sent together with the first part of its body: a send costs more than building both.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

import structlog
from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from bollard.host.http.answers import CACHE_HEADER, POLICY_HEADER, STATUS_LINES, error_answer, internal_error
from bollard.host.http.server.connection_table import ConnectionTable
from bollard.host.limits import SOCKET_CLOSE_S

_log = structlog.get_logger("bollard.host.http")
_BODY_AHEAD_BYTES: Final = 64 * 1024
"""Bytes of a body that are buffered before the app reads them; then reading from the socket pauses."""
_JOINED_BYTES: Final = 64 * 1024
"""The largest body part that is copied to be sent together with the head."""
_LENGTH, _CONNECTION, _POLICY, _CACHE = range(4)
_SPECIAL: Final = {
    b"content-length": _LENGTH,
    b"connection": _CONNECTION,
    b"content-security-policy": _POLICY,
    b"cache-control": _CACHE,
}
_BODILESS: Final = frozenset({204, 304})


class ConnectionPort(Protocol):
    """The connection, as an exchange uses it."""

    transport: asyncio.Transport
    is_behind: bool
    """Whether the reader is behind, so that sending must wait."""

    @property
    def headers(self) -> bytes:
        """Headers of every response."""
        ...

    async def drained(self) -> None:
        """Returns when the reader has caught up, or is gone."""
        ...

    def set_reading(self, *, reading: bool) -> None:
        """Resume or pause reading from the socket."""
        ...

    def answered(self) -> None:
        """The response is sent."""
        ...


class Exchange:
    """Begins with the head of a request, ends when its response is sent."""

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_continues",
        "_end_delivered",
        "_ended",
        "_head",
        "_keeps",
        "_remaining",
        "_waiter",
        "complete",
        "gone",
        "keep_alive",
        "scope",
        "started",
    )

    def __init__(self, connection: ConnectionPort, scope: Scope, *, keeps: bool, continues: bool) -> None:
        self.scope = scope
        self.keep_alive = False
        """Only after the whole request has arrived: its rest must never be parsed as another request."""
        self.started = False
        self.complete = False
        self.gone = False
        """Whether the client has disconnected."""
        self._connection = connection
        self._keeps = keeps
        self._continues = continues
        self._body = b""
        self._ended = False
        self._end_delivered = False
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self._remaining: int | None = None
        self._chunked = False

    # --- called by the connection ---

    def add_body(self, part: bytes) -> None:
        """A part of the body."""
        if self.complete or self.gone:
            return
        self._body = self._body + part if self._body else part
        if len(self._body) > _BODY_AHEAD_BYTES:
            self._connection.set_reading(reading=False)
        self._wake()

    def end_request(self) -> None:
        """The whole request has arrived."""
        self._ended = True
        self.keep_alive = self._keeps
        self._wake()

    def disconnect(self) -> None:
        """The client has disconnected."""
        self.gone = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- called by the app ---

    async def run(self, app: ASGIApp) -> None:
        """Run the app. An exception that it does not catch is a bug: the client gets a 500, or the connection is
        aborted when a response has begun."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.complete and not self.gone:
                _log.error("the app returned without a response", path=self.scope["path"])
        except Exception:  # noqa: BLE001 -- the boundary of the app
            _log.exception("a request failed", path=self.scope["path"])
            if not self.started and not self.gone:
                await error_answer(internal_error())(self.scope, self.receive, self.send)
        finally:
            if not self.complete and not self.gone:
                self._connection.transport.abort()

    async def receive(self) -> Message:
        """Read the next part of the body. Only one reader may wait at a time."""
        if self._continues and not self.started:
            self._continues = False
            if not self.gone:
                self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self.gone and not self.complete:
            if self._body or (self._ended and not self._end_delivered):
                body, self._body = self._body, b""
                self._end_delivered = self._ended
                if len(body) > _BODY_AHEAD_BYTES:
                    self._connection.set_reading(reading=True)
                return {"type": "http.request", "body": body, "more_body": not self._ended}
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send one ASGI message. Returns when there is room for the next one."""
        if self.gone:
            return
        if not self.started:
            if message["type"] != "http.response.start":
                raise RuntimeError(f"{message['type']} came before http.response.start")
            self._begin(message["status"], message.get("headers", ()))
        elif self.complete or message["type"] != "http.response.body":
            raise RuntimeError(f"{message['type']} came where http.response.body was due")
        else:
            self._send_body(message.get("body", b""), more=message.get("more_body", False))
            if self._connection.is_behind and not self.complete:
                del message  # the transport holds its body already
                await self._connection.drained()

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        lines: list[bytes] = []
        policy, cache, closing = POLICY_HEADER, CACHE_HEADER, False
        self._remaining = None
        for header in headers:
            lines.append(b"%b: %b\r\n" % header)
            special = _SPECIAL.get(header[0])
            if special is None:
                continue
            if special == _LENGTH:
                self._remaining = int(header[1])
            elif special == _CONNECTION:
                closing = b"close" in header[1].lower()
            elif special == _POLICY:
                policy = b""
            else:
                cache = b""
        own = b"".join(lines)
        if own.count(b"\n") != len(lines) or own.count(b"\r") != len(lines) or b"\0" in own:
            raise RuntimeError("a header has a line break")
        self.started = True
        if self._remaining is None and status not in _BODILESS and self.scope["method"] != "HEAD":
            if self.scope["http_version"] == "1.0":
                self.keep_alive = False  # the end of the connection is the end of the body
            else:
                self._chunked = True
                own += b"transfer-encoding: chunked\r\n"
        if closing:
            self.keep_alive = False
        elif not self.keep_alive:
            own += b"connection: close\r\n"
        self._head = b"".join([STATUS_LINES[status], own, self._connection.headers, policy, cache, b"\r\n"])
        asyncio.get_running_loop().call_soon(self._flush)  # the first part of the body may take a while

    def _flush(self) -> None:
        if self._head and not self.gone:
            head, self._head = self._head, b""
            self._connection.transport.write(head)

    def _send_body(self, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            self._remaining, data = None, b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                data += b"0\r\n\r\n"
        else:
            data = body
            if self._remaining is not None:
                self._remaining -= len(body)
                if self._remaining < 0 or (self._remaining and not more):
                    raise RuntimeError("the body does not match its Content-Length")
        if self._head:
            if len(data) <= _JOINED_BYTES:
                data, self._head = self._head + data, b""
            else:
                self._flush()
        if data:
            self._connection.transport.write(data)
        if not more:
            self.complete = True
            self._wake()
            self._connection.answered()


class SocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket of uvicorn that replaces its HTTP connection in the table, which counts it and cuts it when its
    reader stalls."""

    def __init__(self, table: ConnectionTable, address: str | None) -> None:
        super().__init__(config=table.config, server_state=table.state, app_state={}, _loop=table.loop)
        self._table = table
        self.address = address
        self.close_timeout = SOCKET_CLOSE_S

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._table.leave(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._table.fell_behind(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._table.caught_up(self)

    def head_is_late(self) -> None:
        """Not used: the head has arrived."""

    def body_is_due(self) -> None:
        """Not used: there is no body."""

    def close(self) -> None:
        self.transport.close()

    def cut(self) -> None:
        self.transport.abort()
