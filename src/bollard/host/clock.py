"""Time, as a boundary: the real clock, and one that a test or the simulator turns by hand."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for everything that expires."""

    def now_ms(self) -> int:
        """Whole milliseconds of the epoch, for records."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, for deadlines, leases and rates."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands until it is moved."""

    def __init__(self, now_ms: int = 1_700_000_000_000, monotonic: float = 1000.0) -> None:
        self._now_ms = now_ms
        self._monotonic = monotonic

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Somebody set the wall clock; no time has passed."""
        self._now_ms += round(seconds * 1000)
