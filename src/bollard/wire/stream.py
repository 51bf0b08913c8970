"""The transport over a byte stream: an inherited socket, a socket pair, or whatever a codec makes of one."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol, cast

from bollard.protocol import limits
from bollard.wire.errors import FrameError
from bollard.wire.framing import LineFramer
from bollard.wire.limits import CLOSE_FLUSH_S, WRITE_HARD_LIMIT_BYTES, WRITE_HIGH_WATER_BYTES, WRITE_STALL_S
from bollard.wire.outbox import Outbox
from bollard.wire.transport import Receiver

__all__ = ["Codec", "LineCodec", "StreamTransport", "connect_socket"]


class Codec(Protocol):
    """How frames are written into bytes and found in them."""

    def encode(self, frames: Sequence[bytes]) -> bytes:
        """The bytes that carry `frames`."""
        ...

    def decode(self, data: bytes) -> tuple[list[bytes | FrameError], bytes]:
        """The frames that `data` completes, and bytes to answer the peer's stream with (handshakes, pongs)."""
        ...

    def end(self) -> FrameError | None:
        """What the end of the stream cut off."""
        ...

    def farewell(self, reason: str) -> bytes:
        """The bytes to send before closing."""
        ...

    @property
    def finished(self) -> str | None:
        """Why nothing can follow on this stream, once the codec knows."""
        ...


class LineCodec:
    """Newline-delimited frames."""

    finished: str | None = None

    def __init__(self, frame_bytes: int = limits.FRAME_BYTES) -> None:
        self._framer = LineFramer(frame_bytes)

    def encode(self, frames: Sequence[bytes]) -> bytes:
        return b"\n".join((*frames, b""))

    def decode(self, data: bytes) -> tuple[list[bytes | FrameError], bytes]:
        return self._framer.feed(data), b""

    def end(self) -> FrameError | None:
        return self._framer.end()

    def farewell(self, reason: str) -> bytes:
        del reason  # a line-framed stream just ends
        return b""


class StreamTransport(asyncio.Protocol):
    """Frames over one asyncio stream transport. Delivery starts with `start`; until then reading is paused."""

    def __init__(self, codec: Codec, *, stall_s: float = WRITE_STALL_S) -> None:
        self._codec = codec
        self._outbox = Outbox(self._write, taken=self._taken, stalled=self._cut, stall_s=stall_s)
        self._given = 0
        self._stream: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._early: list[bytes | FrameError] = []
        self._lost: str | None = None
        self._closing: str | None = None
        self._reading = False
        self._abort_timer: asyncio.TimerHandle | None = None

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = cast("asyncio.Transport", transport)
        self._stream.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        if not self._reading:
            self._stream.pause_reading()

    def data_received(self, data: bytes) -> None:
        frames, answer = self._codec.decode(data)
        if answer and self._stream is not None:
            self._put(self._stream, answer)
        if self._receiver is None:
            self._early.extend(frames)  # what came with the end of a handshake
        elif frames:
            self._receiver.frames_received(frames)
        if self._codec.finished is not None:
            self.close(self._codec.finished)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        reason = self._closing or ("the peer closed" if exc is None else f"{type(exc).__name__}: {exc}")
        self._lost = reason
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        self._outbox.close(reason)
        cut_off = self._codec.end()
        if self._receiver is None:
            return
        if cut_off is not None:
            self._receiver.frames_received([cut_off])
        self._receiver.connection_lost(reason)

    def pause_writing(self) -> None:
        self._outbox.pause()

    def resume_writing(self) -> None:
        self._outbox.resume()

    # --- the boundary ---

    @property
    def congested(self) -> bool:
        return self._outbox.congested

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        if self._early:
            frames, self._early = self._early, []
            receiver.frames_received(frames)
        if self._lost is not None:
            receiver.connection_lost(self._lost)
        self.resume_reading()

    def send(self, frame: bytes) -> None:
        self._outbox.send(frame)

    def flush(self) -> None:
        self._outbox.flush()

    async def drain(self) -> None:
        await self._outbox.drain()

    def pause_reading(self) -> None:
        self._reading = False
        if self._stream is not None and not self._stream.is_closing():
            self._stream.pause_reading()

    def resume_reading(self) -> None:
        self._reading = True
        if self._stream is not None and not self._stream.is_closing():
            self._stream.resume_reading()

    def close(self, reason: str) -> None:
        if self._closing is not None or self._stream is None:
            return
        self._closing = reason
        self._outbox.flush()
        self._outbox.close(reason)
        if farewell := self._codec.farewell(reason):
            self._stream.write(farewell)
        self._stream.close()
        if self._lost is None:
            self._abort_timer = asyncio.get_running_loop().call_later(CLOSE_FLUSH_S, self._stream.abort)

    def _write(self, frames: Sequence[bytes]) -> None:
        if self._stream is not None and not self._stream.is_closing():
            self._put(self._stream, self._codec.encode(frames))

    def _put(self, stream: asyncio.Transport, data: bytes) -> None:
        self._given += len(data)
        stream.write(data)
        if stream.get_write_buffer_size() > WRITE_HARD_LIMIT_BYTES:
            # Only what never waits gets here, such as refusals: a peer that asks and never reads.
            self._cut()

    def _taken(self) -> int:
        """Bytes that the peer, or the system for it, has taken."""
        return self._given - (0 if self._stream is None else self._stream.get_write_buffer_size())

    def _cut(self) -> None:
        self._closing = self._closing or "the peer does not read"
        self._outbox.close(self._closing)
        if self._stream is not None:
            self._stream.abort()


async def connect_socket(sock: socket.socket, frame_bytes: int = limits.FRAME_BYTES) -> StreamTransport:
    """A line-framed transport over a connected stream socket; the transport owns the socket from here on."""
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    _, transport = await loop.create_connection(lambda: StreamTransport(LineCodec(frame_bytes)), sock=sock)
    return transport
