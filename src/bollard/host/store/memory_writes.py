"""One commit of the memory store."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from bollard.host.errors import Conflict
from bollard.host.store.action_rows import EndToolCall, PatchApproval, PutApproval, PutToolCall
from bollard.host.store.boundary import Lease
from bollard.host.store.call_changes import ended
from bollard.host.store.delta_spans import merge, pieces
from bollard.host.store.memory_tables import MemoryTables
from bollard.host.store.rows import (
    ENDED,
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
    OutboxRow,
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
)

__all__ = ["MemoryTransaction"]


_Acted = PutToolCall | EndToolCall | PutApproval | PatchApproval
_Saved = PutState | DropState | PutStorage | DropStorage | PutPolicy | DropPolicy | PutOutbox | PatchOutbox | _Acted

_LEAVING = frozenset({"queued", "started", "shown"})
"""Deliveries that are not done."""


class MemoryTransaction:
    """Changes the tables at once; the store undoes them when the block fails."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def lock_epochs(self, run_ids: Iterable[str]) -> dict[str, int]:
        found = (self._unfinished(run_id) for run_id in run_ids)
        return {run.run_id: run.epoch for run in found if run is not None}

    def find_event(self, workspace: str, source: str, source_id: str) -> EventRow | None:
        return self._tables.events_by_source.get((workspace, source, source_id))

    def find_events(self, keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], EventRow]:
        return {key: row for key in keys if (row := self._tables.events_by_source.get(key)) is not None}

    def event_dispatch(self, workspace: str, event_id: str) -> str | None:
        event = self._tables.events.get((workspace, event_id))
        return None if event is None else event.dispatch

    def find_state(self, scope_key: str, key: str) -> StateRow | None:
        return self._tables.state.get((scope_key, key))

    def state_size(self, scope_key: str, now_ms: int) -> int:
        rows = (row for row in self._tables.state.rows.values() if row.scope_key == scope_key)
        alive = (row for row in rows if row.expires_ms is None or row.expires_ms > now_ms)
        return sum(len(row.key.encode()) + len(row.value) for row in alive)

    def expect_records(self, count: int) -> None:
        """They are at hand."""

    def next_record_ids(self, count: int) -> int:
        first = self._tables.newest_record + 1
        self._tables.newest_record += count  # like a sequence: a failed transaction leaves a hole
        return first

    def skip_record_ids(self, last: int) -> None:
        self._tables.newest_record = max(self._tables.newest_record, last)

    def add_records(self, rows: Sequence[RecordRow]) -> None:
        for row in rows:
            self._tables.add_record(row)

    def add_deltas(self, rows: Sequence[DeltaRow]) -> None:
        for row in rows:
            before = self._tables.deltas.get(row.run_id) or ()
            if any(row.first_seq == other.first_seq for other in before):
                raise Conflict(f"a row is there already: {row.run_id} {row.first_seq}", hint="deltas come once")
            self._tables.deltas.put(row.run_id, (*before, row))

    def merge_deltas(self, run_id: str) -> None:
        rows = sorted(self._tables.deltas.get(run_id) or (), key=lambda row: row.first_seq)
        merged = {row.first_seq: row for row in rows}
        for first, last in pieces((row.epoch, row.first_seq, len(row.spans) + len(row.body)) for row in rows):
            merged[first] = merge([merged.pop(row.first_seq) for row in rows if first <= row.first_seq <= last])
        if merged:
            self._tables.deltas.put(run_id, tuple(merged.values()))

    def apply(self, changes: Iterable[Change]) -> None:
        tables = self._tables
        for change in changes:
            match change:
                case PutEvent(row):
                    tables.add_event(row)
                case PutRun(row):
                    tables.runs.add(row.run_id, row)
                case PatchRun(run_id, fields):
                    run = tables.runs.get(run_id)
                    if run is not None:
                        tables.runs.put(run_id, msgspec.structs.replace(run, **fields))
                case PatchEvent(workspace, event_id, fields):
                    event = tables.events.get((workspace, event_id))
                    if event is not None:
                        tables.replace_event(msgspec.structs.replace(event, **fields))
                case PutTranscript(row):
                    tables.transcript.put(row.seq, row)
                case PutArtifact(row):
                    key = (row.workspace, row.artifact_id)
                    if row.sha256 is not None or _is_gone(tables.artifacts.get(key), row.created_ms):
                        tables.artifacts.put(key, row)
                case DropArtifact(workspace, artifact_id):
                    tables.artifacts.drop((workspace, artifact_id))
                case _:
                    self._save(change)

    def keep(self, changes: Iterable[KeptChange]) -> None:
        for change in changes:
            match change:
                case PutKept(row):
                    self._tables.kept.put((row.kind, row.workspace, row.id), row)
                case DropKept(kind, workspace, kept_id):
                    self._tables.kept.drop((kind, workspace, kept_id))

    def take_lease(self, run_id: str, lease: Lease) -> bool:
        run = self._unfinished(run_id)
        if run is None or run.epoch != lease.epoch - 1:
            return False
        owned = msgspec.structs.replace(run, epoch=lease.epoch, owner=lease.owner, lease_until_ms=lease.until_ms)
        self._tables.runs.put(run_id, owned)
        return True

    def renew_leases(self, owner: str, run_ids: Sequence[str], until_ms: int) -> set[str]:
        renewed: set[str] = set()
        for run_id in run_ids:
            run = self._unfinished(run_id)
            if run is not None and run.owner == owner:
                self._tables.runs.put(run_id, msgspec.structs.replace(run, lease_until_ms=until_ms))
                renewed.add(run_id)
        return renewed

    def add_head(self, row: HeadRow) -> None:
        self._tables.heads.add((row.workspace, row.chain, row.position), row)

    def put_meta(self, key: str, value: str) -> None:
        self._tables.meta.put(key, value)

    def drop_data(self, types: Iterable[str], before_ms: int, limit: int) -> int:
        wanted, tables = frozenset(types), self._tables
        events = {(event.workspace, event.record_id): event for event in tables.events.rows.values()}
        old = [
            row
            for row in self._tables.log.all(None)
            if row.type in wanted and row.created_ms < before_ms and row.data is not None
            if not self._under_way(row, events.get((row.workspace, row.id)))
        ]
        chosen = sorted(old, key=lambda row: (row.created_ms, row.id))[:limit]
        for row in chosen:
            tables.replace_record(msgspec.structs.replace(row, data=None))
            tables.transcript.drop(row.id)
            for delivery in self._deliveries(row):
                tables.outbox.drop(delivery.delivery_id)
            if (event := events.get((row.workspace, row.id))) is not None:
                tables.drop_event(event)
                whole = [row for row in tables.artifacts.rows.values() if row.source == "event"]
                for raw in whole:
                    if raw.name == event.event_id:
                        tables.artifacts.drop((raw.workspace, raw.artifact_id))
        return len(chosen)

    def _deliveries(self, row: RecordRow) -> list[OutboxRow]:
        rows = self._tables.outbox.rows.values()
        return [each for each in rows if (each.workspace, each.record_id) == (row.workspace, row.id)]

    def _under_way(self, row: RecordRow, event: EventRow | None) -> bool:
        """Of a run that has not ended, of an event that has such a run or waits for one, or of a message on its way."""
        runs = [row.run_id] if event is None else [row.run_id, event.run_id]
        waits = event is not None and event.dispatch == "pending"
        leaves = any(each.status in _LEAVING for each in self._deliveries(row))
        return waits or leaves or any(run_id is not None and self._unfinished(run_id) is not None for run_id in runs)

    def drop_deltas(self, before_ms: int, limit: int) -> int:
        table = self._tables.deltas
        old = [
            row
            for rows in table.rows.values()
            if all(row.created_ms < before_ms for row in rows) and self._ended(rows[0].run_id)
            for row in rows
        ]
        chosen = sorted(old, key=lambda row: (row.created_ms, row.run_id, row.first_seq))[:limit]
        for row in chosen:
            left = tuple(other for other in table.get(row.run_id) or () if other.first_seq != row.first_seq)
            if left:
                table.put(row.run_id, left)
            else:
                table.drop(row.run_id)
        return len(chosen)

    def drop_expired(self, now_ms: int, limit: int) -> int:
        tables = self._tables
        states = _expired(tables.state.rows.values(), now_ms, limit)
        for row in states:
            tables.state.drop((row.scope_key, row.key))
        artifacts = _expired(tables.artifacts.rows.values(), now_ms, limit - len(states))
        for row in artifacts:
            tables.artifacts.drop((row.workspace, row.artifact_id))
        left = limit - len(states) - len(artifacts)
        kept = _expired(tables.kept.rows.values(), now_ms, left)
        for row in kept:
            tables.kept.drop((row.kind, row.workspace, row.id))
        return len(states) + len(artifacts) + len(kept)

    def clear_projections(self) -> None:
        self._tables.clear_projections()

    def _save(self, change: _Saved) -> None:
        tables = self._tables
        match change:
            case PutState(row):
                self._put_state(row)
            case DropState(scope_key, key):
                tables.state.drop((scope_key, key))
            case PutStorage(row):
                tables.storage.put((row.area_key, row.key), row)
            case DropStorage(area_key, key):
                tables.storage.drop((area_key, key))
            case PutPolicy(kind, row):
                tables.policies[kind].put((row.workspace, row.id), row)
            case DropPolicy(kind, workspace, policy_id):
                tables.policies[kind].drop((workspace, policy_id))
            case PutOutbox(row):
                tables.outbox.put(row.delivery_id, row)
            case PatchOutbox(delivery_id, fields):
                if (waiting := tables.outbox.get(delivery_id)) is not None:
                    tables.outbox.put(delivery_id, msgspec.structs.replace(waiting, **fields))
            case PutToolCall() | EndToolCall() | PutApproval() | PatchApproval():
                self._act(change)

    def _act(self, change: _Acted) -> None:
        calls, approvals = self._tables.tool_calls, self._tables.approvals
        match change:
            case PutToolCall(row):
                calls.put((row.run_id, row.call_id), row)
            case EndToolCall():
                if (call := calls.get((change.run_id, change.call_id))) is not None:
                    calls.put((change.run_id, change.call_id), ended(call, change))
            case PutApproval(row):
                approvals.put(row.approval_id, row)
            case PatchApproval(approval_id, fields):
                if (asked := approvals.get(approval_id)) is not None:
                    approvals.put(approval_id, msgspec.structs.replace(asked, **fields))

    def _put_state(self, row: StateRow) -> None:
        before = self.find_state(row.scope_key, row.key)
        if before is not None and before.expires_ms is not None and before.expires_ms <= row.updated_ms:
            before = None
        version = row.version or (1 if before is None else before.version + 1)
        self._tables.state.put((row.scope_key, row.key), msgspec.structs.replace(row, version=version))

    def _unfinished(self, run_id: str) -> RunRow | None:
        run = self._tables.runs.get(run_id)
        return None if run is None or run.status in ENDED else run

    def _ended(self, run_id: str) -> bool:
        run = self._tables.runs.get(run_id)
        return run is not None and run.status in ENDED


_Expiring = TypeVar("_Expiring", StateRow, ArtifactRow, KeptRow)


def _expired(rows: Iterable[_Expiring], now_ms: int, limit: int) -> list[_Expiring]:
    old = [row for row in rows if row.expires_ms is not None and row.expires_ms <= now_ms]
    return sorted(old, key=lambda row: row.expires_ms or 0)[:limit]


def _is_gone(row: ArtifactRow | None, now_ms: int) -> bool:
    return row is None or (row.expires_ms is not None and row.expires_ms <= now_ms)
