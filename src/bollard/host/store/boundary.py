"""What a store can do. All calls block: the journal's thread writes, readers come from a thread pool.

One `WriteTransaction` is one commit: it is on disk when the `with` block is left, or nothing of it happened.
Implementations: memory, and SQL for SQLite and PostgreSQL.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

import msgspec

from bollard.host.limits import RECORDS_PAGE_BYTES
from bollard.host.store.action_rows import ApprovalRow, ApprovalStatus, ToolCallRow
from bollard.host.store.rows import (
    ArtifactRow,
    Change,
    ConversationRow,
    DeltaRow,
    EventRow,
    HeadRow,
    KeptChange,
    KeptRow,
    OutboxRow,
    PolicyKind,
    PolicyRow,
    RecordRow,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
    WrittenState,
)

__all__ = ["EVER_MS", "Lease", "RecordQuery", "RunQuery", "Store", "TranscriptQuery", "WriteTransaction"]

EVER_MS: Final = 1 << 53
"""Later than every time in a store, also one that a clock wrote which was set back since."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who owns a run, and until when on the store's own clock."""

    owner: str
    epoch: int
    until_ms: int


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of runs, newest first: those before `before` (created_ms, run_id)."""

    workspace: str
    limit: int
    before: tuple[int, str] | None = None
    statuses: frozenset[str] | None = None
    agent_id: str | None = None
    conversation: str | None = None


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one workspace with ids between two others, both exclusive: so many ids as may be looked at."""

    workspace: str
    above: int
    below: int
    limit: int
    forward: bool = False
    """Oldest first; otherwise the newest."""
    types: frozenset[str] | None = None
    but_types: frozenset[str] = frozenset()
    run_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive."""


class TranscriptQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of one conversation and thread. `before` and `after` are transcript seqs, both exclusive, and so are the
    times."""

    workspace: str
    bot: str | None
    conversation: str
    thread: str | None
    limit: int
    before: int | None = None
    after: int | None = None
    forward: bool = False
    role: str | None = None
    before_ms: int | None = None
    after_ms: int | None = None


class WriteTransaction(Protocol):
    """Inside one commit. Reads see what was written before in it."""

    def lock_epochs(self, run_ids: Iterable[str]) -> dict[str, int]:
        """The current epoch of each run that exists and has not ended, locked until the commit."""
        ...

    def find_event(self, workspace: str, source: str, source_id: str) -> EventRow | None: ...

    def find_events(self, keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], EventRow]:
        """Those of these workspaces, sources and ids that are there already."""
        ...

    def event_dispatch(self, workspace: str, event_id: str) -> str | None:
        """What became of the event so far, locked until the commit; nothing where there is no such event."""
        ...

    def find_state(self, scope_key: str, key: str) -> StateRow | None:
        """The row as this transaction sees it, also one that has expired: what compare-and-set compares with."""
        ...

    def state_size(self, scope_key: str, now_ms: int) -> int:
        """Bytes of all keys and values of a scope that have not expired at `now_ms`."""
        ...

    def expect_records(self, count: int) -> None:
        """At most so many ids will be asked for: a hint, given before the first question."""
        ...

    def next_record_ids(self, count: int) -> int:
        """Reserve `count` ids that are larger than all before; returns the first."""
        ...

    def skip_record_ids(self, last: int) -> None:
        """Reserve none up to `last` from now on."""
        ...

    def add_records(self, rows: Sequence[RecordRow]) -> None: ...

    def add_deltas(self, rows: Sequence[DeltaRow]) -> None: ...

    def merge_deltas(self, run_id: str) -> None:
        """Make few rows of the delta rows of a run: one for each epoch that left any, or some of a limited size."""
        ...

    def apply(self, changes: Iterable[Change]) -> None:
        """Carry out what the records mean for the projections."""
        ...

    def keep(self, changes: Iterable[KeptChange]) -> None:
        """Carry out what no record stands for, in order."""
        ...

    def take_lease(self, run_id: str, lease: Lease) -> bool:
        """Give the run to `lease.owner`; false unless its epoch is `lease.epoch - 1` and it has not ended."""
        ...

    def renew_leases(self, owner: str, run_ids: Sequence[str], until_ms: int) -> set[str]:
        """Extend what `owner` still owns; returns those runs."""
        ...

    def add_head(self, row: HeadRow) -> None: ...

    def put_meta(self, key: str, value: str) -> None:
        """Remember a fact about the store itself."""
        ...

    def drop_data(self, types: Iterable[str], before_ms: int, limit: int) -> int:
        """Retention: forget the data of old records of these types, keep their headers; returns how many.

        What was made of them goes too: events and what was sent in full, what is in the transcript, deliveries. What is
        under way is left alone: records of a run that has not ended, an event that waits for one, a message that is
        being sent.
        """
        ...

    def drop_deltas(self, before_ms: int, limit: int) -> int:
        """Retention: forget the deltas of ended runs whose newest is older; returns how many rows."""
        ...

    def drop_expired(self, now_ms: int, limit: int) -> int:
        """Forget expired state, artifacts and kept rows; returns how many."""
        ...

    def clear_projections(self) -> None:
        """Empty every projection, to rebuild it from the log."""
        ...


class Store(Protocol):
    """Rows of every kind."""

    def open(self) -> None:
        """Connect, migrate, check. Raises `SchemaTooNew`, `StorageUnavailable`, `StorageFull`."""
        ...

    def close(self) -> None: ...

    def write(self) -> AbstractContextManager[WriteTransaction]:
        """One commit. Raises `StorageFull` or `StorageUnavailable` when it could not be made, `Conflict` when a row is
        there already; then nothing was written. Only where the connection died in the commit and cannot be made again
        is that not known: such an error says `details["outcome"] == "unknown"`.
        """
        ...

    def now_ms(self) -> int:
        """The store's own clock: leases are measured by it."""
        ...

    # --- reading ---

    def run(self, run_id: str) -> RunRow | None: ...

    def runs(self, query: RunQuery) -> list[RunRow]: ...

    def newest_runs(self, workspace: str, bot: str | None, conversation: str, thread: str | None) -> list[RunRow]:
        """The newest run of each agent in one conversation and thread, however many came after it."""
        ...

    def unfinished_runs(self, after: str, limit: int) -> list[RunRow]:
        """Runs that have not ended, by id, those after `after`."""
        ...

    def children(self, run_id: str) -> list[RunRow]:
        """The runs that a run called, oldest first."""
        ...

    def count_runs(self, workspace: str, agent_id: str, since_ms: int) -> int:
        """How many runs of an agent were created since then."""
        ...

    def records_of_run(
        self, run_id: str, after_seq: int, limit: int, limit_bytes: int = RECORDS_PAGE_BYTES
    ) -> list[RecordRow]:
        """In order: so many at most, and none behind the one with which they reach `limit_bytes`."""
        ...

    def deltas_of_run(self, run_id: str, after_seq: int) -> list[DeltaRow]:
        """Rows that hold any delta after `after_seq`, in order."""
        ...

    def deltas_page(self, run_id: str, after_seq: int, limit: int, limit_bytes: int) -> list[DeltaRow]:
        """The first of them: so many at most, and none behind the one with which they reach `limit_bytes`."""
        ...

    def last_seq(self, run_id: str, epoch: int | None = None) -> int:
        """The newest `seq` of a run on disk, over records and deltas, of this epoch and those before it; 0 if none."""
        ...

    def records(self, after_id: int, limit: int) -> list[RecordRow]:
        """The whole log in order, those after `after_id`."""
        ...

    def chain(self, workspace: str, chain: str, after_position: int, limit: int) -> list[RecordRow]: ...

    def records_among(self, query: RecordQuery) -> list[RecordRow]:
        """Those of some ids that a reader of the log wants."""
        ...

    def last_record(self) -> int:
        """The newest id; 0 where there is none."""
        ...

    def heads(self, workspace: str) -> list[HeadRow]: ...

    def newest_heads(self, workspace: str | None, signed_by_ms: int, limit: int) -> list[HeadRow]:
        """The newest head of each chain that was signed by then, newest first; of one workspace or of every one."""
        ...

    def lagging_heads(self, key_id: str, limit: int) -> list[HeadRow]:
        """The newest head of each chain that records lie behind, where this key signed it; newest first."""
        ...

    def event(self, workspace: str, event_id: str) -> EventRow | None: ...

    def events(self, workspace: str, before_record: int | None, limit: int) -> list[EventRow]:
        """Newest first."""
        ...

    def events_in(
        self,
        workspace: str,
        bot: str | None,
        conversation: str,
        thread: str | None,
        before_record: int | None,
        limit: int,
    ) -> list[EventRow]:
        """Those of one conversation and thread, newest first."""
        ...

    def pending_events(self, after_record: int, limit: int) -> list[EventRow]:
        """Events of every workspace that wait for a run, in the order of arrival, those after `after_record`."""
        ...

    def threads(self, workspace: str, bot: str | None, conversation: str, runs: int) -> list[str | None]:
        """The threads that the newest runs of a conversation were in, the last one first; of so many runs."""
        ...

    def conversations(self, workspace: str, before_seq: int | None, limit: int) -> list[ConversationRow]:
        """Conversations and their threads, the one with the newest message first; those before `before_seq`."""
        ...

    def transcript(self, query: TranscriptQuery) -> list[TranscriptRow]: ...

    def search(self, query: TranscriptQuery, terms: Sequence[str]) -> list[TranscriptRow]:
        """Messages that hold all terms (as `bollard.segments.terms` makes them), best first, then newest."""
        ...

    def state(self, scope_key: str, key: str, now_ms: int | None = None) -> StateRow | None:
        """The value, unless it has expired at `now_ms`; by the store's own clock where no time is given."""
        ...

    def states(self, scope_key: str, after_key: str, limit: int, now_ms: int | None = None) -> list[StateRow]:
        """By key, those after `after_key` that have not expired."""
        ...

    def written_states(
        self, workspace: str, after: tuple[str, str], limit: int, now_ms: int | None = None
    ) -> list[WrittenState]:
        """All of a workspace that have not expired, by scope key and key, those after `after`; with who wrote them."""
        ...

    def storage(self, area_key: str, key: str) -> StorageRow | None: ...

    def storages(self, area_key: str, after_key: str, limit: int) -> list[StorageRow]:
        """By key, those after `after_key`."""
        ...

    def policies(self, kind: PolicyKind, workspace: str) -> list[PolicyRow]:
        """What people saved, by id."""
        ...

    def policies_everywhere(self, kind: PolicyKind) -> list[PolicyRow]:
        """What people saved in every workspace, by workspace and id."""
        ...

    def kept(self, kind: str, workspace: str, kept_id: str, now_ms: int | None = None) -> KeptRow | None:
        """What is kept beside the log, unless it has expired at `now_ms`; by the store's own clock without one."""
        ...

    def all_kept(self, kind: str, workspace: str | None = None, now_ms: int | None = None) -> list[KeptRow]:
        """All of a kind that have not expired, of one workspace or of every one, by workspace and id."""
        ...

    def artifact(self, workspace: str, artifact_id: str) -> ArtifactRow | None: ...

    def uploads(self, workspace: str, after: str, limit: int) -> list[ArtifactRow]:
        """What people uploaded, by id, those after `after`. Costs what it finds where `after` is behind all others."""
        ...

    def artifact_digests(self, after: str, limit: int) -> list[str]:
        """The digests that artifacts and storage refer to, in order, those after `after`: a blob sweep keeps them."""
        ...

    def outbox_open(self, after_record: int, limit: int) -> list[OutboxRow]:
        """What is on its way to channels of every workspace, in order, those after `after_record`."""
        ...

    def outbox(self, workspace: str, channel: str | None, before_record: int | None, limit: int) -> list[OutboxRow]:
        """What was sent and what waits, newest first; of one channel, or of all of the workspace."""
        ...

    def tool_call(self, run_id: str, call_id: str) -> ToolCallRow | None: ...

    def tool_calls(self, run_id: str, after_record: int, limit: int) -> list[ToolCallRow]:
        """The calls of a run in the order in which they began, those after `after_record`."""
        ...

    def open_tool_calls(self, after_record: int, limit: int) -> list[ToolCallRow]:
        """Calls of every run that were begun and have no end, in order."""
        ...

    def approval(self, workspace: str, approval_id: str) -> ApprovalRow | None: ...

    def approvals(
        self, workspace: str, status: ApprovalStatus | None, before: tuple[int, str] | None, limit: int
    ) -> list[ApprovalRow]:
        """What people were asked, newest first; those before (created_ms, approval_id), of one status or of all."""
        ...

    def approvals_of_run(self, run_id: str) -> list[ApprovalRow]:
        """Oldest first."""
        ...

    def open_approvals(self, after: str, limit: int) -> list[ApprovalRow]:
        """Of every workspace, by id: what was asked and not decided, and what was allowed and not used."""
        ...

    def meta(self, key: str) -> str | None: ...

    def revision(self) -> str | None:
        """The schema that is there now: another program may have changed it since the start."""
        ...

    def dump_projections(self) -> dict[str, list[tuple[object, ...]]]:
        """Every projection's rows in a fixed order, to compare two of them; without leases, which no record holds."""
        ...
