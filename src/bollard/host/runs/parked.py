"""Runs that wait for people: their clocks stand still, and so do those of the runs that called them."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from bollard.host.runs.live import LiveRun
from bollard.protocol import JsonObject

__all__ = ["Parked"]


class Parked:
    """One per host: whoever makes a run wait, for whatever reason, says so here."""

    def __init__(self, live: Mapping[str, LiveRun]) -> None:
        self._live = live
        self._counts: dict[str, int] = {}

    def count(self, run_id: str) -> int:
        """For how many answers it waits."""
        return self._counts.get(run_id, 0)

    @contextmanager
    def waiting(self, run: LiveRun, reason: JsonObject) -> Generator[None]:
        """Meanwhile the run and those that called it are `waiting`; `reason` says what for."""
        family = self._family(run)
        for each in family:
            self._counts[each.facts.run_id] = self.count(each.facts.run_id) + 1
            if each.state.status != "waiting":
                each.note("run.waiting", reason, pressing=False)
        try:
            yield
        finally:
            for each in family:
                self._resume(each)

    def _family(self, run: LiveRun) -> list[LiveRun]:
        found = [run]
        while (parent := self._live.get(found[-1].facts.parent_run_id or "")) is not None:
            found.append(parent)
        return found

    def _resume(self, run: LiveRun) -> None:
        run_id = run.facts.run_id
        self._counts[run_id] -= 1
        if self._counts[run_id]:
            return
        del self._counts[run_id]
        if run.state.status == "waiting" and run.state.cancel is None:
            run.note("run.resumed", {}, pressing=False)
