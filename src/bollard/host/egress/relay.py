"""Copies bytes between a worker and a destination, with limits. Each direction reads only as fast as the other side
takes the bytes, and ends on its own (half close)."""

import asyncio
import re
from typing import Final, Literal

from bollard.host.egress.connection_log import Outcome
from bollard.host.egress.proxy_request import BadRequest
from bollard.host.limits import (
    WORKER_PROXY_BYTES,
    WORKER_PROXY_CHUNK_LINE_BYTES,
    WORKER_PROXY_HALF_CLOSED_S,
    WORKER_PROXY_IDLE_S,
    WORKER_PROXY_PIECE_BYTES,
    WORKER_PROXY_S,
)

_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,12})\r\n")


class RelayEnded(Exception):
    """A limit of the connection is reached."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome: Outcome = outcome


class RelayLimits:
    """The limits of one relay. Tests lower them."""

    def __init__(
        self,
        *,
        idle_s: float = WORKER_PROXY_IDLE_S,
        half_closed_s: float = WORKER_PROXY_HALF_CLOSED_S,
        all_s: float = WORKER_PROXY_S,
        most_bytes: int = WORKER_PROXY_BYTES,
    ) -> None:
        self.idle_s = idle_s
        self.half_closed_s = half_closed_s
        self.all_s = all_s
        self.most_bytes = most_bytes


class Relay:
    """One connection: what was copied, and when it has to end."""

    def __init__(self, limits: RelayLimits) -> None:
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + limits.all_s
        self._idle_s = limits.idle_s
        self._moved_at = self._loop.time()
        self.sent = 0
        """Bytes from the worker to the destination."""
        self.received = 0

    async def both(self, up: asyncio.Task[None], down: asyncio.Task[None], *, up_is_needed: bool) -> Outcome:
        """Wait for both directions, or for `down` alone. Returns how the connection ended."""
        waiting: set[asyncio.Task[None]] = {up, down}
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=self._rest_s(), return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if down in done and not up_is_needed:
                    return "closed"
                if done:
                    self._idle_s = min(self._idle_s, self._limits.half_closed_s)
                elif self._loop.time() >= self._until:
                    return "too_long"
                elif self._rest_s() <= 0:
                    return "idle"
        except RelayEnded as ended:
            return ended.outcome
        except (OSError, EOFError, BadRequest, ValueError):
            return "cut"
        else:
            return "closed"
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    def _rest_s(self) -> float:
        return max(0.0, min(self._moved_at + self._idle_s, self._until) - self._loop.time())

    async def copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Literal["sent", "received"]
    ) -> None:
        """Copy until the end of the reader, then end this direction."""
        while piece := await reader.read(WORKER_PROXY_PIECE_BYTES):
            await self._pass(piece, writer, way)
        if writer.can_write_eof():
            writer.write_eof()

    async def copy_body(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: Literal["sent", "received"],
        body: int | Literal["chunked"],
    ) -> None:
        """Copy exactly one body. Chunks get new lines, without extensions and trailers. Raises `BadRequest`,
        `EOFError`."""
        if body == "chunked":
            await self._copy_chunks(reader, writer, way)
            return
        await self._copy_length(reader, writer, way, body)

    async def _copy_length(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Literal["sent", "received"], left: int
    ) -> None:
        while left:
            piece = await reader.read(min(left, WORKER_PROXY_PIECE_BYTES))
            if not piece:
                raise EOFError("the body is cut short")
            left -= len(piece)
            await self._pass(piece, writer, way)

    async def _copy_chunks(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Literal["sent", "received"]
    ) -> None:
        while True:
            line = await _line(reader)
            match = _CHUNK.fullmatch(re.sub(rb";[^\r\n]*\r\n", b"\r\n", line))
            if match is None:
                raise BadRequest(400, "a chunk has no size")
            size = int(match[1], 16)
            if not size:
                break
            await self._pass(b"%x\r\n" % size, writer, way)
            await self._copy_length(reader, writer, way, size)
            if await reader.readexactly(2) != b"\r\n":
                raise BadRequest(400, "a chunk is longer than its size")
            await self._pass(b"\r\n", writer, way)
        while (line := await _line(reader)) != b"\r\n":
            if b":" not in line:
                raise BadRequest(400, "a trailer is not NAME: VALUE")
        await self._pass(b"0\r\n\r\n", writer, way)

    async def _pass(self, piece: bytes, writer: asyncio.StreamWriter, way: Literal["sent", "received"]) -> None:
        if way == "sent":
            self.sent += len(piece)
        else:
            self.received += len(piece)
        if self.sent + self.received > self._limits.most_bytes:
            raise RelayEnded("too_large")
        self._moved_at = self._loop.time()
        writer.write(piece)
        await writer.drain()
        self._moved_at = self._loop.time()


async def _line(reader: asyncio.StreamReader) -> bytes:
    line = await reader.readline()
    if not line:
        raise EOFError("the body is cut short")
    if len(line) > WORKER_PROXY_CHUNK_LINE_BYTES or not line.endswith(b"\r\n"):
        raise BadRequest(400, "a line of a chunk is too long, or has a bare line end")
    return line
