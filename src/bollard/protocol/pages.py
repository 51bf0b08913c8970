"""What run API calls return (§6). From host to runner, so tolerant."""

from pydantic import Field

from bollard.protocol.context import (
    ActorContext,
    AgentEventContext,
    AgentInput,
    ConversationContext,
    RawRef,
    SubjectContext,
)
from bollard.protocol.message import ArtifactRef, ContentElement, Message
from bollard.protocol.resources import KnowledgeBaseResource
from bollard.protocol.shape import Bytes64, Digest, Flag, Int, JsonObject, JsonValue, Number, Timestamp, Tolerant

__all__ = [
    "AgentEventRecord",
    "AgentPrompt",
    "ArtifactMetadata",
    "ArtifactReadResult",
    "ArtifactUpload",
    "BytesResult",
    "ChildRunResult",
    "Embeddings",
    "EventPage",
    "HistoryPage",
    "HistorySearchResult",
    "HostInfo",
    "KeyPage",
    "KnowledgeBaseList",
    "KnowledgeChunk",
    "KnowledgeResult",
    "PlatformOutcome",
    "RerankResult",
    "RerankScore",
    "StateValue",
    "SteeringInputItem",
    "SteeringPullResult",
    "ToolDetail",
    "ToolDetailList",
    "ToolResult",
    "TranscriptItem",
    "Written",
]


class TranscriptItem(Tolerant):
    """One message of a conversation, as the transcript keeps it; never the raw platform payload."""

    transcript_id: str
    event_id: str
    conversation_id: str | None = None
    thread_id: str | None = None
    role: str
    item_type: str = "message"
    content: str | None = None
    content_json: JsonValue = None
    artifact_refs: tuple[ArtifactRef, ...] = ()
    seq: Int | None = None
    cursor: str | None = None
    created_at: Timestamp | None = None
    metadata: JsonObject = Field(default_factory=dict)


class HistoryPage(Tolerant):
    """One page of the transcript."""

    items: tuple[TranscriptItem, ...] = ()
    next_cursor: str | None = None
    prev_cursor: str | None = None
    has_more: Flag = False
    total_count: Int | None = None


class HistorySearchResult(Tolerant):
    """Hits in the transcript, best first."""

    items: tuple[TranscriptItem, ...] = ()
    total_count: Int | None = None
    query: str


class AgentEventRecord(Tolerant):
    """One event of the log."""

    event_id: str
    event_type: str
    event_time: Timestamp | None = None
    source: str
    bot_id: str | None = None
    workspace_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    subject_type: str | None = None
    subject_id: str | None = None
    input_summary: str | None = None
    input_ref: RawRef | None = None
    raw_ref: RawRef | None = None
    seq: Int | None = None
    cursor: str | None = None
    created_at: Timestamp | None = None
    metadata: JsonObject = Field(default_factory=dict)


class EventPage(Tolerant):
    """One page of events."""

    items: tuple[AgentEventRecord, ...] = ()
    next_cursor: str | None = None
    prev_cursor: str | None = None
    has_more: Flag = False
    total_count: Int | None = None


class SteeringInputItem(Tolerant):
    """A message that was absorbed into this run."""

    claimed_run_id: str
    runner_id: str
    claimed_at: Timestamp | None = None
    event: AgentEventContext
    input: AgentInput
    conversation: ConversationContext | None = None
    actor: ActorContext | None = None
    subject: SubjectContext | None = None
    metadata: JsonObject = Field(default_factory=dict)


class SteeringPullResult(Tolerant):
    """What was waiting; leased to this run until it ends."""

    items: tuple[SteeringInputItem, ...] = ()


class ArtifactMetadata(Tolerant):
    """What is known of an artifact."""

    artifact_id: str
    artifact_type: str
    mime_type: str | None = None
    name: str | None = None
    size_bytes: Int | None = Field(default=None, ge=0)
    sha256: Digest | None = None
    source: str
    conversation_id: str | None = None
    run_id: str | None = None
    runner_id: str | None = None
    created_at: Timestamp | None = None
    expires_at: Timestamp | None = None
    metadata: JsonObject = Field(default_factory=dict)


class ArtifactReadResult(Tolerant):
    """One range of an artifact."""

    artifact_id: str
    mime_type: str | None = None
    size_bytes: Int | None = Field(default=None, ge=0)
    offset: Int = Field(ge=0)
    length: Int | None = Field(default=None, ge=0)
    content_base64: Bytes64 | None = None
    file_key: str | None = None
    has_more: Flag = False


class ArtifactUpload(Tolerant):
    """An upload under way: where it stands."""

    upload_id: str
    offset: Int = Field(default=0, ge=0)


class ToolResult(Tolerant):
    """What a tool answered."""

    call_id: str
    content: tuple[ContentElement, ...] = ()
    structured: JsonValue = None
    is_error: Flag = False
    artifact_refs: tuple[ArtifactRef, ...] = ()
    duration_ms: Number = Field(default=0, ge=0)


class ToolDetail(Tolerant):
    """How a tool is called."""

    tool_name: str
    description: str | None = None
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    risk: str
    definition_sha256: Digest


class ToolDetailList(Tolerant):
    """The answer to `tools.detail`."""

    tools: tuple[ToolDetail, ...] = ()


class KnowledgeBaseList(Tolerant):
    """The answer to `knowledge.list`."""

    knowledge_bases: tuple[KnowledgeBaseResource, ...] = ()


class KnowledgeChunk(Tolerant):
    """A piece of a document, with where it came from."""

    chunk_id: str
    kb_id: str
    text: str
    score: Number
    source: JsonValue
    metadata: JsonObject = Field(default_factory=dict)


class KnowledgeResult(Tolerant):
    """The answer to `knowledge.retrieve`, best first."""

    chunks: tuple[KnowledgeChunk, ...] = ()


class RerankScore(Tolerant):
    """How well the document at `index` fits."""

    index: Int = Field(ge=0)
    score: Number


class RerankResult(Tolerant):
    """The answer to `models.rerank`, best first."""

    results: tuple[RerankScore, ...] = ()


class Embeddings(Tolerant):
    """The answer to `models.embed`: little-endian float32 vectors."""

    vectors_base64: tuple[Bytes64, ...] = ()
    dimensions: Int = Field(ge=0)


class StateValue(Tolerant):
    """A state value and the version to compare-and-set against."""

    value: JsonValue
    version: Int
    expires_at: Timestamp | None = None


class KeyPage(Tolerant):
    """Keys of a state scope or a storage area."""

    keys: tuple[str, ...] = ()
    next_cursor: str | None = None
    has_more: Flag = False


class BytesResult(Tolerant):
    """One range of stored bytes."""

    content_base64: Bytes64
    offset: Int = Field(ge=0)
    size_bytes: Int = Field(ge=0)
    has_more: Flag = False


class Written(Tolerant):
    """A write or a delete was done: the new version where there is one, and whether anything was there before."""

    version: Int | None = None
    existed: Flag | None = None


class ChildRunResult(Tolerant):
    """How a child run ended."""

    run_id: str
    status: str
    code: str | None = None
    messages: tuple[Message, ...] = ()


class PlatformOutcome(Tolerant):
    """How a platform action ended."""

    call_id: str
    outcome: str
    result: JsonValue = None


class HostInfo(Tolerant):
    """The host, its protocol and its limits."""

    host_version: str
    protocol: Int
    limits: JsonObject = Field(default_factory=dict)


class AgentPrompt(Tolerant):
    """A prompt that people configured for the agent: a field of type `prompt-editor`, as the run began with it."""

    name: str
    text: str
    sha256: Digest
