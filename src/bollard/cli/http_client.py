"""A small HTTP/1.1 client for the host's API: one connection for each request, bodies whole or piece by piece.

It knows HTTP and nothing of what the host says. Proxies, redirects and compression are not for it.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from bollard.cli.limits import HTTP_BODY_BYTES, HTTP_CONNECT_S, HTTP_HEAD_BYTES, HTTP_SILENCE_S

__all__ = ["Address", "Answer", "BadAnswer", "ConnectionLost", "HttpClient", "HttpFailure", "Unreachable", "read_url"]

_PORTS: Final = {"http": 80, "https": 443}
_PIECE_BYTES: Final = 65536


class HttpFailure(Exception):
    """Root: the request has no answer. `address` says where it went."""

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(f"{address}: {detail}")
        self.address = address
        self.detail = detail


class Unreachable(HttpFailure):
    """Nobody takes a connection there."""


class ConnectionLost(HttpFailure):
    """The connection ended in the middle."""


class BadAnswer(HttpFailure):
    """Whoever answers does not speak HTTP as we do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a host listens."""

    scheme: str
    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def read_url(url: str) -> Address:
    """The address of a URL; raises `ValueError`."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(url)
    port = parts.port or _PORTS[parts.scheme]
    return Address(scheme=parts.scheme, host=parts.hostname, port=port, path=parts.path.rstrip("/"))


class Answer:
    """The head of an answer, and its body as it comes."""

    def __init__(self, address: str, status: int, headers: Mapping[str, str], reader: asyncio.StreamReader) -> None:
        self.status = status
        self.headers = headers
        self._address = address
        self._reader = reader

    async def read(self) -> bytes:
        """The whole body."""
        parts: list[bytes] = []
        size = 0
        async for piece in self.pieces():
            size += len(piece)
            if size > HTTP_BODY_BYTES:
                raise BadAnswer(self._address, f"the body is larger than {HTTP_BODY_BYTES} bytes")
            parts.append(piece)
        return b"".join(parts)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body, piece by piece. Raises `ConnectionLost` when it ends too early or nothing comes for too long."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            body = self._chunks()
        elif (length := self.headers.get("content-length", "")).isdigit():
            body = self._counted(int(length))
        else:
            body = self._until_the_end()
        async for piece in body:
            yield piece

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            line = await self._line()
            size_text = line.split(b";")[0].strip()
            try:
                left = int(size_text, 16)
            except ValueError as error:
                raise BadAnswer(self._address, f"a chunk begins with {line[:40]!r}") from error
            if left == 0:
                while await self._line():  # trailers
                    pass
                return
            async for piece in self._counted(left):
                yield piece
            if await self._line():
                raise BadAnswer(self._address, "a chunk is longer than it says")

    async def _counted(self, left: int) -> AsyncIterator[bytes]:
        while left > 0:
            piece = await self._some(min(left, _PIECE_BYTES))
            if not piece:
                raise ConnectionLost(self._address, "the answer ended too early")
            left -= len(piece)
            yield piece

    async def _until_the_end(self) -> AsyncIterator[bytes]:
        while piece := await self._some(_PIECE_BYTES):
            yield piece

    async def _line(self) -> bytes:
        return await read_line(self._reader, self._address)

    async def _some(self, size: int) -> bytes:
        async with heard(self._address):
            return await self._reader.read(size)


def _told(error: OSError) -> str:
    """What the system says; the loop's own sentence repeats the address."""
    return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)


@contextlib.asynccontextmanager
async def heard(address: str) -> AsyncGenerator[None]:
    """What the network does to a read, as errors of ours."""
    try:
        async with asyncio.timeout(HTTP_SILENCE_S):
            yield
    except TimeoutError as error:
        raise ConnectionLost(address, f"nothing came for {HTTP_SILENCE_S:g} s") from error
    except OSError as error:
        raise ConnectionLost(address, _told(error)) from error


async def read_line(reader: asyncio.StreamReader, address: str) -> bytes:
    """One line without its end."""
    async with heard(address):
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            raise ConnectionLost(address, "the answer ended too early") from error
        except asyncio.LimitOverrunError as error:
            raise BadAnswer(address, "a line is too long") from error
    return line.rstrip(b"\r\n")


class HttpClient:
    """Requests to one address, with the headers that each of them carries."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self.address = address
        self._headers = dict(headers)

    @contextlib.asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        sent: Callable[[int], None] | None = None,
    ) -> AsyncGenerator[Answer]:
        """Send a request; the answer's body is to be read inside the block. `sent` hears how much of the body is on its
        way."""
        head = self._head(method, path, body, headers or {})
        reader, writer = await self._connect()
        try:
            await self._write(writer, head, body or b"", sent)
            yield await self._answer(reader)
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    async def _write(
        self, writer: asyncio.StreamWriter, head: bytes, body: bytes, sent: Callable[[int], None] | None
    ) -> None:
        """At once, or a piece at a time where somebody wants to hear of it."""
        if sent is None:
            async with heard(str(self.address)):
                writer.write(head + body)
                await writer.drain()
            return
        writer.write(head)
        for at in range(0, len(body), _PIECE_BYTES):
            async with heard(str(self.address)):
                writer.write(body[at : at + _PIECE_BYTES])
                await writer.drain()
            sent(min(at + _PIECE_BYTES, len(body)))

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self.address
        context = ssl.create_default_context() if address.scheme == "https" else None
        try:
            async with asyncio.timeout(HTTP_CONNECT_S):
                return await asyncio.open_connection(address.host, address.port, ssl=context, limit=HTTP_HEAD_BYTES)
        except TimeoutError as error:
            raise Unreachable(str(address), f"no connection within {HTTP_CONNECT_S:g} s") from error
        except OSError as error:
            raise Unreachable(str(address), _told(error)) from error

    def _head(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        address = self.address
        fields = {"Host": str(address).partition("://")[2].partition("/")[0], "Connection": "close"}
        fields |= {**self._headers, **headers}
        if body is not None:
            fields = {"Content-Type": "application/json", **fields, "Content-Length": str(len(body))}
        for name, value in fields.items():
            if "\n" in value or "\r" in value:
                raise ValueError(f"the header {name} has a line break")
        lines = [f"{method} {address.path}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        where = str(self.address)
        while True:
            version, _, rest = (await read_line(reader, where)).partition(b" ")
            code = rest[:3]
            if not version.startswith(b"HTTP/1.") or not code.isdigit():
                raise BadAnswer(where, "it does not speak HTTP")
            headers = await self._read_headers(reader)
            if not 100 <= int(code) < 200:  # "continue" and its like are not the answer
                return Answer(where, int(code), headers, reader)

    async def _read_headers(self, reader: asyncio.StreamReader) -> dict[str, str]:
        headers: dict[str, str] = {}
        size = 0
        while line := await read_line(reader, str(self.address)):
            size += len(line)
            if size > HTTP_HEAD_BYTES:
                raise BadAnswer(str(self.address), "the head is too large")
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return headers
