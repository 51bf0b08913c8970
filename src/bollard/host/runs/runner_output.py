"""The output of a runner: checks results, records them in the run, and passes calls to the run API."""

from typing import Final, Literal

from bollard.host.runs.api_call import ApiCall
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.results import judge_result, withheld_content
from bollard.protocol import TERMINAL_TYPES, JsonObject
from bollard.wire import Delta, RunEnd, Strike, WorkerResult

_REFUSED: Final = {"late": "it came after the terminal result", "too_large": "it is larger than 1 MiB"}


class RunnerOutput:
    """The output of one run. Implements `RunSink` of the wire."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._recorder = run.recorder

    def delta(self, delta: Delta, size: int) -> None:
        if not self._run.ending and not self._run.output_spent:
            self._run.touch()
            self._recorder.delta(delta, size)

    def result(self, result: WorkerResult) -> None:
        run = self._run
        if self._run.ending or (run.output_spent and result.type not in TERMINAL_TYPES):
            return  # ADR 0084: no credit returns for what is dropped, so that the runner waits until it is stopped
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
            self._run.give_up("broken", f"the worker broke the protocol {strike.count} times, last: {strike.detail}")

    def ended(self, end: RunEnd) -> None:
        state = self._run.state
        if end.how == "answered" and state.cancel is not None and state.terminal is None:
            self._run.misbehave()
        if end.unread is not None and self._run.reassign is not None and self._run.reassign(end.unread):
            return
        self._run.give_up(end.how, end.reason or "")
