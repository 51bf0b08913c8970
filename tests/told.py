"""Somebody who is told things and can be waited for, for every suite that has such a one."""

import asyncio
from collections.abc import Callable

__all__ = ["Told"]

PATIENCE_S = 120.0


class Told:
    """Somebody who is told things and can be waited for."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def tell(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something that was told makes the condition true."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.append(waiter)
                await waiter
