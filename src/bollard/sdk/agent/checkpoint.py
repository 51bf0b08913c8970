"""The compaction checkpoint: a summary of the conversation up to one message, in the state key of the protocol (§10).

A run reads it once, at its start, and writes it with compare-and-set: of two runs that compact at once, one wins.
"""

import time
from dataclasses import dataclass
from typing import Any, Final

from bollard.protocol import JsonObject, JsonValue
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

CHECKPOINT_KEY: Final = "runner.compaction.checkpoint"
SCHEMA_VERSION: Final = 1
SUMMARY_CHARACTERS: Final = 48 * 1024
"""A longer summary was not written by this loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A summary of everything up to `covers_until`."""

    summary: str
    covers_until: int
    tokens_before: int
    created_at: float
    conversation_id: str

    @classmethod
    def new(cls, ctx: RunContext[Any], summary: str, covers_until: int, tokens_before: int) -> "Checkpoint":
        return cls(
            summary=summary[:SUMMARY_CHARACTERS],
            covers_until=covers_until,
            tokens_before=tokens_before,
            created_at=round(time.time(), 3),
            conversation_id=ctx.access.conversation_id or "",
        )

    @classmethod
    def read(cls, value: JsonValue, *, conversation_id: str | None, newest: int | None) -> "Checkpoint | None":
        """The stored checkpoint, or `None` if it is missing, foreign, of another version, or impossible."""
        if not isinstance(value, dict) or value.get("schema_version") != SCHEMA_VERSION:
            return None
        summary, covers = value.get("summary"), value.get("covers_until")
        if not isinstance(summary, str) or not summary.strip() or len(summary) > SUMMARY_CHARACTERS:
            return None
        if isinstance(covers, bool) or not isinstance(covers, int) or covers < 0:
            return None
        if conversation_id is None or value.get("conversation_id") != conversation_id:
            return None
        if newest is not None and covers > newest:
            return None
        before, created = value.get("tokens_before"), value.get("created_at")
        return cls(
            summary=summary,
            covers_until=covers,
            tokens_before=before if isinstance(before, int) else 0,
            created_at=float(created) if isinstance(created, int | float) else 0.0,
            conversation_id=conversation_id,
        )

    def to_json(self) -> JsonObject:
        return {
            "schema_version": SCHEMA_VERSION,
            "summary": self.summary,
            "covers_until": self.covers_until,
            "tokens_before": self.tokens_before,
            "created_at": self.created_at,
            "conversation_id": self.conversation_id,
        }


@dataclass(frozen=True, slots=True)
class _Stored:
    """A checkpoint with its version for compare-and-set; version 0 if there is none."""

    checkpoint: Checkpoint | None
    version: int


def _usable(ctx: RunContext[Any], value: JsonValue) -> Checkpoint | None:
    return Checkpoint.read(value, conversation_id=ctx.access.conversation_id, newest=ctx.access.transcript_seq)


def can_store(ctx: RunContext[Any]) -> bool:
    """Whether the run has a conversation with state."""
    return ctx.access.available_apis.state and ctx.access.conversation_id is not None


async def load_checkpoint(ctx: RunContext[Any]) -> Checkpoint | None:
    """The checkpoint at the start of the run, from its context; read from state if the context has only the key."""
    if not can_store(ctx) or CHECKPOINT_KEY not in (snapshot := ctx.state_snapshot.conversation):
        return None
    value = snapshot[CHECKPOINT_KEY]
    return _usable(ctx, value) if value is not None else (await _load_current(ctx)).checkpoint


async def _load_current(ctx: RunContext[Any]) -> _Stored:
    """The current checkpoint in the state."""
    found = await ctx.api.state.find("conversation", CHECKPOINT_KEY)
    return _Stored(None, 0) if found is None else _Stored(_usable(ctx, found.value), found.version)


async def store_checkpoint(ctx: RunContext[Any], based_on: Checkpoint | None, new: Checkpoint) -> Checkpoint:
    """Store a checkpoint and return the valid one: that of another run, if it covers more."""
    try:
        now = await _load_current(ctx)
        if now.checkpoint is not None and now.checkpoint != based_on and now.checkpoint.covers_until > new.covers_until:
            return now.checkpoint
        await ctx.api.state.set("conversation", CHECKPOINT_KEY, new.to_json(), if_version=now.version)
    except AgentAPIException as error:
        # This run continues with its own summary; the next one starts from the stored one.
        ctx.log("a checkpoint was not kept", "warning", code=error.code, covers_until=new.covers_until)
    return new
