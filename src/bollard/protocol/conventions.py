"""Two agreements that are data, not calls: the steering mark (§9) and the compaction checkpoint (§10)."""

from typing import Final, Literal

from bollard.protocol.shape import Int, Timestamp, Tolerant

__all__ = ["COMPACTION_CHECKPOINT_KEY", "CompactionCheckpoint", "ConcurrencyPolicy", "SteeringMark"]

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
