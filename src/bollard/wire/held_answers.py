"""Answers that wait for a peer which is behind with its reading, oldest first. Each is held once, as its bytes."""

import asyncio
from collections import deque
from collections.abc import Callable

from bollard.wire.errors import ChannelClosed
from bollard.wire.limits import WRITE_HARD_LIMIT_BYTES
from bollard.wire.transport import Transport

__all__ = ["HeldAnswers"]


class HeldAnswers:
    """One per peer. It is empty, and costs nothing, as long as the other side keeps up."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: deque[tuple[bytes, Callable[[], None]]] = deque()
        self._leaving: asyncio.Task[None] | None = None
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, frame: bytes, left: Callable[[], None]) -> None:
        """Send this when there is room; `left` is told then. It is not told when the channel goes before."""
        self._waiting.append((frame, left))
        self.bytes += len(frame)
        if self._leaving is None:
            self._leaving = asyncio.get_running_loop().create_task(self._leave())

    def send_some(self) -> None:
        """The channel is about to close: the oldest get the time that everything queued has, and the rest goes."""
        sent = 0
        while self._waiting and (sent := sent + len(self._waiting[0][0])) <= WRITE_HARD_LIMIT_BYTES // 2:
            self._send_next()

    async def _leave(self) -> None:
        try:
            while self._waiting:
                await self._transport.drain()
                if self._waiting:
                    self._send_next()
        except ChannelClosed:
            self._waiting.clear()
            self.bytes = 0
        finally:
            self._leaving = None

    def _send_next(self) -> None:
        frame, left = self._waiting.popleft()
        self.bytes -= len(frame)
        self._transport.send(frame)
        left()
