"""The store on a SQL database: reads, and commits one at a time. What differs between databases is in `Database`."""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, cast

from bollard.host.errors import StorageUnavailable
from bollard.host.limits import RECORDS_PAGE_BYTES
from bollard.host.store import statements
from bollard.host.store.action_rows import ApprovalRow, ApprovalStatus, ToolCallRow
from bollard.host.store.boundary import RecordQuery, RunQuery, TranscriptQuery, WriteTransaction
from bollard.host.store.database import Database
from bollard.host.store.places import place_of
from bollard.host.store.row_reading import (
    read_approvals,
    read_artifacts,
    read_conversations,
    read_deltas,
    read_events,
    read_heads,
    read_kept,
    read_outbox,
    read_policies,
    read_records,
    read_runs,
    read_states,
    read_storage,
    read_tool_calls,
    read_transcript,
    read_written_states,
)
from bollard.host.store.rows import (
    ENDED,
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
    WrittenState,
)
from bollard.host.store.sql_writes import SqlTransaction

__all__ = ["SqlStore"]

_BIGGEST: Final = 2**63 - 1
_PROJECTED: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "events": (EventRow.__struct_fields__, "record_id"),
    "runs": (RunRow.__struct_fields__, "run_id"),
    "transcript": (TranscriptRow.__struct_fields__, "seq"),
    "conversations": (ConversationRow.__struct_fields__, "place"),
    "state": (StateRow.__struct_fields__, "scope_key, key"),
    "storage": (StorageRow.__struct_fields__, "area_key, key"),
    "artifacts": (ArtifactRow.__struct_fields__, "workspace, artifact_id"),
    "outbox": (OutboxRow.__struct_fields__, "record_id"),
    "tool_calls": (ToolCallRow.__struct_fields__, "run_id, call_id"),
    "approvals": (ApprovalRow.__struct_fields__, "approval_id"),
    **{f"{kind}s": (statements.policy_columns(kind), f"workspace, {kind}_id") for kind in POLICY_KINDS},
}
_NOT_IN_THE_LOG: Final = frozenset({"owner", "lease_until_ms"})


class SqlStore:
    """Rows in SQLite or PostgreSQL."""

    def __init__(self, database: Database, *, wait_s: float = 2.0) -> None:
        self._database = database
        self._wait_s = wait_s
        self._writing = threading.Lock()

    def open(self) -> None:
        self._database.open()

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def write(self) -> Generator[WriteTransaction]:
        if not self._writing.acquire(timeout=self._wait_s):
            raise StorageUnavailable("another thread is writing", hint="try again in a moment")
        try:
            self._database.begin()
            try:
                yield SqlTransaction(self._database)
            except BaseException:
                self._database.rollback()
                raise
            self._database.commit()
        finally:
            self._writing.release()

    def now_ms(self) -> int:
        return self._database.now_ms()

    def run(self, run_id: str) -> RunRow | None:
        found = read_runs(self._database.read(statements.RUN, (run_id,)))
        return found[0] if found else None

    def runs(self, query: RunQuery) -> list[RunRow]:
        database, values = self._database, list[object]((query.workspace,))
        table, conditions = "runs", ["workspace = ?"]
        if query.statuses is not None:
            conditions.append(database.among("status"))
            values.append(database.listed(sorted(query.statuses)))
            if query.statuses.isdisjoint(ENDED):
                conditions.append("ended = 0")
                table = database.from_unfinished
        if query.agent_id is not None:
            conditions.append("agent_id = ?")
            values.append(query.agent_id)
        if query.conversation is not None:
            conditions.append("conversation = ?")
            values.append(query.conversation)
        if query.before is not None:
            conditions.append("(created_ms, run_id) < (?, ?)")
            values.extend(query.before)
        rest = f"WHERE {' AND '.join(conditions)} ORDER BY created_ms DESC, run_id DESC LIMIT ?"
        return read_runs(database.read(statements.select(table, RunRow, rest), (*values, query.limit)))

    def newest_runs(self, workspace: str, bot: str | None, conversation: str, thread: str | None) -> list[RunRow]:
        values = (workspace, conversation, bot or "", thread or "")
        return read_runs(self._database.read(statements.NEWEST_RUNS, values))

    def unfinished_runs(self, after: str, limit: int) -> list[RunRow]:
        return read_runs(self._database.read(statements.UNFINISHED_RUNS, (after, limit)))

    def children(self, run_id: str) -> list[RunRow]:
        return read_runs(self._database.read(statements.CHILDREN, (run_id,)))

    def count_runs(self, workspace: str, agent_id: str, since_ms: int) -> int:
        ((count,),) = self._database.read(statements.COUNT_RUNS, (workspace, agent_id, since_ms))
        return cast("int", count)

    def records_of_run(
        self, run_id: str, after_seq: int, limit: int, limit_bytes: int = RECORDS_PAGE_BYTES
    ) -> list[RecordRow]:
        values = (run_id, after_seq, run_id, after_seq, limit, limit_bytes)
        return read_records(self._database.read(statements.RECORDS_OF_RUN, values))

    def deltas_of_run(self, run_id: str, after_seq: int) -> list[DeltaRow]:
        return read_deltas(self._database.read(statements.DELTAS, (run_id, after_seq)))

    def deltas_page(self, run_id: str, after_seq: int, limit: int, limit_bytes: int) -> list[DeltaRow]:
        values = (run_id, after_seq, run_id, after_seq, limit, limit_bytes)
        return read_deltas(self._database.read(statements.DELTAS_PAGE, values))

    def last_seq(self, run_id: str, epoch: int | None = None) -> int:
        if epoch is None:
            rows = self._database.read(statements.LAST_SEQ, (run_id, run_id))
        else:
            rows = self._database.read(statements.LAST_SEQ_OF_EPOCH, (run_id, epoch, run_id, epoch))
        return cast("int | None", rows[0][0]) or 0

    def records(self, after_id: int, limit: int) -> list[RecordRow]:
        return read_records(self._database.read(statements.RECORDS, (after_id, limit)))

    def chain(self, workspace: str, chain: str, after_position: int, limit: int) -> list[RecordRow]:
        return read_records(self._database.read(statements.CHAIN, (workspace, chain, after_position, limit)))

    def records_among(self, query: RecordQuery) -> list[RecordRow]:
        database = self._database
        conditions, values = ["id > ?", "id < ?", "workspace = ?"], [query.above, query.below, query.workspace]
        chosen: list[tuple[str, object]] = [
            ("run_id = ?", query.run_id),
            ("created_ms >= ?", query.since_ms),
            ("created_ms < ?", query.until_ms),
            (database.among("type"), None if query.types is None else database.listed(sorted(query.types))),
            (f"NOT {database.among('type')}", database.listed(sorted(query.but_types)) if query.but_types else None),
        ]
        conditions += [condition for condition, value in chosen if value is not None]
        wanted = [*values, *(value for _, value in chosen if value is not None), query.limit]
        way = "ASC" if query.forward else "DESC"
        statement = statements.RECORDS_AMONG.format(conditions=" AND ".join(conditions), way=way)
        return read_records(database.read(statement, wanted))

    def last_record(self) -> int:
        return cast("int", self._database.read(statements.LAST_RECORD)[0][0])

    def newest_heads(self, workspace: str | None, signed_by_ms: int, limit: int) -> list[HeadRow]:
        return read_heads(self._database.read(statements.NEWEST_HEADS, (signed_by_ms, workspace, limit)))

    def lagging_heads(self, key_id: str, limit: int) -> list[HeadRow]:
        return read_heads(self._database.read(statements.LAGGING_HEADS, (key_id, limit)))

    def heads(self, workspace: str) -> list[HeadRow]:
        return read_heads(self._database.read(statements.HEADS, (workspace,)))

    def event(self, workspace: str, event_id: str) -> EventRow | None:
        found = read_events(self._database.read(statements.EVENT, (workspace, event_id)))
        return found[0] if found else None

    def events(self, workspace: str, before_record: int | None, limit: int) -> list[EventRow]:
        before = _BIGGEST if before_record is None else before_record
        return read_events(self._database.read(statements.EVENTS, (workspace, before, limit)))

    def events_in(
        self,
        workspace: str,
        bot: str | None,
        conversation: str,
        thread: str | None,
        before_record: int | None,
        limit: int,
    ) -> list[EventRow]:
        before = _BIGGEST if before_record is None else before_record
        place = place_of(workspace, bot, conversation, thread)
        return read_events(self._database.read(statements.EVENTS_IN, (place, before, limit)))

    def pending_events(self, after_record: int, limit: int) -> list[EventRow]:
        return read_events(self._database.read(statements.PENDING_EVENTS, (after_record, limit)))

    def threads(self, workspace: str, bot: str | None, conversation: str, runs: int) -> list[str | None]:
        rows = self._database.read(statements.THREADS, (workspace, conversation, runs, bot or ""))
        return [cast("str | None", row[0]) for row in rows]

    def conversations(self, workspace: str, before_seq: int | None, limit: int) -> list[ConversationRow]:
        before = _BIGGEST if before_seq is None else before_seq
        return read_conversations(self._database.read(statements.CONVERSATIONS, (workspace, before, limit)))

    def transcript(self, query: TranscriptQuery) -> list[TranscriptRow]:
        narrowed, more = _narrowed(query)
        statement = statements.TRANSCRIPT.format(narrowed=narrowed, way="ASC" if query.forward else "DESC")
        values = (_place(query), *_window(query), *more, query.limit)
        return read_transcript(self._database.read(statement, values))

    def search(self, query: TranscriptQuery, terms: Sequence[str]) -> list[TranscriptRow]:
        if not terms:
            return []
        place, (narrowed, more) = _place(query), _narrowed(query)
        values = (self._database.search_expression(place, terms), place, *_window(query), *more, query.limit)
        return read_transcript(self._database.read(self._database.search.format(narrowed=narrowed), values))

    def state(self, scope_key: str, key: str, now_ms: int | None = None) -> StateRow | None:
        now = self.now_ms() if now_ms is None else now_ms
        found = read_states(self._database.read(statements.STATE, (scope_key, key, now)))
        return found[0] if found else None

    def states(self, scope_key: str, after_key: str, limit: int, now_ms: int | None = None) -> list[StateRow]:
        now = self.now_ms() if now_ms is None else now_ms
        return read_states(self._database.read(statements.STATES, (scope_key, after_key, now, limit)))

    def written_states(
        self, workspace: str, after: tuple[str, str], limit: int, now_ms: int | None = None
    ) -> list[WrittenState]:
        now = self.now_ms() if now_ms is None else now_ms
        return read_written_states(self._database.read(statements.WRITTEN_STATES, (workspace, *after, now, limit)))

    def storage(self, area_key: str, key: str) -> StorageRow | None:
        found = read_storage(self._database.read(statements.STORAGE, (area_key, key)))
        return found[0] if found else None

    def storages(self, area_key: str, after_key: str, limit: int) -> list[StorageRow]:
        return read_storage(self._database.read(statements.STORAGES, (area_key, after_key, limit)))

    def policies(self, kind: PolicyKind, workspace: str) -> list[PolicyRow]:
        return read_policies(self._database.read(statements.policies(kind), (workspace,)))

    def policies_everywhere(self, kind: PolicyKind) -> list[PolicyRow]:
        return read_policies(self._database.read(statements.policies_everywhere(kind)))

    def kept(self, kind: str, workspace: str, kept_id: str, now_ms: int | None = None) -> KeptRow | None:
        now = self.now_ms() if now_ms is None else now_ms
        found = read_kept(self._database.read(statements.KEPT, (kind, workspace, kept_id, now)))
        return found[0] if found else None

    def all_kept(self, kind: str, workspace: str | None = None, now_ms: int | None = None) -> list[KeptRow]:
        now = self.now_ms() if now_ms is None else now_ms
        chosen = (kind,) if workspace is None else (kind, workspace)
        statement = statements.all_kept(of_one=workspace is not None)
        return read_kept(self._database.read(statement, (*chosen, now)))

    def artifact(self, workspace: str, artifact_id: str) -> ArtifactRow | None:
        found = read_artifacts(self._database.read(statements.ARTIFACT, (workspace, artifact_id)))
        return found[0] if found else None

    def uploads(self, workspace: str, after: str, limit: int) -> list[ArtifactRow]:
        return read_artifacts(self._database.read(statements.UPLOADS, (workspace, after, limit)))

    def artifact_digests(self, after: str, limit: int) -> list[str]:
        rows = self._database.read(statements.DIGESTS, (after, limit, after, limit, limit))
        return [cast("str", row[0]) for row in rows]

    def outbox_open(self, after_record: int, limit: int) -> list[OutboxRow]:
        return read_outbox(self._database.read(statements.OUTBOX_OPEN, (after_record, limit)))

    def outbox(self, workspace: str, channel: str | None, before_record: int | None, limit: int) -> list[OutboxRow]:
        before = _BIGGEST if before_record is None else before_record
        if channel is None:
            return read_outbox(self._database.read(statements.OUTBOX, (workspace, before, limit)))
        return read_outbox(self._database.read(statements.OUTBOX_OF_CHANNEL, (workspace, channel, before, limit)))

    def tool_call(self, run_id: str, call_id: str) -> ToolCallRow | None:
        found = read_tool_calls(self._database.read(statements.TOOL_CALL, (run_id, call_id)))
        return found[0] if found else None

    def tool_calls(self, run_id: str, after_record: int, limit: int) -> list[ToolCallRow]:
        return read_tool_calls(self._database.read(statements.TOOL_CALLS, (run_id, after_record, limit)))

    def open_tool_calls(self, after_record: int, limit: int) -> list[ToolCallRow]:
        return read_tool_calls(self._database.read(statements.OPEN_TOOL_CALLS, (after_record, limit)))

    def approval(self, workspace: str, approval_id: str) -> ApprovalRow | None:
        found = read_approvals(self._database.read(statements.APPROVAL, (workspace, approval_id)))
        return found[0] if found else None

    def approvals(
        self, workspace: str, status: ApprovalStatus | None, before: tuple[int, str] | None, limit: int
    ) -> list[ApprovalRow]:
        end = (_BIGGEST, "") if before is None else before
        if status is None:
            return read_approvals(self._database.read(statements.APPROVALS, (workspace, *end, limit)))
        return read_approvals(self._database.read(statements.APPROVALS_BY_STATUS, (workspace, status, *end, limit)))

    def approvals_of_run(self, run_id: str) -> list[ApprovalRow]:
        return read_approvals(self._database.read(statements.APPROVALS_OF_RUN, (run_id,)))

    def open_approvals(self, after: str, limit: int) -> list[ApprovalRow]:
        return read_approvals(self._database.read(statements.OPEN_APPROVALS, (after, limit)))

    def meta(self, key: str) -> str | None:
        rows = self._database.read(statements.META, (key,))
        return cast("str", rows[0][0]) if rows else None

    def revision(self) -> str | None:
        rows = self._database.read(statements.REVISION)
        return cast("str", rows[0][0]) if rows else None

    def dump_projections(self) -> dict[str, list[tuple[object, ...]]]:
        dump: dict[str, list[tuple[object, ...]]] = {}
        for table, (columns, order) in _PROJECTED.items():
            names = ", ".join(name for name in columns if name not in _NOT_IN_THE_LOG)
            dump[table] = self._database.read(f"SELECT {names} FROM {table} ORDER BY {order}")  # noqa: S608 -- our own names
        return dump


def _place(query: TranscriptQuery) -> str:
    return place_of(query.workspace, query.bot, query.conversation, query.thread)


def _narrowed(query: TranscriptQuery) -> tuple[str, list[object]]:
    """The conditions that the query adds, and their values."""
    wanted = {name: getattr(query, name) for name in statements.NARROWED}
    conditions = [statements.NARROWED[name] for name, value in wanted.items() if value is not None]
    return "".join(f" AND {condition}" for condition in conditions), [v for v in wanted.values() if v is not None]


def _window(query: TranscriptQuery) -> tuple[int, int]:
    return (-1 if query.after is None else query.after, _BIGGEST if query.before is None else query.before)
