"""HTTP/1.1 on one connection: reads requests strictly, one at a time and within time-outs, and passes them to the app.

A request that two implementations could read differently is refused, and the connection closes. Requests are not
pipelined: a client that sends the next request early gets its first response and a closed connection (RFC 9112, 9.3.2).
"""

import asyncio
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools

from bollard.host.errors import HostError
from bollard.host.http.answers import encode_error
from bollard.host.http.errors import MalformedRequest, RequestTimeout
from bollard.host.http.server.connection_table import ConnectionTable, SocketProtocol
from bollard.host.http.server.exchange import Exchange, Head, malformed, too_large, trailers_too_large
from bollard.host.limits import REQUEST_HEAD_BYTES, UNASKED_BYTES

_IDLE, _HEAD, _BODY, _COMPLETE, _CLOSED = range(5)
"""What the connection reads: nothing yet; a head; a body; nothing before the response; nothing any more."""
_LINGERING: Final = 512
"""Refused connections that stay open until their clients have read the refusal; more are closed at once."""
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class _Stop(Exception):
    """Stops the parser; `_refusal` has the reason."""


class HttpProtocol(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_client",
        "_drain",
        "_exchange",
        "_head",
        "_overhead",
        "_parser",
        "_reading",
        "_received",
        "_refusal",
        "_scheme",
        "_server",
        "_socket",
        "_state",
        "_table",
        "is_behind",
        "transport",
    )

    transport: asyncio.Transport
    _parser: httptools.HttpRequestParser
    _head: Head

    def __init__(self, table: ConnectionTable) -> None:
        self._table = table
        self._state = _HEAD
        self._received = 0
        """Bytes of this head, of the body since the last check, or of data that is discarded."""
        self._overhead = 0
        """Bytes since the last content of a body: chunk sizes, extensions and trailers."""
        self._exchange: Exchange | None = None
        self._refusal: HostError | None = None
        self._drain: asyncio.Future[None] | None = None
        self._reading = True
        self.is_behind = False

    # --- transport callbacks ---

    @property
    def address(self) -> str | None:
        return self._client[0] if self._client is not None else None

    @property
    def headers(self) -> bytes:
        """Headers of every response."""
        return self._table.headers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # the loops' transports do not inherit from it
        self._parser = httptools.HttpRequestParser(self)
        self._client = _endpoint(transport.get_extra_info("peername"))
        self._server = _endpoint(transport.get_extra_info("sockname"))
        self._scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        self._table.state.connections.add(self)  # type: ignore[arg-type]
        refusal = self._table.enter(self)
        if refusal is None:
            self._table.heads.begin(self, self._table.now())
        else:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._table.state.connections.discard(self)  # type: ignore[arg-type]
        self._table.leave(self)
        del self._parser  # it refers to this object
        self._state = _CLOSED
        if self._exchange is not None:
            self._exchange.disconnect()
        self.resume_writing()

    def eof_received(self) -> None:
        """A half-closed connection counts as disconnected."""

    def shutdown(self) -> None:
        """The server stops: close after the current response."""
        if self._exchange is None:
            self.close()
        else:
            self._exchange.keep_alive = False

    def pause_writing(self) -> None:
        self.is_behind = True
        self._table.fell_behind(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self.is_behind = False
        if not self.transport.is_closing():
            self._table.caught_up(self)
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

    async def drained(self) -> None:
        if self.is_behind:
            self._drain = self._table.loop.create_future()
            await self._drain

    def set_reading(self, *, reading: bool) -> None:
        """Pause or resume reading. A client does not time out while the app reads slowly."""
        if reading == self._reading or self.transport.is_closing():
            return
        self._reading = reading
        if reading:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # --- called by the table ---

    def head_is_late(self) -> None:
        if not self._received and self._exchange is None:
            self.close()  # it sent nothing
        else:
            self._refuse(_timeout("head", self._table.heads.seconds))

    def body_is_due(self) -> None:
        if not self._reading or self._received >= self._table.body_least:
            self._received = 0
            self._table.bodies.begin(self, self._table.now())
        else:
            self._refuse(_timeout("body", self._table.bodies.seconds))

    def close(self) -> None:
        if self.transport.is_closing():  # a second close() of asyncio's TLS transport takes its buffers away
            return
        self.transport.close()
        if unsent := self.transport.get_write_buffer_size():  # sent before it closes, if ever
            self._table.fell_behind(self, unsent)

    def cut(self) -> None:
        self.transport.abort()

    # --- incoming data ---

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state >= _COMPLETE:
            self._receive_early(data)
            return
        if state == _IDLE:
            self._table.idle.end(self)
            self._state = _HEAD
            self._received = len(data)
        else:
            self._received += len(data)
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._fail_parsing(error)
        state = self._state
        if state == _HEAD:
            if self._received > REQUEST_HEAD_BYTES:
                self._refuse(too_large())
            else:
                self._table.heads.begin(self, self._table.now())
        elif state == _BODY and self._overhead > REQUEST_HEAD_BYTES:
            self._refuse(trailers_too_large())  # the parser has no limit for a trailer
        elif state == _BODY and self not in self._table.bodies:
            self._received = 0
            self._table.bodies.begin(self, self._table.now())

    def _receive_early(self, data: bytes) -> None:
        """Discard data that follows a complete request; the connection is not reused."""
        if self._exchange is not None:
            if not data.strip(b"\r\n"):
                return  # some clients end a body with an empty line
            self._exchange.keep_alive = False
        self._received += len(data)
        if self._received > UNASKED_BYTES:
            self.transport.abort()

    def _fail_parsing(self, error: Exception) -> None:
        if self._refusal is None and self._state == _COMPLETE:
            if self._exchange is not None:
                self._exchange.keep_alive = False
            return
        problem = str(error)
        self._refuse(self._refusal or malformed("syntax", f"the request is not HTTP: {problem}", problem=problem))

    def _refuse(self, refusal: HostError) -> None:
        """Send an error and close the connection after the client can have read it."""
        self._table.forget(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnect()
            if exchange.started:
                self.transport.abort()  # a response has begun
                return
        self.transport.write(encode_error(refusal, self._table.headers))
        self._linger()

    def _linger(self) -> None:
        """Keep reading for a while: closing now would reset a client that still sends, and it would lose the
        response."""
        self._state, self._received = _CLOSED, 0
        self.set_reading(reading=True)
        if len(self._table.leaving) >= _LINGERING:
            self.close()
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._table.leaving.begin(self, self._table.now())

    def answered(self) -> None:
        exchange, self._exchange = self._exchange, None
        self._table.state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._state == _BODY:
            self._table.bodies.end(self)
            self._linger()
        elif exchange is None or not exchange.keep_alive:
            self.close()
        else:
            self._state, self._received = _IDLE, 0
            self._table.idle.begin(self, self._table.now())

    # --- parser callbacks ---

    def on_message_begin(self) -> None:
        if self._state != _HEAD:
            raise _Stop
        self._head = Head()

    def on_url(self, url: bytes) -> None:
        self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state == _HEAD:  # trailers are ignored
            self._head.add(name.lower(), value)

    def on_headers_complete(self) -> None:
        parser, head = self._parser, self._head
        version = parser.get_http_version()
        self._refusal = head.problem(version, self._received)
        if self._refusal is not None:
            raise _Stop
        method, new = parser.get_method().decode("ascii"), version == "1.1"
        if method == "CONNECT":  # the parser would treat what follows as another protocol
            self._refusal = malformed("connect", "the method CONNECT is not supported")
            raise _Stop
        if head.upgrade is not None and parser.should_upgrade():
            self._socket = head.upgrade == b"websocket" and new and method == "GET"
            return  # the parser raises HttpParserUpgrade
        self._table.heads.end(self)
        path, _, query = head.url.partition(b"?")
        text = path.decode("ascii")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": method,
            "scheme": self._scheme,
            "path": unquote(text) if "%" in text else text,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": head.fields,
            "client": self._client,
            "server": self._server,
        }
        self._state, self._overhead = _BODY, 0
        keeps = new and parser.should_keep_alive()
        self._exchange = exchange = Exchange(self, scope, keeps=keeps, continues=head.continues and new)
        task = self._table.loop.create_task(exchange.run(self._table.app))
        self._table.state.tasks.add(task)
        task.add_done_callback(self._table.state.tasks.discard)

    def on_body(self, body: bytes) -> None:
        self._overhead = 0
        if self._exchange is not None:
            self._exchange.add_body(body)

    def on_message_complete(self) -> None:
        if self._state != _BODY:
            return  # a WebSocket handshake
        self._state, self._received = _COMPLETE, 0
        self._table.bodies.end(self)
        if self._exchange is not None:
            self._exchange.end_request()

    def _upgraded(self, rest: bytes) -> None:
        """The parser stopped at a head with an upgrade."""
        if not self._socket:
            self._without_upgrade(rest)
        elif rest:
            self._refuse(
                MalformedRequest(
                    "data came before the WebSocket handshake was answered", reason="early_frames", hint="wait for 101"
                )
            )
        else:
            del self._parser
            self._table.state.connections.discard(self)  # type: ignore[arg-type]
            socket = SocketProtocol(self._table, self.address)
            socket.connection_made(self.transport)
            self.transport.set_protocol(socket)
            self._state = _CLOSED
            self._table.forget(self)
            socket.data_received(self._head.encode(b"GET", b"1.1"))

    def _without_upgrade(self, rest: bytes) -> None:
        """Ignore an unknown upgrade: parse the same request again without it."""
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        self._head.drop_upgrade()
        self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(self._head.encode(method, version) + rest)
        except httptools.HttpParserError as error:
            self._fail_parsing(error)


def _endpoint(name: Any) -> tuple[str, int] | None:
    """The address and port of a socket name."""
    if not isinstance(name, tuple):  # not an IP socket
        return None
    address, port, *_ = cast("tuple[str, int]", name)
    return address.removeprefix("::ffff:") if "." in address else address, port  # IPv4 on a dual-stack socket


def _timeout(part: str, seconds: float) -> RequestTimeout:
    return RequestTimeout(
        f"the {part} of the request arrived too slowly",
        reason=part,
        hint=f"send it without pauses of {seconds:g} s",
        seconds=seconds,
    )
