"""Counts crashes: when to start again, and when a plugin is quarantined. Pure; the caller brings the time."""

from collections import deque

from bollard.host.limits import WORKER_CRASH_WINDOW_S, WORKER_CRASHES, WORKER_RESTART_S

__all__ = ["CrashBook"]


class CrashBook:
    """The crashes of one plugin within the window."""

    def __init__(self, restart_s: float = WORKER_RESTART_S) -> None:
        self._restart_s = restart_s
        self._at: deque[float] = deque()
        self.quarantined: str | None = None
        """Why the plugin gets no worker any more, until it is pardoned."""

    def recent(self, now: float) -> int:
        """Crashes within the window."""
        return sum(now - at <= WORKER_CRASH_WINDOW_S for at in self._at)

    def crashed(self, now: float, reason: str) -> float | None:
        """Seconds until a new worker may be started, or `None` when the plugin is quarantined."""
        self._at.append(now)
        while self._at and now - self._at[0] > WORKER_CRASH_WINDOW_S:
            self._at.popleft()
        if self.quarantined is None and len(self._at) >= WORKER_CRASHES:
            self.quarantined = f"{len(self._at)} crashes within {WORKER_CRASH_WINDOW_S:g} s, last: {reason}"
        if self.quarantined is not None:
            return None
        return self._restart_s * 2 ** (len(self._at) - 1)

    def pardon(self) -> None:
        """An operator wants it tried again."""
        self._at.clear()
        self.quarantined = None
