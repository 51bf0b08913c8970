"""The result stream: what a runner answers (§5). From runner to host, so strict."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from pydantic import ConfigDict, Field

from bollard.protocol import limits
from bollard.protocol.errors import FailureCode
from bollard.protocol.message import Message, MessageChunk
from bollard.protocol.shape import Bytes64, Digest, Flag, Int, JsonObject, JsonValue, Shape, Strict, Timestamp

__all__ = [
    "HOST_RECORD_TYPES",
    "LOOSE_TYPES",
    "RESULT_PAYLOADS",
    "RESULT_TYPES",
    "TERMINAL_TYPES",
    "ActionRequested",
    "AgentRunResult",
    "ArtifactCreated",
    "MessageCompleted",
    "MessageDelta",
    "ResultType",
    "RunCompleted",
    "RunFailed",
    "StateScope",
    "StateUpdated",
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
