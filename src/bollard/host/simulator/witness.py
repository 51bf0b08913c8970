"""Sees what runners ask the host for and get, and what was taken from them before they asked."""

from collections import Counter
from collections.abc import Iterable

__all__ = ["Witness"]


class Witness:
    """Outlives every incarnation. Runs in the same process as the simulated workers, so it sees both sides."""

    def __init__(self) -> None:
        self._taken: dict[str, set[str]] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.pulled: dict[str, list[str]] = {}
        """By run, the events that its runner really pulled, in that order."""

    def got(self, run_id: str, event_ids: Iterable[str]) -> None:
        """The runner has the answer to a pull."""
        self.pulled.setdefault(run_id, []).extend(event_ids)

    def revoked(self, run_id: str, operations: Iterable[str]) -> None:
        """The host said that these are taken from the run."""
        self._taken.setdefault(run_id, set()).update(operations)
        self.counts["revocation"] += 1

    def may(self, run_id: str, operation: str) -> bool:
        """Whether the run could still get it, as far as anyone was told; asked before the call leaves."""
        return operation not in self._taken.get(run_id, ())

    def answered(self, run_id: str, operation: str, *, allowed: bool) -> None:
        self.counts[f"call {operation}"] += 1
        if not allowed:
            self.problems.append(f"{run_id}: {operation} succeeded after it was revoked")

    def refused(self, operation: str, code: str) -> None:
        self.counts[f"refused {operation} {code}"] += 1
