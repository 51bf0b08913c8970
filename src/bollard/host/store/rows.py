"""The rows of the store. Times are whole milliseconds of the epoch; `data` and `value` are JSON as UTF-8 bytes."""

from typing import Final, Literal, get_args

import msgspec

from bollard.host.scope import Actor
from bollard.host.store.action_rows import EndToolCall, PatchApproval, PutApproval, PutToolCall

ENDED: Final = frozenset({"completed", "failed", "cancelled", "timeout"})
"""The final statuses of a run, repeated from the protocol so that the journal process need not import it. A test
compares them."""


class RecordRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record of the log. `id` orders all records of a store; `position` and `hash` are its place in its chain."""

    id: int
    workspace: str
    chain: str
    position: int
    run_id: str | None
    seq: int | None
    epoch: int | None
    source_seq: int | None
    type: str
    observed: bool
    created_ms: int
    data: bytes | None
    data_sha256: str
    hash: str


class DeltaRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Deltas of one run that were flushed together: `body` is their payloads end to end, `spans` says where each is."""

    run_id: str
    epoch: int
    first_seq: int
    last_seq: int
    created_ms: int
    spans: bytes
    body: bytes


class HeadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A signed head of a chain."""

    workspace: str
    chain: str
    position: int
    hash: str
    created_ms: int
    key_id: str
    signature: bytes


Dispatch = Literal["run", "pending", "steering", "dropped"]
"""The dispatch of an event: it has a run, waits for one, was claimed by an active run, or is dropped."""
Steering = Literal["queued", "injected", "acknowledged", "dropped"]
"""The progress of an event that an active run claimed."""


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted event. `workspace`, `source` and `source_id` are its dedupe key."""

    event_id: str
    workspace: str
    source: str
    source_id: str
    type: str
    run_id: str | None
    bot: str | None
    conversation: str | None
    thread: str | None
    actor_type: str | None
    actor_id: str | None
    actor_name: str | None
    subject_type: str | None
    subject_id: str | None
    summary: str | None
    event_ms: int | None
    created_ms: int
    dispatch: Dispatch
    steering: Steering | None
    steering_ms: int | None
    record_id: int
    flow: int = 0
    """Its flow, as bits of `Flow`."""

    @property
    def actor(self) -> Actor | None:
        return None if self.actor_type is None else Actor(self.actor_type, self.actor_id)


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of one run. `facts` are its `RunFacts` as JSON."""

    run_id: str
    workspace: str
    event_id: str
    agent_id: str
    binding_id: str
    runner_id: str
    bot: str | None
    conversation: str | None
    thread: str | None
    parent_run_id: str | None
    depth: int
    status: str
    reason: str | None
    epoch: int
    owner: str | None
    lease_until_ms: int | None
    grant_sha256: str
    created_ms: int
    started_ms: int | None
    finished_ms: int | None
    updated_ms: int
    cancel_requested_ms: int | None
    last_seq: int
    facts: bytes
    usage: str | None = None
    """The usage of its model calls, as JSON; `None` if it made none."""


class TranscriptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation. `seq` is the id of its record."""

    transcript_id: str
    workspace: str
    bot: str | None
    conversation: str | None
    thread: str | None
    event_id: str
    run_id: str | None
    seq: int
    role: str
    content: str | None
    content_json: bytes | None
    search: str
    created_ms: int
    flow: int = 0
    """Its flow, as bits of `Flow`."""


class ConversationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation or thread, and its newest message. `place` is the digest of its name."""

    place: str
    workspace: str
    bot: str | None
    conversation: str
    thread: str | None
    last_seq: int
    last_ms: int


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One state value. `scope_key` is the digest of its scope and owner."""

    scope_key: str
    key: str
    workspace: str
    scope: str
    value: bytes
    version: int
    expires_ms: int | None
    updated_ms: int
    flow: int = 0
    """Its flow, as bits of `Flow`."""


class WrittenState(msgspec.Struct, frozen=True, kw_only=True):
    """The key and version of a state value, and the `state.updated` record whose id is the version, if any. An old,
    counted version may be the id of an unrelated record."""

    scope_key: str
    key: str
    scope: str
    version: int
    run_id: str | None
    data: bytes | None


class StorageRow(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a stored value; its content is a blob. `area_key` is the digest of its area and owner."""

    area_key: str
    key: str
    sha256: str
    size_bytes: int
    updated_ms: int
    flow: int = 0
    """Its flow, as bits of `Flow`."""


PolicyKind = Literal[
    "agent",
    "binding",
    "workspace",
    "user",
    "key",
    "actor",
    "channel",
    "plugin",
    "runtime",
    "secret",
    "mcp_server",
    "skill",
    "model",
    "kb",
    "hook",
    "schedule",
    "bot",
    "subscription",
]
POLICY_KINDS: Final[tuple[PolicyKind, ...]] = get_args(PolicyKind)
"""Kinds of saved resources. The table of each is named by the kind and an `s`."""


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One saved resource: an agent, a binding, a user. `body` is JSON."""

    workspace: str
    id: str
    revision: int
    body: bytes
    updated_ms: int


class KeptRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Durable data that must not be in the log: a password hash, a session, a stored response. Not a projection: it
    cannot be rebuilt."""

    kind: str
    workspace: str
    id: str
    body: bytes
    expires_ms: int | None
    updated_ms: int


MESSAGE_SOURCE: Final = "message"
"""The source of artifacts that came with a message, or were uploaded for one."""


class ArtifactRow(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of an artifact; its content is a blob."""

    artifact_id: str
    workspace: str
    run_id: str | None
    runner_id: str | None
    conversation: str | None
    type: str
    mime_type: str | None
    name: str | None
    size_bytes: int | None
    sha256: str | None
    source: str
    created_ms: int
    expires_ms: int | None
    metadata: bytes
    flow: int = 0
    """Its flow, as bits of `Flow`."""


OutboxStatus = Literal["queued", "started", "shown", "sent", "failed", "unknown"]
"""`started`: it may have left this host. `shown`: a preview was sent and will be edited. The last three are final;
`unknown`: it was sent without a response, and the channel cannot tell whether it arrived."""


class OutboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery of a message to a channel. `record_id` is the record that created the row."""

    delivery_id: str
    workspace: str
    channel: str
    target: str
    run_id: str
    event_id: str
    message_key: str
    """The runner's id of the message; empty if it has none."""
    preview: bool
    """Whether it is the preview of an unfinished message."""
    record_id: int
    max_message_size: int | None
    status: OutboxStatus
    attempts: int
    due_ms: int
    """The earliest time of the next attempt."""
    messages: bytes
    """The channel's ids of the delivered parts, as a JSON list."""
    reason: str | None
    created_ms: int
    updated_ms: int


# --- changes of the projections ---


class PutEvent(msgspec.Struct, frozen=True):
    """A new event; an existing one (by id or by dedupe key) is a `Conflict`."""

    row: EventRow


EventField = Literal["run_id", "dispatch", "steering", "steering_ms"]


class PatchEvent(msgspec.Struct, frozen=True):
    workspace: str
    event_id: str
    fields: dict[EventField, str | int | None]


class PutRun(msgspec.Struct, frozen=True):
    """A new run; an existing one is a `Conflict`."""

    row: RunRow


RunField = Literal[
    "status",
    "reason",
    "epoch",
    "owner",
    "lease_until_ms",
    "started_ms",
    "finished_ms",
    "updated_ms",
    "cancel_requested_ms",
    "last_seq",
    "usage",
]


class PatchRun(msgspec.Struct, frozen=True):
    run_id: str
    fields: dict[RunField, str | int | None]


class PutTranscript(msgspec.Struct, frozen=True):
    """A message, inserted or replaced by `seq`."""

    row: TranscriptRow


class PutState(msgspec.Struct, frozen=True):
    """A state value, inserted or replaced. A `version` of 0 comes from an old record without one: the store counts it,
    one more than the row's.

    The count restarts at 1 if there is no row, or if the row had expired when the value was written, so that a rebuild
    counts the same whether or not the expired row was dropped already.
    """

    row: StateRow


class DropState(msgspec.Struct, frozen=True):
    scope_key: str
    key: str


class PutStorage(msgspec.Struct, frozen=True):
    """A stored value, inserted or replaced."""

    row: StorageRow


class DropStorage(msgspec.Struct, frozen=True):
    area_key: str
    key: str


class PutPolicy(msgspec.Struct, frozen=True):
    """A saved resource, inserted or replaced."""

    kind: PolicyKind
    row: PolicyRow


class DropPolicy(msgspec.Struct, frozen=True):
    kind: PolicyKind
    workspace: str
    id: str


class PutOutbox(msgspec.Struct, frozen=True):
    """A delivery, inserted or replaced."""

    row: OutboxRow


OutboxField = Literal["status", "attempts", "due_ms", "messages", "reason", "updated_ms"]


class PatchOutbox(msgspec.Struct, frozen=True):
    delivery_id: str
    fields: dict[OutboxField, str | int | bytes | None]


class PutArtifact(msgspec.Struct, frozen=True):
    """An artifact, inserted or replaced. One without content does not replace an existing one."""

    row: ArtifactRow


class DropArtifact(msgspec.Struct, frozen=True):
    workspace: str
    artifact_id: str


Change = (
    PutEvent
    | PatchEvent
    | PutRun
    | PatchRun
    | PutTranscript
    | PutState
    | DropState
    | PutStorage
    | DropStorage
    | PutPolicy
    | DropPolicy
    | PutArtifact
    | DropArtifact
    | PutOutbox
    | PatchOutbox
    | PutToolCall
    | EndToolCall
    | PutApproval
    | PatchApproval
)


# --- changes of `kept` rows ---


class PutKept(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A row, inserted or replaced."""

    row: KeptRow


class DropKept(msgspec.Struct, frozen=True, tag=True, array_like=True):
    kind: str
    workspace: str
    id: str


KeptChange = PutKept | DropKept
