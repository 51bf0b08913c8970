"""One write transaction of the store, independent of the driver."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar, cast

import msgspec

from bollard.host.store import statements
from bollard.host.store.action_rows import CallChanges, EndToolCall, PatchApproval, PutApproval, PutToolCall
from bollard.host.store.database import Database, Values, build_rows, kept_and_mac, row_exists
from bollard.host.store.delta_spans import merge
from bollard.host.store.kept_key import KeptKey
from bollard.host.store.keys import place_of
from bollard.host.store.queries import Lease
from bollard.host.store.rows import (
    MESSAGE_SOURCE,
    ArtifactRow,
    Change,
    DeltaRow,
    DropArtifact,
    DropKept,
    DropPolicy,
    DropState,
    DropStorage,
    EventRow,
    HeadRow,
    KeptChange,
    KeptRow,
    PatchEvent,
    PatchOutbox,
    PatchRun,
    PutArtifact,
    PutEvent,
    PutKept,
    PutOutbox,
    PutPolicy,
    PutRun,
    PutState,
    PutStorage,
    PutTranscript,
    RecordRow,
    RunRow,
    StateRow,
    TranscriptRow,
)

KEPT_AT_ONCE: Final = 1000
"""`kept` rows per page when all of them are read."""
_Patch = dict[str, str | int | None]
_Key = tuple[str, ...]
_Row = TypeVar("_Row", RunRow, EventRow)
_Sent = PutOutbox | PatchOutbox | PutApproval | PatchApproval
_Saved = PutState | DropState | PutStorage | DropStorage | PutPolicy | DropPolicy | _Sent
_values: Final = msgspec.structs.astuple


class WriteTransaction:
    """A transaction of the database's writer. Reads see the earlier writes of the same transaction."""

    def __init__(self, database: Database, kept_key: KeptKey | None = None) -> None:
        self._database = database
        self._kept_key = kept_key

    def lock_epochs(self, run_ids: Iterable[str]) -> dict[str, int]:
        """The current epoch of each run that exists and has not ended, locked until the commit."""
        database = self._database
        ordered = sorted(run_ids)
        if len(ordered) == 1:
            rows = database.fetch(statements.lock_epochs("run_id = ?", database.row_lock), (ordered[0],))
        else:
            statement = statements.lock_epochs(database.among("run_id"), database.row_lock)
            rows = database.fetch(statement, (database.listed(ordered),))
        return dict(cast("list[tuple[str, int]]", rows))

    def find_event(self, workspace: str, source: str, source_id: str) -> EventRow | None:
        found = build_rows(EventRow, self._database.fetch(statements.FIND_EVENT, (workspace, source, source_id)))
        return found[0] if found else None

    def find_events(self, keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], EventRow]:
        """The existing events with these workspaces, sources and ids."""
        database = self._database
        if len(keys) == 1:  # a statement without a list is faster, and a single event is common
            found = self.find_event(*keys[0])
            return {} if found is None else {keys[0]: found}
        ids: dict[tuple[str, str], list[str]] = {}
        for workspace, source, source_id in keys:
            ids.setdefault((workspace, source), []).append(source_id)
        statement = statements.find_events(database.from_events_by_source, database.among("source_id"))
        rows: list[EventRow] = []
        for (workspace, source), wanted in ids.items():
            rows += build_rows(EventRow, database.fetch(statement, (workspace, source, database.listed(wanted))))
        return {(row.workspace, row.source, row.source_id): row for row in rows}

    def event_dispatch(self, workspace: str, event_id: str) -> str | None:
        """The dispatch of the event, locked until the commit; `None` if there is no such event."""
        database = self._database
        rows = database.fetch(statements.event_dispatch(database.row_lock), (workspace, event_id))
        return cast("str", rows[0][0]) if rows else None

    def find_state(self, scope_key: str, key: str) -> StateRow | None:
        """The row in this transaction, even if it has expired, for compare-and-set."""
        found = build_rows(StateRow, self._database.fetch(statements.FIND_STATE, (scope_key, key)))
        return found[0] if found else None

    def state_size(self, scope_key: str, now_ms: int) -> int:
        """Bytes of all keys and values of a scope that have not expired at `now_ms`."""
        database = self._database
        statement = statements.state_size(database.byte_length("key"), database.byte_length("value"))
        return cast("int", database.fetch(statement, (scope_key, now_ms))[0][0])

    def expect_records(self, count: int) -> None:
        """At most so many ids will be asked for: a hint, given before the first question."""
        self._database.expect_ids(count)

    def next_record_ids(self, count: int) -> int:
        """Reserve `count` ids that are larger than all before; returns the first."""
        return self._database.reserve_ids(count)

    def skip_record_ids(self, last: int) -> None:
        """Never reserve ids up to `last`."""
        self._database.skip_ids(last)

    def add_records(self, rows: Sequence[RecordRow]) -> None:
        self._database.run_many(statements.ADD_RECORD, map(_values, rows))

    def add_deltas(self, rows: Sequence[DeltaRow]) -> None:
        self._database.run_many(statements.ADD_DELTA, map(_values, rows))

    def merge_deltas(self, run_id: str, first_seq: int, last_seq: int) -> None:
        """Merge the run's delta rows of one epoch whose first seqs lie between these two."""
        values = (run_id, first_seq, last_seq)
        rows = build_rows(DeltaRow, self._database.fetch(statements.DELTAS_BETWEEN, values))
        if len(rows) > 1:
            self._database.run(statements.DROP_DELTAS_BETWEEN, values)
            self._database.run(statements.ADD_DELTA, _values(merge(rows)))

    def apply(self, changes: Iterable[Change]) -> None:
        """Apply the changes of the projections. Rows of one kind are written with one statement, and all changes of one
        row are combined."""
        runs: dict[_Key, RunRow] = {}
        events: dict[_Key, EventRow] = {}
        patched_runs: dict[_Key, _Patch] = {}
        patched_events: dict[_Key, _Patch] = {}
        rows: dict[str, list[Values]] = {}
        calls = CallChanges()
        for change in changes:
            match change:
                case PatchRun(run_id, fields):
                    patched_runs.setdefault((run_id,), {}).update(fields.items())
                case PatchEvent(workspace, event_id, fields):
                    patched_events.setdefault((workspace, event_id), {}).update(fields.items())
                case PutRun(run):
                    _add(runs, (run.run_id,), run)
                case PutEvent(event):
                    _add(events, (event.workspace, event.event_id), event)
                case PutTranscript(message):
                    values = self._database.transcript_values(message)
                    rows.setdefault(self._database.put_transcript, []).append(values)
                    if message.conversation is not None:
                        newest = (*_conversation_of(message), message.seq, message.created_ms)
                        rows.setdefault(statements.PUT_CONVERSATION, []).append(newest)
                case PutArtifact() | DropArtifact():
                    self._artifact(change, rows)
                case PutToolCall() | EndToolCall():
                    calls.add(change)
                case _:
                    self._save(change)
        rows[statements.PUT_TOOL_CALL] = [_values(call) for call in calls.rows.values()]
        rows[statements.END_TOOL_CALL] = [
            (end.status, end.result, end.flow, end.ended_ms, *key) for key, end in calls.ends.items()
        ]
        rows[statements.PUT_EVENT] = [
            (*_patched(row, patched_events.pop(key, None)), _place(row)) for key, row in events.items()
        ]
        rows[statements.PUT_RUN] = [_patched(row, patched_runs.pop(key, None)) for key, row in runs.items()]
        for statement, many in rows.items():
            if many:
                self._database.run_many(statement, many)
        self._patch("runs", patched_runs)
        self._patch("events", patched_events)

    def _artifact(self, change: PutArtifact | DropArtifact, rows: dict[str, list[Values]]) -> None:
        if isinstance(change, PutArtifact):
            rows.setdefault(_put_of(change.row), []).append(_values(change.row))
            return
        for statement in statements.ARTIFACT_PUTS:  # one commit may put and drop the same one
            if waiting := rows.pop(statement, None):
                self._database.run_many(statement, waiting)
        self._database.run(statements.DROP_ARTIFACT, (change.workspace, change.artifact_id))

    def keep(self, changes: Iterable[KeptChange]) -> None:
        """Apply changes of `kept` rows, in order."""
        for change in changes:
            match change:
                case PutKept(row):
                    mac = None if self._kept_key is None else self._kept_key.mac_of(row)
                    self._database.run(statements.PUT_KEPT, (*_values(row), mac))
                case DropKept(kind, workspace, kept_id):
                    self._database.run(statements.DROP_KEPT, (kind, workspace, kept_id))

    def seal_kept(self) -> None:
        """Set the HMAC of every `kept` row."""
        if self._kept_key is not None:
            for row, _ in self._every_kept():
                values = (self._kept_key.mac_of(row), row.kind, row.workspace, row.id)
                self._database.run(statements.SET_MAC, values)

    def drop_unverified(self) -> list[KeptRow]:
        """Delete the `kept` rows with a missing or wrong HMAC; returns them."""
        key = self._kept_key
        dropped = [] if key is None else [row for row, mac in self._every_kept() if not key.made(row, mac)]
        self.keep(DropKept(row.kind, row.workspace, row.id) for row in dropped)
        return dropped

    def _every_kept(self) -> Iterator[tuple[KeptRow, bytes | None]]:
        after: tuple[str, str, str] = ("", "", "")
        while rows := self._database.fetch(statements.EVERY_KEPT, (*after, KEPT_AT_ONCE)):
            for values in rows:
                row, mac = kept_and_mac(values)
                yield row, mac
                after = (row.kind, row.workspace, row.id)

    def take_lease(self, run_id: str, lease: Lease) -> bool:
        """Give the run to `lease.owner`; false unless its epoch is `lease.epoch - 1` and it has not ended."""
        values = (lease.epoch, lease.owner, lease.until_ms, run_id, lease.epoch - 1)
        return bool(self._database.fetch(statements.TAKE_LEASE, values))

    def renew_leases(self, owner: str, run_ids: Sequence[str], until_ms: int) -> set[str]:
        """Renew the leases of the runs that `owner` still owns; returns those runs."""
        database = self._database
        statement = statements.renew_leases(database.among("run_id"))
        rows = database.fetch(statement, (until_ms, owner, database.listed(run_ids)))
        return {cast("str", row[0]) for row in rows}

    def add_head(self, row: HeadRow) -> None:
        self._database.run(statements.ADD_HEAD, _values(row))

    def put_meta(self, key: str, value: str) -> None:
        """Store a fact about the store itself."""
        self._database.run(statements.PUT_META, (key, value))

    def drop_data(self, types: Iterable[str], before_ms: int, limit: int) -> int:
        """Retention: drop the data of old records of these types, and keep their headers; returns how many.

        Their projections are dropped too: events and raw artifacts, transcript rows, deliveries. Records of unfinished
        runs, events that wait for a run, and open deliveries are left alone.
        """
        database = self._database
        database.ensure_index("records_kept")
        statement = statements.drop_data(database.among("type"))
        dropped = database.fetch(statement, (database.listed(types), before_ms, limit))
        self._drop_projected(dropped)
        return len(dropped)

    def erase(self, ids: Sequence[int], runs: Sequence[str], storage: Sequence[tuple[str, str]]) -> int:
        """Drop the data of these records with its projections, and the rows of these runs; returns how many records had
        data."""
        database = self._database
        dropped = [row for each in ids for row in database.fetch(statements.ERASE_DATA, (each,))]
        self._drop_projected(dropped)
        for statement in statements.ERASE_RUN:
            database.run_many(statement, [(run_id,) for run_id in runs])
        database.run_many(statements.DROP_STORAGE, storage)
        return len(dropped)

    def _drop_projected(self, dropped: Sequence[Values]) -> None:
        """Drop the projections of records without data."""
        database = self._database
        events = [cast("str", row[0]) for key in dropped for row in database.fetch(statements.DROP_EVENT, key)]
        if events:
            database.run(statements.drop_raw(database.among("name")), (database.listed(events),))
        database.run_many(statements.DROP_DELIVERY, dropped)
        database.run_many(statements.DROP_SAID, [(record_id,) for _, record_id in dropped])
        for key in dropped:
            for place in database.fetch(statements.FORGET_NEWEST, key):
                database.run(statements.NEWEST_AGAIN, place)

    def drop_deltas(self, before_ms: int, limit: int) -> int:
        """Retention: drop the deltas of ended runs whose newest is older; returns how many rows."""
        self._database.ensure_index("deltas_by_age")
        return len(self._database.fetch(statements.DROP_OLD_DELTAS, (before_ms, before_ms, limit)))

    def drop_expired(self, now_ms: int, limit: int) -> int:
        """Drop expired state, artifacts and `kept` rows; returns how many."""
        dropped = len(self._database.fetch(statements.DROP_EXPIRED_STATE, (now_ms, limit)))
        dropped += len(self._database.fetch(statements.DROP_EXPIRED_ARTIFACTS, (now_ms, limit - dropped)))
        return dropped + len(self._database.fetch(statements.DROP_EXPIRED_KEPT, (now_ms, limit - dropped)))

    def clear_projections(self) -> None:
        """Empty every projection, to rebuild it from the log."""
        self._database.clear(statements.PROJECTIONS)

    def _save(self, change: _Saved) -> None:
        """Write immediately and in order: one commit may write and drop the same key."""
        match change:
            case PutState(row) if row.version == 0:
                self._database.run(statements.COUNT_STATE, _values(msgspec.structs.replace(row, version=1)))
            case PutState(row):
                self._database.run(statements.PUT_STATE, _values(row))
            case DropState(scope_key, key):
                self._database.run(statements.DROP_STATE, (scope_key, key))
            case PutStorage(row):
                self._database.run(statements.PUT_STORAGE, _values(row))
            case DropStorage(area_key, key):
                self._database.run(statements.DROP_STORAGE, (area_key, key))
            case PutPolicy(kind, row):
                self._database.run(statements.put_policy(kind), _values(row))
            case DropPolicy(kind, workspace, policy_id):
                self._database.run(statements.drop_policy(kind), (workspace, policy_id))
            case PutOutbox(row):
                self._database.run(statements.PUT_OUTBOX, _values(row))
            case PatchOutbox(delivery_id, fields):
                self._database.run(statements.patch("outbox", fields), (*fields.values(), delivery_id))
            case PutApproval(row):
                self._database.run(statements.PUT_APPROVAL, _values(row))
            case PatchApproval(approval_id, fields):
                self._database.run(statements.patch("approvals", fields), (*fields.values(), approval_id))

    def _patch(self, table: str, patches: dict[_Key, _Patch]) -> None:
        """Update rows; those with the same fields share a statement."""
        by_names: dict[tuple[str, ...], list[Values]] = {}
        for key, patch in patches.items():
            if patch:
                by_names.setdefault(tuple(patch), []).append((*patch.values(), *key))
        for names, values in by_names.items():
            self._database.run_many(statements.patch(table, names), values)


def _add(rows: dict[_Key, _Row], key: _Key, row: _Row) -> None:
    """Add a row that must be new in this commit too."""
    if rows.setdefault(key, row) is not row:
        raise row_exists(", ".join(key))


def _put_of(artifact: ArtifactRow) -> str:
    """The statement that puts this artifact."""
    if artifact.source == MESSAGE_SOURCE:
        return statements.EXTEND_ARTIFACT
    return statements.ADD_ARTIFACT if artifact.sha256 is None else statements.PUT_ARTIFACT


def _place(event: EventRow) -> str | None:
    if event.conversation is None:
        return None
    return place_of(event.workspace, event.bot, event.conversation, event.thread)


def _conversation_of(message: TranscriptRow) -> Values:
    place = place_of(message.workspace, message.bot, message.conversation, message.thread)
    return (place, message.workspace, message.bot, message.conversation, message.thread)


def _patched(row: RunRow | EventRow, patch: _Patch | None) -> Values:
    """The values of a new row with the patches of the same commit."""
    return _values(msgspec.structs.replace(row, **patch) if patch else row)
