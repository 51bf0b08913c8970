"""Time as a boundary, so that tests and the simulator can advance it by hand."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for everything that expires."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, for records."""
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
