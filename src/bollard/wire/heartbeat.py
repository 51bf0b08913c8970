"""Pings a worker and detects one that does not answer."""

import asyncio
from collections.abc import Awaitable, Callable

from bollard.wire.errors import CallTimeout, WireError
from bollard.wire.limits import HEARTBEAT_CHECK_S, HEARTBEAT_S, HEARTBEAT_SILENT_S


async def watch_heartbeat(
    ping: Callable[[], Awaitable[None]],
    *,
    silent: Callable[[], str | None],
    answered: Callable[[], None],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    every_s: float = HEARTBEAT_S,
    silent_s: float = HEARTBEAT_SILENT_S,
    check_s: float = HEARTBEAT_CHECK_S,
) -> str:
    """Ping until the worker is lost, and return the reason: a timeout, or a closed connection.

    `silent` is called when a ping is unanswered for `silent_s`, and then every `check_s` until the answer arrives. If
    it returns a reason, the watch ends with it. `answered` is called after each answer.
    """
    while True:
        pending = asyncio.ensure_future(ping())
        try:
            wait_s = silent_s
            while not (await asyncio.wait({pending}, timeout=wait_s))[0]:
                if (reason := silent()) is not None:
                    return reason
                wait_s = check_s
            await pending
        except CallTimeout as error:
            return f"the worker's loop is blocked: {error}"
        except WireError as error:
            return str(error)
        finally:
            pending.cancel()
        answered()
        await pause(every_s)
