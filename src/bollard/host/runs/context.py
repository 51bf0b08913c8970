"""The `run/start` request of a run, as JSON. Written by hand because it is made for every run; a test holds it to the
protocol's `AgentRunRequest`."""

from typing import cast

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.grants.grant import Grant
from bollard.host.grants.projections import available_apis_of, resources_of
from bollard.host.log.facts import RunFacts
from bollard.host.runs.event import NewEvent, RawPayload
from bollard.host.runs.reply import delivery_context
from bollard.host.telemetry.trace_context import RunTrace
from bollard.protocol import JsonObject, JsonValue

__all__ = ["Surroundings", "as_given", "run_request"]


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of a run's conversation when it begins."""

    state: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    shortened: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    """The scopes whose values are not in `state`, and whether it has all of their keys."""
    transcript_seq: int | None = None
    has_history_before: bool = False


def run_request(
    facts: RunFacts,
    agent: Agent,
    event: NewEvent,
    grant: Grant,
    surroundings: Surroundings,
    *,
    now_ms: int,
    host_version: str,
    trace: RunTrace | None = None,
) -> JsonObject:
    """One event as one run of one runner."""
    context: JsonObject = {
        "run_id": facts.run_id,
        "trigger": {"type": event.event_type, "source": event.trigger, "timestamp": now_ms / 1000},
        **as_given(facts.event_id, event, facts.workspace),
        "delivery": delivery_context(event.reply, event.surface, agent.policy.delivery, facts.deliver_to),
        "resources": resources_of(grant),
        "context": {
            "has_history_before": surroundings.has_history_before,
            "inline_policy": {"mode": "current_event", "delivered_count": 1},
            "available_apis": available_apis_of(grant),
        },
        "state": surroundings.state,
        "runtime": _runtime(facts, now_ms, host_version, trace),
        "config": agent.config,
    }
    if surroundings.shortened:
        context["metadata"] = {"state_snapshot": surroundings.shortened}
    access = cast("JsonObject", context["context"])
    if surroundings.transcript_seq is not None:
        access["transcript_seq"] = surroundings.transcript_seq
    if facts.thread is not None:
        access["thread_id"] = facts.thread
    if facts.conversation is not None:
        access["conversation_id"] = facts.conversation
    if event.extra:
        context["adapter"] = {"extra": event.extra}
    return {"runner_id": agent.runner_id, "runner_name": agent.runner_name, "context": context}


def as_given(event_id: str, event: NewEvent, workspace: str) -> JsonObject:
    """What a runner is told of an event, whether its run began with it or it came while the run was active: the event,
    what there is to read, where it happened, who caused it, and what it is about."""
    entry: JsonObject = {
        "event_id": event_id,
        "event_type": event.event_type,
        "source": event.source,
        "data": event.data,
    }
    if event.event_ms is not None:
        entry["event_time"] = event.event_ms / 1000
    if event.source_event_type is not None:
        entry["source_event_type"] = event.source_event_type
    if event.raw is not None:
        entry["raw_ref"] = _raw_ref(event.raw)
    given: JsonObject = {"event": entry, "input": _input(event)}
    if event.conversation is not None:
        given["conversation"] = _present(
            conversation_id=event.conversation, thread_id=event.thread, bot_id=event.bot, workspace_id=workspace
        )
    if event.actor_type is not None:
        given["actor"] = _present(actor_type=event.actor_type, actor_id=event.actor_id, actor_name=event.actor_name)
    if event.subject_type is not None:
        given["subject"] = _present(subject_type=event.subject_type, subject_id=event.subject_id)
    return given


def _runtime(facts: RunFacts, now_ms: int, host_version: str, trace: RunTrace | None) -> JsonObject:
    found: JsonObject = {
        "host_version": host_version,
        "timeout_ms": round(facts.deadline_s * 1000),
        "deadline_at": now_ms / 1000 + facts.deadline_s,
    }
    if trace is not None:
        found["trace_id"], found["traceparent"] = trace.context.trace_id, trace.traceparent
    return found


def _input(event: NewEvent) -> JsonObject:
    """Absent is written as absent: a null would be looked at twice before it is sent."""
    found: JsonObject = {"contents": list(event.contents), "attachments": list(event.attachments)}
    if event.text is not None:
        found["text"] = event.text
    return found


def _raw_ref(raw: RawPayload) -> JsonObject:
    told: JsonObject = {"artifact_id": raw.artifact_id, "size_bytes": raw.size_bytes}
    return told if raw.mime_type is None else {**told, "mime_type": raw.mime_type}


def _present(**fields: str | None) -> JsonObject:
    found: dict[str, JsonValue] = {key: value for key, value in fields.items() if value is not None}
    return found
