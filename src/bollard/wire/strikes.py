"""Protocol violations and what they cost (§11): three against a run end it, three against a channel end its worker.

Pure counting: the host's end of a channel feeds it and carries out the verdict.
"""

from collections import Counter
from typing import Literal

import msgspec

from bollard.protocol import limits

__all__ = ["Strike", "StrikeBook"]


class Strike(msgspec.Struct, frozen=True, kw_only=True):
    """One violation. `run_id` is absent when it is the channel's."""

    fault: str
    detail: str
    run_id: str | None
    count: int
    ends: Literal["nothing", "run", "worker"]


class StrikeBook:
    """Counts strikes of one channel and of the runs on it."""

    def __init__(self, allowed: int = limits.STRIKES) -> None:
        self._allowed = allowed
        self._runs: Counter[str] = Counter()
        self._channel = 0

    def against_channel(self, fault: str, detail: str) -> Strike:
        self._channel += 1
        ends: Literal["nothing", "worker"] = "worker" if self._channel >= self._allowed else "nothing"
        return Strike(fault=fault, detail=detail, run_id=None, count=self._channel, ends=ends)

    def against_run(self, run_id: str, fault: str, detail: str) -> Strike:
        self._runs[run_id] += 1
        count = self._runs[run_id]
        ends: Literal["nothing", "run"] = "run" if count >= self._allowed else "nothing"
        return Strike(fault=fault, detail=detail, run_id=run_id, count=count, ends=ends)

    def forget(self, run_id: str) -> None:
        """The run has ended."""
        self._runs.pop(run_id, None)
