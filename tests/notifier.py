"""The base of test doubles that a test waits for."""

import asyncio
from collections.abc import Callable

__all__ = ["Notifier"]

PATIENCE_S = 120.0


class Notifier:
    """Wakes the tests that wait for a condition, whenever something happened."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition is true. It is checked after each notification."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter
