"""What is fixed about a run when it is created: enough to project each of its records without looking anything up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bollard.trust import canonical_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bollard.protocol import StateScope

__all__ = ["DeliverTo", "RunFacts", "owned_scope_key", "owner_of", "scope_key"]


class DeliverTo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the messages of a run are sent, beside those who read it."""

    channel: str
    target: str
    streaming: bool = False
    """Whether a message may be shown while it is written."""
    max_message_size: int | None = None
    """Characters of one message; what is longer goes in parts."""


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Frozen with the run and stored in its `run.created` record."""

    run_id: str
    workspace: str
    event_id: str
    agent_id: str
    binding_id: str
    runner_id: str
    grant_sha256: str
    bot: str | None = None
    conversation: str | None = None
    thread: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    subject_type: str | None = None
    subject_id: str | None = None
    parent_run_id: str | None = None
    depth: int = 0
    """How many runs called each other down to this one."""
    adopts: bool = False
    """Whether the event was there before, waiting for a run."""
    external: bool = False
    """Whether a program outside executes it, with a token of its own."""
    on_message: bool = False
    """Whether the event is a message, so that silence is a failure."""
    deadline_s: float = 300.0
    idle_s: float = 120.0
    deliver_to: DeliverTo | None = None
    flow: int = 0
    """What came with the event, as bits of `Flow`."""


def scope_key(facts: RunFacts, scope: StateScope) -> str:
    """Whose state it is (§4): two agents never share state by accident."""
    return owned_scope_key(facts.workspace, scope, owner_of(facts, scope))


def owner_of(facts: RunFacts, scope: StateScope) -> dict[str, str]:
    """Who has the state of this scope in a run, beside its workspace."""
    parts: dict[str, str | None] = {"bot": facts.bot, "agent": facts.agent_id, "runner": facts.runner_id}
    if scope == "conversation":
        parts |= {"conversation": facts.conversation, "thread": facts.thread}
    elif scope == "actor":
        parts |= {"actor_type": facts.actor_type, "actor_id": facts.actor_id}
    elif scope == "subject":
        parts |= {"subject_type": facts.subject_type, "subject_id": facts.subject_id}
    return {key: value for key, value in parts.items() if value is not None}


def owned_scope_key(workspace: str, scope: str, owner: Mapping[str, str]) -> str:
    """The digest of it. The workspace is never what an owner says."""
    return canonical_sha256({**owner, "scope": scope, "workspace": workspace})
