"""Early start: the runner starts while its run is being committed.

Its output and calls are buffered in order until the commit succeeds, and are dropped if it fails. So nothing that it
does through the host takes effect before the log has the run (ADR 0046).
"""

import asyncio
from collections.abc import Callable
from typing import Literal

from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.runner_output import RunnerOutput
from bollard.host.workers.boundary import RunSlot, WorkerPool
from bollard.protocol import JsonObject, limits
from bollard.wire import Delta, HostRun, RunCall, RunEnd, RunSink, Strike, WorkerResult


def drain_if_overdue(run: HostRun, pool: WorkerPool, slot: RunSlot) -> None:
    """Drain the worker unless it answers `run/start` within the grace of a cancelled run. The caller has sent
    `run/cancel`: the run is over here, and its code may not block the worker any longer."""
    loop = asyncio.get_running_loop()
    since = loop.time() if run.cancelled_at is None else run.cancelled_at
    over_at = since + limits.CANCEL_GRACE_S

    def drain() -> None:
        run.ended.remove_done_callback(ended)
        pool.drain(slot, run.run_id)

    def ended(_: object) -> None:
        timer.cancel()
        if loop.time() >= over_at:
            drain()  # a worker answers when its own grace is over, even if the code still runs

    timer = loop.call_at(over_at, drain)
    run.ended.add_done_callback(ended)


class EarlyStart:
    """Implements `RunSink` until the run is on disk. The window of the run (§11) bounds the buffer."""

    def __init__(self, pool: WorkerPool, slot: RunSlot, run_id: str, request: JsonObject) -> None:
        """Raises `WireError` when the worker is gone."""
        self.pool = pool
        self.slot = slot
        self._buffer: list[Callable[[RunSink], None]] = []
        self._crowd = 0
        self._dropped = False
        self._run = slot.start_run(run_id, request, self)

    def give_to(self, run: LiveRun) -> None:
        """Send new output to the run, which is on disk now."""
        run.attach(self._run, self.slot.touch)
        self._run.redirect(RunnerOutput(run))

    def tell(self, run: LiveRun) -> None:
        """Replay the buffered output in order."""
        buffer, self._buffer = self._buffer, []
        output = RunnerOutput(run)
        for replay in buffer:
            replay(output)

    def drop(self) -> None:
        """Discard the buffer and stop the runner, because the commit failed."""
        self._dropped = True
        self._buffer.clear()
        if not self._run.ended.done():
            self._run.cancel("host.lost")
            drain_if_overdue(self._run, self.pool, self.slot)

    def _keep(self, replay: Callable[[RunSink], None]) -> None:
        if not self._dropped:
            self._buffer.append(replay)

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
        """A call of a dropped run is not answered: it ends with its run."""
        self._keep(lambda sink: None if call.given_up else sink.called(call))

    def crowded(self, call: RunCall, times: int) -> None:
        """A flood is buffered as its first call and a count."""
        self._crowd += times
        if self._crowd == times:
            self._keep(lambda sink: sink.crowded(call, self._crowd))

    def struck(self, strike: Strike) -> None:
        self._keep(lambda sink: sink.struck(strike))

    def ended(self, end: RunEnd) -> None:
        self._keep(lambda sink: sink.ended(end))
