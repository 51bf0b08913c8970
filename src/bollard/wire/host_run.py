"""One run on the host's end of a worker connection: the order of its results, its window, its calls and its strikes.

It does not interpret results or calls.
"""

import asyncio
from array import array
from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from bollard.protocol import TERMINAL_TYPES, AgentAPIError, JsonObject, JsonValue, LogRecord, limits
from bollard.wire.envelope import RESULT_ENVELOPE_BYTES, Delta
from bollard.wire.errors import FrameError
from bollard.wire.flow_control import Window
from bollard.wire.host_calls import RunCall
from bollard.wire.peer import Peer
from bollard.wire.strict_json import encode
from bollard.wire.strikes import Strike

Verdict = Literal["next", "gap", "jump", "duplicate", "late"]


class ResultSequence:
    """Checks the sequence numbers of a run's results (§5). Pure.

    Each result counts at most once and gaps are reported. A result below the newest number is dropped; the host never
    reorders and never waits for a missing one.
    """

    __slots__ = ("_largest_gap", "_newest", "ended", "last")

    def __init__(self, largest_gap: int = limits.WINDOW_RESULTS) -> None:
        self._largest_gap = largest_gap
        self.last = 0
        """The newest accepted number."""
        self._newest = 0  # the newest late number, so that each late result is reported once
        self.ended = False
        """Whether a terminal result was accepted. Every later result is `late`."""

    def judge(self, number: int, *, terminal: bool) -> Verdict:
        """Classify a number. `gap` means accepted, with the numbers from `last + 1` to `number - 1` missing. `jump`
        means refused, because no worker has credit for that many missing results."""
        if number <= self.last or number <= self._newest:
            return "duplicate"
        if self.ended:
            self._newest = number
            return "late"
        missing = number - self.last - 1
        if missing > self._largest_gap:
            return "jump"
        verdict: Verdict = "gap" if missing else "next"
        self.last = number
        self.ended = terminal
        return verdict


_RESULT_FIELDS = frozenset({"run_id", "type", "data", "sequence", "timestamp"})


class WorkerResult(msgspec.Struct, frozen=True):
    """One result with a checked envelope. The payload is not checked here."""

    run_id: str
    type: str
    data: JsonObject
    sequence: int
    timestamp: float | None
    size_bytes: int
    fingerprint: int = 0
    """The hash of its params. Equal results have equal fingerprints within one process."""


ResultFault = Literal["over_credit", "sequence", "duplicate"]
"""Why a result broke the protocol. A duplicate is dropped without a strike."""
RESULT_FAULTS: Mapping[ResultFault, str] = {
    "over_credit": "more results under way than the window allows",
    "sequence": "a result skips more numbers than the window allows",
    "duplicate": "a result has the number of an earlier one and is not the same",
}


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the worker's part of a run ended: answered, refused, or lost with the connection."""

    how: Literal["answered", "refused", "lost"]
    last_sequence: int | None = None
    reason: str | None = None
    unread: Literal["certain", "likely"] | None = None
    """For a lost run: whether the worker never read `run/start`. `likely` means there is no evidence that it did."""


class RunSink(Protocol):
    """Callbacks for the owner of a run, in order of arrival."""

    def delta(self, delta: Delta, size: int) -> None: ...

    def result(self, result: WorkerResult) -> None: ...

    def gap(self, first: int, last: int) -> None:
        """Results `first` to `last` never arrived."""
        ...

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        """A result was refused: it arrived after the terminal result, or exceeds the size limit."""
        ...

    def called(self, call: RunCall) -> None: ...

    def crowded(self, call: RunCall, times: int) -> None:
        """`times` calls, starting with `call`, exceeded the limit of unanswered calls and were refused."""
        ...

    def struck(self, strike: Strike) -> None:
        """The run broke the protocol. With `strike.ends == "run"` the owner must end it."""
        ...

    def ended(self, end: RunEnd) -> None: ...


class HostObserver(Protocol):
    """Callbacks for the owner of a connection, besides those of its runs."""

    def logged(self, record: LogRecord) -> None: ...

    def struck(self, strike: Strike) -> None:
        """The worker broke the protocol. With `strike.ends == "worker"` the connection is being closed."""
        ...

    def batch_ended(self) -> None:
        """All frames that arrived together were handled. The owner commits and returns credit here."""
        ...

    def closed(self, reason: str) -> None: ...


def read_result(params: JsonObject, frame_size: int) -> WorkerResult:
    """Read the envelope of a result. Checked by hand, because this path is hot and the data is already JSON."""
    run_id, kind, data = params.get("run_id"), params.get("type"), params.get("data")
    sequence, timestamp = params.get("sequence"), params.get("timestamp")
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
    if not params.keys() <= _RESULT_FIELDS:
        raise FrameError("envelope", f"a result has no field {min(params.keys() - _RESULT_FIELDS)[:64]!r}")
    # The sender counts its encoded params. Spaces of another encoder do not count.
    encoded = encode(params)
    size = min(frame_size - RESULT_ENVELOPE_BYTES, len(encoded))
    return WorkerResult(run_id, kind, data, sequence, timestamp, size, hash(encoded))


class HostRun:
    """A run that was started on a connection and is not answered yet."""

    def __init__(self, peer: Peer, run_id: str, sink: RunSink, *, window_results: int, window_bytes: int) -> None:
        self.run_id = run_id
        self.ended: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        self._peer = peer
        self._sink = sink
        self._window = Window(limit_count=window_results, limit_bytes=window_bytes)
        self._sequence = ResultSequence(window_results)
        self._fingerprints = array("q", bytes(8 * window_results))
        """Of the newest results, by number modulo the window; 0 for a number that never arrived."""
        self._calls: dict[int | str, RunCall] = {}
        self._answered: dict[int | str, RunCall] = {}
        """Answered calls with an `on_unread` callback, by id, until the worker reuses the id."""
        self._sent = False
        self._start_end_offset: int | None = None
        self._start_id: int | None = None
        self._called = False
        self._early_cancel: str | None = None
        self.cancelled_at: float | None = None
        """When the first cancel was sent, on the loop's clock."""
        self._struck_out = False
        self._over = False

    # --- methods for the owner ---

    def credit(self, sequence: int) -> None:
        """Grant credit: results through `sequence` are committed."""
        if self._window.credit(sequence):
            self._peer.note("run/credit", {"run_id": self.run_id, "sequence": sequence})

    def redirect(self, sink: RunSink) -> None:
        """Replace the sink of this run."""
        self._sink = sink

    def cancel(self, reason: str) -> None:
        """Ask the worker to cancel the run. The reason is a failure code."""
        if not self._sent:
            self._early_cancel = (
                reason  # sent after `run/start`, because the worker ignores a cancel for an unknown run
            )
            return
        if self.cancelled_at is None:
            self.cancelled_at = asyncio.get_running_loop().time()
        self._peer.note("run/cancel", {"run_id": self.run_id, "reason": reason})

    @property
    def last_sequence(self) -> int:
        """The newest accepted result."""
        return self._sequence.last

    # --- callbacks of the connection ---

    def sending(self) -> None:
        """`run/start` is about to be sent. An earlier cancel follows it."""
        self._sent = True
        if self._early_cancel is not None:
            asyncio.get_running_loop().call_soon(self.cancel, self._early_cancel)

    def sent(self, start_id: int, ends_at: int) -> None:
        """`run/start` was sent as request `start_id`; `ends_at` is the offset of its last byte in the stream."""
        self._start_id, self._start_end_offset = start_id, ends_at

    def unread(self, read_bytes: int | None, answered_through: int) -> Literal["certain", "likely"] | None:
        """Return whether a lost worker never read `run/start`.

        `read_bytes` is how much the worker read, if known. `answered_through` is the newest request it answered; it
        reads in order.
        """
        if self._start_id is None or self._start_end_offset is None:
            return "certain"  # it was never sent
        if read_bytes is not None:
            return "certain" if self._start_end_offset > read_bytes else None
        was_read = self._sequence.last > 0 or self._called or self._start_id <= answered_through
        return None if was_read else "likely"

    def take_delta(self, delta: Delta, size: int, fingerprint: int) -> ResultFault | None:
        """Accept a text delta. Returns how it broke the protocol, if it did."""
        if self._struck_out:
            return None
        sequence, number = self._sequence, delta.sequence
        if number == sequence.last + 1 and not sequence.ended:
            sequence.last = number
        else:
            taken, fault = self._judge(number, size, fingerprint, terminal=False)
            if not taken:
                return fault
        self._fingerprints[number % len(self._fingerprints)] = fingerprint
        fits = self._window.take(number, size)
        self._sink.delta(delta, size)
        return None if fits else "over_credit"

    def take_result(self, result: WorkerResult) -> ResultFault | None:
        """Accept a result. Returns how it broke the protocol, if it did. The terminal result needs no credit."""
        if self._struck_out:
            return None
        # An oversized result has no effect, so it does not end the run either.
        terminal = result.type in TERMINAL_TYPES and result.size_bytes <= limits.RESULT_BYTES
        taken, fault = self._judge(result.sequence, result.size_bytes, result.fingerprint, terminal=terminal)
        if not taken:
            return fault
        self._fingerprints[result.sequence % len(self._fingerprints)] = result.fingerprint
        fits = self._window.take(result.sequence, result.size_bytes) or terminal
        if result.size_bytes > limits.RESULT_BYTES:
            self._sink.refused(result.sequence, "too_large")
        else:
            self._sink.result(result)
        return None if fits else "over_credit"

    def _judge(self, number: int, size: int, fingerprint: int, *, terminal: bool) -> tuple[bool, ResultFault | None]:
        """Return whether the result is accepted, and if it is not, how it broke the protocol."""
        first_missing = self._sequence.last + 1
        match self._sequence.judge(number, terminal=terminal):
            case "next":
                return True, None
            case "gap":
                for missing in range(first_missing, number):
                    self._fingerprints[missing % len(self._fingerprints)] = 0
                self._sink.gap(first_missing, number - 1)
                return True, None
            case "jump":
                return False, "sequence"
            case "duplicate":
                return False, None if self._is_known(number, fingerprint) else "duplicate"
            case "late":
                # A late result leaves a record, so it counts against the window.
                fits = self._window.take(number, size)
                self._sink.refused(number, "late")
                return False, None if fits else "over_credit"

    def _is_known(self, number: int, fingerprint: int) -> bool:
        """Whether a dropped result may repeat an earlier one or fill a gap. Nothing is that far behind: the credit for
        what came before the window was returned."""
        if number > self._sequence.last:
            return True  # it came after the end, like the first of its number
        if number <= self._sequence.last - len(self._fingerprints):
            return False
        return self._fingerprints[number % len(self._fingerprints)] in (0, fingerprint)

    def take_call(self, call: RunCall) -> None:
        self._called = True
        if self._struck_out:
            self._deliver_call(call)
            return
        if len(self._calls) >= limits.CALLS_IN_FLIGHT:
            message = f"{limits.CALLS_IN_FLIGHT} calls of this run are unanswered already"
            call.refuse(AgentAPIError(code="rate_limited", message=message, retryable=True))
            self._sink.crowded(call, 1)
            return
        self._answered.pop(call.id, None)  # the worker reuses the id, so it has read that answer
        self._calls[call.id] = call
        call.begin(self._deliver_call)

    def _deliver_call(self, call: RunCall) -> None:
        if self._struck_out or self._over:
            call.refuse(AgentAPIError(code="cancelled", message="the run broke the protocol or has ended"))
        else:
            self._sink.called(call)

    def forget_call(self, call: RunCall) -> None:
        self._calls.pop(call.id, None)
        if call.on_unread is not None:
            self._answered[call.id] = call

    def give_up_call(self, call_id: int | str) -> None:
        """The worker gave up a call. If it was already answered, `on_unread` is called."""
        if call := self._calls.get(call_id):
            call.give_up()
        elif (call := self._answered.pop(call_id, None)) and call.on_unread is not None:
            call.on_unread()

    def struck(self, strike: Strike) -> None:
        """Report a strike. After the strike that ends the run, nothing more of it reaches the sink."""
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
        if not self.ended.done():  # the awaiting task may have cancelled it
            self.ended.set_result(end)
        self._sink.ended(end)


def read_run_end(result: JsonValue) -> RunEnd:
    """Read the response to `run/start`. A response without `last_sequence` counts as a refusal."""
    last = result.get("last_sequence") if isinstance(result, dict) else None
    if isinstance(last, bool) or not isinstance(last, int) or last < 0:
        return RunEnd(how="refused", reason="run/start was answered without last_sequence")
    return RunEnd(how="answered", last_sequence=last)
