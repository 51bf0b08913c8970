"""The gate of the run API. The connection identifies the run, and the grant of the run decides what it may do (§6).

Before any effect the gate checks: the run is live, calls in flight, rate, budget, the action exists, size, time left,
the parameters, the grant. Then the handler runs within the time that is left. Every call leaves a record.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, cast

import structlog
from pydantic import ValidationError

from bollard.host.agents.rates import Rates
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.grants.check import Denied, check_call
from bollard.host.run_api.refusal import ApiRefused, refusal_of
from bollard.host.runs.api_call import ApiCall, ConditionalAnswer, StreamedCall
from bollard.host.runs.live_run import LiveRun
from bollard.host.telemetry.counts import RunCounts
from bollard.host.telemetry.tracer import SPANS_OF_THEIR_OWN, OpenSpan, Tracer, call_span
from bollard.protocol import ACTIONS, AgentAPIError, JsonObject, Shape, Strict, first_problem, limits
from bollard.wire import ChannelClosed, PayloadTooLarge, encode

_log = structlog.get_logger("bollard.runapi")

Emit = Callable[[JsonObject], Awaitable[None]]
"""Sends one chunk of a response; waits for credit. Raises `WireError` if the reader is gone."""
Handler = Callable[[LiveRun, Any], Awaitable[Shape | ConditionalAnswer]]
"""Performs one permitted action for one run. Raises `ApiRefused` or `HostError`."""

StreamHandler = Callable[[LiveRun, Any, Emit], Awaitable[None]]
"""Performs one action with a streamed response."""

_RESOURCE_PARAMETERS: Final = (
    "model_id",
    "name",
    "kb_id",
    "artifact_id",
    "upload_id",
    "file_id",
    "event_id",
    "agent_id",
    "conversation_id",
    "scope",
    "area",
    "action",
    "names",
)
"""Parameters that name the resource of a call."""
_MAY_WAIT: Final = frozenset({"tools.call", "platform.request", "agents.call"})
"""Actions that may need an approval. The run's deadline and the capability's own limit bound them."""
_RETRIEVE: Final = "knowledge.retrieve"
_GONE: Final = AgentAPIError(code="not_found", message="there is no such run")
_HINTS: Final[Mapping[str, str]] = {
    "payload_too_large": "write large content with artifacts.write, and pass its artifact_id",
    "deadline_exceeded": "do less in one run, or raise deadline_s of the agent",
    "invalid_argument": "correct the field; the reference of the run API lists the parameters",
    "rate_limited": "retry later, and keep fewer calls open",
    "budget_exceeded": "make fewer calls, or raise policy.budget.calls_per_run of the agent",
    "runtime_error": "the log of the host has the error",
}
_NO_ACTION: Final = AgentAPIError(
    code="unauthorized", message="the run API has no such action", hint="check its name, and the version of the host"
)


class _GateCall:
    """A call in progress."""

    __slots__ = ("_settle", "call", "run", "settled", "span", "started")

    def __init__(
        self,
        run: LiveRun,
        call: ApiCall,
        started: float,
        span: OpenSpan | None,
        settle: Callable[["_GateCall", str], None],
    ) -> None:
        self.run = run
        self.call = call
        self.started = started
        self.span = span
        self.settled = False
        self._settle = settle

    def cut(self) -> None:
        """The run ends, or the caller gave up, before there is a result."""
        self._settle(self, "cancelled")


class RunApi:
    """Checks every call of every run and passes it to its handler."""

    def __init__(self, clock: Clock, counts: RunCounts | None = None, tracer: Tracer | None = None) -> None:
        self.handlers: dict[str, Handler] = {}
        self.streams: dict[str, StreamHandler] = {}
        self._counts = counts or RunCounts()
        self._tracer = tracer or Tracer(clock)
        self._clock = clock
        self._rates: dict[int, Rates[str]] = {}
        """By calls per second. Most runs share one rate."""
        self._tasks: set[asyncio.Task[None]] = set()

    def called(self, run: LiveRun, call: ApiCall) -> None:
        """Handle a call of a runner. `run` comes from the connection, never from the parameters."""
        admitted = self._admit(run, call)
        if isinstance(admitted, AgentAPIError):
            self._deny(run, call, admitted)
            return
        run.say_limited()
        run.calls_in_flight += 1
        run.calls += 1
        span = None if call.action in SPANS_OF_THEIR_OWN else self._span(run)
        gate_call = _GateCall(run, call, self._clock.monotonic(), span, self._settle)
        run.closing.add(gate_call.cut)
        task = asyncio.create_task(self._answer(gate_call, admitted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.on_given_up = partial(self._give_up, gate_call, task)

    def crowded(self, run: LiveRun, call: ApiCall, times: int) -> None:
        """The connection refused `times` calls, because too many are unanswered."""
        self._note_denied(run, call, "rate_limited", times)

    def _deny(self, run: LiveRun, call: ApiCall, error: AgentAPIError) -> None:
        self._note_denied(run, call, error.code, 1)
        call.refuse(error)

    def _note_denied(self, run: LiveRun, call: ApiCall, code: str, times: int) -> None:
        """Record a denied call. Of a flood, the first call is recorded, and later the count."""
        self._counts.deny(code, times)
        self._end_span(self._span(run), run, call, code)
        limited = code == "rate_limited"
        if not limited or not run.calls_limited:
            self._record(run, call, code, None)
        run.calls_limited += times if limited else 0

    # --- admission ---

    def _admit(self, run: LiveRun, call: ApiCall) -> Strict | AgentAPIError:
        """The validated parameters, or the error."""
        if run.ending:
            return _GONE
        if (crowd := self._crowded(run)) is not None:
            return crowd
        action = ACTIONS.get(call.action)
        if action is None or action.streamed != call.streamed:
            return _NO_ACTION
        if len(encode(call.params)) > run.grant.limits.payload_bytes:
            return _error("payload_too_large", f"the parameters are larger than {run.grant.limits.payload_bytes} bytes")
        if run.left_s <= 0:
            return _error("deadline_exceeded", "the run has no time left")
        try:
            params = action.params.from_wire(call.params)
        except ValidationError as error:
            field, problem = first_problem(error)
            return _error("invalid_argument", f"{field}: {problem}", {"field": field})
        allowed = check_call(run.grant, run.revoked, call.action, params)
        if isinstance(allowed, Denied):
            return ApiRefused.of(allowed).error
        return params

    def _crowded(self, run: LiveRun) -> AgentAPIError | None:
        """The error for too many calls in flight, per second or per run."""
        allowed = run.grant.limits
        if run.calls_in_flight >= allowed.calls_in_flight:
            return _error("rate_limited", f"{allowed.calls_in_flight} calls are in flight already")
        wait_s = self._rates_of(allowed.calls_per_s).take(run.facts.run_id, self._clock.monotonic())
        if wait_s is not None:
            details: JsonObject = {"retry_after_s": round(wait_s, 3)}
            return _error("rate_limited", f"a run makes {allowed.calls_per_s} calls a second", details)
        if allowed.calls_per_run is not None and run.calls >= allowed.calls_per_run:
            return _error("budget_exceeded", f"a run of this agent makes {allowed.calls_per_run} calls at most")
        return None

    def _rates_of(self, calls_per_s: int) -> Rates[str]:
        """The burst is proportional to the rate."""
        if calls_per_s not in self._rates:
            burst = max(1, calls_per_s * limits.CALLS_BURST // limits.CALLS_PER_S)
            self._rates[calls_per_s] = Rates(calls_per_s * 60, burst)
        return self._rates[calls_per_s]

    # --- responses ---

    async def _answer(self, gate_call: "_GateCall", params: Strict) -> None:
        run, call = gate_call.run, gate_call.call
        try:
            # No timeout for a call that may wait for a person: the clock of the run stands still meanwhile.
            async with asyncio.timeout(None if call.action in _MAY_WAIT else run.left_s):
                answer = await self._handle(run, call, params)
        except TimeoutError:
            error = _error("deadline_exceeded", "the run had no time left before the answer came")
        except ApiRefused as refused:
            error = refused.error
        except HostError as failed:
            error = refusal_of(failed)
        except Exception:  # noqa: BLE001 -- the boundary to every handler: one that fails must not hang its caller
            trace_id = None if run.trace is None else run.trace.context.trace_id
            _log.exception("a call of the run API failed", run=run.facts.run_id, trace=trace_id, action=call.action)
            error = _error("runtime_error", "the host could not answer this call")
        else:
            error = call.unfit(answer)
            if error is None:
                self._settle(gate_call, "ok")
                call.answer(answer)
                return
            if call.on_unread is not None:
                call.on_unread()
                call.on_unread = None
        self._settle(gate_call, error.code)
        call.refuse(error)

    def _give_up(self, gate_call: "_GateCall", task: "asyncio.Task[None]") -> None:
        """The caller gave up. Settled here, because a cancelled task that has not started runs no code."""
        gate_call.cut()
        task.cancel()

    def _settle(self, gate_call: "_GateCall", outcome: str) -> None:
        """Record the outcome of a call. Only the first outcome counts."""
        if gate_call.settled:
            return
        gate_call.settled = True
        run, call = gate_call.run, gate_call.call
        run.calls_in_flight -= 1
        run.closing.discard(gate_call.cut)
        self._end_span(gate_call.span, run, call, None if outcome == "ok" else outcome)
        self._record(run, call, outcome, gate_call.started)

    def _span(self, run: LiveRun) -> OpenSpan | None:
        return None if run.span is None else self._tracer.under(run.span.context)

    def _end_span(self, span: OpenSpan | None, run: LiveRun, call: ApiCall, error: str | None) -> None:
        if span is not None:
            name, attributes = call_span(run.facts, call.action[:64], _named(call))
            self._tracer.end(span, name, "internal", attributes, error)

    async def _handle(self, run: LiveRun, call: ApiCall, params: Strict) -> JsonObject:
        handler, stream = self.handlers.get(call.action), self.streams.get(call.action)
        if handler is None and stream is None:
            raise ApiRefused("unauthorized", f"this host does not support {call.action}")
        if not await run.written():  # a runner reads its own writes
            raise ApiRefused("not_found", _GONE.message)
        if handler is not None:
            answer = await handler(run, params)
            if isinstance(answer, ConditionalAnswer):
                call.on_unread, answer = answer.unread, answer.answer
            return answer.to_wire()
        if stream is not None:
            await self._streamed(stream, run, params, cast("StreamedCall", call))
        return {}

    async def _streamed(self, stream: StreamHandler, run: LiveRun, params: Strict, call: StreamedCall) -> None:
        try:
            await stream(run, params, call.chunk)
        except ChannelClosed:
            raise ApiRefused("cancelled", "the reader closed the stream") from None
        except PayloadTooLarge as error:
            raise ApiRefused("payload_too_large", str(error)) from error

    def _record(self, run: LiveRun, call: ApiCall, outcome: str, started: float | None) -> None:
        """Record the call and its outcome. The record may share a later commit."""
        data: JsonObject = {"action": call.action[:64], "outcome": outcome}
        if started is not None:
            seconds = self._clock.monotonic() - started
            data["ms"] = round(seconds * 1000, 1)
            if call.action == _RETRIEVE:
                self._counts.retrieve(outcome, seconds)
        if (resource := _named(call, *_RESOURCE_PARAMETERS)) is not None:
            data["resource"] = resource
        if (key := _named(call, "key")) is not None:
            data["key"] = key
        if (target := _named(call, "target")) is not None:
            data["target"] = target
        run.note("api.called" if started is not None else "api.denied", data, pressing=False)


def _named(call: ApiCall, *parameters: str) -> str | None:
    """The first of these parameters that is set, as text."""
    for name in parameters:
        value = call.params.get(name)
        if isinstance(value, list):
            value = ", ".join(each for each in value if isinstance(each, str))
        elif isinstance(value, dict):
            value = encode(value).decode()
        if isinstance(value, str):
            return value[:128]
    return None


def _error(code: Any, message: str, details: JsonObject | None = None, *, hint: str = "") -> AgentAPIError:
    return AgentAPIError(
        code=code, message=message, retryable=code == "rate_limited", details=details or {}, hint=hint or _HINTS[code]
    )
