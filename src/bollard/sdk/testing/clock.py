"""The clock of the harness: the system's, or one that a test advances."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """The time source of the in-memory host."""

    def now(self) -> float:
        """Epoch seconds."""
        ...

    def monotonic(self) -> float:
        """Monotonic seconds."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once after a delay. Returns a function that cancels it."""
        ...


class SystemClock:
    """The machine's time."""

    def now(self) -> float:
        """Epoch seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after `delay_s`. Returns a function that cancels it."""
        return asyncio.get_running_loop().call_later(delay_s, callback).cancel


class ManualClock:
    """Time that stands still until a test advances it."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._waiting: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        """Epoch seconds."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after `delay_s`. Returns a function that cancels it."""
        entry = (self._now + delay_s, callback)
        self._waiting.append(entry)

        def give_up() -> None:
            if entry in self._waiting:
                self._waiting.remove(entry)

        return give_up

    def advance(self, seconds: float) -> None:
        """Advance the time, and run the due callbacks in order."""
        self._now += seconds
        due = sorted((entry for entry in self._waiting if entry[0] <= self._now), key=lambda entry: entry[0])
        self._waiting = [entry for entry in self._waiting if entry not in due]
        for _, callback in due:
            callback()
