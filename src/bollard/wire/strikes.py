"""Violations of the protocol, and the strikes that count: three against a run end it, three against a connection end
its worker (§11). Pure."""

from collections import Counter
from typing import Literal

import msgspec

from bollard.protocol import limits


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One violation as evidence, whether or not it is a strike."""

    kind: str
    detail: str
    run_id: str | None
    """The run that the frame names. It may be a run of another worker, or no run at all."""
    ends: Literal["nothing", "run", "worker"]


class Strike(msgspec.Struct, frozen=True, kw_only=True):
    """One violation that counts. `run_id` is absent if it counts against the connection."""

    fault: str
    detail: str
    run_id: str | None
    count: int
    ends: Literal["nothing", "run", "worker"]


class StrikeCounter:
    """Counts the strikes of one connection and of its runs."""

    def __init__(self, allowed: int = limits.STRIKES) -> None:
        self._allowed = allowed
        self._runs: Counter[str] = Counter()
        self._connection = 0

    def against_connection(self, fault: str, detail: str) -> Strike:
        self._connection += 1
        ends: Literal["nothing", "worker"] = "worker" if self._connection >= self._allowed else "nothing"
        return Strike(fault=fault, detail=detail, run_id=None, count=self._connection, ends=ends)

    def against_run(self, run_id: str, fault: str, detail: str) -> Strike:
        self._runs[run_id] += 1
        count = self._runs[run_id]
        ends: Literal["nothing", "run"] = "run" if count >= self._allowed else "nothing"
        return Strike(fault=fault, detail=detail, run_id=run_id, count=count, ends=ends)

    def forget(self, run_id: str) -> None:
        """Drop the count of a run that has ended."""
        self._runs.pop(run_id, None)
