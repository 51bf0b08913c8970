"""One answer of a provider over HTTP/1.1 while it comes, with a bound on every wait. Lines are opened elsewhere."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

import httptools
import msgspec

from bollard.host.models.backend_limits import ANSWER_BYTES, FRAMING, HEAD_BYTES, SETTLE_S
from bollard.host.models.failures import failed

__all__ = ["Answer", "Line", "Request", "Stale"]

_PIECE_BYTES: Final = 65536


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One POST to the provider, and how long the answer may take."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    first_s: float
    """From the last byte sent to the first thing that is of use: see `Answer.begun`."""
    idle_s: float


@dataclass(slots=True, eq=False)
class Line:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    kept_at: float | None = None
    """Since when it waits for another call; `None` for a new one."""

    def drop(self) -> None:
        # Nobody is waited for: a peer that reads nothing, or says no goodbye, would hold on to this for ever.
        self.writer.transport.abort()

    @property
    def is_usable(self) -> bool:
        return not (self.writer.transport.is_closing() or self.reader.at_eof())


class Stale(Exception):
    """A kept connection was closed by the other side before it took the request."""


@dataclass(slots=True)
class _Incoming:
    """An answer as the parser tells it."""

    parser: Any = None
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: list[bytes] = field(default_factory=list[bytes])
    has_head: bool = False
    whole: bool = False
    keeps: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:  # behind the body nobody needs them, and there may be any number
            self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if self.has_head:
            return
        self.status = self.parser.get_status_code()
        if self.status < 200:  # "continue" and its like: no answer
            self.headers.clear()
        else:
            self.has_head = True
            self.keeps = self.parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        if not self.whole:
            self.body.append(body)

    def on_message_complete(self) -> None:
        if self.has_head:
            # A second answer to one question would be taken for the answer to the next one.
            self.keeps = self.keeps and not self.whole
            self.whole = True

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each == name), None)

    @property
    def ends_with_connection(self) -> bool:
        return self.header("content-length") is None and self.header("transfer-encoding") is None


class Answer:
    """What comes back. Its body is read piece by piece; every read raises `ModelFailed`."""

    def __init__(self, connection: Line, request: Request, most: int = ANSWER_BYTES) -> None:
        self._connection = connection
        self._idle_s = request.idle_s
        self._first_s = request.first_s
        self._until: float | None = asyncio.get_running_loop().time() + request.first_s
        self._most = most
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
    def is_events(self) -> bool:
        """Whether the body says that it is a stream of events."""
        return (self._incoming.header("content-type") or "").lower().startswith("text/event-stream")

    @property
    def may_be_kept(self) -> bool:
        incoming, transport = self._incoming, self._connection.writer.transport
        return incoming.whole and incoming.keeps and transport.get_write_buffer_size() == 0

    def begun(self) -> None:
        """Something of use has come: from here on only a silence is too long."""
        self._until = None

    async def head(self) -> None:
        """Wait for the status and the headers. Raises `Stale` where a kept connection had ended."""
        while not self._incoming.has_head:
            if not await self._receive():
                raise failed("broken_answer", "the provider closed the connection without an answer")
            if self._came > HEAD_BYTES and not self._incoming.has_head:
                raise failed("broken_answer", f"the head of the answer is larger than {HEAD_BYTES} bytes")
        encoding = self._incoming.header("content-encoding") or "identity"
        if encoding.lower() != "identity":
            raise failed("broken_answer", "the provider packed its answer although nobody asked for it")

    async def read(self) -> bytes:
        """What has come of the body, as soon as something has; empty at its end."""
        while not self._incoming.body:
            if self._incoming.whole:
                return b""
            if not await self._receive():
                if self._incoming.ends_with_connection:
                    return b""
                raise failed("broken_answer", "the connection ended in the middle of the answer")
        pieces = self._incoming.body
        piece = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._read += len(piece)
        if self._read > self._most:
            raise failed("broken_answer", f"the answer is larger than {self._most} bytes")
        return piece

    async def whole(self) -> bytes:
        """All of the body."""
        self.begun()
        pieces: list[bytes] = []
        while piece := await self.read():
            pieces.append(piece)
        return b"".join(pieces)

    async def beginning(self, most: int) -> bytes:
        """The body of an error, as far as it came in time and is of use. Never raises for what is missing."""
        self._until = asyncio.get_running_loop().time() + self._idle_s
        found = bytearray()
        with contextlib.suppress(Exception):
            while len(found) < most and (piece := await self.read()):
                found += piece
        return bytes(found[:most])

    async def settle(self) -> None:
        """Let the end of the body come, so that the connection can be kept."""
        self._until = asyncio.get_running_loop().time() + SETTLE_S
        with contextlib.suppress(Exception):
            while await self.read():
                pass

    async def _receive(self) -> bool:
        """Feed what comes to the parser; whether anything came."""
        try:
            until = self._until
            async with asyncio.timeout(self._idle_s) if until is None else asyncio.timeout_at(until):
                piece = await self._connection.reader.read(_PIECE_BYTES)
        except TimeoutError:
            waited = self._first_s if self._until is not None else self._idle_s
            raise failed("timeout", f"the provider said nothing for {waited:g} s") from None
        except OSError as error:
            if self._is_stale():
                raise Stale from error
            raise failed("broken_answer", f"the connection broke: {error.strerror or error}") from error
        if not piece:
            if self._is_stale():
                raise Stale
            return False
        self._came += len(piece)
        if self._came > HEAD_BYTES + FRAMING * self._most:
            raise failed("broken_answer", "the answer goes on without anything in it")
        try:
            self._incoming.parser.feed_data(piece)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._incoming.whole:
                raise failed("broken_answer", f"the answer is no HTTP: {error}") from error
            self._incoming.keeps = False
        return True

    def _is_stale(self) -> bool:
        return self._connection.kept_at is not None and self._came == 0
