"""Spans: made only for a collector, and never a burden for others."""

import threading
from collections.abc import Sequence

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.errors import SettingsError
from bollard.host.telemetry.span_export import SpanQueue, span_export
from bollard.host.telemetry.tracer import Span, TraceContext, Tracer

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PATIENCE_S = 120.0


def _span(name: str = "x") -> Span:
    context = TraceContext("1" * 32, "2" * 16, True)
    return Span(name=name, kind="internal", context=context, parent_id=None, start_ns=0, end_ns=1, attributes={})


def test_a_span_has_its_duration_and_its_parent(clock: ManualClock) -> None:
    kept: list[Span] = []
    tracer = Tracer(clock, kept.append)
    request = tracer.begin(CALLER)
    clock.advance(0.5)
    call = tracer.under(request.context)
    clock.advance(0.25)
    tracer.end(call, "inner", "internal", {"a": 1, "left.out": None}, "broken")
    tracer.end(request, "outer", "server", {}, None)
    inner, outer = kept
    assert outer.parent_id == "b7ad6b7169203331"
    assert inner.parent_id == outer.context.span_id
    assert {span.context.trace_id for span in kept} == {"0af7651916cd43dd8448eb211c80319c"}
    assert (outer.end_ns - outer.start_ns, inner.end_ns - inner.start_ns) == (750_000_000, 250_000_000)
    assert (inner.attributes, inner.error) == ({"a": 1}, "broken")


def test_a_disabled_tracer_makes_no_span_and_still_knows_the_trace(clock: ManualClock) -> None:
    tracer = Tracer(clock)
    trace = tracer.run("run_1", CALLER)
    assert not tracer.on
    assert trace.context.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert tracer.open_run(trace) is None


def test_an_unsampled_trace_of_the_caller_makes_no_span(clock: ManualClock) -> None:
    kept: list[Span] = []
    tracer = Tracer(clock, kept.append)
    assert tracer.open_run(tracer.run("run_1", CALLER[:-1] + "0")) is None
    tracer.end(tracer.begin(CALLER[:-1] + "0"), "x", "server", {}, None)
    assert kept == []


def test_spans_beyond_the_queue_are_dropped_and_counted() -> None:
    begun, go_on = threading.Event(), threading.Event()
    sent: list[str] = []

    def send(spans: Sequence[Span]) -> bool:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        sent.extend(span.name for span in spans)
        return True

    queue = SpanQueue(send, limit=4, at_once=2, flush_s=0.001)
    queue.start()
    queue.put(_span("0"))
    assert begun.wait(PATIENCE_S)  # the collector is slow, and no caller waits for it
    for number in range(1, 8):
        queue.put(_span(str(number)))
    assert queue.dropped == 3
    go_on.set()
    queue.close(PATIENCE_S)
    assert sent == ["0", "1", "2", "3", "4"]
    assert queue.sent == 5


def test_a_failing_collector_loses_only_its_spans() -> None:
    tries: list[int] = []

    def send(spans: Sequence[Span]) -> bool:
        tries.append(len(spans))
        if len(tries) == 1:
            raise OSError("no route")
        return len(tries) != 2

    queue = SpanQueue(send, at_once=1, flush_s=0.001)
    queue.start()
    for number in range(3):
        queue.put(_span(str(number)))
    queue.close(PATIENCE_S)
    assert tries == [1, 1, 1]
    assert (queue.sent, queue.dropped) == (1, 2)


def test_a_stopping_host_does_not_wait_for_a_silent_collector() -> None:
    stuck = threading.Event()

    def send(spans: Sequence[Span]) -> bool:
        return stuck.wait(PATIENCE_S)

    queue = SpanQueue(send, at_once=1, flush_s=0.001)
    queue.start()
    queue.put(_span())
    queue.close(0.01)
    stuck.set()


def test_without_an_endpoint_no_span_is_sent() -> None:
    assert span_export("", version="1", instance="i", environment={}) is None


def test_unreadable_certificates_are_refused_with_their_variables() -> None:
    environment = {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nonexistent.pem"}
    with pytest.raises(SettingsError) as refusal:
        span_export("https://127.0.0.1:4318", version="1", instance="i", environment=environment)
    assert "OTEL_EXPORTER_OTLP_CERTIFICATE" in refusal.value.hint
