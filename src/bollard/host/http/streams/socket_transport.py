"""The transport of a worker connection over a WebSocket of the HTTP server: one text message is one frame."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from bollard.wire import FrameError, Receiver
from bollard.wire.limits import CLOSE_FLUSH_S, WRITE_HARD_LIMIT_BYTES, WRITE_HIGH_WATER_BYTES
from bollard.wire.outbox import Outbox

_DONE: Final = 1000
_REASON_BYTES: Final = 100
"""A close frame holds 125 bytes."""


class SocketTransport:
    """Implements `Transport`. `run` moves frames both ways until either side closes."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(self._write, taken=lambda: self._written - self._queued_bytes, stalled=self._cut)
        self._written = 0
        self._receiver: Receiver | None = None
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._to_send = asyncio.Event()
        self._may_read = asyncio.Event()
        self._closing: str | None = None
        self._lost_reported = False

    # --- Transport ---

    @property
    def congested(self) -> bool:
        return self._outbox.congested

    @property
    def sent_bytes(self) -> int:
        return self._written + self._outbox.waiting_bytes

    @property
    def read_bytes(self) -> int | None:
        return None  # only the other machine knows

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume_reading()
        if self._closing is not None:
            self._loop.call_soon(self._report_lost)

    def send(self, frame: bytes) -> None:
        self._outbox.send(frame)

    def flush(self) -> None:
        self._outbox.flush()

    async def drain(self) -> None:
        await self._outbox.drain()

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def close(self, reason: str) -> None:
        """Close the connection. Queued frames are sent if the peer reads quickly; incoming frames are ignored, and
        waiting senders are woken at once."""
        if self._closing is not None:
            return
        self._outbox.flush()
        self._closing = reason
        self._outbox.close(reason)
        self._to_send.set()
        self._may_read.set()
        self._loop.call_soon(self._report_lost)

    # --- reading and writing ---

    async def run(self) -> None:
        """Run until the connection has ended."""
        reading = asyncio.create_task(self._read_all())
        writing = asyncio.create_task(self._write_all())
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            if self._closing is None:
                self.close(_result(reading) or _result(writing) or "the peer closed the connection")
            if not writing.done():
                await asyncio.wait({writing}, timeout=CLOSE_FLUSH_S)
        finally:
            reading.cancel()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
        reason = (self._closing or "").encode()[:_REASON_BYTES].decode(errors="ignore")
        with contextlib.suppress(
            WebSocketDisconnect, RuntimeError, OSError, TimeoutError
        ):  # the peer is gone, or does not read
            async with asyncio.timeout(CLOSE_FLUSH_S):
                await self._socket.close(_DONE, reason)

    async def _read_all(self) -> str:
        while True:
            await self._may_read.wait()
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return f"the peer closed: {message.get('reason') or message.get('code')}"
            if self._closing is None and self._receiver is not None:
                self._receiver.frames_received([_frame(message.get("text"))])

    async def _write_all(self) -> str:
        while self._queue or self._closing is None:
            while self._queue:
                frame = self._queue.popleft()
                try:
                    await self._socket.send_text(frame.decode())
                except (WebSocketDisconnect, RuntimeError, OSError):
                    return "the peer closed the connection"
                self._queued_bytes -= len(frame)
                if self._outbox.congested and self._queued_bytes <= WRITE_HIGH_WATER_BYTES:
                    self._outbox.resume()
            if self._closing is None:
                self._to_send.clear()
                await self._to_send.wait()
        return "closed"

    def _write(self, frames: Sequence[bytes]) -> None:
        size = sum(map(len, frames))
        self._queue.extend(frames)
        self._queued_bytes += size
        self._written += size
        self._to_send.set()
        if self._queued_bytes > WRITE_HARD_LIMIT_BYTES:
            # Only frames that never wait reach this limit, such as errors for a peer that sends and never reads.
            self._cut()
        elif self._queued_bytes > WRITE_HIGH_WATER_BYTES:
            self._outbox.pause()

    def _cut(self) -> None:
        self._queue.clear()
        self.close("the peer does not read")

    def _report_lost(self) -> None:
        if self._receiver is not None and not self._lost_reported:
            self._lost_reported = True
            self._receiver.connection_lost(self._closing or "the peer closed the connection")


def _frame(text: str | None) -> bytes | FrameError:
    return FrameError("binary", "the connection carries text messages only") if text is None else text.encode()


def _result(task: asyncio.Task[str]) -> str | None:
    return task.result() if task.done() and not task.cancelled() and task.exception() is None else None
