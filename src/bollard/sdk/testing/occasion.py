"""The event of a test as a run context. Absent fields have plain defaults."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from bollard import protocol
from bollard.protocol import JsonObject, JsonValue, limits

CONVERSATION_ID = "conversation-1"
WORKSPACE_ID = "workspace-1"
_SUMMARY_CHARACTERS = 200


class Occasion(TypedDict):
    """What happened, and where. An id that is `None` is absent from the context."""

    event_type: NotRequired[str]
    event_time: NotRequired[float | None]
    event_data: NotRequired[JsonObject]
    contents: NotRequired[Sequence[protocol.ContentElement]]
    attachments: NotRequired[Sequence[protocol.ArtifactRef]]
    conversation_id: NotRequired[str | None]
    thread_id: NotRequired[str | None]
    bot_id: NotRequired[str | None]
    launcher_type: NotRequired[str | None]
    launcher_id: NotRequired[str | None]
    session_id: NotRequired[str | None]
    actor_type: NotRequired[str]
    actor_id: NotRequired[str | None]
    actor_name: NotRequired[str | None]
    actor_metadata: NotRequired[JsonObject]
    subject: NotRequired[protocol.SubjectContext | None]
    delivery: NotRequired[protocol.DeliveryContext]
    source: NotRequired[str]
    event_source: NotRequired[str]
    source_event_type: NotRequired[str | None]
    locale: NotRequired[str | None]
    timezone: NotRequired[str | None]
    adapter_extra: NotRequired[JsonObject | None]
    metadata: NotRequired[JsonObject]


def build_context(
    run_id: str,
    text: str | None,
    occasion: Occasion,
    *,
    config: Mapping[str, JsonValue],
    now: float,
    timeout_s: float | None,
) -> protocol.AgentRunContext:
    """Build the context of one run, without its grant."""
    conversation_id = occasion.get("conversation_id", CONVERSATION_ID)
    thread_id = occasion.get("thread_id")
    actor_id = occasion.get("actor_id", "user-1")
    event_type = occasion.get("event_type", "message.received")
    source = occasion.get("source", "api")
    extra = occasion.get("adapter_extra")
    left_s = limits.RUN_DEADLINE_S if timeout_s is None else timeout_s
    return protocol.AgentRunContext(
        run_id=run_id,
        trigger=protocol.AgentTrigger(type=event_type, source=source, timestamp=now),
        event=protocol.AgentEventContext(
            event_id=f"event-of-{run_id}",
            event_type=event_type,
            event_time=occasion.get("event_time"),
            source=occasion.get("event_source", source),
            source_event_type=occasion.get("source_event_type"),
            data=occasion.get("event_data", {}),
        ),
        conversation=None
        if conversation_id is None
        else protocol.ConversationContext(
            conversation_id=conversation_id,
            thread_id=thread_id,
            launcher_type=occasion.get("launcher_type"),
            launcher_id=occasion.get("launcher_id"),
            sender_id=actor_id,
            bot_id=occasion.get("bot_id"),
            workspace_id=WORKSPACE_ID,
            session_id=occasion.get("session_id"),
        ),
        actor=None
        if actor_id is None
        else protocol.ActorContext(
            actor_type=occasion.get("actor_type", "user"),
            actor_id=actor_id,
            actor_name=occasion.get("actor_name"),
            metadata=occasion.get("actor_metadata", {}),
        ),
        subject=occasion.get("subject"),
        input=protocol.AgentInput(
            text=text, contents=tuple(occasion.get("contents", ())), attachments=tuple(occasion.get("attachments", ()))
        ),
        delivery=occasion.get("delivery", protocol.DeliveryContext(surface="test", supports_streaming=True)),
        context=protocol.ContextAccess(
            conversation_id=conversation_id,
            thread_id=thread_id,
            inline_policy=protocol.InlinePolicy(mode="current_event", delivered_count=1),
        ),
        runtime=protocol.AgentRuntimeContext(
            host_version="memory",
            timeout_ms=max(0, round(left_s * 1000)),
            deadline_at=now + left_s,
            limits={
                "calls_in_flight": limits.CALLS_IN_FLIGHT,
                "calls_per_s": limits.CALLS_PER_S,
                "deadline_s": left_s,
                "idle_s": limits.RUN_IDLE_S,
                "payload_bytes": limits.CALL_BYTES,
            },
            locale=occasion.get("locale") or "en_US",
            timezone=occasion.get("timezone") or "UTC",
        ),
        config=dict(config),
        adapter=None if extra is None else protocol.AdapterContext(extra=extra),
        metadata=occasion.get("metadata", {}),
    )


def add_grant(
    context: protocol.AgentRunContext,
    resources: protocol.AgentResources,
    access: protocol.ContextAccess,
    state: protocol.AgentRunState,
    permissions: protocol.AgentRunnerPermissions,
) -> protocol.AgentRunContext:
    """Return the context with the grant of the run."""
    refs = {"access": _static_ref("grant.access", permissions), "tools": _static_ref("grant.graph", *resources.tools)}
    runtime = context.runtime.model_copy(update={"static_refs": refs})
    return context.model_copy(update={"resources": resources, "context": access, "state": state, "runtime": runtime})


def _static_ref(ref: str, *shapes: protocol.Shape) -> protocol.StaticRef:
    digest = hashlib.sha256("\n".join(shape.model_dump_json() for shape in shapes).encode())
    return protocol.StaticRef(ref=ref, sha256=digest.hexdigest())


def build_event_record(
    message: protocol.AgentRunContext | protocol.SteeringInputItem, created_at: float | None
) -> protocol.AgentEventRecord:
    """Build the record of the event of a run, or of a message into a run."""
    actor, place, subject = message.actor, message.conversation, message.subject
    return protocol.AgentEventRecord(
        event_id=message.event.event_id,
        event_type=message.event.event_type,
        event_time=message.event.event_time,
        source=message.event.source,
        bot_id=place.bot_id if place else None,
        workspace_id=place.workspace_id if place else WORKSPACE_ID,
        conversation_id=place.conversation_id if place else None,
        thread_id=place.thread_id if place else None,
        actor_type=actor.actor_type if actor else None,
        actor_id=actor.actor_id if actor else None,
        actor_name=actor.actor_name if actor else None,
        subject_type=subject.subject_type if subject else None,
        subject_id=subject.subject_id if subject else None,
        input_summary=(message.input.text or "")[:_SUMMARY_CHARACTERS] or None,
        created_at=created_at,
    )


def scope_keys(context: protocol.AgentRunContext, runner_name: str) -> Mapping[str, str]:
    """Return the state key of each scope that the event of a run has."""
    where, who, what = context.conversation, context.actor, context.subject
    keys = {"runner": f"runner:{runner_name}"}
    if where is not None:
        keys["conversation"] = f"conversation:{where.conversation_id}:{where.thread_id}"
    if who is not None:
        keys["actor"] = f"actor:{who.actor_type}:{who.actor_id}"
    if what is not None:
        keys["subject"] = f"subject:{what.subject_type}:{what.subject_id}"
    return keys
