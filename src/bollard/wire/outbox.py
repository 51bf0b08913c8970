"""What is queued to leave: batches frames of one turn into one write, and makes producers wait for a slow peer."""

import asyncio
from collections.abc import Callable, Sequence

from bollard.wire.errors import ChannelClosed
from bollard.wire.limits import WRITE_FLUSH_BYTES

__all__ = ["Outbox"]


class Outbox:
    """The sending half of a transport. `write` takes the frames of one batch."""

    def __init__(self, write: Callable[[Sequence[bytes]], None]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._frames: list[bytes] = []
        self._bytes = 0
        self._scheduled = False
        self._waiters: list[asyncio.Future[None]] = []
        self._closed: str | None = None
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
        self.congested = True

    def resume(self) -> None:
        self.congested = False
        self._wake()

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
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
