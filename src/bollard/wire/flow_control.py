"""Flow control of a worker connection: the log limiter, the credit window and the queue of ranged reads. Pure."""

from collections import deque
from collections.abc import Callable, Hashable

from bollard.protocol import limits
from bollard.wire.limits import CONCURRENT_READS


class LogLimiter:
    """A token bucket for log records. It counts dropped records; the count is sent with the next admitted record."""

    def __init__(
        self, now: float, *, per_s: float = limits.LOG_RECORDS_PER_S, burst: int = limits.LOG_RECORDS_BURST
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._at = now
        self._dropped = 0

    def admit(self, now: float) -> int | None:
        """Return the number of records dropped since the last admitted one, or `None` if this one is dropped too."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s)
        self._at = now
        if self._tokens < 1:
            self._dropped += 1
            return None
        self._tokens -= 1
        dropped, self._dropped = self._dropped, 0
        return dropped


class Window:
    """The items sent and not credited yet, by count and bytes (§11). Sender and receiver each keep one.

    The sender checks `fits` before it sends. The receiver checks it on arrival and detects an overrun. Credit is
    cumulative: "committed through n".
    """

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
        """The number of uncredited items."""
        return len(self._sizes)

    @property
    def outstanding_bytes(self) -> int:
        """The bytes of the uncredited items."""
        return self._bytes

    def fits(self, size: int) -> bool:
        """Whether one more item of `size` bytes may be sent now."""
        return len(self._sizes) < self._limit_count and self._bytes + size <= self._limit_bytes

    def take(self, number: int, size: int) -> None:
        """Count an item that was sent or has arrived."""
        self._sizes.append((number, size))
        self._bytes += size
        self.last = number

    def credit(self, through: int) -> bool:
        """Release the items up to `through`. Returns False if the credit goes backwards or beyond the last item."""
        if through > self.last:
            return False
        if through <= self._credited:
            return through == self._credited
        self._credited = through
        sizes = self._sizes
        while sizes and sizes[0][0] <= through:
            self._bytes -= sizes.popleft()[1]
        return True


class ReadQueue:
    """Limits the ranged reads that one connection serves at the same time, in order of arrival.

    Their responses are the largest of all. A read starts only when its response has room, so that no content waits in
    memory for a worker that reads slowly.
    """

    def __init__(self, limit: int = CONCURRENT_READS) -> None:
        self._limit = limit
        self._active = 0
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._filling = False

    def enter(self, read: Hashable, begin: Callable[[], None]) -> None:
        """Start the read now, or when another read has finished."""
        self._waiting[read] = begin
        self._fill()

    def leave(self) -> None:
        """Free the place of a read whose response was sent."""
        self._active -= 1
        self._fill()

    def forget(self, read: Hashable) -> None:
        """Remove a read that is still waiting."""
        self._waiting.pop(read, None)

    def close(self) -> None:
        """Drop all waiting reads."""
        self._waiting.clear()

    def _fill(self) -> None:
        if self._filling:
            return  # re-entered by a read that finished at once; the outer loop continues
        self._filling = True
        try:
            while self._waiting and self._active < self._limit:
                read = next(iter(self._waiting))
                self._active += 1
                self._waiting.pop(read)()
        finally:
            self._filling = False
