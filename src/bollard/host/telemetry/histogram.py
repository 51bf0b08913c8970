"""A histogram that costs less than a microsecond to feed: a bisect in a tuple, two additions."""

from bisect import bisect_left
from typing import Final

__all__ = ["BATCH_BOUNDS", "FLUSH_BOUNDS_S", "LATENCY_BOUNDS_S", "MODEL_BOUNDS_S", "Histogram"]

LATENCY_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""From a runner that answers at once to one that thinks."""
MODEL_BOUNDS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""From a model on this machine to one that thinks for minutes."""
FLUSH_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""From a quick disk to one that is in trouble."""
BATCH_BOUNDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""Entries that shared a commit."""


class Histogram:
    """Counts by bound, each bound inclusive. Fed by one thread."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """One for each bound, and one for what is above all of them."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)
