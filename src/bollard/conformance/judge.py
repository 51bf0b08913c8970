"""Checks every frame of a worker in every case: envelope, shape, sequence number, window and active run.

Records the runs, calls and logs of one connection, and collects violations as sentences. Sends nothing.
"""

from dataclasses import dataclass, field

from pydantic import ValidationError

from bollard.protocol import (
    METHODS,
    RESULT_PAYLOADS,
    TERMINAL_TYPES,
    ApiCancel,
    ApiCredit,
    JsonObject,
    JsonValue,
    RunStarted,
    Shape,
    first_problem,
    limits,
)
from bollard.wire.envelope import CallId, Envelope, ErrorResponse, Request, Response
from bollard.wire.strict_json import encode


@dataclass(kw_only=True, slots=True)
class ObservedCall:
    """A call or stream that the worker opened."""

    id: CallId
    method: str
    run_id: str
    action: str
    params: JsonObject
    stream_id: str | None
    chunks_sent: int = 0
    credited: int = 0
    given_up: bool = False
    answered: bool = False


@dataclass(kw_only=True, slots=True)
class ObservedRun:
    """The results and the response of one run."""

    run_id: str
    results: list[JsonObject] = field(default_factory=list[JsonObject])
    sizes: list[int] = field(default_factory=list[int])
    committed: int = 0
    cancelled: bool = False
    credit_at_once: bool = False
    """Whether the kit credits every result on arrival."""
    start_id: CallId | None = None
    answer: Response | ErrorResponse | None = None

    @property
    def terminal(self) -> JsonObject | None:
        last = self.results[-1] if self.results else None
        return last if last is not None and last.get("type") in TERMINAL_TYPES else None

    @property
    def over(self) -> bool:
        return self.answer is not None or self.terminal is not None


class Judge:
    """The frames and violations of one connection."""

    def __init__(self, *, window_results: int, window_bytes: int) -> None:
        self.window_results = window_results
        self.window_bytes = window_bytes
        self.runs: dict[str, ObservedRun] = {}
        self.calls: list[ObservedCall] = []
        self.logs: list[JsonObject] = []
        self.violations: list[str] = []

    def take(self, envelope: Envelope) -> None:
        """Check one request or notification of the worker."""
        if isinstance(envelope, Response | ErrorResponse):
            return
        method = METHODS.get(envelope.method)
        if method is None or method.sent_by != "worker":
            self.violations.append(f"the worker sent {envelope.method}, which is no method of a worker")
            return
        if isinstance(envelope, Request) != (method.result is not None):
            kind = "a notification" if method.result is None else "a request"
            self.violations.append(f"{envelope.method} must be {kind}")
            return
        shape = self._validate(envelope.method, method.params, envelope.params)
        if shape is None:
            return
        if isinstance(envelope, Request):
            self._opened(envelope)
        elif envelope.method == "run/result":
            self._result(envelope.params)
        elif isinstance(shape, ApiCredit):
            self._credited(shape)
        elif isinstance(shape, ApiCancel):
            self._gave_up(shape)
        else:
            self.logs.append(envelope.params)

    def answered(self, run: ObservedRun, answer: Response | ErrorResponse) -> None:
        """Check the response to `run/start`."""
        run.answer = answer
        if isinstance(answer, ErrorResponse):
            return
        started = self._validate("the answer to run/start", RunStarted, answer.result)
        if isinstance(started, RunStarted) and started.last_sequence != len(run.results):
            self.violations.append(
                f"run/start was answered with last_sequence {started.last_sequence} after {len(run.results)} results"
            )
        if run.terminal is None and not run.cancelled:
            self.violations.append("run/start was answered before a terminal result")

    def is_open(self, call: ObservedCall) -> bool:
        """Return whether the worker still waits for the answer."""
        run = self.runs.get(call.run_id)
        return not call.answered and not call.given_up and run is not None and not run.over

    def _validate(self, what: str, shape: type[Shape], value: JsonValue) -> Shape | None:
        try:
            return shape.from_wire(value)
        except ValidationError as error:
            place, problem = first_problem(error, whole="the whole")
            self.violations.append(f"{what} is not valid at {place}: {problem}")
            return None

    def _result(self, params: JsonObject) -> None:
        run = self.runs.get(str(params["run_id"]))
        kind = str(params["type"])
        if run is None:
            self.violations.append(f"a result names the run {params['run_id']!r}, which was never started")
            return
        if run.over:
            self.violations.append(f"a {kind} came after the end of its run")
        if params["sequence"] != len(run.results) + 1:
            self.violations.append(f"result {len(run.results) + 1} of its run is numbered {params['sequence']}")
        if kind in RESULT_PAYLOADS:
            self._validate(f"the data of a {kind}", RESULT_PAYLOADS[kind], params["data"])
        size = len(encode(params))
        if size > limits.RESULT_BYTES:
            self.violations.append(f"a {kind} has {size} bytes, the limit is {limits.RESULT_BYTES}")
        run.results.append(params)
        run.sizes.append(size)
        if kind not in TERMINAL_TYPES:
            self._window(run)

    def _window(self, run: ObservedRun) -> None:
        under_way = run.sizes[run.committed :]
        if len(under_way) > self.window_results:
            self.violations.append(f"{len(under_way)} results are uncommitted, the window is {self.window_results}")
        if sum(under_way) > self.window_bytes:
            self.violations.append(f"{sum(under_way)} bytes are uncommitted, the window is {self.window_bytes}")

    def _opened(self, call: Request) -> None:
        run_id = str(call.params["run_id"])
        run = self.runs.get(run_id)
        if run is None or run.over:
            self.violations.append(f"{call.method} came from a run that is not active")
        if any(seen.id == call.id and not seen.answered for seen in self.calls):
            self.violations.append(f"the request id {call.id!r} is in use already")
        stream_id = call.params.get("stream_id")
        inner = call.params.get("params", {})
        self.calls.append(
            ObservedCall(
                id=call.id,
                method=call.method,
                run_id=run_id,
                action=str(call.params["action"]),
                params=inner if isinstance(inner, dict) else {},
                stream_id=stream_id if isinstance(stream_id, str) else None,
            )
        )

    def _credited(self, credit: ApiCredit) -> None:
        stream = next((seen for seen in self.calls if seen.stream_id == credit.stream_id), None)
        if stream is None:
            self.violations.append("api/credit names a stream that was never opened")
        elif not stream.credited <= credit.index <= stream.chunks_sent:
            self.violations.append(
                f"api/credit says {credit.index} after {stream.credited}, with {stream.chunks_sent} chunks sent"
            )
        else:
            stream.credited = credit.index

    def _gave_up(self, cancel: ApiCancel) -> None:
        seen = next((one for one in self.calls if one.id == cancel.id and one.run_id == cancel.run_id), None)
        run = self.runs.get(cancel.run_id)
        if seen is None:
            self.violations.append(f"api/cancel names {cancel.id!r}, which is no call of its run")
        elif run is None or run.over:
            self.violations.append("api/cancel came from a run that is not active")
        else:
            seen.given_up = True
