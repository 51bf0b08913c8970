"""Flow control of a worker: the limits of its log records and its output, its credit window, and the queue of ranged
reads. Pure."""

from collections import deque
from collections.abc import Callable, Hashable

from bollard.protocol import limits
from bollard.wire.limits import (
    CONCURRENT_READS,
    OUTPUT_BURST_BYTES,
    OUTPUT_BURST_LINES,
    OUTPUT_BYTES_PER_S,
    OUTPUT_DROPPED_S,
    OUTPUT_LINES_PER_S,
)


class _TokenBucket:
    def __init__(self, now: float, per_s: float, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float, tokens: int = 1) -> float:
        """Take tokens, also if there are too few. Returns the tokens left; the next refill pays a debt first."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s) - tokens
        self._at = now
        return self._tokens

    def admit(self, now: float) -> bool:
        """Take one token if there is one."""
        if self.take(now) >= 0:
            return True
        self._tokens += 1
        return False


class LogLimiter:
    """Limits log records. It counts dropped records; the count is sent with the next admitted record."""

    def __init__(
        self, now: float, *, per_s: float = limits.LOG_RECORDS_PER_S, burst: int = limits.LOG_RECORDS_BURST
    ) -> None:
        self._records = _TokenBucket(now, per_s, burst)
        self._dropped = 0

    def admit(self, now: float) -> int | None:
        """Return the number of records dropped since the last admitted one, or `None` if this one is dropped too."""
        if not self._records.admit(now):
            self._dropped += 1
            return None
        dropped, self._dropped = self._dropped, 0
        return dropped


class OutputLimiter:
    """Limits the lines and bytes that a worker prints, over both of its pipes.

    Output of native code and children bypasses the worker's own log limit. Lines beyond their rate are dropped and
    counted. Beyond the byte rate reading pauses, so that the writer blocks and not the host.
    """

    def __init__(
        self,
        now: float,
        *,
        bytes_per_s: float = OUTPUT_BYTES_PER_S,
        burst_bytes: int = OUTPUT_BURST_BYTES,
        lines_per_s: float = OUTPUT_LINES_PER_S,
        burst_lines: int = OUTPUT_BURST_LINES,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._bytes = _TokenBucket(now, bytes_per_s, burst_bytes)
        self._lines = _TokenBucket(now, lines_per_s, burst_lines)
        self._dropped = 0
        self._noticed_at: float | None = None

    def read(self, size: int, now: float) -> float:
        """Count bytes that were read, and return the seconds to pause before the next read."""
        return max(0.0, -self._bytes.take(now, size) / self._bytes_per_s)

    def admit(self, now: float) -> bool:
        """Return whether one more line may be reported. A refused line is counted as dropped."""
        admitted = self._lines.admit(now)
        self._dropped += not admitted
        return admitted

    def drop(self, lines: int) -> None:
        """Count further dropped lines."""
        self._dropped += lines

    def dropped(self, now: float, *, last: bool = False) -> int:
        """Return the lines dropped since the last notice, or 0 if the next notice is not due."""
        if not self._dropped or (
            not last and self._noticed_at is not None and now - self._noticed_at < OUTPUT_DROPPED_S
        ):
            return 0
        found, self._dropped, self._noticed_at = self._dropped, 0, now
        return found


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

    def take(self, number: int, size: int) -> bool:
        """Count an item that was sent or has arrived. Returns whether it fits."""
        self._sizes.append((number, size))
        self._bytes += size
        self.last = number
        return len(self._sizes) <= self._limit_count and self._bytes <= self._limit_bytes

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
