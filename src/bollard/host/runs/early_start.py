"""A runner that thinks while its run is on its way to the disk.

Nobody hears it before: what it says and asks is kept, in order, until the run is there, and is dropped where the run
never will be. So nothing it does through the host has an effect that the log does not know (decision 0046).
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.runner_output import RunnerOutput
from bollard.host.workers.boundary import RunSlot, WorkerPool
from bollard.protocol import JsonObject, limits
from bollard.wire import Delta, HostRun, RunCall, RunEnd, RunSink, Strike, WorkerResult

# Runner code that goes on when its run is over here: its worker is told to stop it, and is replaced where it does not.
#
# A run ends with its last result, a strike or another owner; its code may not hold a worker for longer than a
# cancelled run may. Whoever calls this has sent `run/cancel`.


def see_out(run: HostRun, pool: WorkerPool, slot: RunSlot) -> None:
    """Drain the worker unless it answers `run/start` within the grace of a cancelled run."""
    loop = asyncio.get_running_loop()
    since = loop.time() if run.cancelled_at is None else run.cancelled_at
    over_at = since + limits.CANCEL_GRACE_S

    def drain() -> None:
        run.ended.remove_done_callback(ended)
        pool.drain(slot, run.run_id)

    def ended(_: object) -> None:
        timer.cancel()
        if loop.time() >= over_at:
            drain()  # when its own grace is over, a worker answers for code that still runs

    timer = loop.call_at(over_at, drain)
    run.ended.add_done_callback(ended)


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
        self._run.redirect(RunnerOutput(run))

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
