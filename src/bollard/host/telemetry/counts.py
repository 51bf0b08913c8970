"""Counters of a host: plain numbers, incremented on the event loop and read by the exporters."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from bollard.protocol import ERROR_MEANINGS, FAILURE_MEANINGS

# A histogram that costs less than a microsecond to feed: a bisect in a tuple, two additions.


LATENCY_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""From an immediate response to a slow one."""
MODEL_BOUNDS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""From a local model to one that takes minutes."""
FLUSH_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""From a fast disk to a failing one."""
BATCH_BOUNDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""Entries that shared a commit."""


class Histogram:
    """Counts by bound, each bound inclusive. Fed by one thread."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """One for each bound, and one for larger values."""
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


_OTHER: Final = "other"
_CLASSES: Final = 6
"""Of HTTP statuses: 1xx to 5xx; the first is never used."""


class ModelCalled(msgspec.Struct, frozen=True, kw_only=True):
    """A finished model call, for counters and traces."""

    model_id: str
    provider: str
    model: str
    operation: str
    status: str
    reason: str | None
    prompt_tokens: int | None
    """Reported by the provider; `None` if it did not."""
    completion_tokens: int | None
    guessed_tokens: tuple[int, int]
    """Input and output tokens, estimated if the provider reported none."""
    cost: float | None
    currency: str | None
    latency_s: float
    first_token_s: float | None


class ModelCounts:
    """Counts of model calls. Only saved models are counted, so a plugin cannot create series."""

    __slots__ = ("calls", "cost", "errors", "first_token", "latency", "tokens")

    def __init__(self) -> None:
        self.calls: dict[tuple[str, str, str], int] = {}
        """By model, operation and outcome."""
        self.tokens: dict[tuple[str, str], int] = {}
        """By model and direction, including estimates."""
        self.cost: dict[tuple[str, str], float] = {}
        """By model and currency."""
        self.errors: dict[str, int] = {}
        """By reason."""
        self.latency = Histogram(MODEL_BOUNDS_S)
        self.first_token = Histogram(MODEL_BOUNDS_S)

    def count(self, called: ModelCalled) -> None:
        key = (called.model_id, called.operation, called.status)
        self.calls[key] = self.calls.get(key, 0) + 1
        for direction, tokens in zip(("input", "output"), called.guessed_tokens, strict=True):
            place = (called.model_id, direction)
            self.tokens[place] = self.tokens.get(place, 0) + tokens
        if called.cost is not None and called.currency is not None:
            place = (called.model_id, called.currency)
            self.cost[place] = self.cost.get(place, 0.0) + called.cost
        if called.reason is not None:
            self.errors[called.reason] = self.errors.get(called.reason, 0) + 1
        self.latency.observe(called.latency_s)
        if called.first_token_s is not None:
            self.first_token.observe(called.first_token_s)


class RunCounts:
    """Counts of runs, their calls and their approvals. One per host."""

    __slots__ = (
        *("actions", "approvals", "begun", "denied", "ended", "first_delta", "models"),
        *("programs", "programs_running", "records_lost", "retrieval_time", "retrievals"),
    )

    def __init__(self) -> None:
        self.begun = 0
        self.ended: dict[tuple[str, str], int] = {}
        """By status and reason; completed runs have no reason."""
        self.denied: dict[str, int] = {}
        """Calls of the run API that were refused before they had any effect, by code."""
        self.actions: dict[tuple[str, str], int] = {}
        """Calls of capabilities, by kind and outcome."""
        self.approvals: dict[str, int] = {}
        """Records of approvals that are on disk, by type."""
        self.retrievals: dict[str, int] = {}
        """Queries of knowledge bases, by outcome."""
        self.retrieval_time = Histogram(LATENCY_BOUNDS_S)
        self.programs: dict[str, int] = {}
        """Programs in the sandbox that ended, by outcome."""
        self.programs_running = 0
        self.records_lost = 0
        """Records that no call waited for (class B) and that never reached the log."""
        self.first_delta = Histogram(LATENCY_BOUNDS_S)
        """Seconds from the start of a run to its first delta."""
        self.models = ModelCounts()

    def end(self, status: str, reason: str | None) -> None:
        """Count an ended run. A reason of the runner's own is counted as `other`, so a plugin cannot create series."""
        known = "" if reason is None else reason if reason in FAILURE_MEANINGS else _OTHER
        key = (status, known)
        self.ended[key] = self.ended.get(key, 0) + 1

    def act(self, kind: str, status: str) -> None:
        self.actions[kind, status] = self.actions.get((kind, status), 0) + 1

    def approval(self, record_type: str) -> None:
        self.approvals[record_type] = self.approvals.get(record_type, 0) + 1

    def retrieve(self, outcome: str, seconds: float) -> None:
        known = outcome if outcome == "ok" or outcome in ERROR_MEANINGS else _OTHER
        self.retrievals[known] = self.retrievals.get(known, 0) + 1
        self.retrieval_time.observe(seconds)

    def end_program(self, outcome: str) -> None:
        self.programs[outcome] = self.programs.get(outcome, 0) + 1

    def deny(self, code: str, times: int = 1) -> None:
        known = code if code in ERROR_MEANINGS else _OTHER
        self.denied[known] = self.denied.get(known, 0) + times


class JournalCounts:
    """Counts of commits."""

    __slots__ = ("batch", "flush")

    def __init__(self) -> None:
        self.batch = Histogram(BATCH_BOUNDS)
        self.flush = Histogram(FLUSH_BOUNDS_S)

    def committed(self, entries: int, seconds: float) -> None:
        self.batch.observe(entries)
        self.flush.observe(seconds)


class HttpCounts:
    """Requests by operation and class of status."""

    __slots__ = ("_by_operation",)

    def __init__(self) -> None:
        self._by_operation: dict[str, list[int]] = {}

    def of(self, operation: str) -> list[int]:
        """The counts of one operation, to be bumped in place: `counts[status // 100] += 1`."""
        return self._by_operation.setdefault(operation, [0] * _CLASSES)

    def all(self) -> Iterable[tuple[str, str, int]]:
        """Operation, class and count of all requests."""
        for operation, counts in self._by_operation.items():
            for number, count in enumerate(counts):
                if count:
                    yield operation, f"{number}xx", count


class ProxyCounts:
    """Counts of connections of workers through the proxy of the host."""

    __slots__ = ("active", "bytes", "ended")

    def __init__(self) -> None:
        self.active = 0
        self.ended: Counter[str] = Counter()
        """By outcome."""
        self.bytes: Counter[str] = Counter()
        """Bytes `sent` and `received` by workers."""


class HostCounts:
    """All counters of a host."""

    def __init__(self) -> None:
        self.runs = RunCounts()
        self.commits = JournalCounts()
        self.requests = HttpCounts()
        self.violations: Counter[tuple[str, str]] = Counter()
        """Violations of the protocol by workers, by plugin and kind."""
        self.proxy = ProxyCounts()
