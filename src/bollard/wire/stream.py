"""The transport over a byte stream: an inherited socket, a socket pair, or a codec such as WebSocket."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Protocol, cast

from bollard.protocol import limits
from bollard.wire.errors import FrameError
from bollard.wire.limits import CLOSE_FLUSH_S, WRITE_HARD_LIMIT_BYTES, WRITE_HIGH_WATER_BYTES, WRITE_STALL_S
from bollard.wire.outbox import Outbox
from bollard.wire.transport import Receiver


class LineFramer:
    """Splits a byte stream into frames at newlines. Holds at most one frame's limit of bytes.

    An oversized line is reported once and skipped.
    """

    def __init__(self, frame_bytes: int = limits.FRAME_BYTES) -> None:
        self._limit = frame_bytes
        self._tail = bytearray()  # grows in place, so that a frame that arrives byte by byte is not copied each time
        self._skipping = False

    @property
    def held_bytes(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._tail)

    def feed(self, data: bytes) -> list[bytes | FrameError]:
        """Return the frames that `data` completes, with a `FrameError` in place of each oversized one."""
        frames: list[bytes | FrameError] = []
        *lines, rest = data.split(b"\n")
        if lines:
            if self._skipping:
                self._skipping = False
                del lines[0]
            elif self._tail:
                lines[0] = bytes(self._tail) + lines[0]
                self._tail.clear()
            if len(data) + len(lines[0] if lines else b"") <= self._limit:
                frames.extend(lines)
            else:
                frames.extend(line if len(line) <= self._limit else self._oversized() for line in lines)
        if not self._skipping:
            if len(self._tail) + len(rest) > self._limit:
                self._tail = bytearray()
                self._skipping = True
                frames.append(self._oversized())
            else:
                self._tail += rest
        return frames

    def end(self) -> FrameError | None:
        """Return an error if the stream ended inside a frame."""
        if not self._tail and not self._skipping:
            return None
        return FrameError("half_frame", "the stream ended inside a frame")

    def _oversized(self) -> FrameError:
        return FrameError("oversized", f"a frame is larger than {self._limit} bytes")


class Codec(Protocol):
    """Encodes frames into bytes and decodes bytes into frames."""

    def encode(self, frames: Sequence[bytes]) -> bytes:
        """Return the bytes that carry `frames`."""
        ...

    def decode(self, data: bytes) -> tuple[list[bytes | FrameError], bytes]:
        """Return the frames that `data` completes, and bytes to send back (handshakes, pongs)."""
        ...

    def end(self) -> FrameError | None:
        """Return an error if the stream ended inside a frame."""
        ...

    def farewell(self, reason: str) -> bytes:
        """Return the bytes to send before closing."""
        ...

    @property
    def finished(self) -> str | None:
        """The reason why the stream has ended, once the codec knows it."""
        ...


class LineCodec:
    """Newline-delimited frames."""

    finished: str | None = None

    def __init__(self) -> None:
        self._framer = LineFramer()

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
        self._outbox = Outbox(self._write, taken=self._count_taken, stalled=self._cut, stall_s=stall_s)
        self._written = 0
        self._read: int | None = None
        self._stream: asyncio.Transport | None = None
        self._receiver: Receiver | None = None
        self._early: list[bytes | FrameError] = []
        self._lost: str | None = None
        self._closing: str | None = None
        self._reading = False
        self._abort_timer: asyncio.TimerHandle | None = None

    # --- callbacks of asyncio ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._stream = cast("asyncio.Transport", transport)
        self._stream.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        if not self._reading:
            self._stream.pause_reading()
            # asyncio of Python 3.11.2 starts reading after connection_made in spite of the pause.
            asyncio.get_running_loop().call_soon(self._pause_again)

    def _pause_again(self) -> None:
        if not self._reading and self._stream is not None and not self._stream.is_closing():
            self._stream.resume_reading()
            self._stream.pause_reading()

    def data_received(self, data: bytes) -> None:
        frames, answer = self._codec.decode(data)
        if answer and self._stream is not None:
            self._write_bytes(self._stream, answer)
        if self._receiver is None:
            self._early.extend(frames)  # frames that arrived with the end of a handshake
        elif frames:
            self._receiver.frames_received(frames)
        if self._codec.finished is not None:
            self.close(self._codec.finished)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        # A peer that ends with unread bytes resets the connection.
        is_end = exc is None or isinstance(exc, ConnectionError)
        reason = self._closing or ("the peer closed the connection" if is_end else f"{type(exc).__name__}: {exc}")
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

    @property
    def sent_bytes(self) -> int:
        """Counts line framing, one newline for each frame. Other codecs add bytes that are not counted."""
        return self._written + self._outbox.waiting_bytes + self._outbox.waiting_frames

    @property
    def read_bytes(self) -> int | None:
        return self._read

    def peer_ended(self, unread_bytes: int) -> None:
        """Record that the peer's process exited with `unread_bytes` left in its socket."""
        if self._lost is None and self._closing is None:
            self._read = self._count_taken() - unread_bytes

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
        if self._stream is None:
            return
        data = self._codec.encode(frames)
        if self._stream.is_closing():
            self._written += len(data)  # never read, but the offsets of sent frames must stay behind what was read
        else:
            self._write_bytes(self._stream, data)

    def _write_bytes(self, stream: asyncio.Transport, data: bytes) -> None:
        self._written += len(data)
        stream.write(data)
        if stream.get_write_buffer_size() > WRITE_HARD_LIMIT_BYTES:
            # Only frames that never wait, such as refusals, get here: the peer sends requests and never reads.
            self._cut()

    def _count_taken(self) -> int:
        """Return the bytes that the peer, or the operating system, has taken."""
        return self._written - (0 if self._stream is None else self._stream.get_write_buffer_size())

    def _cut(self) -> None:
        self._closing = self._closing or "the peer does not read"
        self._outbox.close(self._closing)
        if self._stream is not None:
            self._stream.abort()


async def connect_socket(sock: socket.socket) -> StreamTransport:
    """Return a line-framed transport over a connected stream socket. The transport owns the socket."""
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    _, transport = await loop.create_connection(lambda: StreamTransport(LineCodec()), sock=sock)
    return transport
