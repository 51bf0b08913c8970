"""Spans as OpenTelemetry sends them: OTLP over HTTP. The only module that knows the library; imported where an endpoint
is set, and nowhere else."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from bollard.host.limits import SPAN_SEND_S
from bollard.host.telemetry.trace_context import TraceContext
from bollard.host.telemetry.tracer import Span

__all__ = ["OtlpSender"]

_KINDS: Final = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
_PATH: Final = "/v1/traces"


class OtlpSender:
    """Sends batches to one collector. Used by one thread."""

    def __init__(self, endpoint: str, *, version: str, instance: str) -> None:
        """`endpoint` is the collector's base, such as `http://127.0.0.1:4318`."""
        # It would say the same again for every batch; our own queue says it once.
        logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + _PATH, timeout=SPAN_SEND_S)
        named = {"service.name": "bollard", "service.version": version, "service.instance.id": instance}
        self._resource = Resource.create(named)  # what OTEL_RESOURCE_ATTRIBUTES says is added
        self._scope = InstrumentationScope("bollard.host", version)

    @property
    def close(self) -> Callable[[], None]:
        """Give up what is being tried."""
        return self._exporter.shutdown

    def __call__(self, spans: Sequence[Span]) -> bool:
        """Whether the collector took them."""
        return self._exporter.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS

    def _readable(self, span: Span) -> ReadableSpan:
        parent = None
        if span.parent_id is not None:
            parent = _context(TraceContext(span.context.trace_id, span.parent_id, span.context.sampled))
        attributes = dict(span.attributes)
        if span.error is not None:
            attributes["error.type"] = span.error
        return ReadableSpan(
            name=span.name,
            context=_context(span.context),
            parent=parent,
            resource=self._resource,
            attributes=attributes,
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.error) if span.error is not None else Status(StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


def _context(context: TraceContext) -> SpanContext:
    return SpanContext(
        trace_id=int(context.trace_id, 16),
        span_id=int(context.span_id, 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT),
    )
