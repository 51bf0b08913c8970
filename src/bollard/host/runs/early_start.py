"""A runner that thinks while its run is on its way to the disk.

Nobody hears it before: what it says and asks is kept, in order, until the run is there, and is dropped where the run
never will be. So nothing it does through the host has an effect that the log does not know (decision 0046).
"""

from collections.abc import Callable
from typing import Literal

from bollard.host.runs.live import LiveRun
from bollard.host.runs.overstay import see_out
from bollard.host.runs.runner_output import RunnerOutput
from bollard.host.workers.boundary import RunSlot, WorkerPool
from bollard.protocol import JsonObject
from bollard.wire import Delta, RunCall, RunEnd, RunSink, Strike, WorkerResult

__all__ = ["EarlyStart"]


class EarlyStart:
    """Implements `RunSink` until the run is on disk. How much it keeps is bounded by the run's window (§11)."""

    def __init__(self, pool: WorkerPool, slot: RunSlot, run_id: str, request: JsonObject) -> None:
        """Raises `WireError` when the worker is gone."""
        self.pool = pool
        self.slot = slot
        self._kept: list[Callable[[RunSink], None]] = []
        self._crowd = 0
        self._dropped = False
        self._run = slot.start_run(run_id, request, self)

    def give_to(self, run: LiveRun) -> None:
        """The run is on disk: whatever comes now is told to it."""
        run.attach(self._run, self.slot.touch)
        self._run.lead_to(RunnerOutput(run))

    def tell(self, run: LiveRun) -> None:
        """What came before, in its order."""
        kept, self._kept = self._kept, []
        output = RunnerOutput(run)
        for told in kept:
            told(output)

    def drop(self) -> None:
        """There will be no such run."""
        self._dropped = True
        self._kept.clear()
        if not self._run.ended.done():
            self._run.cancel("host.lost")
            see_out(self._run, self.pool, self.slot)

    def _keep(self, told: Callable[[RunSink], None]) -> None:
        if not self._dropped:
            self._kept.append(told)

    # --- what the worker sends (RunSink) ---

    def delta(self, delta: Delta, size: int) -> None:
        self._keep(lambda sink: sink.delta(delta, size))

    def result(self, result: WorkerResult) -> None:
        self._keep(lambda sink: sink.result(result))

    def gap(self, first: int, last: int) -> None:
        self._keep(lambda sink: sink.gap(first, last))

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        self._keep(lambda sink: sink.refused(sequence, why))

    def called(self, call: RunCall) -> None:
        """One of a run that is dropped is not answered: its run ends, and with it the call."""
        self._keep(lambda sink: None if call.given_up else sink.called(call))

    def crowded(self, call: RunCall, times: int) -> None:
        """A flood is kept as its first call and a number."""
        self._crowd += times
        if self._crowd == times:
            self._keep(lambda sink: sink.crowded(call, self._crowd))

    def struck(self, strike: Strike) -> None:
        self._keep(lambda sink: sink.struck(strike))

    def ended(self, end: RunEnd) -> None:
        self._keep(lambda sink: sink.ended(end))
