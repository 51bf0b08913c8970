"""Two transports joined in memory: the same boundary without a socket, for tests and for hosts in one process."""

import asyncio
from collections.abc import Callable, Sequence

from bollard.protocol import limits
from bollard.wire.errors import FrameError
from bollard.wire.limits import WRITE_HARD_LIMIT_BYTES, WRITE_HIGH_WATER_BYTES, WRITE_STALL_S
from bollard.wire.outbox import Outbox
from bollard.wire.transport import Receiver

__all__ = ["MemoryTransport", "memory_pair"]

Later = Callable[[Callable[[], None]], object]
"""Does something in a later turn of the loop."""


class MemoryTransport:
    """One end of a pair. Frames arrive in a later turn of the loop, as they would from a socket."""

    def __init__(
        self, frame_bytes: int = limits.FRAME_BYTES, *, stall_s: float = WRITE_STALL_S, later: Later | None = None
    ) -> None:
        self._frame_bytes = frame_bytes
        self._later = later or asyncio.get_running_loop().call_soon
        self._outbox = Outbox(self._write, taken=self._taken, stalled=self.cut, stall_s=stall_s)
        self._heard = 0
        self._other: MemoryTransport | None = None
        self._receiver: Receiver | None = None
        self._inbox: list[bytes | FrameError] = []
        self._inbox_bytes = 0
        self._scheduled = False
        self._paused = False
        self._lost: str | None = None
        self._closed_here = False
        self._told = False

    def join(self, other: "MemoryTransport") -> None:
        self._other = other

    @property
    def congested(self) -> bool:
        return self._outbox.congested

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
        """The other end is gone, or this one is."""
        if self._lost is None:
            self._lost = reason
            self._outbox.close(reason)
            self._schedule()

    def _write(self, frames: Sequence[bytes]) -> None:
        if self._other is not None:
            self._other.accept(frames)

    def accept(self, frames: Sequence[bytes]) -> None:
        """Frames of the other end."""
        if self._lost is not None:
            return
        for frame in frames:
            if len(frame) > self._frame_bytes:
                self._inbox.append(FrameError("oversized", f"a frame is larger than {self._frame_bytes} bytes"))
            else:
                self._inbox.append(frame)
                self._inbox_bytes += len(frame)
        if self._inbox_bytes > WRITE_HIGH_WATER_BYTES and self._other is not None:
            self._other.hold_back()
        if self._inbox_bytes > WRITE_HARD_LIMIT_BYTES and self._other is not None:
            self._other.cut()
        self._schedule()

    def cut(self) -> None:
        """The other end does not read: both are gone."""
        self.lose("the peer does not read")
        if self._other is not None:
            self._other.lose("the peer closed: the peer does not read")

    @property
    def heard_bytes(self) -> int:
        """Bytes that were ever delivered here."""
        return self._heard

    def _taken(self) -> int:
        return 0 if self._other is None else self._other.heard_bytes

    def hold_back(self) -> None:
        """The other end has more unread bytes than it likes."""
        self._outbox.pause()

    def go_on(self) -> None:
        """The other end has read them."""
        self._outbox.resume()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._later(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._receiver is None or self._told:
            return
        if self._closed_here:
            self._inbox.clear()
        elif self._paused:
            return
        self._heard += self._inbox_bytes
        frames, self._inbox, self._inbox_bytes = self._inbox, [], 0
        if frames:
            self._receiver.frames_received(frames)
            if self._other is not None:
                self._other.go_on()
            if self._lost is not None:
                self._schedule()  # the loss is told in a turn of its own, as a socket would
        elif self._lost is not None:
            self._told = True
            self._receiver.connection_lost(self._lost)


def memory_pair(
    frame_bytes: int = limits.FRAME_BYTES, *, later: Later | None = None
) -> tuple[MemoryTransport, MemoryTransport]:
    """Two joined transports. `later` says when what was sent arrives; otherwise that is the next turn of the loop."""
    left, right = MemoryTransport(frame_bytes, later=later), MemoryTransport(frame_bytes, later=later)
    left.join(right)
    right.join(left)
    return left, right
