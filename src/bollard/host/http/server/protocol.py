"""HTTP/1.1 on one connection: requests are read one at a time, strictly and within their time, and given to the app.

What two readers could read differently is refused, and its connection ends: there is never a second request in what
came before the first was answered. A client that sends one anyway gets its first answer and a closed connection, as
RFC 9112 (9.3.2) lets a server do.
"""

import asyncio
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools

from bollard.host.errors import HostError
from bollard.host.http.edge.refusals import refused
from bollard.host.http.errors import MalformedRequest, RequestTimeout
from bollard.host.http.server.connection_table import ConnectionTable
from bollard.host.http.server.exchange import Exchange, SocketProtocol
from bollard.host.http.server.head import HINT, Head, too_large, too_much_beside
from bollard.host.limits import REQUEST_HEAD_BYTES, UNASKED_BYTES

_IDLE, _HEAD, _BODY, _WHOLE, _DEAF = range(5)
"""Nothing came yet; a head is coming; a body is coming; the request is whole; nothing more is taken."""
_LINGERING: Final = 512
"""Refused connections that are listened to at once; more are closed at once."""
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class _Stop(Exception):
    """Ends the parser's work; why is said beside it."""


class HttpProtocol(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_client",
        "_coming",
        "_door",
        "_drain",
        "_exchange",
        "_head",
        "_heard",
        "_parser",
        "_quiet",
        "_reading",
        "_refusal",
        "_scheme",
        "_server",
        "_socket",
        "stuffed",
        "transport",
    )

    transport: asyncio.Transport
    _parser: httptools.HttpRequestParser
    _head: Head

    def __init__(self, door: ConnectionTable) -> None:
        self._door = door
        self._coming = _HEAD
        self._heard = 0
        """Bytes of this head, of this look at a body, or of what nobody reads."""
        self._quiet = 0
        """Bytes of a body that came since there was content in it: sizes of chunks, and what stands beside them."""
        self._exchange: Exchange | None = None
        self._refusal: HostError | None = None
        self._drain: asyncio.Future[None] | None = None
        self._reading = True
        self.stuffed = False

    # The connection.

    @property
    def address(self) -> str | None:
        return self._client[0] if self._client is not None else None

    @property
    def headers(self) -> bytes:
        """What every answer carries."""
        return self._door.headers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # those of the loops are no children of it
        self._parser = httptools.HttpRequestParser(self)
        self._client = _place(transport.get_extra_info("peername"))
        self._server = _place(transport.get_extra_info("sockname"))
        self._scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        self._door.state.connections.add(self)  # type: ignore[arg-type]
        refusal = self._door.enter(self)
        if refusal is None:
            self._door.heads.begin(self, self._door.now())
        else:
            self._last_word(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._door.state.connections.discard(self)  # type: ignore[arg-type]
        self._door.leave(self)
        del self._parser  # it holds us
        self._coming = _DEAF
        if self._exchange is not None:
            self._exchange.left()
        self.resume_writing()

    def eof_received(self) -> None:
        """Whoever has closed their side is gone."""

    def shutdown(self) -> None:
        """The server stops: what is being answered may end."""
        if self._exchange is None:
            self.close()
        else:
            self._exchange.keep_alive = False

    def pause_writing(self) -> None:
        self.stuffed = True
        self._door.fell_behind(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self.stuffed = False
        if not self.transport.is_closing():
            self._door.caught_up(self)
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

    async def drained(self) -> None:
        if self.stuffed:
            self._drain = self._door.loop.create_future()
            await self._drain

    def hold(self, *, reading: bool) -> None:
        """A body whose reader is slow is left in the socket; that is not the client's fault."""
        if reading == self._reading or self.transport.is_closing():
            return
        self._reading = reading
        if reading:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # What the door decides.

    def head_is_late(self) -> None:
        if not self._heard and self._exchange is None:
            self.close()  # it never began to ask
        else:
            self._last_word(_late("the head of the request", self._door.heads.seconds))

    def body_is_due(self) -> None:
        if not self._reading or self._heard >= self._door.body_least:
            self._heard = 0
            self._door.bodies.begin(self, self._door.now())
        else:
            self._last_word(_late("the body of the request", self._door.bodies.seconds))

    def close(self) -> None:
        if self.transport.is_closing():  # a second close() of asyncio's TLS transport takes its buffers away
            return
        self.transport.close()
        if unsent := self.transport.get_write_buffer_size():  # closed when the rest has left, which may be never
            self._door.fell_behind(self, unsent)

    def cut(self) -> None:
        self.transport.abort()

    # What comes.

    def data_received(self, data: bytes) -> None:
        coming = self._coming
        if coming >= _WHOLE:
            self._unasked(data)
            return
        if coming == _IDLE:
            self._door.idle.end(self)
            self._coming = _HEAD
            self._heard = len(data)
        else:
            self._heard += len(data)
        self._quiet += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._unreadable(error)
        coming = self._coming
        if coming == _HEAD:
            if self._heard > REQUEST_HEAD_BYTES:
                self._last_word(too_large())
            else:
                self._door.heads.begin(self, self._door.now())
        elif coming == _BODY and self._quiet > REQUEST_HEAD_BYTES:
            self._last_word(too_much_beside())  # the parser keeps a trailer until it ends, however long it becomes
        elif coming == _BODY and self not in self._door.bodies:
            self._heard = 0
            self._door.bodies.begin(self, self._door.now())

    def _unasked(self, data: bytes) -> None:
        """Something behind a whole request. It is not read; a connection that brought it is not used again."""
        if self._exchange is not None:
            if not data.strip(b"\r\n"):
                return  # some clients end a body with an empty line
            self._exchange.keep_alive = False
        self._heard += len(data)
        if self._heard > UNASKED_BYTES:
            self.transport.abort()

    def _unreadable(self, error: Exception) -> None:
        if self._refusal is None and self._coming == _WHOLE:
            # Something that cannot be read, or that would be read as another request, behind a whole one.
            if self._exchange is not None:
                self._exchange.keep_alive = False
            return
        self._last_word(self._refusal or MalformedRequest(f"this is no HTTP request: {error}", hint=HINT))

    def _last_word(self, refusal: HostError) -> None:
        """Refuse what is coming, and end the connection once the refusal can have been read."""
        self._door.forget(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.left()
            if exchange.started:
                self.transport.abort()  # in the middle of an answer there is no place for another
                return
        self.transport.write(refused(refusal, self._door.headers))
        self._linger()

    def _linger(self) -> None:
        """Closing now would reset a client that is still sending, and take the answer from it."""
        self._coming, self._heard = _DEAF, 0
        self.hold(reading=True)
        if len(self._door.leaving) >= _LINGERING:
            self.close()
            return
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._door.leaving.begin(self, self._door.now())

    def answered(self) -> None:
        exchange, self._exchange = self._exchange, None
        self._door.state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._coming == _BODY:
            self._door.bodies.end(self)
            self._linger()
        elif exchange is None or not exchange.keep_alive:
            self.close()
        else:
            self._coming, self._heard = _IDLE, 0
            self._door.idle.begin(self, self._door.now())

    # What the parser finds.

    def on_message_begin(self) -> None:
        if self._coming != _HEAD:
            raise _Stop
        self._head = Head()

    def on_url(self, url: bytes) -> None:
        self._head.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._coming == _HEAD:  # a trailer is something that nobody asked for, and changes nothing
            self._head.add(name.lower(), value)

    def on_headers_complete(self) -> None:
        parser, head = self._parser, self._head
        version = parser.get_http_version()
        self._refusal = head.problem(version, self._heard)
        if self._refusal is not None:
            raise _Stop
        method, new = parser.get_method().decode("ascii"), version == "1.1"
        if method == "CONNECT":  # whatever is behind it is another protocol for the parser
            self._refusal = MalformedRequest("there is no tunnel through this host", hint=HINT)
            raise _Stop
        if head.upgrade is not None and parser.should_upgrade():
            self._socket = head.upgrade == b"websocket" and new and method == "GET"
            return  # the parser stops here
        self._door.heads.end(self)
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
        self._coming, self._quiet = _BODY, 0
        keeps = new and parser.should_keep_alive()
        self._exchange = exchange = Exchange(self, scope, keeps=keeps, continues=head.continues and new)
        task = self._door.loop.create_task(exchange.run(self._door.app))
        self._door.state.tasks.add(task)
        task.add_done_callback(self._door.state.tasks.discard)

    def on_body(self, body: bytes) -> None:
        self._quiet = 0
        if self._exchange is not None:
            self._exchange.came(body)

    def on_message_complete(self) -> None:
        if self._coming != _BODY:
            return  # the handshake of a WebSocket
        self._coming, self._heard = _WHOLE, 0
        self._door.bodies.end(self)
        if self._exchange is not None:
            self._exchange.ended()

    def _upgraded(self, rest: bytes) -> None:
        """The parser takes everything behind this head for another protocol."""
        if not self._socket:
            self._without_upgrade(rest)
        elif rest:
            self._last_word(MalformedRequest("something came before the handshake was answered", hint="wait for 101"))
        else:
            del self._parser
            self._door.state.connections.discard(self)  # type: ignore[arg-type]
            socket = SocketProtocol(self._door, self.address)
            socket.connection_made(self.transport)
            self.transport.set_protocol(socket)
            self._coming = _DEAF
            self._door.forget(self)
            socket.data_received(self._head.written(b"GET", b"1.1"))

    def _without_upgrade(self, rest: bytes) -> None:
        """An upgrade that we do not know is not asked for: the same request is read again without it."""
        method, version = self._parser.get_method(), self._parser.get_http_version().encode()
        self._head.drop_upgrade()
        self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(self._head.written(method, version) + rest)
        except httptools.HttpParserError as error:
            self._unreadable(error)


def _place(found: Any) -> tuple[str, int] | None:
    """The address and port of a socket's end."""
    if not isinstance(found, tuple):  # a socket of another family
        return None
    address, port, *_ = cast("tuple[str, int]", found)
    return address.removeprefix("::ffff:") if "." in address else address, port  # IPv4 on a socket for both


def _late(what: str, seconds: float) -> RequestTimeout:
    return RequestTimeout(f"{what} came too slowly", hint=f"it is waited for {seconds:g} s at a time")
