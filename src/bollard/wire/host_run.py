"""One run on the host's end of a channel: its results in order, its window, its calls. Knows no meaning of them."""

import asyncio
from typing import Literal, Protocol

import msgspec

from bollard.protocol import TERMINAL_TYPES, AgentAPIError, JsonObject, JsonValue, limits
from bollard.wire.credit import Window
from bollard.wire.delta_frame import RESULT_ENVELOPE_BYTES, Delta
from bollard.wire.errors import FrameError
from bollard.wire.host_calls import RunCall
from bollard.wire.peer import Peer
from bollard.wire.sequence import ResultSequence
from bollard.wire.strict_json import encode
from bollard.wire.strikes import Strike

__all__ = ["HostRun", "RunEnd", "RunSink", "WorkerResult", "read_result"]

_RESULT_FIELDS = frozenset({"run_id", "type", "data", "sequence", "timestamp"})


class WorkerResult(msgspec.Struct, frozen=True):
    """One result, its envelope checked, its payload not: that depends on the type and is the run's business."""

    run_id: str
    type: str
    data: JsonObject
    sequence: int
    timestamp: float | None
    size_bytes: int


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the worker's part of a run ended: answered, refused, or lost with the channel."""

    how: Literal["answered", "refused", "lost"]
    last_sequence: int | None = None
    reason: str | None = None


class RunSink(Protocol):
    """What a run's owner is told, in the order of arrival."""

    def delta(self, delta: Delta, size: int) -> None: ...

    def result(self, result: WorkerResult) -> None: ...

    def gap(self, first: int, last: int) -> None:
        """Results `first` to `last` never arrived."""
        ...

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        """A result without effect: after the terminal one, or larger than a result may be."""
        ...

    def called(self, call: RunCall) -> None: ...

    def crowded(self, call: RunCall, times: int) -> None:
        """So many calls came while as many as may be were unanswered, this one first. They are refused already."""
        ...

    def struck(self, strike: Strike) -> None:
        """The run broke the protocol; `strike.ends == "run"` asks the owner to end it."""
        ...

    def ended(self, end: RunEnd) -> None: ...


def read_result(params: JsonObject, frame_size: int) -> WorkerResult:
    """Check the envelope of a result by hand: this is the warm path, and its data is JSON already."""
    run_id, kind, data, sequence = (params.get(key) for key in ("run_id", "type", "data", "sequence"))
    timestamp = params.get("timestamp")
    if not isinstance(run_id, str):
        raise FrameError("envelope", "a result has a run_id")
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise FrameError("envelope", "a result has a type and an object of data")
    if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 1:
        raise FrameError("envelope", "a result has a sequence of 1 or more")
    if timestamp is not None and (isinstance(timestamp, bool) or not isinstance(timestamp, int | float)):
        raise FrameError("envelope", "a timestamp is a number")
    if timestamp is not None and timestamp < 0:
        raise FrameError("envelope", "a timestamp is not negative")
    if unknown := params.keys() - _RESULT_FIELDS:
        raise FrameError("envelope", f"a result has no field {min(unknown)[:64]!r}")
    # What the sender counted: its params. A peer that writes spaces is judged by what it would be without them.
    size = min(frame_size - RESULT_ENVELOPE_BYTES, len(encode(params)))
    return WorkerResult(run_id, kind, data, sequence, timestamp, size)


class HostRun:
    """A run that was started on a channel and is not answered yet."""

    def __init__(self, peer: Peer, run_id: str, sink: RunSink, *, window_results: int, window_bytes: int) -> None:
        self.run_id = run_id
        self.ended: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        self._peer = peer
        self._sink = sink
        self._window = Window(limit_count=window_results, limit_bytes=window_bytes)
        self._sequence = ResultSequence()
        self._calls: dict[int | str, RunCall] = {}
        self._answered: dict[int | str, RunCall] = {}
        """Calls whose answers somebody wants back if the worker has given them up meanwhile, by id."""
        self._sent = False
        self._early_cancel: str | None = None
        self.cancelled_at: float | None = None
        """When the worker was first asked to stop it, on the loop's clock."""
        self._struck_out = False
        self._over = False

    # --- what the owner does ---

    def credit(self, sequence: int) -> None:
        """Results are committed through `sequence`; the worker may send as many more."""
        if self._window.credit(sequence):
            self._peer.note("run/credit", {"run_id": self.run_id, "sequence": sequence})

    def lead_to(self, sink: RunSink) -> None:
        """From now on somebody else is told."""
        self._sink = sink

    def cancel(self, reason: str) -> None:
        """Ask the worker to stop the run. The reason is a failure code."""
        if not self._sent:
            self._early_cancel = reason  # it must not overtake `run/start`: the worker would not know the run
            return
        if self.cancelled_at is None:
            self.cancelled_at = asyncio.get_running_loop().time()
        self._peer.note("run/cancel", {"run_id": self.run_id, "reason": reason})

    @property
    def last_sequence(self) -> int:
        """The newest accepted result."""
        return self._sequence.last

    # --- what the channel tells ---

    def sending(self) -> None:
        """`run/start` leaves in this step of the loop; a cancel that came before it follows it."""
        self._sent = True
        if self._early_cancel is not None:
            asyncio.get_running_loop().call_soon(self.cancel, self._early_cancel)

    def take_delta(self, delta: Delta, size: int) -> bool:
        """False when it broke the window."""
        if self._struck_out:
            return True
        sequence = self._sequence
        if delta.sequence == sequence.last + 1 and not sequence.ended:
            sequence.last = delta.sequence
        elif (verdict := self._judge(delta.sequence, size, terminal=False)) is not None:
            return verdict
        fits = self._window.fits(size)
        self._window.take(delta.sequence, size)
        self._sink.delta(delta, size)
        return fits

    def take_result(self, result: WorkerResult) -> bool:
        """False when it broke the window. The terminal result needs no credit."""
        if self._struck_out:
            return True
        # One that is too large has no effect, so it ends nothing either.
        terminal = result.type in TERMINAL_TYPES and result.size_bytes <= limits.RESULT_BYTES
        if (verdict := self._judge(result.sequence, result.size_bytes, terminal=terminal)) is not None:
            return verdict
        fits = terminal or self._window.fits(result.size_bytes)
        self._window.take(result.sequence, result.size_bytes)
        if result.size_bytes > limits.RESULT_BYTES:
            self._sink.refused(result.sequence, "too_large")
        else:
            self._sink.result(result)
        return fits

    def _judge(self, number: int, size: int, *, terminal: bool) -> bool | None:
        """What to say of a result that is not accepted, or `None` for one that is."""
        first_missing = self._sequence.last + 1
        match self._sequence.judge(number, terminal=terminal):
            case "next":
                return None
            case "gap":
                self._sink.gap(first_missing, number - 1)
                return None
            case "duplicate":
                return True
            case "late":
                # It leaves a record, so it takes part in the window like any other.
                fits = self._window.fits(size)
                self._window.take(number, size)
                self._sink.refused(number, "late")
                return fits

    def take_call(self, call: RunCall) -> None:
        if self._struck_out:
            self._tell_call(call)
            return
        if len(self._calls) >= limits.CALLS_IN_FLIGHT:
            message = f"{limits.CALLS_IN_FLIGHT} calls of this run are unanswered already"
            call.refuse(AgentAPIError(code="rate_limited", message=message, retryable=True))
            self._sink.crowded(call, 1)
            return
        self._answered.pop(call.id, None)  # the worker uses the id again: it has read that answer
        self._calls[call.id] = call
        call.begin(self._tell_call)

    def _tell_call(self, call: RunCall) -> None:
        if self._struck_out or self._over:
            call.refuse(AgentAPIError(code="cancelled", message="the run broke the protocol or has ended"))
        else:
            self._sink.called(call)

    def forget_call(self, call: RunCall) -> None:
        self._calls.pop(call.id, None)
        if call.on_unread is not None:
            self._answered[call.id] = call

    def give_up_call(self, call_id: int | str) -> None:
        """The worker gave a call up; one that was answered meanwhile is no fault: the answer is dropped unread."""
        if call := self._calls.get(call_id):
            call.give_up()
        elif (call := self._answered.pop(call_id, None)) and call.on_unread is not None:
            call.on_unread()

    def struck(self, strike: Strike) -> None:
        """From the strike that ends the run nothing of it is told any more, whatever else the worker sends."""
        if self._struck_out:
            return
        if strike.ends == "run":
            self._struck_out = True
            self.cancel("runner.protocol")
        self._sink.struck(strike)

    def end(self, end: RunEnd) -> None:
        if self._over:
            return
        self._over = True
        for call in list(self._calls.values()):
            call.give_up()
        if not self.ended.done():  # whoever awaited it may have cancelled it
            self.ended.set_result(end)
        self._sink.ended(end)


def answered(result: JsonValue) -> RunEnd:
    """What the answer to `run/start` says; an answer without a number is a broken one."""
    last = result.get("last_sequence") if isinstance(result, dict) else None
    if isinstance(last, bool) or not isinstance(last, int) or last < 0:
        return RunEnd(how="refused", reason="run/start was answered without last_sequence")
    return RunEnd(how="answered", last_sequence=last)
