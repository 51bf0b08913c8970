"""The clocks of one run: its deadline over active time, its idle limit, and the grace of a stop."""

import asyncio
from collections.abc import Callable

__all__ = ["RunTimers"]


class RunTimers:
    """Watches one run on the loop's own time. It tells, it decides nothing."""

    def __init__(self, deadline_s: float, idle_s: float, *, overdue: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._left_s = deadline_s
        self._idle_s = idle_s
        self._overdue = overdue
        self._running_since: float | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._grace: asyncio.TimerHandle | None = None

    def run(self) -> None:
        """Active time passes from now on."""
        if self._running_since is None:
            self._running_since = self._loop.time()
            self._deadline = self._loop.call_later(max(0.0, self._left_s), self._overdue)

    def pause(self) -> None:
        """The run waits for a person: its clock stands still."""
        if self._running_since is not None:
            self._left_s -= self._loop.time() - self._running_since
            self._running_since = None
        if self._deadline is not None:
            self._deadline.cancel()

    @property
    def left_s(self) -> float:
        """Active time that is left."""
        since = self._running_since
        return self._left_s if since is None else self._left_s - (self._loop.time() - since)

    def idle(self, quiet_s: float) -> bool:
        """Whether so long a silence is too long."""
        return quiet_s > self._idle_s

    def grace(self, seconds: float, over: Callable[[], None]) -> None:
        """Tell when the grace is over; a new one takes the place of the one before."""
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(seconds, over)

    def stop(self) -> None:
        for timer in (self._deadline, self._grace):
            if timer is not None:
                timer.cancel()
