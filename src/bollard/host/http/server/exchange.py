"""One request and its answer, as an ASGI app sees them. The head of an answer leaves with the first part of its body,
in one send: a send costs more than both took to make."""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

import structlog
from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from bollard.host.errors import HostError
from bollard.host.http.answers import error_answer
from bollard.host.http.edge.refusals import CACHE_HEADER, POLICY_HEADER, STATUS_LINES
from bollard.host.http.server.connection_table import ConnectionTable
from bollard.host.limits import SOCKET_CLOSE_S

_log = structlog.get_logger("bollard.host.http")
_BODY_AHEAD_BYTES: Final = 64 * 1024
"""What may come of a body before the app asks for it; then the socket is not read."""
_JOINED_BYTES: Final = 64 * 1024
"""The largest part of a body that is copied to leave together with its head."""
_LENGTH, _CONNECTION, _POLICY, _CACHE = range(4)
_NOTED: Final = {
    b"content-length": _LENGTH,
    b"connection": _CONNECTION,
    b"content-security-policy": _POLICY,
    b"cache-control": _CACHE,
}
_BODILESS: Final = frozenset({204, 304})


class ConnectionPort(Protocol):
    """The connection, as an exchange uses it."""

    transport: asyncio.Transport
    stuffed: bool
    """Whether the reader is behind: what is sent now must wait."""

    @property
    def headers(self) -> bytes:
        """What every answer carries."""
        ...

    async def drained(self) -> None:
        """Returns when the reader has caught up, or is gone."""
        ...

    def hold(self, *, reading: bool) -> None:
        """Read the socket, or leave it alone."""
        ...

    def answered(self) -> None:
        """The answer has left."""
        ...


class Exchange:
    """Made when the head of a request is there, over when its answer has left."""

    __slots__ = (
        "_body",
        "_chunked",
        "_continues",
        "_ended",
        "_head",
        "_keeps",
        "_left",
        "_line",
        "_told",
        "_waiter",
        "complete",
        "gone",
        "keep_alive",
        "scope",
        "started",
    )

    def __init__(self, line: ConnectionPort, scope: Scope, *, keeps: bool, continues: bool) -> None:
        self.scope = scope
        self.keep_alive = False
        """Not before the whole request is there: what is left of it must never be read as another one."""
        self.started = False
        self.complete = False
        self.gone = False
        """Whether nobody is there to be answered."""
        self._line = line
        self._keeps = keeps
        self._continues = continues
        self._body = b""
        self._ended = False
        self._told = False
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self._left: int | None = None
        self._chunked = False

    # What the connection says.

    def came(self, part: bytes) -> None:
        """A part of the body."""
        if self.complete or self.gone:
            return
        self._body = self._body + part if self._body else part
        if len(self._body) > _BODY_AHEAD_BYTES:
            self._line.hold(reading=False)
        self._wake()

    def ended(self) -> None:
        """The request is whole."""
        self._ended = True
        self.keep_alive = self._keeps
        self._wake()

    def left(self) -> None:
        """Nobody is there any more."""
        self.gone = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the app does.

    async def run(self, app: ASGIApp) -> None:
        """Let the app answer. What it does not catch is a mistake of ours: the client is told so, or hung up on."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.complete and not self.gone:
                _log.error("a request was not answered", path=self.scope["path"])
        except Exception:  # noqa: BLE001 -- the boundary of the app
            _log.exception("a request failed", path=self.scope["path"])
            if not self.started and not self.gone:
                mistake = HostError("the host made a mistake", hint="its log says more; please report it")
                await error_answer(mistake)(self.scope, self.receive, self.send)
        finally:
            if not self.complete and not self.gone:
                self._line.transport.abort()

    async def receive(self) -> Message:
        """For one reader at a time."""
        if self._continues and not self.started:
            self._continues = False
            if not self.gone:
                self._line.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self.gone and not self.complete:
            if self._body or (self._ended and not self._told):
                body, self._body = self._body, b""
                self._told = self._ended
                if len(body) > _BODY_AHEAD_BYTES:
                    self._line.hold(reading=True)
                return {"type": "http.request", "body": body, "more_body": not self._ended}
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Returns when more may be sent: what comes next is not made before there is room for it."""
        if self.gone:
            return
        if not self.started:
            if message["type"] != "http.response.start":
                raise RuntimeError(f"{message['type']} came before the answer's head")
            self._begin(message["status"], message.get("headers", ()))
        elif self.complete or message["type"] != "http.response.body":
            raise RuntimeError(f"{message['type']} came where a part of the body was due")
        else:
            self._give(message.get("body", b""), more=message.get("more_body", False))
            if self._line.stuffed and not self.complete:
                del message  # its body is on the transport, and would be held twice
                await self._line.drained()

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        lines: list[bytes] = []
        policy, cache, closing = POLICY_HEADER, CACHE_HEADER, False
        self._left = None
        for header in headers:
            lines.append(b"%b: %b\r\n" % header)
            noted = _NOTED.get(header[0])
            if noted is None:
                continue
            if noted == _LENGTH:
                self._left = int(header[1])
            elif noted == _CONNECTION:
                closing = b"close" in header[1].lower()
            elif noted == _POLICY:
                policy = b""
            else:
                cache = b""
        own = b"".join(lines)
        if own.count(b"\n") != len(lines) or own.count(b"\r") != len(lines) or b"\0" in own:
            raise RuntimeError("a header has a line break")
        self.started = True
        if self._left is None and status not in _BODILESS and self.scope["method"] != "HEAD":
            if self.scope["http_version"] == "1.0":
                self.keep_alive = False  # the end of the connection is the end of the body
            else:
                self._chunked = True
                own += b"transfer-encoding: chunked\r\n"
        if closing:
            self.keep_alive = False
        elif not self.keep_alive:
            own += b"connection: close\r\n"
        self._head = b"".join([STATUS_LINES[status], own, self._line.headers, policy, cache, b"\r\n"])
        asyncio.get_running_loop().call_soon(self._flush)  # a body may not come for a while

    def _flush(self) -> None:
        if self._head and not self.gone:
            head, self._head = self._head, b""
            self._line.transport.write(head)

    def _give(self, body: bytes, *, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            self._left, data = None, b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                data += b"0\r\n\r\n"
        else:
            data = body
            if self._left is not None:
                self._left -= len(body)
                if self._left < 0 or (self._left and not more):
                    raise RuntimeError("the body has another length than its head says")
        if self._head:
            if len(data) <= _JOINED_BYTES:
                data, self._head = self._head + data, b""
            else:
                self._flush()
        if data:
            self._line.transport.write(data)
        if not more:
            self.complete = True
            self._wake()
            self._line.answered()


# A WebSocket on a connection that began with HTTP: uvicorn speaks it, the door counts it and cuts readers that are
# stuck.


class SocketProtocol(WebSocketsSansIOProtocol):
    """Takes the place of its connection at the door."""

    def __init__(self, door: ConnectionTable, address: str | None) -> None:
        super().__init__(config=door.config, server_state=door.state, app_state={}, _loop=door.loop)
        self._door = door
        self.address = address
        self.close_timeout = SOCKET_CLOSE_S

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._door.leave(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._door.fell_behind(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._door.caught_up(self)

    def head_is_late(self) -> None:
        """Its head was there."""

    def body_is_due(self) -> None:
        """It has no body."""

    def close(self) -> None:
        self.transport.close()

    def cut(self) -> None:
        self.transport.abort()
