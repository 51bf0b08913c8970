"""The store in memory: the same boundary and the same answers, for tests and the simulator. Nothing outlives it."""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, Final, TypeVar

import msgspec

from bollard.host.clock import Clock, SystemClock
from bollard.host.limits import RECORDS_PAGE_BYTES
from bollard.host.store.action_rows import ApprovalRow, ApprovalStatus, ToolCallRow
from bollard.host.store.boundary import RecordQuery, RunQuery, TranscriptQuery, WriteTransaction
from bollard.host.store.memory_tables import MemoryTables
from bollard.host.store.memory_writes import MemoryTransaction
from bollard.host.store.migrations import REVISIONS
from bollard.host.store.places import place_of
from bollard.host.store.rows import (
    ENDED,
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
    WrittenState,
)
from bollard.segments import is_prefix

__all__ = ["MemoryStore"]

_NOT_IN_THE_LOG: Final = frozenset({"owner", "lease_until_ms"})
_EVERYTHING: Final = 2**63


class MemoryStore:
    """Rows in dictionaries behind one lock."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._tables = MemoryTables()
        self._lock = threading.RLock()

    def open(self) -> None:
        """Nothing to connect to: what is here stays until the object goes."""

    def close(self) -> None:
        """Keeps the rows, so that a test can open it again."""

    @contextmanager
    def write(self) -> Generator[WriteTransaction]:
        with self._lock:
            undo = self._tables.undo
            try:
                yield MemoryTransaction(self._tables)
            except BaseException:
                for inverse in reversed(undo):
                    inverse()
                raise
            finally:
                undo.clear()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def run(self, run_id: str) -> RunRow | None:
        with self._lock:
            return self._tables.runs.get(run_id)

    def runs(self, query: RunQuery) -> list[RunRow]:
        with self._lock:
            found = [row for row in self._tables.runs.rows.values() if _wanted(query, row)]
        return sorted(found, key=lambda row: (row.created_ms, row.run_id), reverse=True)[: query.limit]

    def newest_runs(self, workspace: str, bot: str | None, conversation: str, thread: str | None) -> list[RunRow]:
        rows = self.runs(RunQuery(workspace=workspace, conversation=conversation, limit=_EVERYTHING))
        here = [row for row in rows if (row.bot, row.thread) == (bot, thread)]
        return list({row.agent_id: row for row in reversed(here)}.values())

    def unfinished_runs(self, after: str, limit: int) -> list[RunRow]:
        with self._lock:
            rows = self._tables.runs.rows.values()
            found = [row for row in rows if row.status not in ENDED and row.run_id > after]
        return sorted(found, key=lambda row: row.run_id)[:limit]

    def children(self, run_id: str) -> list[RunRow]:
        with self._lock:
            found = [row for row in self._tables.runs.rows.values() if row.parent_run_id == run_id]
        return sorted(found, key=lambda row: (row.created_ms, row.run_id))

    def count_runs(self, workspace: str, agent_id: str, since_ms: int) -> int:
        with self._lock:
            rows = self._tables.runs.rows.values()
            return sum(
                row.workspace == workspace and row.agent_id == agent_id and row.created_ms >= since_ms for row in rows
            )

    def records_of_run(
        self, run_id: str, after_seq: int, limit: int, limit_bytes: int = RECORDS_PAGE_BYTES
    ) -> list[RecordRow]:
        with self._lock:
            found = self._tables.runs_log.after(run_id, after_seq, limit)
        before = accumulate((len(row.data or b"") for row in found), initial=0)
        return [row for row, size in zip(found, before, strict=False) if size < limit_bytes]

    def deltas_of_run(self, run_id: str, after_seq: int) -> list[DeltaRow]:
        with self._lock:
            found = [row for row in self._tables.deltas.get(run_id) or () if row.last_seq > after_seq]
        return sorted(found, key=lambda row: row.first_seq)

    def deltas_page(self, run_id: str, after_seq: int, limit: int, limit_bytes: int) -> list[DeltaRow]:
        found: list[DeltaRow] = []
        size = 0
        for row in self.deltas_of_run(run_id, after_seq)[:limit]:
            if size >= limit_bytes:
                break
            found.append(row)
            size += len(row.spans) + len(row.body)
        return found

    def last_seq(self, run_id: str, epoch: int | None = None) -> int:
        with self._lock:
            records = [(row.epoch or 0, row.seq or 0) for row in self._tables.runs_log.all(run_id)]
            deltas = [(row.epoch, row.last_seq) for row in self._tables.deltas.get(run_id) or ()]
        return max((seq for at, seq in records + deltas if epoch is None or at <= epoch), default=0)

    def records(self, after_id: int, limit: int) -> list[RecordRow]:
        with self._lock:
            return self._tables.log.after(None, after_id, limit)

    def chain(self, workspace: str, chain: str, after_position: int, limit: int) -> list[RecordRow]:
        with self._lock:
            return self._tables.chains.after((workspace, chain), after_position, limit)

    def records_among(self, query: RecordQuery) -> list[RecordRow]:
        with self._lock:
            rows = self._tables.log.after(None, query.above, query.below - query.above)
        found = [row for row in rows if row.id < query.below and _is_wanted(row, query)]
        return (found if query.forward else found[::-1])[: query.limit]

    def last_record(self) -> int:
        with self._lock:
            rows = self._tables.log.after(None, 0, _EVERYTHING)
        return rows[-1].id if rows else 0

    def newest_heads(self, workspace: str | None, signed_by_ms: int, limit: int) -> list[HeadRow]:
        with self._lock:
            rows = [row for row in self._tables.heads.rows.values() if row.created_ms <= signed_by_ms]
        newest: dict[tuple[str, str], HeadRow] = {}
        for row in sorted(rows, key=lambda row: row.position):
            if workspace in (None, row.workspace):
                newest[row.workspace, row.chain] = row
        by_chain = sorted(newest.values(), key=lambda row: row.chain, reverse=True)
        by_workspace = sorted(by_chain, key=lambda row: row.workspace)
        return sorted(by_workspace, key=lambda row: row.created_ms, reverse=True)[:limit]

    def lagging_heads(self, key_id: str, limit: int) -> list[HeadRow]:
        newest = self.newest_heads(None, _EVERYTHING, _EVERYTHING)
        own = [row for row in newest if row.key_id == key_id]
        return [row for row in own if self.chain(row.workspace, row.chain, row.position, 1)][:limit]

    def heads(self, workspace: str) -> list[HeadRow]:
        with self._lock:
            found = [row for row in self._tables.heads.rows.values() if row.workspace == workspace]
        return sorted(found, key=lambda row: (row.chain, row.position))

    def event(self, workspace: str, event_id: str) -> EventRow | None:
        with self._lock:
            return self._tables.events.get((workspace, event_id))

    def events(self, workspace: str, before_record: int | None, limit: int) -> list[EventRow]:
        before = _EVERYTHING if before_record is None else before_record
        with self._lock:
            rows = self._tables.events.rows.values()
            found = [row for row in rows if row.workspace == workspace and row.record_id < before]
        return sorted(found, key=lambda row: row.record_id, reverse=True)[:limit]

    def events_in(
        self,
        workspace: str,
        bot: str | None,
        conversation: str,
        thread: str | None,
        before_record: int | None,
        limit: int,
    ) -> list[EventRow]:
        place = (bot, conversation, thread)
        rows = self.events(workspace, before_record, _EVERYTHING)
        return [row for row in rows if (row.bot, row.conversation, row.thread) == place][:limit]

    def pending_events(self, after_record: int, limit: int) -> list[EventRow]:
        with self._lock:
            rows = self._tables.events.rows.values()
            found = [row for row in rows if row.dispatch == "pending" and row.record_id > after_record]
        return sorted(found, key=lambda row: row.record_id)[:limit]

    def threads(self, workspace: str, bot: str | None, conversation: str, runs: int) -> list[str | None]:
        newest = self.runs(RunQuery(workspace=workspace, conversation=conversation, limit=runs))
        last: dict[str | None, int] = {}
        for row in newest:
            if row.bot == bot:
                last.setdefault(row.thread, row.created_ms)
        return sorted(last, key=lambda thread: (-last[thread], thread or ""))

    def conversations(self, workspace: str, before_seq: int | None, limit: int) -> list[ConversationRow]:
        before = _EVERYTHING if before_seq is None else before_seq
        with self._lock:
            rows = [row for row in self._tables.conversations() if row.workspace == workspace and row.last_seq < before]
        return sorted(rows, key=lambda row: row.last_seq, reverse=True)[:limit]

    def transcript(self, query: TranscriptQuery) -> list[TranscriptRow]:
        rows = self._window(query)
        return rows[: query.limit] if query.forward else rows[::-1][: query.limit]

    def search(self, query: TranscriptQuery, terms: Sequence[str]) -> list[TranscriptRow]:
        if not terms:
            return []
        scored = [(_score(row.search.split(), terms), row.seq, row) for row in self._window(query)]
        best = sorted((hit for hit in scored if hit[0] > 0), key=lambda hit: hit[:2], reverse=True)
        return [row for _, _, row in best[: query.limit]]

    def state(self, scope_key: str, key: str, now_ms: int | None = None) -> StateRow | None:
        now = self.now_ms() if now_ms is None else now_ms
        with self._lock:
            row = self._tables.state.get((scope_key, key))
        return row if row is not None and _alive(row, now) else None

    def states(self, scope_key: str, after_key: str, limit: int, now_ms: int | None = None) -> list[StateRow]:
        now = self.now_ms() if now_ms is None else now_ms
        with self._lock:
            rows = self._tables.state.rows.values()
            found = [row for row in rows if row.scope_key == scope_key and row.key > after_key and _alive(row, now)]
        return sorted(found, key=lambda row: row.key)[:limit]

    def written_states(
        self, workspace: str, after: tuple[str, str], limit: int, now_ms: int | None = None
    ) -> list[WrittenState]:
        now = self.now_ms() if now_ms is None else now_ms
        with self._lock:
            places = ((row.scope_key, row.key) for row in self._tables.state.rows.values())
            rows = [self._tables.state.rows[place] for place in sorted(place for place in places if place > after)]
            alive = [row for row in rows if row.workspace == workspace and _alive(row, now)]
            return [self._with_writer(row) for row in alive[:limit]]

    def _with_writer(self, row: StateRow) -> WrittenState:
        records = self._tables.log.after(None, row.version - 1, 1)
        of_state = (each for each in records if (each.workspace, each.type) == (row.workspace, "state.updated"))
        record = next((each for each in of_state if each.id == row.version), None)
        return WrittenState(
            scope_key=row.scope_key,
            key=row.key,
            scope=row.scope,
            version=row.version,
            run_id=None if record is None else record.run_id,
            data=None if record is None else record.data,
        )

    def storage(self, area_key: str, key: str) -> StorageRow | None:
        with self._lock:
            return self._tables.storage.get((area_key, key))

    def storages(self, area_key: str, after_key: str, limit: int) -> list[StorageRow]:
        with self._lock:
            rows = self._tables.storage.rows.values()
            found = [row for row in rows if row.area_key == area_key and row.key > after_key]
        return sorted(found, key=lambda row: row.key)[:limit]

    def policies(self, kind: PolicyKind, workspace: str) -> list[PolicyRow]:
        with self._lock:
            found = [row for row in self._tables.policies[kind].rows.values() if row.workspace == workspace]
        return sorted(found, key=lambda row: row.id)

    def policies_everywhere(self, kind: PolicyKind) -> list[PolicyRow]:
        with self._lock:
            found = list(self._tables.policies[kind].rows.values())
        return sorted(found, key=lambda row: (row.workspace, row.id))

    def kept(self, kind: str, workspace: str, kept_id: str, now_ms: int | None = None) -> KeptRow | None:
        now = self.now_ms() if now_ms is None else now_ms
        with self._lock:
            row = self._tables.kept.get((kind, workspace, kept_id))
        return row if row is not None and _alive(row, now) else None

    def all_kept(self, kind: str, workspace: str | None = None, now_ms: int | None = None) -> list[KeptRow]:
        now = self.now_ms() if now_ms is None else now_ms
        with self._lock:
            rows = list(self._tables.kept.rows.values())
        found = [row for row in rows if row.kind == kind and workspace in (None, row.workspace) and _alive(row, now)]
        return sorted(found, key=lambda row: (row.workspace, row.id))

    def artifact(self, workspace: str, artifact_id: str) -> ArtifactRow | None:
        with self._lock:
            return self._tables.artifacts.get((workspace, artifact_id))

    def uploads(self, workspace: str, after: str, limit: int) -> list[ArtifactRow]:
        with self._lock:
            rows = [row for row in self._tables.artifacts.rows.values() if row.workspace == workspace]
        found = [row for row in rows if row.source == "upload" and row.artifact_id > after]
        return sorted(found, key=lambda row: row.artifact_id)[:limit]

    def artifact_digests(self, after: str, limit: int) -> list[str]:
        with self._lock:
            tables = self._tables
            digests = {row.sha256 for row in (*tables.artifacts.rows.values(), *tables.storage.rows.values())}
        return sorted(digest for digest in digests if digest is not None and digest > after)[:limit]

    def outbox_open(self, after_record: int, limit: int) -> list[OutboxRow]:
        with self._lock:
            rows = [row for row in self._tables.outbox.rows.values() if row.record_id > after_record]
        waiting = [row for row in rows if row.status in ("queued", "started", "shown")]
        return sorted(waiting, key=lambda row: row.record_id)[:limit]

    def outbox(self, workspace: str, channel: str | None, before_record: int | None, limit: int) -> list[OutboxRow]:
        before = _EVERYTHING if before_record is None else before_record
        with self._lock:
            rows = [row for row in self._tables.outbox.rows.values() if row.workspace == workspace]
        found = [row for row in rows if channel in (None, row.channel) and row.record_id < before]
        return sorted(found, key=lambda row: row.record_id, reverse=True)[:limit]

    def tool_call(self, run_id: str, call_id: str) -> ToolCallRow | None:
        with self._lock:
            return self._tables.tool_calls.get((run_id, call_id))

    def tool_calls(self, run_id: str, after_record: int, limit: int) -> list[ToolCallRow]:
        with self._lock:
            rows = [row for row in self._tables.tool_calls.rows.values() if row.run_id == run_id]
        return sorted((r for r in rows if r.record_id > after_record), key=lambda row: row.record_id)[:limit]

    def open_tool_calls(self, after_record: int, limit: int) -> list[ToolCallRow]:
        with self._lock:
            rows = [row for row in self._tables.tool_calls.rows.values() if row.status == "started"]
        return sorted((r for r in rows if r.record_id > after_record), key=lambda row: row.record_id)[:limit]

    def approval(self, workspace: str, approval_id: str) -> ApprovalRow | None:
        with self._lock:
            row = self._tables.approvals.get(approval_id)
        return row if row is not None and row.workspace == workspace else None

    def approvals(
        self, workspace: str, status: ApprovalStatus | None, before: tuple[int, str] | None, limit: int
    ) -> list[ApprovalRow]:
        end = (_EVERYTHING, "") if before is None else before
        with self._lock:
            rows = [row for row in self._tables.approvals.rows.values() if row.workspace == workspace]
        found = [row for row in rows if status in (None, row.status) and (row.created_ms, row.approval_id) < end]
        return sorted(found, key=lambda row: (row.created_ms, row.approval_id), reverse=True)[:limit]

    def approvals_of_run(self, run_id: str) -> list[ApprovalRow]:
        with self._lock:
            rows = [row for row in self._tables.approvals.rows.values() if row.run_id == run_id]
        return sorted(rows, key=lambda row: (row.created_ms, row.approval_id))

    def open_approvals(self, after: str, limit: int) -> list[ApprovalRow]:
        with self._lock:
            rows = [row for row in self._tables.approvals.rows.values() if row.status in ("requested", "granted")]
        return sorted((row for row in rows if row.approval_id > after), key=lambda row: row.approval_id)[:limit]

    def meta(self, key: str) -> str | None:
        with self._lock:
            return self._tables.meta.get(key)

    def revision(self) -> str | None:
        return REVISIONS.known[-1]

    def dump_projections(self) -> dict[str, list[tuple[object, ...]]]:
        tables = self._tables
        with self._lock:
            return {
                "events": _dump(tables.events.rows.values(), lambda row: row.record_id),
                "runs": _dump(tables.runs.rows.values(), lambda row: row.run_id),
                "transcript": _dump(tables.transcript.rows.values(), lambda row: row.seq),
                "conversations": _dump(tables.conversations(), lambda row: row.place),
                "state": _dump(tables.state.rows.values(), lambda row: (row.scope_key, row.key)),
                "storage": _dump(tables.storage.rows.values(), lambda row: (row.area_key, row.key)),
                "artifacts": _dump(tables.artifacts.rows.values(), lambda row: (row.workspace, row.artifact_id)),
                "outbox": _dump(tables.outbox.rows.values(), lambda row: row.record_id),
                "tool_calls": _dump(tables.tool_calls.rows.values(), lambda row: (row.run_id, row.call_id)),
                "approvals": _dump(tables.approvals.rows.values(), lambda row: row.approval_id),
                **{
                    f"{kind}s": _dump(table.rows.values(), lambda row: (row.workspace, row.id))
                    for kind, table in tables.policies.items()
                },
            }

    def _window(self, query: TranscriptQuery) -> list[TranscriptRow]:
        after = -1 if query.after is None else query.after
        before = _EVERYTHING if query.before is None else query.before
        place = place_of(query.workspace, query.bot, query.conversation, query.thread)
        with self._lock:
            rows = [row for row in self._tables.in_place(place) if after < row.seq < before]
        return [row for row in rows if _admits(query, row)]


_Row = TypeVar("_Row", bound=msgspec.Struct)


def _dump(rows: Iterable[_Row], order: Callable[[_Row], Any]) -> list[tuple[object, ...]]:
    ordered = sorted(rows, key=order)
    return [
        tuple(getattr(row, name) for name in row.__struct_fields__ if name not in _NOT_IN_THE_LOG) for row in ordered
    ]


def _alive(row: StateRow | KeptRow, now_ms: int) -> bool:
    return row.expires_ms is None or row.expires_ms > now_ms


def _admits(query: TranscriptQuery, row: TranscriptRow) -> bool:
    return (
        query.role in (None, row.role)
        and (query.before_ms is None or row.created_ms < query.before_ms)
        and (query.after_ms is None or row.created_ms > query.after_ms)
    )


def _is_wanted(row: RecordRow, query: RecordQuery) -> bool:
    return (
        row.workspace == query.workspace
        and (query.types is None or row.type in query.types)
        and row.type not in query.but_types
        and query.run_id in (None, row.run_id)
        and (query.since_ms is None or row.created_ms >= query.since_ms)
        and (query.until_ms is None or row.created_ms < query.until_ms)
    )


def _wanted(query: RunQuery, row: RunRow) -> bool:
    return (
        row.workspace == query.workspace
        and (query.statuses is None or row.status in query.statuses)
        and (query.agent_id is None or row.agent_id == query.agent_id)
        and (query.conversation is None or row.conversation == query.conversation)
        and (query.before is None or (row.created_ms, row.run_id) < query.before)
    )


def _score(words: Sequence[str], terms: Sequence[str]) -> float:
    """How much of a message the terms are; nothing when one of them is not in it."""
    hits = [sum(word.startswith(term) if is_prefix(term) else word == term for word in words) for term in terms]
    return sum(hits) / len(words) if words and all(hits) else 0.0
