"""What is queued to leave: batches frames of one turn into one write, makes producers wait for a slow peer, and notices
one that takes nothing at all."""

import asyncio
from collections.abc import Callable, Sequence

from bollard.wire.errors import ChannelClosed
from bollard.wire.limits import WRITE_FLUSH_BYTES, WRITE_STALL_S

__all__ = ["Outbox"]


class Outbox:
    """The sending half of a transport."""

    def __init__(
        self,
        write: Callable[[Sequence[bytes]], None],
        *,
        taken: Callable[[], int],
        stalled: Callable[[], None],
        stall_s: float = WRITE_STALL_S,
    ) -> None:
        """`write` takes the frames of one batch. `taken` says how many bytes the peer has ever taken, and `stalled` is
        told when that stays the same for `stall_s` while producers wait."""
        self._write = write
        self._taken = taken
        self._stalled = stalled
        self._stall_s = stall_s
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._bytes = 0
        self._scheduled = False
        self._waiters: list[asyncio.Future[None]] = []
        self._closed: str | None = None
        self._look: asyncio.TimerHandle | None = None
        self.congested = False

    def send(self, frame: bytes) -> None:
        if self._closed is not None:
            return
        self._frames.append(frame)
        self._bytes += len(frame)
        if self._bytes >= WRITE_FLUSH_BYTES:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn_ends)

    def _turn_ends(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        if self._frames:
            frames, self._frames, self._bytes = self._frames, [], 0
            self._write(frames)

    def pause(self) -> None:
        """The peer is behind. May be said again while it is."""
        if not self.congested and self._closed is None:
            self.congested = True
            self._look_later(self._taken())

    def resume(self) -> None:
        self.congested = False
        self._look_no_more()
        self._wake()

    def _look_later(self, taken: int) -> None:
        self._look = self._loop.call_later(self._stall_s, self._look_now, taken)

    def _look_now(self, taken_before: int) -> None:
        taken = self._taken()
        if taken == taken_before:
            self._stalled()
        else:
            self._look_later(taken)

    def _look_no_more(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    async def drain(self) -> None:
        while self.congested and self._closed is None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
        if self._closed is not None:
            raise ChannelClosed(self._closed)

    def close(self, reason: str) -> None:
        """Nothing is taken any more; whoever waits is told."""
        self._closed = self._closed or reason
        self._frames.clear()
        self._look_no_more()
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
