"""The output of a runner: checks results, records them in the run, and passes calls to the run API.

With an early start the runner starts while its run is being committed. Its output and calls are buffered in order until
the commit succeeds, and are dropped if it fails. So nothing that it does through the host takes effect before the log
has the run (ADR 0046).
"""

import asyncio
from collections.abc import Callable
from typing import Final, Literal

from msgspec.structs import replace

from bollard.host.reason import Why, why
from bollard.host.runs.api_call import ApiCall
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.results import judge_result, withheld_content
from bollard.host.workers.boundary import RunSlot, WorkerPool
from bollard.protocol import TERMINAL_TYPES, JsonObject, limits
from bollard.wire import Delta, HostRun, RunCall, RunEnd, RunSink, Strike, WorkerResult

_REFUSED: Final = {"late": "it arrived after the terminal result", "too_large": "it is larger than 1 MiB"}


class RunnerOutput:
    """The output of one run. Implements `RunSink` of the wire."""

    def __init__(self, run: LiveRun, explain: Callable[[str], str] = str) -> None:
        """`explain` adds to the error of a failed run the permission whose lack explains it."""
        self._run = run
        self._recorder = run.recorder
        self._explain = explain

    def delta(self, delta: Delta, size: int) -> None:
        if not self._run.ending and not self._run.output_spent:
            self._run.touch()
            self._recorder.delta(delta, size)

    def result(self, result: WorkerResult) -> None:
        run = self._run
        if self._run.ending or (run.output_spent and result.type not in TERMINAL_TYPES):
            return  # ADR 0084: no credit returns for what is dropped, so that the runner waits until it is stopped
        if result.type == "run.failed" and isinstance(error := result.data.get("error"), str):
            result = replace(result, data={**result.data, "error": self._explain(error)})
        result = self._recorder.scrubbed(result)
        judged = judge_result(result, run.grant, run.revoked, run.environment.terms)
        if judged.blob is not None and run.recorder.withholds(judged.blob):
            judged = withheld_content(result)
        if judged.type in TERMINAL_TYPES:
            for give_back in tuple(run.lending):
                give_back()
        batch = run.touch()
        if judged.delta is not None:
            self._recorder.add_delta(*judged.delta, judged.data, 0)
        else:
            self._recorder.add(judged, result.sequence, judged.expects)
            if judged.blob is not None:
                self._recorder.attach(judged.blob)
        batch.size += result.size_bytes
        batch.source_seq = result.sequence
        if judged.type == "action.requested":
            run.request_action(result.data)

    def gap(self, first: int, last: int) -> None:
        if not self._run.output_spent:
            self._run.record("result.gap", {"first": first, "last": last})

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        if self._run.output_spent:
            return
        self._run.record("result.rejected", {"sequence": sequence, "reason": why, "problem": _REFUSED[why]})
        batch = self._recorder.batch
        batch.source_seq = max(sequence, batch.source_seq)  # the result took part in the window, so its credit returns

    def called(self, call: ApiCall) -> None:
        self._run.called(call)

    def crowded(self, call: ApiCall, times: int) -> None:
        self._run.environment.api.crowded(self._run, call, times)

    def struck(self, strike: Strike) -> None:
        data: JsonObject = {"reason": strike.fault, "problem": strike.detail, "strike": strike.count}
        self._run.record("result.rejected", data)
        if strike.ends == "run":
            sentence = f"the worker broke the protocol {strike.count} times, last: {strike.detail}"
            self._run.give_up("broken", why(sentence, "run.strikes", count=strike.count, fault=strike.fault))

    def ended(self, end: RunEnd) -> None:
        state = self._run.state
        if end.how == "answered" and state.cancel is not None and state.terminal is None:
            self._run.misbehave()
        if end.unread is not None and self._run.reassign is not None and self._run.reassign(end.unread):
            return
        self._run.give_up(end.how, _why_ended(end))


def _why_ended(end: RunEnd) -> Why:
    said = end.reason or ""
    if end.how == "refused" and said:
        return why(said, "run.refused_because", inner={"problem": said})
    return Why(said)


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
        self._run.redirect(RunnerOutput(run, self.slot.explain_failure))

    def tell(self, run: LiveRun) -> None:
        """Replay the buffered output in order."""
        buffer, self._buffer = self._buffer, []
        output = RunnerOutput(run, self.slot.explain_failure)
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
