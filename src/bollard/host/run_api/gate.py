"""The one gate of the run API: who calls is known from the channel, what it may do from its run's grant (§6).

Checked before any effect: the run is alive, the action exists, calls in flight, rate, budget, size, time left, the
parameters, the grant. Then the handler, within the time that is left. Every call leaves a record.
"""

import asyncio
from collections.abc import Awaitable, Callable
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
"""Hands one piece of an answer on; waits while whoever reads is behind. Raises `WireError` when nobody reads."""
Handler = Callable[[LiveRun, Any], Awaitable[Shape | ConditionalAnswer]]
"""Answers one action for one run that may do it. Raises `ApiRefused` or `HostError`."""

StreamHandler = Callable[[LiveRun, Any, Emit], Awaitable[None]]
"""Answers one action in pieces, each handed on before the next is made."""

_THINGS: Final = (
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
"""Parameters that name what a call is about."""
_MAY_WAIT: Final = frozenset({"tools.call", "platform.request", "agents.call"})
"""What somebody may be asked about first. What bounds each is the run's deadline, and the limit of what it does."""
_GONE: Final = AgentAPIError(code="not_found", message="there is no such run")
_NO_ACTION: Final = AgentAPIError(code="unauthorized", message="the run API has no such action")


class _GateCall:
    """A call that is being answered."""

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
        """Its run ends, or nobody waits for it any more, before anything came of it."""
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
        """By calls a second: few runs have a rate of their own."""
        self._tasks: set[asyncio.Task[None]] = set()

    def called(self, run: LiveRun, call: ApiCall) -> None:
        """A runner asks. Whatever it says of itself in the parameters is not believed: `run` comes of its channel."""
        admitted = self._admit(run, call)
        if isinstance(admitted, AgentAPIError):
            self._deny(run, call, admitted)
            return
        run.say_limited()
        run.calls_in_flight += 1
        run.calls += 1
        span = None if call.action in SPANS_OF_THEIR_OWN else self._span(run)
        asked = _GateCall(run, call, self._clock.monotonic(), span, self._settle)
        run.closing.add(asked.cut)
        task = asyncio.create_task(self._answer(asked, admitted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.on_given_up = partial(self._give_up, asked, task)

    def crowded(self, run: LiveRun, call: ApiCall, times: int) -> None:
        """The channel refused it and its like, as the gate would have."""
        self._note_denied(run, call, "rate_limited", times)

    def _deny(self, run: LiveRun, call: ApiCall, error: AgentAPIError) -> None:
        """Refused before anything happened."""
        self._note_denied(run, call, error.code, 1)
        call.refuse(error)

    def _note_denied(self, run: LiveRun, call: ApiCall, code: str, times: int) -> None:
        """Of a flood the first is recorded, and later how many there were."""
        self._counts.deny(code, times)
        self._end_span(self._span(run), run, call, code)
        limited = code == "rate_limited"
        if not limited or not run.calls_limited:
            self._record(run, call, code, None)
        run.calls_limited += times if limited else 0

    # --- before anything happens ---

    def _admit(self, run: LiveRun, call: ApiCall) -> Strict | AgentAPIError:
        """The checked parameters, or why the call is refused."""
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
            return _error(allowed.code, allowed.sentence)
        return params

    def _crowded(self, run: LiveRun) -> AgentAPIError | None:
        """Too many at once, too fast, or more than its budget."""
        allowed = run.grant.limits
        if run.calls_in_flight >= allowed.calls_in_flight:
            return _error("rate_limited", f"{allowed.calls_in_flight} calls are in flight already", retryable=True)
        wait_s = self._rates_of(allowed.calls_per_s).take(run.facts.run_id, self._clock.monotonic())
        if wait_s is not None:
            details: JsonObject = {"retry_after_s": round(wait_s, 3)}
            return _error("rate_limited", f"a run makes {allowed.calls_per_s} calls a second", details, retryable=True)
        if allowed.calls_per_run is not None and run.calls >= allowed.calls_per_run:
            return _error("budget_exceeded", f"a run of this agent makes {allowed.calls_per_run} calls at most")
        return None

    def _rates_of(self, calls_per_s: int) -> Rates[str]:
        """What may come at once grows and shrinks with the rate."""
        if calls_per_s not in self._rates:
            burst = max(1, calls_per_s * limits.CALLS_BURST // limits.CALLS_PER_S)
            self._rates[calls_per_s] = Rates(calls_per_s * 60, burst)
        return self._rates[calls_per_s]

    # --- answering ---

    async def _answer(self, asked: "_GateCall", params: Strict) -> None:
        run, call = asked.run, asked.call
        try:
            # One that waits for a person is not measured by this clock: the run's own stands still meanwhile.
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
                self._settle(asked, "ok")
                call.answer(answer)
                return
            if call.on_unread is not None:
                call.on_unread()
                call.on_unread = None
        self._settle(asked, error.code)
        call.refuse(error)

    def _give_up(self, asked: "_GateCall", task: "asyncio.Task[None]") -> None:
        """Nobody waits for it any more. It is settled here: a task that has not begun does nothing more at all."""
        asked.cut()
        task.cancel()

    def _settle(self, asked: "_GateCall", outcome: str) -> None:
        """What came of a call, once; the first to know it says it."""
        if asked.settled:
            return
        asked.settled = True
        asked.run.calls_in_flight -= 1
        asked.run.closing.discard(asked.cut)
        self._end_span(asked.span, asked.run, asked.call, None if outcome == "ok" else outcome)
        self._record(asked.run, asked.call, outcome, asked.started)

    def _span(self, run: LiveRun) -> OpenSpan | None:
        return None if run.span is None else self._tracer.under(run.span.context)

    def _end_span(self, span: OpenSpan | None, run: LiveRun, call: ApiCall, error: str | None) -> None:
        if span is not None:
            name, attributes = call_span(run.facts, call.action[:64], _named(call))
            self._tracer.end(span, name, "internal", attributes, error)

    async def _handle(self, run: LiveRun, call: ApiCall, params: Strict) -> JsonObject:
        handler, stream = self.handlers.get(call.action), self.streams.get(call.action)
        if handler is None and stream is None:
            raise ApiRefused("unauthorized", f"{call.action} cannot be answered by this host")
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
            raise ApiRefused("cancelled", "nobody reads the stream any more") from None
        except PayloadTooLarge as error:
            raise ApiRefused("payload_too_large", str(error)) from error

    def _record(self, run: LiveRun, call: ApiCall, outcome: str, started: float | None) -> None:
        """What was asked and what came of it. Nobody waits for it, so it shares a later commit."""
        data: JsonObject = {"action": call.action[:64], "outcome": outcome}
        if started is not None:
            data["ms"] = round((self._clock.monotonic() - started) * 1000, 1)
        if (thing := _named(call, *_THINGS)) is not None:
            data["resource"] = thing
        if (key := _named(call, "key")) is not None:
            data["key"] = key
        if (target := _named(call, "target")) is not None:
            data["target"] = target
        run.note("api.called" if started is not None else "api.denied", data, pressing=False)


def _named(call: ApiCall, *parameters: str) -> str | None:
    """The thing that a call names, as the runner named it: of several the first, of a target its fields."""
    for name in parameters:
        value = call.params.get(name)
        if isinstance(value, list):
            value = ", ".join(each for each in value if isinstance(each, str))
        elif isinstance(value, dict):
            value = encode(value).decode()
        if isinstance(value, str):
            return value[:128]
    return None


def _error(code: Any, message: str, details: JsonObject | None = None, *, retryable: bool = False) -> AgentAPIError:
    return AgentAPIError(code=code, message=message, retryable=retryable, details=details or {})
