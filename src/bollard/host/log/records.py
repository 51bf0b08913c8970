"""Records before they are written (the commit assigns position and id), and the facts of runs that records hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from bollard.host.scope import Actor, Scope
from bollard.host.store.rows import RecordRow
from bollard.trust import canonical_sha256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bollard.protocol import JsonObject, JsonValue, StateScope


encode_data: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class NewRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """One fact. Records of a run carry its `seq` and `epoch`; others belong to their workspace."""

    workspace: str
    type: str
    data: bytes
    created_ms: int
    observed: bool = True
    run_id: str | None = None
    seq: int | None = None
    epoch: int | None = None
    source_seq: int | None = None


def data_of(row: RecordRow) -> dict[str, JsonValue]:
    """The data of a stored record; empty if retention dropped it."""
    return _decode(row.data) if row.data is not None else {}


def with_version(data: bytes, version: int) -> bytes:
    """Add the version of a state value to the data of the record that writes it. Only the commit knows the version."""
    return b'%b,"version":%d}' % (data[:-1], version)


class DeliverTo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The channel that receives the messages of a run."""

    channel: str
    target: str
    streaming: bool = False
    """Whether a message may be shown while it is written."""
    max_message_size: int | None = None
    """Characters per message; longer messages are split."""


class InteractionRoute(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an approval or a question is shown. The record that opens it and the one that closes it have the route, so
    each suffices to queue its operation."""

    id: str
    """Random. Clicks name it."""
    channel: str
    target: str
    event_id: str
    """The event of the run whose conversation it is."""
    max_message_size: int | None = None


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fixed facts of a run, stored in its `run.created` record. They suffice to project each of its records."""

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
    """The depth in the tree of runs that call each other."""
    adopts: bool = False
    """Whether the event was already stored, waiting for a run."""
    external: bool = False
    """Whether an external program executes the run, with its own token."""
    on_message: bool = False
    """Whether the event is a message, so that silence is a failure."""
    deadline_s: float = 300.0
    idle_s: float = 120.0
    deliver_to: DeliverTo | None = None
    flow: int = 0
    """The flow of the event, as bits of `Flow`."""

    @property
    def actor(self) -> Actor | None:
        return None if self.actor_type is None else Actor(self.actor_type, self.actor_id)


def scope_key(facts: RunFacts, scope: StateScope) -> str:
    """The key of a state scope. It includes the agent, so two agents never share state by accident."""
    return owned_scope_key(facts.workspace, scope, owner_of(facts, facts.agent_id, facts.runner_id, scope))


def owner_of(where: RunFacts | Scope, agent_id: str, runner_id: str, scope: StateScope) -> dict[str, str]:
    """The owner of a state scope in a run, without the workspace."""
    parts: dict[str, str | None] = {"bot": where.bot, "agent": agent_id, "runner": runner_id}
    if scope == "conversation":
        parts |= {"conversation": where.conversation, "thread": where.thread}
    elif scope == "actor":
        parts |= {"actor_type": where.actor_type, "actor_id": where.actor_id}
    elif scope == "subject":
        parts |= {"subject_type": where.subject_type, "subject_id": where.subject_id}
    return {key: value for key, value in parts.items() if value is not None}


def owned_scope_key(workspace: str, scope: str, owner: Mapping[str, str]) -> str:
    """The digest of an owner. The workspace argument overrides one in `owner`."""
    return canonical_sha256({**owner, "scope": scope, "workspace": workspace})


# --- flow: bits of `Flow` in records (1 private, 2 untrusted, 4 sent out) ---
#
# Records that outlive a run hold the flow of the run when they were written. Other changes of the flow are in the next
# record of the host, so a replay of the run knows as much as its owner did.

NO_BITS: Final = 0
PRIVATE_BIT: Final = 1
UNTRUSTED_BIT: Final = 2
_ALL_BITS: Final = 7

LASTING_RECORDS: Final = frozenset({"message.completed", "state.updated", "storage.updated", "artifact.created"})
"""Records whose content others read later."""
INPUT_RECORDS: Final = frozenset({"run.started", "api.called", "steering.injected"})
"""Records that the host writes when a run has received input."""
_OTHERS: Final = frozenset(
    {"run.created", "action.started", "action.completed", "action.failed", "action.rejected", "action.unknown"}
)
"""Records whose writers add the flow themselves."""
FLOW_RECORDS: Final = LASTING_RECORDS | INPUT_RECORDS | _OTHERS


def flow_in(data: JsonObject) -> int:
    """The flow bits in the data of a record; none in records that predate them."""
    bits = data.get("flow")
    return bits & _ALL_BITS if isinstance(bits, int) else NO_BITS


def flow_of_run(kind: str, data: JsonObject) -> int:
    """The flow of the run according to one of its records. Records that a runner may write itself do not count."""
    return flow_in(data) if kind in FLOW_RECORDS else NO_BITS
