"""The context: its data, its time left, its log."""

import logging
import tracemalloc

import pytest

from bollard.protocol import AgentRunContext
from bollard.sdk import RunContext


def test_the_context_shows_every_part_of_the_run(raw: AgentRunContext, caller):
    ctx = RunContext(raw, caller, {"a": 1})
    assert ctx.run_id == "run-1"
    assert ctx.input.text == "hi"
    assert ctx.event.event_type == "message.received"
    assert ctx.trigger.source == "api"
    assert ctx.delivery.surface == "test"
    assert ctx.context is ctx.access is raw.context
    assert ctx.state_snapshot is raw.state
    assert ctx.resources is raw.resources
    assert ctx.runtime is raw.runtime
    assert (ctx.conversation, ctx.actor, ctx.subject, ctx.adapter) == (None, None, None, None)
    assert ctx.metadata == {}
    assert ctx.config == {"a": 1}
    assert ctx.raw is raw


@pytest.mark.requirement("P04-07")
def test_time_left_follows_the_monotonic_clock_and_stops_at_zero(raw: AgentRunContext, caller):
    now = [100.0]
    timed = raw.model_copy(update={"runtime": raw.runtime.model_copy(update={"timeout_ms": 5000})})
    ctx = RunContext(timed, caller, {}, clock=lambda: now[0])
    assert ctx.time_left == 5.0
    now[0] = 103.5
    assert ctx.time_left == 1.5
    now[0] = 200.0
    assert ctx.time_left == 0.0


def test_without_a_deadline_time_left_is_none(ctx: RunContext):
    assert ctx.time_left is None


def test_log_records_reach_the_sink_with_their_fields(raw: AgentRunContext, caller):
    records = []
    ctx = RunContext(raw, caller, {}, log=lambda *record: records.append(record))
    ctx.log("searched", hits=3)
    ctx.log("odd", "warning")
    assert records == [("info", "searched", {"hits": 3}), ("warning", "odd", {})]


def test_without_a_sink_the_python_logger_is_used(ctx: RunContext, caplog):
    with caplog.at_level(logging.INFO, logger="bollard.runner"):
        ctx.log("searched", hits=3)
    assert '{"hits": 3}' in caplog.text


def test_an_unknown_log_level_is_refused(ctx: RunContext):
    with pytest.raises(ValueError, match="unknown log level 'loud'"):
        ctx.log("x", "loud")


def test_a_context_costs_little(raw: AgentRunContext, caller):
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [RunContext(raw, caller, {}) for _ in range(1000)]
        for ctx in kept:
            _ = ctx.api.models
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(kept) < 2048
