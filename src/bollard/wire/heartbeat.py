"""Notices a worker whose loop does not turn: pings it, and tells once when a ping stays unanswered."""

import asyncio
from collections.abc import Awaitable, Callable

from bollard.wire.errors import CallTimeout, WireError
from bollard.wire.limits import HEARTBEAT_S

__all__ = ["watch_heartbeat"]


async def watch_heartbeat(
    ping: Callable[[], Awaitable[None]],
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    every_s: float = HEARTBEAT_S,
) -> str:
    """Returns why the worker counts as lost: it did not answer in time, or its channel is gone."""
    while True:
        try:
            await ping()
        except CallTimeout as error:
            return f"the worker's loop is blocked: {error}"
        except WireError as error:
            return str(error)
        await pause(every_s)
