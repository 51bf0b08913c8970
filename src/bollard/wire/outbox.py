"""The outgoing queue of a transport: batches frames, applies back-pressure, and detects a peer that never reads."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from bollard.wire.errors import ChannelClosed
from bollard.wire.limits import WRITE_FLUSH_BYTES, WRITE_HARD_LIMIT_BYTES, WRITE_STALL_S
from bollard.wire.transport import Transport


class Outbox:
    """The sending half of a transport. Frames of one loop turn leave in one write."""

    def __init__(
        self,
        write: Callable[[Sequence[bytes]], None],
        *,
        taken: Callable[[], int],
        stalled: Callable[[], None],
        stall_s: float = WRITE_STALL_S,
    ) -> None:
        """`write` sends one batch of frames. `taken` returns the total bytes that the peer took; `stalled` is called
        if that number does not change for `stall_s` while producers wait."""
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
        self._check_timer: asyncio.TimerHandle | None = None
        self.congested = False

    @property
    def waiting_frames(self) -> int:
        """Frames queued for the end of the turn."""
        return len(self._frames)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the queued frames, without the framing of the transport."""
        return self._bytes

    def send(self, frame: bytes) -> None:
        if self._closed is not None:
            return
        self._frames.append(frame)
        self._bytes += len(frame)
        if self._bytes >= WRITE_FLUSH_BYTES:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        if self._frames:
            frames, self._frames, self._bytes = self._frames, [], 0
            self._write(frames)

    def pause(self) -> None:
        """Mark the peer as congested. Repeated calls have no effect."""
        if not self.congested and self._closed is None:
            self.congested = True
            self._schedule_check(self._taken())

    def resume(self) -> None:
        self.congested = False
        self._cancel_check()
        self._wake()

    def _schedule_check(self, taken: int) -> None:
        self._check_timer = self._loop.call_later(self._stall_s, self._check_progress, taken)

    def _check_progress(self, taken_before: int) -> None:
        taken = self._taken()
        if taken == taken_before:
            self._stalled()
        else:
            self._schedule_check(taken)

    def _cancel_check(self) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
            self._check_timer = None

    async def drain(self) -> None:
        while self.congested and self._closed is None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter
        if self._closed is not None:
            raise ChannelClosed(self._closed)

    def close(self, reason: str) -> None:
        """Refuse further frames and fail every waiting `drain`."""
        self._closed = self._closed or reason
        self._frames.clear()
        self._cancel_check()
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class HeldResponses:
    """Encoded responses that wait for a congested peer, oldest first. Empty as long as the peer keeps up."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: deque[tuple[bytes, Callable[[], None]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, frame: bytes, sent: Callable[[], None]) -> None:
        """Send the frame when there is room, then call `sent`. A connection that closes before never calls it."""
        self._waiting.append((frame, sent))
        self.bytes += len(frame)
        if self._sender is None:
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    def send_some(self) -> None:
        """Send the oldest responses before the connection closes; the rest is dropped."""
        sent = 0
        while self._waiting and (sent := sent + len(self._waiting[0][0])) <= WRITE_HARD_LIMIT_BYTES // 2:
            self._send_next()

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._transport.drain()
                if self._waiting:
                    self._send_next()
        except ChannelClosed:
            self._waiting.clear()
            self.bytes = 0
        finally:
            self._sender = None

    def _send_next(self) -> None:
        frame, sent = self._waiting.popleft()
        self.bytes -= len(frame)
        self._transport.send(frame)
        sent()
