"""How much of what a worker prints is read and told. Pure; the caller brings the time.

What native code and children print comes over pipes, past the worker's own limit of log records. Lines beyond their
rate are dropped and counted. Beyond the rate of bytes nobody reads for a while: whoever prints waits, not the host.
"""

from bollard.wire.limits import (
    OUTPUT_BURST_BYTES,
    OUTPUT_BURST_LINES,
    OUTPUT_BYTES_PER_S,
    OUTPUT_DROPPED_S,
    OUTPUT_LINES_PER_S,
)

__all__ = ["OutputGate"]


class OutputGate:
    """One per worker, for both of its pipes."""

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
        self._burst_bytes = burst_bytes
        self._lines_per_s = lines_per_s
        self._burst_lines = burst_lines
        self._bytes = float(burst_bytes)
        self._lines = float(burst_lines)
        self._at = now
        self._dropped = 0
        self._said_at: float | None = None

    def read(self, size: int, now: float) -> float:
        """So many bytes were read: seconds for which no more should be."""
        self._pass(now)
        self._bytes -= size
        return max(0.0, -self._bytes / self._bytes_per_s)

    def admit(self, now: float) -> bool:
        """Whether one more line is told; one that is not is counted."""
        self._pass(now)
        if self._lines < 1:
            self._dropped += 1
            return False
        self._lines -= 1
        return True

    def drop(self, lines: int) -> None:
        """Lines that came with one that was not told."""
        self._dropped += lines

    def dropped(self, now: float, *, last: bool = False) -> int:
        """Lines that were dropped since this was last said, where it is time to say it; 0 else."""
        if not self._dropped or (not last and self._said_at is not None and now - self._said_at < OUTPUT_DROPPED_S):
            return 0
        found, self._dropped, self._said_at = self._dropped, 0, now
        return found

    def _pass(self, now: float) -> None:
        seconds, self._at = now - self._at, now
        self._bytes = min(self._burst_bytes, self._bytes + seconds * self._bytes_per_s)
        self._lines = min(self._burst_lines, self._lines + seconds * self._lines_per_s)
