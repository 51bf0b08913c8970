"""The clocks of one run: its deadline over active time, its idle limit, and the grace of a stop."""

import asyncio
from collections.abc import Callable


class RunTimers:
    """Measures the time of one run on the event loop's clock and calls back. It decides nothing."""

    def __init__(self, deadline_s: float, idle_s: float, *, overdue: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._left_s = deadline_s
        self._idle_s = idle_s
        self._overdue = overdue
        self._running_since: float | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._grace: asyncio.TimerHandle | None = None

    def run(self) -> None:
        """Start the clock of active time."""
        if self._running_since is None:
            self._running_since = self._loop.time()
            self._deadline = self._loop.call_later(max(0.0, self._left_s), self._overdue)

    def pause(self) -> None:
        """Stop the clock while the run waits for a person."""
        if self._running_since is not None:
            self._left_s -= self._loop.time() - self._running_since
            self._running_since = None
        if self._deadline is not None:
            self._deadline.cancel()

    @property
    def left_s(self) -> float:
        """The active time that is left."""
        since = self._running_since
        return self._left_s if since is None else self._left_s - (self._loop.time() - since)

    def idle(self, quiet_s: float) -> bool:
        """Whether a silence of this length exceeds the idle limit."""
        return quiet_s > self._idle_s

    def grace(self, seconds: float, over: Callable[[], None]) -> None:
        """Call `over` when the grace has passed. A new grace replaces the one before."""
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(seconds, over)

    def stop(self) -> None:
        for timer in (self._deadline, self._grace):
            if timer is not None:
                timer.cancel()
