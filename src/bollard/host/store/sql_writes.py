"""One commit of the SQL store. Knows the statements, not the driver."""

from collections.abc import Iterable, Sequence
from typing import Final, cast, get_args

import msgspec

from bollard.host.store import statements
from bollard.host.store.boundary import Lease
from bollard.host.store.database import Database, Values
from bollard.host.store.delta_spans import merge
from bollard.host.store.row_reading import read_deltas, read_events, read_states
from bollard.host.store.rows import (
    Change,
    DeltaRow,
    DropState,
    EventRow,
    HeadRow,
    PatchRun,
    PutArtifact,
    PutEvent,
    PutRun,
    PutState,
    PutTranscript,
    RecordRow,
    RunField,
    RunRow,
    StateRow,
)

__all__ = ["SqlTransaction"]

_Patch = dict[RunField, str | int | None]
_RUN_FIELDS: Final = frozenset(get_args(RunField))
_values: Final = msgspec.structs.astuple


class SqlTransaction:
    """Between `begin` and `commit` of the database's writer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def lock_epochs(self, run_ids: Iterable[str]) -> dict[str, int]:
        database = self._database
        statement = statements.lock_epochs(database.among("run_id"), database.row_lock)
        rows = database.fetch(statement, (database.listed(sorted(run_ids)),))
        return dict(cast("list[tuple[str, int]]", rows))

    def find_event(self, workspace: str, source: str, source_id: str) -> EventRow | None:
        found = read_events(self._database.fetch(statements.FIND_EVENT, (workspace, source, source_id)))
        return found[0] if found else None

    def find_state(self, scope_key: str, key: str) -> StateRow | None:
        found = read_states(self._database.fetch(statements.STATE, (scope_key, key)))
        return found[0] if found else None

    def next_record_ids(self, count: int) -> int:
        return self._database.reserve_ids(count)

    def add_records(self, rows: Sequence[RecordRow]) -> None:
        self._database.run_many(statements.ADD_RECORD, map(_values, rows))

    def add_deltas(self, rows: Sequence[DeltaRow]) -> None:
        self._database.run_many(statements.ADD_DELTA, map(_values, rows))

    def merge_deltas(self, run_id: str) -> None:
        rows = read_deltas(self._database.fetch(statements.DELTAS, (run_id, -1)))
        by_epoch: dict[int, list[DeltaRow]] = {}
        for row in rows:
            by_epoch.setdefault(row.epoch, []).append(row)
        if len(by_epoch) == len(rows):
            return
        self._database.run(statements.DROP_DELTAS_OF_RUN, (run_id,))
        self.add_deltas([merge(same_epoch) for same_epoch in by_epoch.values()])

    def apply(self, changes: Iterable[Change]) -> None:
        """Rows of one kind go in one statement, and what happens to one run in this commit is one row's change."""
        runs: dict[str, RunRow] = {}
        patches: dict[str, _Patch] = {}
        rows: dict[str, list[Values]] = {}
        for change in changes:
            match change:
                case PatchRun(run_id, fields):
                    patches.setdefault(run_id, {}).update(fields)
                case PutRun(run):
                    runs[run.run_id] = run
                case PutEvent(event):
                    rows.setdefault(statements.PUT_EVENT, []).append(_values(event))
                case PutTranscript(said):
                    values = self._database.transcript_values(said)
                    rows.setdefault(self._database.put_transcript, []).append(values)
                case PutArtifact(artifact):
                    rows.setdefault(statements.PUT_ARTIFACT, []).append(_values(artifact))
                case PutState() | DropState():
                    self._change_state(change)
        if runs:
            rows[statements.PUT_RUN] = [_values(_patched(row, patches)) for row in runs.values()]
        for statement, many in rows.items():
            self._database.run_many(statement, many)
        self._patch(patches)

    def take_lease(self, run_id: str, lease: Lease) -> bool:
        values = (lease.epoch, lease.owner, lease.until_ms, run_id, lease.epoch - 1)
        return bool(self._database.fetch(statements.TAKE_LEASE, values))

    def renew_leases(self, owner: str, run_ids: Sequence[str], until_ms: int) -> set[str]:
        database = self._database
        statement = statements.renew_leases(database.among("run_id"))
        rows = database.fetch(statement, (until_ms, owner, database.listed(run_ids)))
        return {cast("str", row[0]) for row in rows}

    def add_head(self, row: HeadRow) -> None:
        self._database.run(statements.ADD_HEAD, _values(row))

    def put_meta(self, key: str, value: str) -> None:
        self._database.run(statements.PUT_META, (key, value))

    def drop_data(self, types: Iterable[str], before_ms: int, limit: int) -> int:
        database = self._database
        statement = statements.drop_data(database.among("type"))
        return len(database.fetch(statement, (database.listed(types), before_ms, limit)))

    def drop_deltas(self, before_ms: int, limit: int) -> int:
        return len(self._database.fetch(statements.DROP_OLD_DELTAS, (before_ms, before_ms, limit)))

    def drop_expired(self, now_ms: int, limit: int) -> int:
        dropped = len(self._database.fetch(statements.DROP_EXPIRED_STATE, (now_ms, limit)))
        return dropped + len(self._database.fetch(statements.DROP_EXPIRED_ARTIFACTS, (now_ms, limit - dropped)))

    def clear_projections(self) -> None:
        self._database.clear(statements.PROJECTIONS)

    def _change_state(self, change: PutState | DropState) -> None:
        """At once and in order: one commit may write and drop the same key."""
        if isinstance(change, DropState):
            statement, values = statements.DROP_STATE, (change.scope_key, change.key)
        elif change.row.version == 0:
            statement, values = statements.COUNT_STATE, _values(msgspec.structs.replace(change.row, version=1))
        else:
            statement, values = statements.PUT_STATE, _values(change.row)
        self._database.run(statement, values)

    def _patch(self, patches: dict[str, _Patch]) -> None:
        by_fields: dict[tuple[RunField, ...], list[Values]] = {}
        for run_id, fields in patches.items():
            if fields:
                by_fields.setdefault(tuple(fields), []).append((*fields.values(), run_id))
        for names, values in by_fields.items():
            if not _RUN_FIELDS.issuperset(names):  # names become part of a statement
                raise ValueError(f"a run has no such field: {sorted(set(names) - _RUN_FIELDS)}")
            self._database.run_many(statements.patch_run(names), values)


def _patched(row: RunRow, patches: dict[str, _Patch]) -> RunRow:
    """A new run with what this commit already says of it."""
    fields = patches.pop(row.run_id, None)
    return msgspec.structs.replace(row, **fields) if fields else row
