"""Flow control by count and bytes (§11), for both ends. Pure bookkeeping; nobody waits here.

The sender asks `fits` before it sends and is told `credited`; the receiver `takes` what arrives and learns whether
that was more than it allowed. Credit is cumulative: "committed through n".
"""

from collections import deque

__all__ = ["Window"]


class Window:
    """Items sent and not credited yet. The same book is kept by the sender and by the receiver."""

    __slots__ = ("_bytes", "_credited", "_limit_bytes", "_limit_count", "_sizes", "last")

    def __init__(self, *, limit_count: int, limit_bytes: int) -> None:
        self._limit_count = limit_count
        self._limit_bytes = limit_bytes
        self._sizes: deque[tuple[int, int]] = deque()
        self._bytes = 0
        self._credited = 0
        self.last = 0
        """The number of the newest item."""

    @property
    def outstanding(self) -> int:
        """Items under way."""
        return len(self._sizes)

    @property
    def outstanding_bytes(self) -> int:
        """Bytes under way."""
        return self._bytes

    def fits(self, size: int) -> bool:
        """Whether one more item of `size` bytes may be sent now."""
        return len(self._sizes) < self._limit_count and self._bytes + size <= self._limit_bytes

    def take(self, number: int, size: int) -> None:
        """An item was sent, or arrived."""
        self._sizes.append((number, size))
        self._bytes += size
        self.last = number

    def credit(self, through: int) -> bool:
        """Everything up to `through` is settled. False for a credit that goes back or beyond what was sent."""
        if through > self.last:
            return False
        if through <= self._credited:
            return through == self._credited
        self._credited = through
        sizes = self._sizes
        while sizes and sizes[0][0] <= through:
            self._bytes -= sizes.popleft()[1]
        return True
