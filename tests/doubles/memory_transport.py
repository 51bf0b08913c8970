"""Two joined transports in memory: the transport boundary without a socket."""

import asyncio
from collections.abc import Callable, Sequence

from bollard.protocol import limits
from bollard.wire.errors import FrameError
from bollard.wire.limits import WRITE_HARD_LIMIT_BYTES, WRITE_HIGH_WATER_BYTES, WRITE_STALL_S
from bollard.wire.outbox import Outbox
from bollard.wire.transport import Receiver

Scheduler = Callable[[Callable[[], None]], object]
"""Runs a callback in a later turn of the loop."""


class MemoryTransport:
    """One end of a pair. Frames arrive in a later turn of the loop, as from a socket."""

    def __init__(
        self, frame_bytes: int = limits.FRAME_BYTES, *, stall_s: float = WRITE_STALL_S, later: Scheduler | None = None
    ) -> None:
        self._frame_bytes = frame_bytes
        self._later = later or asyncio.get_running_loop().call_soon
        self._outbox = Outbox(self._write, taken=self._count_taken, stalled=self.cut, stall_s=stall_s)
        self._delivered = 0
        self._written = 0
        self._other: MemoryTransport | None = None
        self._receiver: Receiver | None = None
        self._inbox: list[bytes | FrameError] = []
        self._inbox_bytes = 0
        self._scheduled = False
        self._paused = False
        self._lost: str | None = None
        self._closed_here = False
        self._loss_reported = False

    def join(self, other: "MemoryTransport") -> None:
        self._other = other

    @property
    def congested(self) -> bool:
        return self._outbox.congested

    @property
    def sent_bytes(self) -> int:
        return self._written + self._outbox.waiting_bytes

    @property
    def read_bytes(self) -> int | None:
        return self._other.delivered_bytes if self._other is not None and self._other.closed_here else None

    @property
    def closed_here(self) -> bool:
        """Whether this end closed. It delivers nothing after that."""
        return self._closed_here

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._schedule()

    def send(self, frame: bytes) -> None:
        self._outbox.send(frame)

    def flush(self) -> None:
        self._outbox.flush()

    async def drain(self) -> None:
        await self._outbox.drain()

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._schedule()

    def close(self, reason: str) -> None:
        self._outbox.flush()
        self._closed_here = True
        self.lose(reason)
        if self._other is not None:
            self._other.lose(f"the peer closed: {reason}")

    def lose(self, reason: str) -> None:
        """Mark the connection as lost; the receiver is notified later."""
        if self._lost is None:
            self._lost = reason
            self._outbox.close(reason)
            self._schedule()

    def _write(self, frames: Sequence[bytes]) -> None:
        self._written += sum(map(len, frames))
        if self._other is not None:
            self._other.accept(frames)

    def accept(self, frames: Sequence[bytes]) -> None:
        """Queue frames from the other end."""
        if self._lost is not None:
            return
        for frame in frames:
            if len(frame) > self._frame_bytes:
                self._inbox.append(FrameError("oversized", f"a frame is larger than {self._frame_bytes} bytes"))
            else:
                self._inbox.append(frame)
                self._inbox_bytes += len(frame)
        if self._inbox_bytes > WRITE_HIGH_WATER_BYTES and self._other is not None:
            self._other.pause_sending()
        if self._inbox_bytes > WRITE_HARD_LIMIT_BYTES and self._other is not None:
            self._other.cut()
        self._schedule()

    def cut(self) -> None:
        """Drop the connection because the other end does not read."""
        self.lose("the peer does not read")
        if self._other is not None:
            self._other.lose("the peer closed: the peer does not read")

    @property
    def delivered_bytes(self) -> int:
        """Total bytes delivered to this end."""
        return self._delivered

    def _count_taken(self) -> int:
        return 0 if self._other is None else self._other.delivered_bytes

    def pause_sending(self) -> None:
        """Pause sending: the other end has too many unread bytes."""
        self._outbox.pause()

    def resume_sending(self) -> None:
        """Resume sending: the other end has caught up."""
        self._outbox.resume()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._later(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._receiver is None or self._loss_reported:
            return
        if self._closed_here:
            self._inbox, self._inbox_bytes = [], 0
        elif self._paused:
            return
        self._delivered += self._inbox_bytes
        frames, self._inbox, self._inbox_bytes = self._inbox, [], 0
        if frames:
            self._receiver.frames_received(frames)
            if self._other is not None:
                self._other.resume_sending()
            if self._lost is not None:
                self._schedule()  # the loss is reported in a separate turn, as by a socket
        elif self._lost is not None:
            self._loss_reported = True
            self._receiver.connection_lost(self._lost)


def memory_pair(
    frame_bytes: int = limits.FRAME_BYTES, *, later: Scheduler | None = None
) -> tuple[MemoryTransport, MemoryTransport]:
    """Return two joined transports. `later` schedules delivery; the default is the next turn of the loop."""
    left, right = MemoryTransport(frame_bytes, later=later), MemoryTransport(frame_bytes, later=later)
    left.join(right)
    right.join(left)
    return left, right
