"""The tracer: creates spans and passes them to the export. If tracing is off, it costs one attribute access."""

import random
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Final, Literal

import msgspec

from bollard.host.clock import Clock
from bollard.host.log.records import RunFacts
from bollard.host.telemetry.counts import ModelCalled

# W3C trace context: the trace and the parent span. Pure. The trace of a run follows from its id, or from the
# `traceparent` of its event. It is therefore the same after a restart, and needs no storage.


_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LONGEST: Final = 256
"""The longest accepted header; version 00 has 55 characters."""
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_RATIO_DIGITS: Final = 16
"""The part of a trace id that decides whether the trace is recorded: its last 64 bits, as the SDKs do it."""


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A span that can be a parent."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    sampled: bool

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


class RunTrace(msgspec.Struct, frozen=True, gc=False):
    """The position of a run in its trace."""

    context: TraceContext
    """The run's own span."""
    parent_id: str | None
    """The parent span."""
    traceparent: str
    """The header for the runner."""


def parse_traceparent(text: str | None) -> TraceContext | None:
    """Parse the caller's context; `None` if it is missing or malformed, so that a new trace begins."""
    if not text or len(text) > _LONGEST:
        return None
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1))


def trace_of_run(run_id: str, traceparent: str | None, *, recorded: bool, ratio: float = 1.0) -> RunTrace:
    """The span of a run: a child of the caller's span, or the root of a new trace. If this host records no spans, the
    runner receives the span of the caller, because no other span is exported."""
    digest = blake2b(run_id.encode(), digest_size=24).hexdigest()
    caller = parse_traceparent(traceparent)
    if caller is None:
        trace_id, sampled = digest[:32], recorded and is_chosen(digest[:32], ratio)
        own = TraceContext(trace_id, digest[32:], sampled)
        return RunTrace(own, None, own.traceparent)
    own = TraceContext(caller.trace_id, digest[32:], caller.sampled)
    return RunTrace(own, caller.span_id, own.traceparent if recorded else caller.traceparent)


def is_chosen(trace_id: str, ratio: float) -> bool:
    """Whether a new trace is sampled."""
    return ratio >= 1.0 or int(trace_id[-_RATIO_DIGITS:], 16) < ratio * 16**_RATIO_DIGITS


SpanKind = Literal["server", "client", "internal"]
Attribute = str | int | float | bool


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A finished span."""

    name: str
    kind: SpanKind
    context: TraceContext
    parent_id: str | None
    start_ns: int
    end_ns: int
    attributes: dict[str, Attribute]
    error: str | None = None
    """The type of the error, if any."""


class OpenSpan(msgspec.Struct, frozen=True):
    """A started span."""

    context: TraceContext
    parent_id: str | None
    started_ms: int
    started: float
    """Monotonic time, so that the duration is correct even if the wall clock changes."""


class Tracer:
    """Creates spans. Without an export it only computes the trace of a run. One per host."""

    def __init__(self, clock: Clock, keep: Callable[[Span], None] | None = None, ratio: float = 1.0) -> None:
        self._clock = clock
        self._keep = keep
        self._ratio = ratio
        self._draw = random.Random().getrandbits  # noqa: S311 -- ids, not secrets: they must be unique and cheap
        self.on = keep is not None
        """Whether spans are created."""

    def run(self, run_id: str, traceparent: str | None) -> RunTrace:
        """The position of a run in its trace."""
        return trace_of_run(run_id, traceparent, recorded=self.on, ratio=self._ratio)

    def open_run(self, trace: RunTrace) -> OpenSpan | None:
        """Start the span of a run; `None` if it is not sampled."""
        return self._begun(trace.context, trace.parent_id) if self.on and trace.context.sampled else None

    def begin(self, traceparent: str | None = None) -> OpenSpan:
        """Start a span below the caller's, or the first of a new trace."""
        caller = parse_traceparent(traceparent)
        if caller is not None:
            return self.under(caller)
        trace_id = f"{self._draw(128):032x}"
        return self._begun(TraceContext(trace_id, self._span_id(), is_chosen(trace_id, self._ratio)), None)

    def under(self, parent: TraceContext) -> OpenSpan:
        """Start a child span."""
        own = TraceContext(parent.trace_id, self._span_id(), parent.sampled)
        return self._begun(own, parent.span_id)

    def end(
        self, span: OpenSpan, name: str, kind: SpanKind, attributes: Mapping[str, Attribute | None], error: str | None
    ) -> None:
        """End a span. Attributes without a value are omitted."""
        if self._keep is None or not span.context.sampled:
            return
        start_ns = span.started_ms * 1_000_000
        lasted_ns = max(0, round((self._clock.monotonic() - span.started) * 1_000_000_000))
        self._keep(
            Span(
                name=name,
                kind=kind,
                context=span.context,
                parent_id=span.parent_id,
                start_ns=start_ns,
                end_ns=start_ns + lasted_ns,
                attributes={key: value for key, value in attributes.items() if value is not None},
                error=error,
            )
        )

    def _span_id(self) -> str:
        return f"{self._draw(64) or 1:016x}"  # zero is not a valid id

    def _begun(self, context: TraceContext, parent_id: str | None) -> OpenSpan:
        return OpenSpan(context, parent_id, self._clock.now_ms(), self._clock.monotonic())


# Names of spans of runs and their calls, by OpenTelemetry's GenAI conventions. Pure. Spans contain names and ids only,
# never messages of people or models.


Attributes = Mapping[str, str | int | float | bool | None]
_PROVIDER: Final = "bollard"
_OPERATIONS: Final = {
    "tools.call": ("execute_tool", "gen_ai.tool.name"),
    "models.invoke": ("chat", "gen_ai.request.model"),
    "models.stream": ("chat", "gen_ai.request.model"),
    "models.embed": ("embeddings", "gen_ai.request.model"),
    "models.rerank": ("rerank", "gen_ai.request.model"),
    "knowledge.retrieve": ("retrieval", "gen_ai.data_source.id"),
}
"""Actions of the run API that have a name in the conventions, and the attribute for their resource."""


SPANS_OF_THEIR_OWN: Final = frozenset({"models.invoke", "models.stream", "models.rerank", "models.embed"})
"""Actions whose spans get more attributes after the gate."""


def run_span(facts: RunFacts, status: str) -> tuple[str, Attributes]:
    """Name and attributes of a run."""
    return f"invoke_agent {facts.agent_id}", {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.agent.id": facts.agent_id,
        "gen_ai.conversation.id": facts.conversation,
        "bollard.run.id": facts.run_id,
        "bollard.run.status": status,
        "bollard.run.parent": facts.parent_run_id,
        "bollard.event.id": facts.event_id,
        "bollard.runner.id": facts.runner_id,
        "bollard.workspace": facts.workspace,
    }


def call_span(facts: RunFacts, action: str, thing: str | None) -> tuple[str, Attributes]:
    """Name and attributes of one call of the run API, with its resource."""
    common: dict[str, str | None] = {
        "gen_ai.agent.id": facts.agent_id,
        "gen_ai.conversation.id": facts.conversation,
        "bollard.run.id": facts.run_id,
        "bollard.api.action": action,
        "bollard.workspace": facts.workspace,
    }
    known = _OPERATIONS.get(action)
    if known is None:
        return f"api {action}", {**common, "bollard.api.resource": thing}
    operation, attribute = known
    name = operation if thing is None else f"{operation} {thing}"
    return name, {**common, "gen_ai.operation.name": operation, "gen_ai.provider.name": _PROVIDER, attribute: thing}


def model_span(facts: RunFacts, called: ModelCalled) -> tuple[str, Attributes]:
    """Name and attributes of one call of a model."""
    operation = _OPERATIONS[f"models.{called.operation}"][0]
    model = called.model or called.model_id
    return f"{operation} {model}", {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": called.provider,
        "gen_ai.request.model": model,
        "gen_ai.request.stream": called.operation == "stream" or None,
        "gen_ai.agent.id": facts.agent_id,
        "gen_ai.conversation.id": facts.conversation,
        "gen_ai.usage.input_tokens": called.prompt_tokens,
        "gen_ai.usage.output_tokens": called.completion_tokens,
        "gen_ai.response.time_to_first_chunk": None if called.first_token_s is None else round(called.first_token_s, 6),
        "bollard.run.id": facts.run_id,
        "bollard.workspace": facts.workspace,
        "bollard.model.id": called.model_id,
        "bollard.model.cost": called.cost,
        "bollard.model.currency": called.currency,
        "error.type": called.reason,
    }
