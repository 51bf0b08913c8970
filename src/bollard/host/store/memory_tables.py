"""The tables of the memory store: dictionaries and sorted lists that can undo what a failed transaction did."""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from bollard.host.errors import Conflict
from bollard.host.store.action_rows import ApprovalRow, ToolCallRow
from bollard.host.store.places import place_of
from bollard.host.store.rows import (
    POLICY_KINDS,
    ArtifactRow,
    ConversationRow,
    DeltaRow,
    EventRow,
    HeadRow,
    KeptRow,
    OutboxRow,
    PolicyKind,
    PolicyRow,
    RecordRow,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
)

__all__ = ["MemoryTables", "Table"]

_Row = TypeVar("_Row")
_Undo = list[Callable[[], None]]


class Table(Generic[_Row]):
    """Rows by primary key. Every change leaves its inverse in `undo`."""

    def __init__(self, undo: _Undo) -> None:
        self.rows: dict[Hashable, _Row] = {}
        self._undo = undo

    def get(self, key: Hashable) -> _Row | None:
        return self.rows.get(key)

    def add(self, key: Hashable, row: _Row) -> None:
        """A row that must be new."""
        if key in self.rows:
            raise Conflict(f"a row is there already: {key}", hint="read it and decide again")
        self.put(key, row)

    def put(self, key: Hashable, row: _Row) -> None:
        before = self.rows.get(key)
        self.rows[key] = row
        if before is None:
            self._undo.append(lambda: self.rows.__delitem__(key))
        else:
            self._undo.append(lambda: self.rows.__setitem__(key, before))

    def drop(self, key: Hashable) -> bool:
        row = self.rows.pop(key, None)
        if row is None:
            return False
        self._undo.append(lambda: self.rows.__setitem__(key, row))
        return True

    def clear(self) -> None:
        before, self.rows = self.rows, {}

        def restore() -> None:
            self.rows = before

        self._undo.append(restore)


class Order(Generic[_Row]):
    """Rows of one group in the order of a number: what an index is to a table."""

    def __init__(self, number: Callable[[_Row], int], undo: _Undo) -> None:
        self._number = number
        self._undo = undo
        self._groups: dict[Hashable, list[int]] = {}
        self._rows: dict[tuple[Hashable, int], _Row] = {}

    def add(self, group: Hashable, row: _Row) -> None:
        number = self._number(row)
        if (group, number) in self._rows:
            raise Conflict(f"a row is there already: {group} {number}", hint="read it and decide again")
        self._rows[group, number] = row
        insort(self._groups.setdefault(group, []), number)
        self._undo.append(lambda: self._forget(group, number))

    def replace(self, group: Hashable, row: _Row) -> None:
        """The same place in the order, another row."""
        key = (group, self._number(row))
        before = self._rows[key]
        self._rows[key] = row
        self._undo.append(lambda: self._rows.__setitem__(key, before))

    def after(self, group: Hashable, number: int, limit: int) -> list[_Row]:
        numbers = self._groups.get(group, [])
        start = bisect_left(numbers, number + 1)
        return [self._rows[group, found] for found in numbers[start : start + limit]]

    def all(self, group: Hashable) -> list[_Row]:
        return [self._rows[group, number] for number in self._groups.get(group, [])]

    def _forget(self, group: Hashable, number: int) -> None:
        del self._rows[group, number]
        self._groups[group].remove(number)


class MemoryTables:
    """Everything that the store holds."""

    def __init__(self) -> None:
        self.undo: _Undo = []
        self.log: Order[RecordRow] = Order(lambda row: row.id, self.undo)
        self.runs_log: Order[RecordRow] = Order(lambda row: row.seq or 0, self.undo)
        self.chains: Order[RecordRow] = Order(lambda row: row.position, self.undo)
        self.deltas: Table[tuple[DeltaRow, ...]] = Table(self.undo)
        self.heads: Table[HeadRow] = Table(self.undo)
        self.events: Table[EventRow] = Table(self.undo)
        self.events_by_source: Table[EventRow] = Table(self.undo)
        self.runs: Table[RunRow] = Table(self.undo)
        self.transcript: Table[TranscriptRow] = Table(self.undo)
        self.state: Table[StateRow] = Table(self.undo)
        self.storage: Table[StorageRow] = Table(self.undo)
        self.policies: dict[PolicyKind, Table[PolicyRow]] = {kind: Table(self.undo) for kind in POLICY_KINDS}
        self.kept: Table[KeptRow] = Table(self.undo)
        self.artifacts: Table[ArtifactRow] = Table(self.undo)
        self.outbox: Table[OutboxRow] = Table(self.undo)
        self.tool_calls: Table[ToolCallRow] = Table(self.undo)
        self.approvals: Table[ApprovalRow] = Table(self.undo)
        self.meta: Table[str] = Table(self.undo)
        self.newest_record = 0

    def add_record(self, row: RecordRow) -> None:
        self.log.add(None, row)
        self.chains.add((row.workspace, row.chain), row)
        if row.run_id is not None:
            self.runs_log.add(row.run_id, row)

    def replace_record(self, row: RecordRow) -> None:
        self.log.replace(None, row)
        self.chains.replace((row.workspace, row.chain), row)
        if row.run_id is not None:
            self.runs_log.replace(row.run_id, row)

    def add_event(self, row: EventRow) -> None:
        self.events.add((row.workspace, row.event_id), row)
        self.events_by_source.add((row.workspace, row.source, row.source_id), row)

    def replace_event(self, row: EventRow) -> None:
        self.events.put((row.workspace, row.event_id), row)
        self.events_by_source.put((row.workspace, row.source, row.source_id), row)

    def drop_event(self, row: EventRow) -> None:
        self.events.drop((row.workspace, row.event_id))
        self.events_by_source.drop((row.workspace, row.source, row.source_id))

    def in_place(self, place: str) -> list[TranscriptRow]:
        """The messages of one conversation and thread, oldest first."""
        rows = [row for row in self.transcript.rows.values() if _place(row) == place]
        return sorted(rows, key=lambda row: row.seq)

    def conversations(self) -> list[ConversationRow]:
        """What the transcript says of each place; no table of its own."""
        newest: dict[str, TranscriptRow] = {}
        for row in sorted(self.transcript.rows.values(), key=lambda row: row.seq):
            if row.conversation is not None:
                newest[_place(row)] = row
        return [
            ConversationRow(
                place=place,
                workspace=row.workspace,
                bot=row.bot,
                conversation=row.conversation or "",
                thread=row.thread,
                last_seq=row.seq,
                last_ms=row.created_ms,
            )
            for place, row in newest.items()
        ]

    def clear_projections(self) -> None:
        talk = (self.events, self.events_by_source, self.runs, self.transcript)
        done = (self.outbox, self.tool_calls, self.approvals)
        for table in (*talk, self.state, self.storage, self.artifacts, *done, *self.policies.values()):
            table.clear()


def _place(row: TranscriptRow) -> str:
    return place_of(row.workspace, row.bot, row.conversation, row.thread)
