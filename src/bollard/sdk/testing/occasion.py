"""The event of a test as a run context. Absent fields have plain defaults."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from bollard import protocol
from bollard.protocol import JsonObject, JsonValue

CONVERSATION_ID = "conversation-1"


class Occasion(TypedDict):
    """What happened, and where. An id that is `None` is absent from the context."""

    event_type: NotRequired[str]
    event_data: NotRequired[JsonObject]
    contents: NotRequired[Sequence[protocol.ContentElement]]
    attachments: NotRequired[Sequence[protocol.ArtifactRef]]
    conversation_id: NotRequired[str | None]
    thread_id: NotRequired[str | None]
    actor_id: NotRequired[str | None]
    actor_name: NotRequired[str | None]
    subject: NotRequired[protocol.SubjectContext | None]
    delivery: NotRequired[protocol.DeliveryContext]
    source: NotRequired[str]
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
    return protocol.AgentRunContext(
        run_id=run_id,
        trigger=protocol.AgentTrigger(type=event_type, source=source, timestamp=now),
        event=protocol.AgentEventContext(
            event_id=f"event-of-{run_id}",
            event_type=event_type,
            event_time=now,
            source=source,
            data=occasion.get("event_data", {}),
        ),
        conversation=None
        if conversation_id is None
        else protocol.ConversationContext(
            conversation_id=conversation_id, thread_id=thread_id, sender_id=actor_id, workspace_id="workspace-1"
        ),
        actor=None
        if actor_id is None
        else protocol.ActorContext(actor_type="user", actor_id=actor_id, actor_name=occasion.get("actor_name")),
        subject=occasion.get("subject"),
        input=protocol.AgentInput(
            text=text, contents=tuple(occasion.get("contents", ())), attachments=tuple(occasion.get("attachments", ()))
        ),
        delivery=occasion.get("delivery", protocol.DeliveryContext(surface="test", supports_streaming=True)),
        context=protocol.ContextAccess(
            conversation_id=conversation_id, thread_id=thread_id, inline_policy=protocol.InlinePolicy()
        ),
        runtime=protocol.AgentRuntimeContext(
            host_version="memory",
            timeout_ms=None if timeout_s is None else max(0, round(timeout_s * 1000)),
            deadline_at=None if timeout_s is None else now + timeout_s,
            locale=occasion.get("locale", "en_US"),
            timezone=occasion.get("timezone"),
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
) -> protocol.AgentRunContext:
    """Return the context with the grant of the run."""
    return context.model_copy(update={"resources": resources, "context": access, "state": state})


def build_event_record(context: protocol.AgentRunContext) -> protocol.AgentEventRecord:
    """Build the record of the run's own event."""
    actor = context.actor
    return protocol.AgentEventRecord(
        event_id=context.event.event_id,
        event_type=context.event.event_type,
        event_time=context.event.event_time,
        source=context.event.source,
        conversation_id=context.conversation.conversation_id if context.conversation else None,
        actor_type=actor.actor_type if actor else None,
        actor_id=actor.actor_id if actor else None,
        input_summary=context.input.text,
    )


def scope_keys(context: protocol.AgentRunContext, runner_name: str) -> Mapping[str, str]:
    """Return the state key of each scope for one run."""
    where, who, what = context.conversation, context.actor, context.subject
    return {
        "conversation": f"conversation:{where.conversation_id}:{where.thread_id}" if where else "conversation:",
        "actor": f"actor:{who.actor_type}:{who.actor_id}" if who else "actor:",
        "subject": f"subject:{what.subject_type}:{what.subject_id}" if what else "subject:",
        "runner": f"runner:{runner_name}",
    }
