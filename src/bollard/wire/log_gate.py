"""A token bucket for log records: what is dropped is counted, and the count travels with the next record. Pure."""

from bollard.protocol import limits

__all__ = ["LogGate"]


class LogGate:
    """Decides for each record whether it may leave now. The caller brings the time."""

    def __init__(
        self, now: float, *, per_s: float = limits.LOG_RECORDS_PER_S, burst: int = limits.LOG_RECORDS_BURST
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = float(burst)
        self._at = now
        self._dropped = 0

    def admit(self, now: float) -> int | None:
        """The number of records dropped since the last admitted one, or `None` when this one is dropped too."""
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_s)
        self._at = now
        if self._tokens < 1:
            self._dropped += 1
            return None
        self._tokens -= 1
        dropped, self._dropped = self._dropped, 0
        return dropped
