"""AgentRunContext: one event, as one run of one runner sees it (§4). From host to runner, so tolerant."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from pydantic import Field

from bollard.protocol.message import ArtifactRef, ContentElement
from bollard.protocol.resources import AgentResources
from bollard.protocol.shape import Digest, Flag, Int, JsonObject, Timestamp, Tolerant

__all__ = [
    "EVENT_TYPES",
    "TRIGGER_SOURCES",
    "ActorContext",
    "AdapterContext",
    "AgentEventContext",
    "AgentInput",
    "AgentRunContext",
    "AgentRunRequest",
    "AgentRunState",
    "AgentRuntimeContext",
    "AgentTrigger",
    "AvailableAPIs",
    "ContextAccess",
    "ConversationContext",
    "DeliveryContext",
    "EventType",
    "InlinePolicy",
    "RawRef",
    "StaticRef",
    "SubjectContext",
    "TriggerSource",
]

TriggerSource = Literal["platform", "webui", "api", "scheduler", "webhook", "system", "host_adapter"]
TRIGGER_SOURCES: Final[tuple[TriggerSource, ...]] = get_args(TriggerSource)

EventType = Literal[
    "message.received",
    "message.edited",
    "message.recalled",
    "reaction.added",
    "group.member_joined",
    "group.member_left",
    "friend.request_received",
    "bot.added",
    "schedule.triggered",
    "webhook.received",
    "api.invoked",
    "approval.decided",
    "approval.requested",
    "artifact.created",
    "interaction.submitted",
    "command.invoked",
    "channel.status_changed",
    "run.completed",
    "run.failed",
    "run.stop_requested",
]
EVENT_TYPES: Final[tuple[EventType, ...]] = get_args(EventType)
"""The stable names. The enumeration is open: a runner meets others from a newer host."""

EVENT_MEANINGS: Final[Mapping[EventType, str]] = MappingProxyType(
    {
        "message.received": "A person or a bot sent a message.",
        "message.edited": "A message got another text.",
        "message.recalled": "A message was taken back.",
        "reaction.added": "A message got a reaction.",
        "group.member_joined": "An actor joined a group.",
        "group.member_left": "An actor left a group.",
        "friend.request_received": "An actor asks to be a contact of the bot.",
        "bot.added": "The bot was added to a conversation.",
        "schedule.triggered": "A planned instant of a schedule came.",
        "webhook.received": "A webhook route received a request.",
        "api.invoked": "A caller of the API started a run.",
        "approval.decided": "A call that outlived its run was decided.",
        "approval.requested": "A call of a run waits for an approval.",
        "artifact.created": "A run made an artifact.",
        "interaction.submitted": "A person clicked a button or submitted a form. It decides or answers; no run starts.",
        "command.invoked": "A person invoked a command: `command` and `arguments` in `data`.",
        "channel.status_changed": "A channel stopped or started to take its messages.",
        "run.completed": "A run ended with success.",
        "run.failed": "A run ended without success.",
        "run.stop_requested": "A person asks to stop a run. No run starts.",
    }
)
"""What each stable name means."""


class AgentTrigger(Tolerant):
    """What set the run off."""

    type: str
    source: str = Field(description="One of TRIGGER_SOURCES, or one that a newer host knows.")
    timestamp: Timestamp | None = None


class RawRef(Tolerant):
    """Where a large raw payload is kept."""

    artifact_id: str
    mime_type: str | None = None
    size_bytes: Int | None = Field(default=None, ge=0)


class AgentEventContext(Tolerant):
    """The event itself. It need not be a message."""

    event_id: str
    event_type: str = Field(description="A stable name (EVENT_TYPES); the vendor's own is in source_event_type.")
    event_time: Timestamp | None = None
    source: str
    source_event_type: str | None = None
    raw_ref: RawRef | None = None
    data: JsonObject = Field(default_factory=dict)


class ConversationContext(Tolerant):
    """Where the event happened."""

    conversation_id: str | None = None
    thread_id: str | None = None
    launcher_type: str | None = None
    launcher_id: str | None = None
    sender_id: str | None = None
    bot_id: str | None = None
    workspace_id: str | None = None
    session_id: str | None = None


class ActorContext(Tolerant):
    """Who caused the event."""

    actor_type: str
    actor_id: str | None = None
    actor_name: str | None = None
    metadata: JsonObject = Field(default_factory=dict)


class SubjectContext(Tolerant):
    """What the event is about."""

    subject_type: str
    subject_id: str | None = None
    data: JsonObject = Field(default_factory=dict)


class AgentInput(Tolerant):
    """What the agent is given to read. May be empty."""

    text: str | None = None
    contents: tuple[ContentElement, ...] = ()
    attachments: tuple[ArtifactRef, ...] = ()


class DeliveryContext(Tolerant):
    """Where the answer goes and what that place can do."""

    surface: str
    reply_target: JsonObject | None = None
    supports_streaming: Flag = False
    supports_edit: Flag = False
    supports_reaction: Flag = False
    max_message_size: Int | None = Field(default=None, gt=0)
    platform_capabilities: JsonObject = Field(default_factory=dict)


class InlinePolicy(Tolerant):
    """What of the conversation was delivered inline. The host never inlines history."""

    mode: str = Field(default="none", description="none or current_event.")
    delivered_count: Int = Field(default=0, ge=0)
    source_total_count: Int | None = Field(default=None, ge=0)
    messages_complete: Flag = False
    reason: str | None = None


class AvailableAPIs(Tolerant):
    """Which families of the run API this run was granted."""

    history_page: Flag = False
    history_search: Flag = False
    event_get: Flag = False
    event_page: Flag = False
    artifact_metadata: Flag = False
    artifact_read: Flag = False
    artifact_write: Flag = False
    state: Flag = False
    storage: Flag = False
    steering_pull: Flag = False


class ContextAccess(Tolerant):
    """Where the run stands in its conversation, and how to read more of it."""

    conversation_id: str | None = None
    thread_id: str | None = None
    latest_cursor: str | None = None
    event_seq: Int | None = None
    transcript_seq: Int | None = None
    has_history_before: Flag = False
    inline_policy: InlinePolicy = Field(default_factory=InlinePolicy)
    available_apis: AvailableAPIs = Field(default_factory=AvailableAPIs)


class AgentRunState(Tolerant):
    """Snapshots of the state the run may use."""

    conversation: JsonObject = Field(default_factory=dict)
    actor: JsonObject = Field(default_factory=dict)
    subject: JsonObject = Field(default_factory=dict)
    runner: JsonObject = Field(default_factory=dict)


class StaticRef(Tolerant):
    """The hash of something that seldom changes, so that a runner keeps its prompt prefix stable."""

    ref: str
    sha256: Digest
    version: str | None = None


class AgentRuntimeContext(Tolerant):
    """The host, the trace, and the time there is."""

    host_version: str | None = None
    trace_id: str | None = None
    traceparent: str | None = None
    deadline_at: Timestamp | None = Field(default=None, description="For display; measure timeout_ms instead.")
    timeout_ms: Int | None = Field(default=None, ge=0, description="Time left when sent.")
    limits: JsonObject = Field(default_factory=dict)
    locale: str | None = None
    timezone: str | None = None
    static_refs: dict[str, StaticRef] = Field(default_factory=dict)
    metadata: JsonObject = Field(default_factory=dict)


class AdapterContext(Tolerant):
    """One-off entry metadata; never prompt, history, retrieval, tools or grants."""

    extra: JsonObject = Field(default_factory=dict)


class AgentRunContext(Tolerant):
    """One event as one run."""

    run_id: str
    trigger: AgentTrigger
    event: AgentEventContext
    conversation: ConversationContext | None = None
    actor: ActorContext | None = None
    subject: SubjectContext | None = None
    input: AgentInput = Field(default_factory=AgentInput)
    delivery: DeliveryContext
    resources: AgentResources = Field(default_factory=AgentResources)
    context: ContextAccess = Field(default_factory=ContextAccess)
    state: AgentRunState = Field(default_factory=AgentRunState)
    runtime: AgentRuntimeContext = Field(default_factory=AgentRuntimeContext)
    config: JsonObject = Field(default_factory=dict)
    adapter: AdapterContext | None = None
    metadata: JsonObject = Field(default_factory=dict)


class AgentRunRequest(Tolerant):
    """The parameters of `run/start`."""

    runner_id: str
    runner_name: str
    context: AgentRunContext
