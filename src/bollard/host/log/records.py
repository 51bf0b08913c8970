"""A record before it is written: its place in the chain and its id come with the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

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
    """The data of a stored record; empty where retention dropped it."""
    return _decode(row.data) if row.data is not None else {}


def with_version(data: bytes, version: int) -> bytes:
    """The data of a record that writes a state value, with the version that it makes: known in its commit only."""
    return b'%b,"version":%d}' % (data[:-1], version)


# What is fixed about a run when it is created: enough to project each of its records without looking anything up.


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


# What data brought along, as records say it: bits of `Flow`, 1 private, 2 untrusted, 4 sent out. Pure.
#
# What outlives a run says what the run had touched when it was written. What only a run itself sees is said when there
# is something new, by the next record of the host: so whoever replays a run knows as much as its owner did.


NO_BITS: Final = 0
PRIVATE_BIT: Final = 1
UNTRUSTED_BIT: Final = 2
_ALL_BITS: Final = 7

_KEPT: Final = frozenset({"message.completed", "state.updated", "storage.updated", "artifact.created"})
"""What others read later."""
_TELLING: Final = frozenset({"run.started", "api.called", "steering.injected"})
"""What the host writes when a run has taken something in."""
_OTHERS: Final = frozenset(
    {"run.created", "action.started", "action.completed", "action.failed", "action.rejected", "action.unknown"}
)
"""What says it by itself."""
_ALL: Final = _KEPT | _TELLING | _OTHERS


def flow_in(data: JsonObject) -> int:
    """The bits that the data of a record has; one of before there were any has none."""
    bits = data.get("flow")
    return bits & _ALL_BITS if isinstance(bits, int) else NO_BITS


def flow_told(kind: str, data: JsonObject) -> int:
    """What a record of a run tells of what the run has touched. What a runner may write itself tells nothing."""
    return flow_in(data) if kind in _ALL else NO_BITS


def says_flow(kind: str, touched: int, told: int) -> bool:
    """Whether a record that is written now must say what its run has touched; `told` is what records said before."""
    return (kind in _KEPT and touched != NO_BITS) or (kind in _TELLING and touched != told)
