"""A run and its ledger, as programs read them (§5, §6)."""

from typing import Final, Literal, get_args

from pydantic import Field

from bollard.protocol.context import ActorContext
from bollard.protocol.message import ArtifactRef
from bollard.protocol.shape import Digest, Flag, Int, JsonObject, Timestamp, Tolerant

__all__ = [
    "COMPACTION_CHECKPOINT_KEY",
    "RUN_STATUSES",
    "TERMINAL_STATUSES",
    "AgentRun",
    "AgentRunRecord",
    "CompactionCheckpoint",
    "ConcurrencyPolicy",
    "RunEnded",
    "RunRecordPage",
    "RunStatus",
    "SteeringMark",
]


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
