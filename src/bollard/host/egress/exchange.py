"""One request to one address, and what came back. It tells apart what never left from what may have arrived.

Small on purpose: no proxies, no compression, no kept connections. Where it may go is decided before.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import httptools

from bollard.host.egress.addresses import Address
from bollard.host.egress.places import EgressResponse, SentOn
from bollard.host.limits import EGRESS_HEAD_BYTES

__all__ = ["NotAnswered", "NotSent", "connected", "exchange"]

_PIECE_BYTES: Final = 65536
_CHUNKED: Final = 8
"""Bytes of an answer for each of its body, at most: one that is sent alone needs six."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NotSent(Exception):
    """Nothing of the request can have arrived."""


class NotAnswered(Exception):
    """The request left, and no whole answer came."""


@dataclass(slots=True)
class _Reply:
    """An answer while it comes, as the parser tells it."""

    most: int
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytearray = field(default_factory=bytearray)
    has_head: bool = False
    whole: bool = False
    truncated: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.has_head:
            return  # behind the body: nobody needs those, and there may be any number of them
        self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, body: bytes) -> None:
        room = self.most - len(self.body)
        self.truncated = self.truncated or len(body) > room
        self.body += body[:room]

    def on_message_complete(self) -> None:
        self.whole = True

    def begin_again(self) -> None:
        """What came was no answer: "continue" and its like."""
        self.headers, self.body = [], bytearray()
        self.has_head = self.whole = False


@contextlib.asynccontextmanager
async def connected(
    addresses: Iterable[Address], request: SentOn, tls: ssl.SSLContext | None, timeout_s: float
) -> AsyncGenerator[Streams]:
    """A connection to the first of these addresses that takes one. Raises `NotSent`."""
    problem = "there is no address"
    streams: Streams | None = None
    try:
        async with asyncio.timeout(timeout_s):
            for address in addresses:
                try:
                    name = request.place.host if tls is not None else None
                    streams = await asyncio.open_connection(
                        str(address), request.place.port, ssl=tls, server_hostname=name
                    )
                    break
                except OSError as error:  # among them every problem of TLS
                    problem = getattr(error, "verify_message", "") or error.strerror or str(error)
    except TimeoutError:
        raise NotSent(f"no connection within {timeout_s:g} s") from None
    if streams is None:
        raise NotSent(f"no connection: {problem}")
    try:
        yield streams
    finally:
        # Nobody is waited for: a peer that reads nothing, or says no goodbye, would hold on to this for ever.
        streams[1].transport.abort()
        with contextlib.suppress(OSError):
            await streams[1].wait_closed()


async def exchange(streams: Streams, request: SentOn, most: int, timeout_s: float) -> EgressResponse:
    """Send it and read the answer, as far as it is of use. Raises `NotAnswered`."""
    reader, writer = streams
    place = request.place
    head = [f"{request.method} {place.path} HTTP/1.1", f"host: {place.authority}", "connection: close"]
    head += ["accept-encoding: identity", *(f"{name}: {value}" for name, value in request.headers)]
    if request.body or request.method not in ("GET", "HEAD"):
        head.append(f"content-length: {len(request.body)}")
    try:
        async with asyncio.timeout(timeout_s):
            writer.write("\r\n".join([*head, "", ""]).encode("latin-1") + request.body)
            await writer.drain()
            return await _answer(reader, request, most)
    except TimeoutError:
        raise NotAnswered(f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        raise NotAnswered(f"the connection broke: {error.strerror or error}") from error
    except httptools.HttpParserError as error:
        raise NotAnswered(f"the answer is no HTTP: {error}") from error


async def _answer(reader: asyncio.StreamReader, request: SentOn, most: int) -> EgressResponse:
    reply = _Reply(most)
    parser: Any = httptools.HttpResponseParser(reply)
    came = status = 0
    while not reply.whole and not reply.truncated:
        piece = await reader.read(_PIECE_BYTES)
        if not piece:
            break
        came += len(piece)
        parser.feed_data(piece)
        status = parser.get_status_code()
        if 100 <= status < 200 and reply.whole:
            reply.begin_again()
        if not reply.has_head and came > EGRESS_HEAD_BYTES:
            raise NotAnswered(f"the head of the answer is larger than {EGRESS_HEAD_BYTES} bytes")
        if came > EGRESS_HEAD_BYTES + _CHUNKED * most:
            raise NotAnswered("the answer goes on without anything in it")
        if reply.has_head and request.method == "HEAD":
            break
    if not reply.has_head:
        raise NotAnswered("the connection ended without an answer")
    return EgressResponse(
        url=request.place.url,
        status=status,
        headers=tuple(reply.headers),
        body=b"" if request.method == "HEAD" else bytes(reply.body),
        truncated=reply.truncated and request.method != "HEAD",
    )
