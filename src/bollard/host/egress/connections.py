"""HTTP/1.1 connections to one destination, with keep-alive and streamed responses.

Every wait and every size has a limit. A `Judge` decides how a connection may be made, each time one is made. It knows
no redirects and no compression, and its callers decide what an answer means.
"""

import asyncio
import contextlib
import functools
import os
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import httptools
import msgspec

from bollard.host.egress.destination import Address, Destination
from bollard.host.egress.proxy import Route, Tunnel
from bollard.host.errors import ExplainedError, caused_by
from bollard.host.limits import EGRESS_FRAMING, EGRESS_KEPT_CONNECTIONS, EGRESS_KEPT_S, EGRESS_SETTLE_S
from bollard.wire.proxy_handshake import ProxyFailed

PIECE_BYTES: Final = 65536
"""The limit of one read."""
Judge = Callable[[Destination, float], Awaitable[Sequence[Route]]]
"""Resolves a name within this many seconds, and returns the routes that a connection may take: addresses, or tunnels
through a proxy. Raises `EgressDenied`, and `NotSent` if the proxy has no address."""


class NotSent(ExplainedError):
    """The connection failed. Nothing of the request can have arrived. The cause is the error of the last attempt."""


class NotAnswered(ExplainedError):
    """The request was sent and no complete response came. It may have had an effect."""

    def __init__(
        self,
        reason: Literal["timeout", "closed", "broken", "invalid"],
        message: str,
        problem_type: str,
        /,
        **values: str | int | float | Mapping[str, Any],
    ) -> None:
        """`closed` is an end in good order before the end of the answer, `broken` any other end."""
        super().__init__(message, problem_type, **values)
        self.reason = reason


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, and the limits of its response."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    first_s: float
    """Time from the last byte sent until `HttpAnswer.begun` is called."""
    until: float | None = None
    """When that time is up, by the loop's clock, where it began earlier."""
    idle_s: float
    """The longest pause after that."""
    head_bytes: int
    body_bytes: int
    sent: Callable[[int], None] | None = None
    """Hears how many bytes of the body have left. Such a body leaves in pieces, each within `idle_s`."""


@dataclass(slots=True, eq=False)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    address: Address | None
    kept_at: float | None = None
    """Since when it waits for another request; `None` for a new one."""

    def drop(self) -> None:
        # Without waiting: a peer that reads nothing, or never closes, would block this for ever.
        self.writer.transport.abort()

    @property
    def is_usable(self) -> bool:
        return not (self.writer.transport.is_closing() or self.reader.at_eof())


class _Stale(Exception):
    """The server closed an idle connection before it received the request."""


@dataclass(slots=True)
class _Incoming:
    """Collects the callbacks of the parser."""

    parser: Any = None
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    head_bytes: int = 0
    body: list[bytes] = field(default_factory=list[bytes])
    has_head: bool = False
    whole: bool = False
    keeps: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # there may be any number of them after the body, and no caller needs them
            self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))
            self.head_bytes += len(name) + len(value)

    def on_headers_complete(self) -> None:
        if self.has_head:
            return
        self.status = self.parser.get_status_code()
        if self.status < 200:  # "continue" and its like are not the answer
            self.headers.clear()
        else:
            self.has_head = True
            self.keeps = self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        if not self.whole:
            self.body.append(body)

    def on_message_complete(self) -> None:
        if self.has_head:
            # A second response to one request would be mistaken for that of the next one.
            self.keeps = self.keeps and not self.whole
            self.whole = True


class HttpAnswer:
    """A response that is being received. Reading raises `NotAnswered`."""

    def __init__(self, connection: Connection, request: HttpRequest) -> None:
        self._connection = connection
        self._request = request
        self._until: float | None = request.until or asyncio.get_running_loop().time() + request.first_s
        self._came = 0
        self._read = 0
        self._incoming = _Incoming()
        self._incoming.parser = httptools.HttpResponseParser(self._incoming)

    @property
    def status(self) -> int:
        return self._incoming.status

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._incoming.headers)

    @property
    def address(self) -> Address | None:
        """The address of the server; `None` if a proxy resolved its name."""
        return self._connection.address

    @property
    def may_be_kept(self) -> bool:
        incoming, transport = self._incoming, self._connection.writer.transport
        return incoming.whole and incoming.keeps and transport.get_write_buffer_size() == 0

    def header(self, name: str) -> str | None:
        """The first header of this name, which must be in lower case."""
        return next((value for each, value in self._incoming.headers if each == name), None)

    def begun(self) -> None:
        """The response has begun: from here on only `idle_s` applies."""
        self._until = None

    async def head(self) -> None:
        """Wait for the status and the headers. Raises `_Stale` if an idle connection had ended."""
        limit = self._request.head_bytes
        while not self._incoming.has_head:
            if not await self._receive():
                raise NotAnswered("closed", "the connection ended without an answer", "net.no_answer")
            if (self._incoming.head_bytes if self._incoming.has_head else self._came) > limit:
                message = f"the head of the answer is larger than {limit} bytes"
                raise NotAnswered("invalid", message, "net.head_too_large", limit=limit)

    async def read(self) -> bytes:
        """The next received bytes of the body; empty at its end."""
        while not self._incoming.body:
            if self._incoming.whole:
                return b""
            if not await self._receive():
                if self.header("content-length") is None and self.header("transfer-encoding") is None:
                    return b""
                raise NotAnswered("closed", "the connection ended in the middle of the answer", "net.cut_short")
        pieces = self._incoming.body
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._read += len(piece)
        if self._read > self._request.body_bytes:
            limit = self._request.body_bytes
            raise NotAnswered("invalid", f"the answer is larger than {limit} bytes", "net.too_large", limit=limit)
        return piece

    async def whole(self) -> bytes:
        """Read the whole body."""
        self.begun()
        pieces: list[bytes] = []
        while piece := await self.read():
            pieces.append(piece)
        return b"".join(pieces)

    async def beginning(self, most: int) -> bytes:
        """The body of an error response, as far as it arrives in time. Never raises for a missing rest."""
        self._until = asyncio.get_running_loop().time() + self._request.idle_s
        found = bytearray()
        with contextlib.suppress(Exception):
            while len(found) < most and (piece := await self.read()):
                found += piece
        return bytes(found[:most])

    async def settle(self) -> None:
        """Read the rest of the body, so that the connection can be reused."""
        self._until = asyncio.get_running_loop().time() + EGRESS_SETTLE_S
        with contextlib.suppress(Exception):
            while await self.read():
                pass

    async def _receive(self) -> bool:
        """Feed received bytes to the parser; returns whether there were any."""
        request, until = self._request, self._until
        try:
            async with asyncio.timeout(request.idle_s) if until is None else asyncio.timeout_at(until):
                piece = await self._connection.reader.read(PIECE_BYTES)
        except TimeoutError:
            if until is None:
                silent_s = request.idle_s
                message = f"no data arrived for {silent_s:g} s"
                raise NotAnswered("timeout", message, "net.silent", seconds=silent_s) from None
            late_s = request.first_s
            raise NotAnswered("timeout", f"no answer within {late_s:g} s", "net.late", seconds=late_s) from None
        except OSError as error:
            if self._is_stale():
                raise _Stale from error
            raise _broken(error) from error
        if not piece:
            if self._is_stale():
                raise _Stale
            return False
        self._came += len(piece)
        if self._came > request.head_bytes + EGRESS_FRAMING * request.body_bytes:
            raise NotAnswered("invalid", "the answer continues without content", "net.no_content")
        try:
            self._incoming.parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._incoming.whole:
                message, inner = f"the answer is not valid HTTP: {error}", caused_by(error)
                raise NotAnswered("invalid", message, "net.not_http", inner=inner) from error
            self._incoming.keeps = False
        return True

    def _is_stale(self) -> bool:
        return self._connection.kept_at is not None and self._came == 0


def problem_details(error: OSError) -> Mapping[str, Any]:
    """The system's error text: that of asyncio repeats the address. TLS errors have other numbers."""
    if isinstance(error, ProxyFailed):
        return error.details
    if isinstance(error, ssl.SSLError):
        return {"problem": getattr(error, "verify_message", "") or error.strerror or str(error)}
    if error.errno is not None and error.errno > 0:
        return caused_by(OSError(error.errno, os.strerror(error.errno)))
    if error.strerror or str(error):
        return {"problem": error.strerror or str(error)}
    return {"problem": "no answer in time", "problem_type": "net.too_late"}


def _broken(error: OSError) -> NotAnswered:
    inner = problem_details(error)
    return NotAnswered("broken", f"the connection broke: {inner['problem']}", "net.broken", inner=inner)


@functools.cache
def trusted() -> ssl.SSLContext:
    """The TLS context with the system's certificate authorities, created once."""
    return ssl.create_default_context()


async def _open(route: Route, port: int, tls: ssl.SSLContext | None, name: str | None) -> Connection:
    """Raises `OSError`."""
    if isinstance(route, Tunnel):
        sock = await route.open(port)
        streams = await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=name)
        return Connection(*streams, address=None if isinstance(route.target, str) else route.target)
    return Connection(*await asyncio.open_connection(str(route), port, ssl=tls, server_hostname=name), address=route)


class Connections:
    """Connections to one destination, reused for further requests if `keeps` is set."""

    def __init__(
        self,
        place: Destination,
        connect_s: float,
        judge: Judge,
        tls: Callable[[], ssl.SSLContext] = trusted,
        *,
        keeps: bool = True,
    ) -> None:
        """`connect_s` limits name lookup and connection together."""
        self._place = place
        self._connect_s = connect_s
        self._judge = judge
        self._tls = tls
        self._keeps = keeps
        self._kept: deque[Connection] = deque()
        self._sweep: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def asked(self, request: HttpRequest) -> AsyncGenerator[HttpAnswer]:
        """Send a request; the answer has its head. Leaving before its end closes the connection. Raises `EgressDenied`,
        `NotSent` and `NotAnswered`."""
        connection, answer = await self._answered(request)
        try:
            yield answer
        finally:
            self._release(connection, keep=answer.may_be_kept)

    async def close(self) -> None:
        """Close idle connections, and keep none from now on; active requests continue."""
        self._keeps = False
        if self._sweep is not None:
            self._sweep.cancel()
        while self._kept:
            connection = self._kept.pop()
            connection.drop()
            with contextlib.suppress(OSError):
                await connection.writer.wait_closed()

    async def _answered(self, request: HttpRequest) -> tuple[Connection, HttpAnswer]:
        kept = self._take()
        while True:
            connection = kept or await self.connect()
            try:
                await self._send(connection.writer, request)
                answer = HttpAnswer(connection, request)
                await answer.head()
            except _Stale:
                connection.drop()
                kept = None  # no part of an answer arrived, and a new connection cannot be stale
            except BaseException:
                connection.drop()
                raise
            else:
                return connection, answer

    async def _send(self, writer: asyncio.StreamWriter, request: HttpRequest) -> None:
        if request.sent is None:
            writer.write(self._head(request) + request.body)  # without waiting: a peer that refuses reads no further
            return
        writer.write(self._head(request))
        try:
            for at in range(0, len(request.body), PIECE_BYTES):
                writer.write(request.body[at : at + PIECE_BYTES])
                async with asyncio.timeout(request.idle_s):
                    await writer.drain()
                request.sent(min(at + PIECE_BYTES, len(request.body)))
        except TimeoutError:
            message = f"the other side read nothing for {request.idle_s:g} s"
            raise NotAnswered("timeout", message, "net.not_read", seconds=request.idle_s) from None
        except OSError as error:
            raise _broken(error) from error

    def _head(self, request: HttpRequest) -> bytes:
        head = [f"{request.method} {request.path} HTTP/1.1", f"host: {self._place.authority}"]
        head += ["accept-encoding: identity", *(f"{name}: {value}" for name, value in request.headers)]
        if not self._keeps:
            head.append("connection: close")
        if request.body or request.method not in ("GET", "HEAD"):
            head.append(f"content-length: {len(request.body)}")
        # Callers check the headers; only the host name may contain other characters.
        return "\r\n".join([*head, "", ""]).encode("latin-1", "replace")

    async def connect(self) -> Connection:
        """Open a new connection. Raises `EgressDenied` and `NotSent`."""
        place, loop = self._place, asyncio.get_running_loop()
        until = loop.time() + self._connect_s
        routes = await self._judge(place, self._connect_s)
        tls = self._tls() if place.scheme == "https" else None
        name = place.host if tls is not None else None
        # An address that drops packets must leave time for the others.
        each_s = (until - loop.time()) / max(1, len(routes))
        failure, cause = NotSent("the name has no address", "net.no_address"), None
        for route in routes:
            try:
                async with asyncio.timeout(each_s):
                    return await _open(route, place.port, tls, name)
            except OSError as error:  # among them every problem of TLS, and the time that is up
                inner, cause = problem_details(error), error
                problem = inner["problem"]
                if isinstance(route, Tunnel):
                    failure = NotSent(f"through the proxy: {problem}", "net.proxy", inner=inner)
                else:
                    failure = NotSent(problem, str(inner.get("problem_type", "")))
        raise failure from cause

    def _take(self) -> Connection | None:
        """The connection that was used last: it is the least likely to be closed."""
        while self._kept:
            connection = self._kept.pop()
            if connection.is_usable:
                return connection
            connection.drop()
        return None

    def _release(self, connection: Connection, *, keep: bool) -> None:
        full = len(self._kept) >= EGRESS_KEPT_CONNECTIONS
        if not keep or not self._keeps or full or not connection.is_usable:
            connection.drop()
            return
        loop = asyncio.get_running_loop()
        connection.kept_at = loop.time()
        self._kept.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(EGRESS_KEPT_S, self._drop_old)

    def _drop_old(self) -> None:
        self._sweep = None
        loop = asyncio.get_running_loop()
        while self._kept and (self._kept[0].kept_at or 0.0) + EGRESS_KEPT_S <= loop.time():
            self._kept.popleft().drop()
        if self._kept:
            self._sweep = loop.call_at((self._kept[0].kept_at or 0.0) + EGRESS_KEPT_S, self._drop_old)
