"""The rows of the store. Times are whole milliseconds of the epoch; `data` and `value` are JSON as UTF-8 bytes."""

from typing import Final, Literal, get_args

import msgspec

from bollard.host.store.action_rows import EndToolCall, PatchApproval, PutApproval, PutToolCall

ENDED: Final = frozenset({"completed", "failed", "cancelled", "timeout"})
"""The statuses of a run that is over. The protocol's own, written again because the schema spells them out too, and
because the journal process does without the protocol's shapes; a test compares them."""


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
"""What became of an event: it has a run, it waits for one, a run that was there claimed it, or nothing will."""
Steering = Literal["queued", "injected", "acknowledged", "dropped"]
"""How far the run that claimed an event got with it."""


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
    """What it was made of, as bits of `Flow`."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run as it stands. `facts` is what its records are projected with, as JSON."""

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
    """What its model calls came to, as JSON; nothing where it made none."""


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
    """What it was made of, as bits of `Flow`."""


class ConversationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation, or one thread of it, and the newest of its messages. `place` is its name as a digest."""

    place: str
    workspace: str
    bot: str | None
    conversation: str
    thread: str | None
    last_seq: int
    last_ms: int


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """One state value. `scope_key` is the digest of whose state it is."""

    scope_key: str
    key: str
    workspace: str
    scope: str
    value: bytes
    version: int
    expires_ms: int | None
    updated_ms: int
    flow: int = 0
    """What it was made of, as bits of `Flow`."""


class WrittenState(msgspec.Struct, frozen=True, kw_only=True):
    """A state value without what it says, and the record whose id is its version, where that is one which writes
    state. A version that was counted may be the id of a record that has nothing to do with it."""

    scope_key: str
    key: str
    scope: str
    version: int
    run_id: str | None
    data: bytes | None


class StorageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a stored value; its content is a blob by digest. `area_key` is the digest of whose it is."""

    area_key: str
    key: str
    sha256: str
    size_bytes: int
    updated_ms: int
    flow: int = 0
    """What it was made of, as bits of `Flow`."""


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
]
POLICY_KINDS: Final[tuple[PolicyKind, ...]] = get_args(PolicyKind)
"""Each has a table of its own, called as the kind and an `s`."""


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that somebody saved: an agent, a binding, a user. `body` is JSON."""

    workspace: str
    id: str
    revision: int
    body: bytes
    updated_ms: int


class KeptRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What must outlive the process and must not be in the log: the hash of a password, a session, an answer that may
    be asked for again. Not a projection: nothing rebuilds it."""

    kind: str
    workspace: str
    id: str
    body: bytes
    expires_ms: int | None
    updated_ms: int


class ArtifactRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an artifact; its content is a blob by digest."""

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
    """What it was made of, as bits of `Flow`."""


OutboxStatus = Literal["queued", "started", "shown", "sent", "failed", "unknown"]
"""`started`: it may have left this host. `shown`: a first version stands there and will be edited. The last three are
final; `unknown` is said of what left without an answer, where the channel could not be asked again."""


class OutboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a run on its way to a channel. `record_id` is the record that put it here."""

    delivery_id: str
    workspace: str
    channel: str
    target: str
    run_id: str
    event_id: str
    message_key: str
    """The runner's own id of the message; empty where it has none."""
    preview: bool
    """Whether it is what is shown of a message that is still being written."""
    record_id: int
    max_message_size: int | None
    status: OutboxStatus
    attempts: int
    due_ms: int
    """Before this time it is not tried again."""
    messages: bytes
    """The channel's own ids of the parts that arrived, as a JSON list."""
    reason: str | None
    created_ms: int
    updated_ms: int


# --- changes: what a record does to the projections, as data ---


class PutEvent(msgspec.Struct, frozen=True):
    """A new event; one that is there already (by id or by its dedupe key) is a `Conflict`."""

    row: EventRow


EventField = Literal["run_id", "dispatch", "steering", "steering_ms"]


class PatchEvent(msgspec.Struct, frozen=True):
    workspace: str
    event_id: str
    fields: dict[EventField, str | int | None]


class PutRun(msgspec.Struct, frozen=True):
    """A new run; one that is there already is a `Conflict`."""

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
    """A message, new or again: one record holds one message, so `seq` says which."""

    row: TranscriptRow


class PutState(msgspec.Struct, frozen=True):
    """A new value. A `version` of 0 is of a record that says none, as before versions were ids of records: it counts
    on, one more than the row's.

    Counted, it is 1 where there is no row, and where the row had expired when the value was written: an expired value
    is absent, whether or not it was swept already, so that a rebuild counts the same.
    """

    row: StateRow


class DropState(msgspec.Struct, frozen=True):
    scope_key: str
    key: str


class PutStorage(msgspec.Struct, frozen=True):
    """A stored value, new or again."""

    row: StorageRow


class DropStorage(msgspec.Struct, frozen=True):
    area_key: str
    key: str


class PutPolicy(msgspec.Struct, frozen=True):
    """Something that was saved, new or again."""

    kind: PolicyKind
    row: PolicyRow


class DropPolicy(msgspec.Struct, frozen=True):
    kind: PolicyKind
    workspace: str
    id: str


class PutOutbox(msgspec.Struct, frozen=True):
    """A message for a channel, new or again."""

    row: OutboxRow


OutboxField = Literal["status", "attempts", "due_ms", "messages", "reason", "updated_ms"]


class PatchOutbox(msgspec.Struct, frozen=True):
    delivery_id: str
    fields: dict[OutboxField, str | int | bytes | None]


class PutArtifact(msgspec.Struct, frozen=True):
    """An artifact, new or again. One without content changes nothing where there is one already."""

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


# --- what is kept beside the log: changes that no record stands for ---


class PutKept(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A row, new or again."""

    row: KeptRow


class DropKept(msgspec.Struct, frozen=True, tag=True, array_like=True):
    kind: str
    workspace: str
    id: str


KeptChange = PutKept | DropKept
