"""What a runner sends, taken into its run: judged, recorded, and answered by whoever it asks."""

from typing import Final, Literal

from bollard.host.runs.api_call import ApiCall
from bollard.host.runs.live import LiveRun
from bollard.host.runs.payloads import judge_result, withheld_content
from bollard.protocol import TERMINAL_TYPES, JsonObject
from bollard.wire import Delta, RunEnd, Strike, WorkerResult

__all__ = ["RunnerOutput"]

_REFUSED: Final = {"late": "it came after the terminal result", "too_large": "it is larger than 1 MiB"}


class RunnerOutput:
    """Of one run. Implements `RunSink` of the wire."""

    def __init__(self, run: LiveRun) -> None:
        self._run = run
        self._course = run.course
        self._recording = run.recording

    def delta(self, delta: Delta, size: int) -> None:
        if not self._course.ending:
            self._run.touch()
            self._recording.delta(delta, size)

    def result(self, result: WorkerResult) -> None:
        if self._course.ending:
            return
        run = self._run
        result = self._recording.shown(result)
        judged = judge_result(result, run.grant, run.revoked, run.ports.terms)
        if judged.blob is not None and run.withholds(judged.blob):
            judged = withheld_content(result)
        if judged.type in TERMINAL_TYPES:
            for told in tuple(run.lending):
                told()
        turn = run.touch()
        if judged.delta is not None:
            self._recording.piece(judged)
        else:
            self._recording.add(judged, result.sequence, judged.expects)
            if judged.blob is not None:
                turn.blobs.append(judged.blob)
        turn.size += result.size_bytes
        turn.source_seq = result.sequence
        if judged.type == "action.requested":
            self._course.actions.begin(result.data)

    def gap(self, first: int, last: int) -> None:
        self._run.record("result.gap", {"first": first, "last": last})

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        self._run.record("result.rejected", {"sequence": sequence, "reason": why, "problem": _REFUSED[why]})
        turn = self._run.writer.turn
        turn.source_seq = max(sequence, turn.source_seq)  # it took part in the window: its credit returns

    def called(self, call: ApiCall) -> None:
        self._run.called(call)

    def crowded(self, call: ApiCall, times: int) -> None:
        self._run.ports.api.crowded(self._run, call, times)

    def struck(self, strike: Strike) -> None:
        data: JsonObject = {"reason": strike.fault, "problem": strike.detail, "strike": strike.count}
        self._run.record("result.rejected", data)
        if strike.ends == "run":
            self._run.give_up("broken", f"the worker broke the protocol {strike.count} times, last: {strike.detail}")

    def ended(self, end: RunEnd) -> None:
        state = self._course.state
        if end.how == "answered" and state.cancel is not None and state.terminal is None:
            self._run.ports.misbehaved(self._run)  # its grace is over and the runner still ignores its cancellation
        self._run.give_up(end.how, end.reason or "")
