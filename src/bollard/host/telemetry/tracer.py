"""Makes spans of what happened, and hands them to whoever keeps them. Off, it costs a look at one attribute."""

import random
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from bollard.host.clock import Clock
from bollard.host.telemetry.trace_context import RunTrace, TraceContext, is_chosen, parse_traceparent, trace_of_run

__all__ = ["Attribute", "OpenSpan", "Span", "SpanKind", "Tracer"]

SpanKind = Literal["server", "client", "internal"]
Attribute = str | int | float | bool


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that took time."""

    name: str
    kind: SpanKind
    context: TraceContext
    parent_id: str | None
    start_ns: int
    end_ns: int
    attributes: dict[str, Attribute]
    error: str | None = None
    """The type of what went wrong, where something did."""


class OpenSpan(msgspec.Struct, frozen=True):
    """One that has begun."""

    context: TraceContext
    parent_id: str | None
    started_ms: int
    started: float
    """Monotonic: a span has the length that passed, whatever the wall clock does."""


class Tracer:
    """One per host. Without anybody to keep spans it only knows which trace a run belongs to."""

    def __init__(self, clock: Clock, keep: Callable[[Span], None] | None = None, ratio: float = 1.0) -> None:
        self._clock = clock
        self._keep = keep
        self._ratio = ratio
        self._draw = random.Random().getrandbits  # noqa: S311 -- names, no secrets: they must differ, and be cheap
        self.on = keep is not None
        """Whether spans are made at all."""

    def run(self, run_id: str, traceparent: str | None) -> RunTrace:
        """Where a run stands in its trace."""
        return trace_of_run(run_id, traceparent, recorded=self.on, ratio=self._ratio)

    def open_run(self, trace: RunTrace) -> OpenSpan | None:
        """The run's own span begins; nothing where nobody would keep it."""
        return self._begun(trace.context, trace.parent_id) if self.on and trace.context.sampled else None

    def begin(self, traceparent: str | None = None) -> OpenSpan:
        """A span under the caller's, or the first of a new trace."""
        caller = parse_traceparent(traceparent)
        if caller is not None:
            return self.under(caller)
        trace_id = f"{self._draw(128):032x}"
        return self._begun(TraceContext(trace_id, self._span_id(), is_chosen(trace_id, self._ratio)), None)

    def under(self, parent: TraceContext) -> OpenSpan:
        """A span inside another one."""
        own = TraceContext(parent.trace_id, self._span_id(), parent.sampled)
        return self._begun(own, parent.span_id)

    def end(
        self, span: OpenSpan, name: str, kind: SpanKind, attributes: Mapping[str, Attribute | None], error: str | None
    ) -> None:
        """It is over. What has no value is left out."""
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
        return f"{self._draw(64) or 1:016x}"  # zero is no id

    def _begun(self, context: TraceContext, parent_id: str | None) -> OpenSpan:
        return OpenSpan(context, parent_id, self._clock.now_ms(), self._clock.monotonic())
