"""The result stream of a runner (§5), and runs and their records as programs read them (§6).

Results go from runner to host, so they are strict.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from pydantic import ConfigDict, Field

from bollard.protocol import limits
from bollard.protocol.context import ActorContext
from bollard.protocol.errors import FailureCode
from bollard.protocol.message import ArtifactRef, Message, MessageChunk
from bollard.protocol.shape import Bytes64, Digest, Flag, Int, JsonObject, JsonValue, Shape, Strict, Timestamp, Tolerant

__all__ = [
    "COMPACTION_CHECKPOINT_KEY",
    "HOST_RECORD_TYPES",
    "LOOSE_TYPES",
    "RESULT_PAYLOADS",
    "RESULT_TYPES",
    "RUN_STATUSES",
    "TERMINAL_STATUSES",
    "TERMINAL_TYPES",
    "ActionRequested",
    "AgentRun",
    "AgentRunRecord",
    "AgentRunResult",
    "ArtifactCreated",
    "CompactionCheckpoint",
    "ConcurrencyPolicy",
    "MessageCompleted",
    "MessageDelta",
    "ResultType",
    "RunCompleted",
    "RunEnded",
    "RunFailed",
    "RunRecordPage",
    "RunStatus",
    "StateScope",
    "StateUpdated",
    "SteeringMark",
    "ToolCallCompleted",
    "ToolCallStarted",
]

ResultType = Literal[
    "message.delta",
    "message.completed",
    "tool.call.started",
    "tool.call.completed",
    "artifact.created",
    "state.updated",
    "action.requested",
    "run.completed",
    "run.failed",
]
RESULT_TYPES: Final[tuple[ResultType, ...]] = get_args(ResultType)
TERMINAL_TYPES: Final = frozenset({"run.completed", "run.failed"})
LOOSE_TYPES: Final = frozenset({"tool.call.started", "tool.call.completed"})
"""Telemetry: unknown fields are kept instead of refused."""

HOST_RECORD_TYPES: Final = ("result.gap", "result.rejected", "result.unknown", "run.ended")
"""Records that the host writes into a run's ledger beside the results."""

StateScope = Literal["conversation", "actor", "subject", "runner"]


class AgentRunResult(Strict):
    """One result on the wire. `type` is open: an unknown one is kept, has no effect, and warns."""

    run_id: str
    type: str
    data: JsonObject
    sequence: Int = Field(ge=1, description="1, 2, 3 … per run, set by the worker.")
    timestamp: Timestamp | None = None


class MessageDelta(Strict):
    """An increment of a message."""

    chunk: MessageChunk
    message_id: str | None = None


class MessageCompleted(Strict):
    """A whole message; authoritative over its deltas."""

    message: Message
    message_id: str | None = None


class _Loose(Shape):
    """Telemetry: an unknown field is kept, as long as it is JSON."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]


class ToolCallStarted(_Loose):
    """Telemetry: the runner says it called a tool."""

    tool_call_id: str
    tool_name: str
    parameters: JsonValue = None


class ToolCallCompleted(_Loose):
    """Telemetry: the runner says that a tool answered."""

    tool_call_id: str
    tool_name: str
    result: JsonValue = None
    error: JsonValue = None


class ArtifactCreated(Strict):
    """A new artifact; inline content is limited, larger content goes through `artifacts.write`."""

    artifact_type: str
    artifact_id: str | None = None
    mime_type: str | None = None
    name: str | None = None
    size_bytes: Int | None = Field(default=None, ge=0)
    sha256: Digest | None = None
    metadata: JsonObject | None = None
    content_base64: Bytes64 | None = None


class StateUpdated(Strict):
    """A new value of one state key."""

    scope: StateScope
    key: str = Field(min_length=1, max_length=limits.STATE_KEY_CHARACTERS)
    value: JsonValue


class ActionRequested(Strict):
    """A platform action, as `platform.request` without waiting for its outcome."""

    action: str
    target: JsonObject | None = None
    payload: JsonObject | None = None


class RunCompleted(Strict):
    """Terminal: the run is done."""

    finish_reason: str
    message: Message | None = None


class RunFailed(Strict):
    """Terminal: the run failed. An invalid one is still a failure."""

    code: FailureCode
    error: str
    retryable: Flag = False


RESULT_PAYLOADS: Final[Mapping[str, type[Shape]]] = MappingProxyType(
    {
        "message.delta": MessageDelta,
        "message.completed": MessageCompleted,
        "tool.call.started": ToolCallStarted,
        "tool.call.completed": ToolCallCompleted,
        "artifact.created": ArtifactCreated,
        "state.updated": StateUpdated,
        "action.requested": ActionRequested,
        "run.completed": RunCompleted,
        "run.failed": RunFailed,
    }
)


RunStatus = Literal["queued", "dispatching", "running", "waiting", "completed", "failed", "cancelled", "timeout"]
RUN_STATUSES: Final[tuple[RunStatus, ...]] = get_args(RunStatus)
TERMINAL_STATUSES: Final = frozenset({"completed", "failed", "cancelled", "timeout"})


class RunEnded(Tolerant):
    """The data of `run.ended`, the last record of every run."""

    status: str
    code: str | None = None
    error: str | None = None


class AgentRun(Tolerant):
    """One run."""

    run_id: str
    event_id: str
    agent_id: str
    binding_id: str
    runner_id: str
    workspace_id: str
    bot_id: str | None = None
    conversation_id: str | None = None
    thread_id: str | None = None
    actor: ActorContext | None = None
    parent_run_id: str | None = None
    status: str
    status_reason: str | None = None
    error: JsonObject | None = Field(
        default=None, description="Of a run that failed: `code`, the sentence `message`, and `details`."
    )
    epoch: Int = Field(ge=0)
    grant_sha256: Digest
    created_at: Timestamp
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    updated_at: Timestamp
    deadline_at: Timestamp | None = None
    cancel_requested_at: Timestamp | None = None
    usage: JsonObject | None = None
    metadata: JsonObject = Field(default_factory=dict)


class AgentRunRecord(Tolerant):
    """One record of a run's ledger. `seq` is hole-free over results and host records."""

    run_id: str
    seq: Int = Field(ge=1)
    epoch: Int = Field(ge=0)
    source_seq: Int | None = Field(default=None, ge=1, description="The worker's own number of a result.")
    type: str
    data: JsonObject
    observed: Flag = Field(description="True: the host saw it happen. False: the runner claimed it.")
    created_at: Timestamp
    artifact_refs: tuple[ArtifactRef, ...] = ()
    metadata: JsonObject = Field(default_factory=dict)


class RunRecordPage(Tolerant):
    """One page of a run's ledger."""

    items: tuple[AgentRunRecord, ...] = ()
    next_cursor: str | None = None
    has_more: Flag = False


# Two agreements that are data, not calls: the steering mark (§9) and the compaction checkpoint (§10).


COMPACTION_CHECKPOINT_KEY: Final = "runner.compaction.checkpoint"
"""The state key, in scope `conversation`, that holds the newest checkpoint."""

ConcurrencyPolicy = Literal["steer", "queue", "interrupt", "reject", "parallel"]
"""What happens to a message that arrives while a run is active."""


class SteeringMark(Tolerant):
    """`metadata.steering` of an event that a live run absorbed."""

    status: str
    trigger_behavior: str
    claimed_by_run_id: str
    claimed_runner_id: str
    claimed_at: Timestamp


class CompactionCheckpoint(Tolerant):
    """A summary of a conversation up to transcript `seq` `covers_until`."""

    schema_version: Int
    summary: str
    covers_until: Int
    tokens_before: Int
    created_at: Timestamp
    conversation_id: str
