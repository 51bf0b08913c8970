"""Trace context: a caller's trace is taken up, a bad header begins a new one, a run's trace follows from its id."""

from tests.new_events import new_event
from tests.tables import for_each

from bollard.host.runs.event import NewEvent
from bollard.host.telemetry.tracer import parse_traceparent, trace_of_run

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = f"00-{TRACE}-{SPAN}-01"


def test_a_well_formed_header_is_read() -> None:
    found = parse_traceparent(CALLER)
    assert found is not None
    assert (found.trace_id, found.span_id, found.sampled) == (TRACE, SPAN, True)
    assert found.traceparent == CALLER
    assert parse_traceparent(f"00-{TRACE}-{SPAN}-00").sampled is False  # type: ignore[union-attr]


def test_a_later_version_may_have_more_fields() -> None:
    found = parse_traceparent(f"cc-{TRACE}-{SPAN}-01-what-comes-later")
    assert found is not None
    assert found.traceparent == CALLER


@for_each(
    "header",
    [
        None,
        "",
        "nonsense",
        CALLER.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 300}",
    ],
)
def test_an_invalid_traceparent_is_ignored(header: str | None) -> None:
    assert parse_traceparent(header) is None
    event = new_event(source="api", source_id="1", event_type="message.received", traceparent=header)
    assert event.traceparent is None


def test_an_event_keeps_its_trace_after_a_restart() -> None:
    event = new_event(source="api", source_id="1", event_type="message.received", traceparent=CALLER)
    _, again = NewEvent.from_record(event.record("evt_1", "run_1"), "default")
    assert again.traceparent == CALLER


def test_a_run_without_a_caller_has_a_trace_derived_from_its_id() -> None:
    one, again = (trace_of_run("run_1", None, recorded=True) for _ in range(2))
    assert one == again
    assert one.parent_id is None
    assert parse_traceparent(one.traceparent) == one.context
    assert one.context.sampled
    assert trace_of_run("run_2", None, recorded=True).context.trace_id != one.context.trace_id


def test_a_run_of_a_caller_is_a_span_under_the_span_of_the_caller() -> None:
    run = trace_of_run("run_1", CALLER, recorded=True)
    assert (run.context.trace_id, run.parent_id) == (TRACE, SPAN)
    assert run.context.span_id != SPAN
    assert run.traceparent == run.context.traceparent


def test_without_recording_a_runner_gets_the_span_of_the_caller() -> None:
    run = trace_of_run("run_1", CALLER, recorded=False)
    assert run.traceparent == CALLER
    assert run.context.trace_id == TRACE
    assert trace_of_run("run_1", None, recorded=False).traceparent.endswith("-00")


def test_a_ratio_samples_by_the_trace_and_the_caller_decides_for_its_own() -> None:
    chosen = [trace_of_run(f"run_{n}", None, recorded=True, ratio=0.25).context.sampled for n in range(2000)]
    assert 400 < sum(chosen) < 600
    assert not any(trace_of_run(f"run_{n}", None, recorded=True, ratio=0.0).context.sampled for n in range(100))
    assert trace_of_run("run_1", CALLER, recorded=True, ratio=0.0).context.sampled
    unsampled = CALLER[:-1] + "0"
    assert not trace_of_run("run_1", unsampled, recorded=True, ratio=1.0).context.sampled
