"""The store: reads of every kind of row, and one commit at a time. `Database` hides the differences between SQLite and
PostgreSQL."""

import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar, cast

import msgspec

from bollard.host.errors import StorageUnavailable, StoreMismatch
from bollard.host.limits import RECORDS_PAGE_BYTES
from bollard.host.scope import Actor
from bollard.host.store import statements
from bollard.host.store.action_rows import ApprovalRow, ApprovalStatus, ToolCallRow
from bollard.host.store.database import Database, Values, build_rows, kept_and_mac
from bollard.host.store.kept_key import KEPT_KEY, KeptKey
from bollard.host.store.keys import place_of
from bollard.host.store.queries import (
    CountedRun,
    FactQuery,
    InputFilter,
    ListedRun,
    RecordQuery,
    RunPage,
    RunQuery,
    TranscriptQuery,
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
from bollard.host.store.transaction import WriteTransaction
from bollard.segments import Clause

_Row = TypeVar("_Row", bound=msgspec.Struct)
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


class Store:
    """Rows in SQLite or PostgreSQL."""

    def __init__(self, database: Database, *, wait_s: float = 2.0, kept_key: KeptKey | None = None) -> None:
        """With `kept_key` each `kept` row is written with an HMAC, and a row with a wrong HMAC is refused."""
        self._database = database
        self._wait_s = wait_s
        self._kept_key = kept_key
        self._writing = threading.Lock()

    def open(self) -> None:
        """Connect, migrate and check. Raises `SchemaTooNew`, `StorageUnavailable`, `StorageFull`."""
        self._database.open()
        if self._kept_key is not None:
            try:
                self._kept_key.load()
                if not self._kept_key.is_final:
                    self._seal_kept(self._kept_key)
            except BaseException:
                self.close()
                raise

    def _seal_kept(self, key: KeptKey) -> None:
        """Add HMACs to the rows of an earlier version. If rows have HMACs of another key, the key file was lost: then
        no row is sealed, and reading those rows fails."""
        with self.write():
            if not (sealed := self._database.fetch(statements.SEALED_KEPT)):
                WriteTransaction(self._database, key).seal_kept()
        if all(key.made(*kept_and_mac(values)) for values in sealed):
            key.finish()

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def write(self) -> Generator[WriteTransaction]:
        """One commit. Raises `StorageFull` or `StorageUnavailable` if it failed, and `Conflict` if a row exists
        already; then nothing was written. If the connection was lost during the commit and cannot be restored, the
        outcome is unknown: `details["outcome"] == "unknown"`.
        """
        if not self._writing.acquire(timeout=self._wait_s):
            raise StorageUnavailable("another thread is writing", reason="writer_busy", hint="retry in a moment")
        try:
            self._database.begin()
            try:
                yield WriteTransaction(self._database, self._kept_key)
            except BaseException:
                self._database.rollback()
                raise
            self._database.commit()
        finally:
            self._writing.release()

    def now_ms(self) -> int:
        """The store's own clock: leases are measured by it."""
        return self._database.now_ms()

    def _all(self, row: type[_Row], statement: str, *values: object) -> list[_Row]:
        return build_rows(row, self._database.read(statement, values))

    def _one(self, row: type[_Row], statement: str, *values: object) -> _Row | None:
        found = self._all(row, statement, *values)
        return found[0] if found else None

    def run(self, run_id: str) -> RunRow | None:
        return self._one(RunRow, statements.RUN, run_id)

    def runs(self, query: RunQuery) -> list[RunRow]:
        table, conditions, values = self._run_conditions(query)
        rest = f"WHERE {conditions} {statements.NEWEST_FIRST} LIMIT ?"
        return self._all(RunRow, statements.select(table, RunRow, rest), *values, query.limit)

    def listed_runs(self, query: RunQuery, wanted: InputFilter, searched: int) -> RunPage:
        """A page of runs with the origin of each. Conditions of the event are checked for at most `searched` runs, so
        that a page has the same cost however many runs there are."""
        table, conditions, values = self._run_conditions(query)
        filters: list[tuple[str, object]] = [
            ("event.source = ?", wanted.source),
            ("event.actor_id = ?", wanted.actor_id),
            ("lower(event.summary) LIKE ? ESCAPE '!'", None if wanted.text is None else _pattern(wanted.text)),
        ]
        given = [(condition, value) for condition, value in filters if value is not None]
        if not given:
            found = self._database.read(statements.listed_runs(table, conditions), [*values, query.limit])
            return RunPage(_listed(found))
        statement = statements.found_runs(table, conditions, " AND ".join(condition for condition, _ in given))
        parameters = [*values, searched, *(value for _, value in given), query.limit]
        rows = _listed(self._database.read(statement, parameters))
        if len(rows) == query.limit:
            return RunPage(rows)
        last = self._database.read(statements.last_searched(table, conditions), [*values, searched - 1])
        return RunPage(rows, cast("tuple[int, str]", last[0]) if last else None)

    def _run_conditions(self, query: RunQuery) -> tuple[str, str, list[object]]:
        """The table of a query with the index that suits it, its conditions, and their values."""
        database, table = self._database, "runs"
        conditions, values = ["workspace = ?"], list[object]((query.workspace,))
        if query.statuses is not None:
            conditions.append(database.among("status"))
            values.append(database.listed(sorted(query.statuses)))
            if query.statuses.isdisjoint(ENDED):
                conditions.append("ended = 0")
                table = database.from_unfinished
        filters: list[tuple[str, object]] = [
            ("agent_id = ?", query.agent_id),
            ("conversation = ?", query.conversation),
            ("parent_run_id = ?", query.parent),
            ("created_ms >= ?", query.since_ms),
            ("created_ms < ?", query.until_ms),
        ]
        conditions += [condition for condition, value in filters if value is not None]
        values += [value for _, value in filters if value is not None]
        if query.before is not None:
            conditions.append("(created_ms, run_id) < (?, ?)")
            values.extend(query.before)
        return table, " AND ".join(conditions), values

    def counted_runs(self, workspace: str, since_ms: int, until_ms: int) -> list[CountedRun]:
        """The runs that were created between two times, oldest first."""
        found = self._database.read(statements.COUNTED_RUNS, (workspace, since_ms, until_ms))
        return [CountedRun(*cast("tuple[str, str, str, str | None, str | None, int]", values)) for values in found]

    def first_deltas(self, run_ids: Iterable[str]) -> list[tuple[str, int, bytes]]:
        """The run, the time and the spans of the first delta row of each run that has one."""
        database = self._database
        found = database.read(statements.first_deltas(database.among("first.run_id")), (database.listed(run_ids),))
        return cast("list[tuple[str, int, bytes]]", found)

    def newest_runs(self, workspace: str, bot: str | None, conversation: str, thread: str | None) -> list[RunRow]:
        """The newest run of each agent in one conversation and thread, however many came after it."""
        values = (workspace, conversation, bot or "", thread or "")
        return self._all(RunRow, statements.NEWEST_RUNS, *values)

    def unfinished_runs(self, after: str, limit: int) -> list[RunRow]:
        """Runs that have not ended, by id, those after `after`."""
        return self._all(RunRow, statements.UNFINISHED_RUNS, after, limit)

    def children(self, run_id: str) -> list[RunRow]:
        """The runs that a run called, oldest first."""
        return self._all(RunRow, statements.CHILDREN, run_id)

    def count_runs(self, workspace: str, agent_id: str, since_ms: int) -> int:
        """How many runs of an agent were created since then."""
        ((count,),) = self._database.read(statements.COUNT_RUNS, (workspace, agent_id, since_ms))
        return cast("int", count)

    def records_of_run(
        self, run_id: str, after_seq: int, limit: int, limit_bytes: int = RECORDS_PAGE_BYTES
    ) -> list[RecordRow]:
        """The next records in order, at most `limit`; the last is the one that reaches `limit_bytes`."""
        values = (run_id, after_seq, run_id, after_seq, limit, limit_bytes)
        return self._all(RecordRow, statements.RECORDS_OF_RUN, *values)

    def deltas_of_run(self, run_id: str, after_seq: int) -> list[DeltaRow]:
        """Rows that hold any delta after `after_seq`, in order."""
        return self._all(DeltaRow, statements.DELTAS, run_id, after_seq)

    def deltas_page(self, run_id: str, after_seq: int, limit: int, limit_bytes: int) -> list[DeltaRow]:
        """The next delta rows in order, at most `limit`; the last is the one that reaches `limit_bytes`."""
        behind = (run_id, after_seq, run_id, after_seq + 1)
        values = (*behind, *behind, limit, limit_bytes)
        return self._all(DeltaRow, statements.DELTAS_PAGE, *values)

    def last_seq(self, run_id: str, epoch: int | None = None) -> int:
        """The newest `seq` of a run on disk, over records and deltas, of this epoch and those before it; 0 if none."""
        if epoch is None:
            rows = self._database.read(statements.LAST_SEQ, (run_id, run_id))
        else:
            rows = self._database.read(statements.LAST_SEQ_OF_EPOCH, (run_id, epoch, run_id, epoch))
        return cast("int | None", rows[0][0]) or 0

    def records(self, after_id: int, limit: int) -> list[RecordRow]:
        """The whole log in order, those after `after_id`."""
        return self._all(RecordRow, statements.RECORDS, after_id, limit)

    def chain(self, workspace: str, chain: str, after_position: int, limit: int) -> list[RecordRow]:
        return self._all(RecordRow, statements.CHAIN, workspace, chain, after_position, limit)

    def records_among(self, query: RecordQuery) -> list[RecordRow]:
        """The records of a query."""
        database = self._database
        conditions, values = ["id > ?", "id < ?", "workspace = ?"], [query.above, query.below, query.workspace]
        filters: list[tuple[str, object]] = [
            ("run_id = ?", query.run_id),
            ("created_ms >= ?", query.since_ms),
            ("created_ms < ?", query.until_ms),
            (database.among("type"), None if query.types is None else database.listed(sorted(query.types))),
            (f"NOT {database.among('type')}", database.listed(sorted(query.but_types)) if query.but_types else None),
        ]
        conditions += [condition for condition, value in filters if value is not None]
        parameters = [*values, *(value for _, value in filters if value is not None), query.limit]
        order = "ASC" if query.forward else "DESC"
        statement = statements.RECORDS_AMONG.format(conditions=" AND ".join(conditions), way=order)
        return self._all(RecordRow, statement, *parameters)

    def newest_saved(self) -> list[tuple[RecordRow, str | None]]:
        """The newest `policy.changed` record of each saved resource, in order, and the hash of the record before it in
        its chain. The cost does not depend on the length of the log."""
        rows = self._database.read(statements.newest_saved(self._database.saved_thing))
        earlier = [cast("str | None", row[-1]) for row in rows]
        return list(zip(build_rows(RecordRow, [row[:-1] for row in rows]), earlier, strict=True))

    def last_record(self) -> int:
        """The newest id; 0 if the log is empty."""
        return cast("int", self._database.read(statements.LAST_RECORD)[0][0])

    def newest_heads(self, workspace: str | None, signed_by_ms: int, limit: int) -> list[HeadRow]:
        """The newest head of each chain, signed at this time or before, newest first; of one workspace or of all."""
        return self._all(HeadRow, statements.NEWEST_HEADS, signed_by_ms, workspace, limit)

    def lagging_heads(self, key_id: str, limit: int) -> list[HeadRow]:
        """The newest head by this key of each chain that has unsigned records after it, newest first."""
        return self._all(HeadRow, statements.LAGGING_HEADS, key_id, limit)

    def heads(self, workspace: str) -> list[HeadRow]:
        return self._all(HeadRow, statements.HEADS, workspace)

    def event(self, workspace: str, event_id: str) -> EventRow | None:
        return self._one(EventRow, statements.EVENT, workspace, event_id)

    def events(self, workspace: str, before_record: int | None, limit: int) -> list[EventRow]:
        """Newest first."""
        before = _BIGGEST if before_record is None else before_record
        return self._all(EventRow, statements.EVENTS, workspace, before, limit)

    def last_of_source(self, workspace: str, source: str) -> EventRow | None:
        """The event of this source with the greatest id."""
        return self._one(EventRow, statements.LAST_OF_SOURCE, workspace, source)

    def events_in(
        self,
        workspace: str,
        bot: str | None,
        conversation: str,
        thread: str | None,
        before_record: int | None,
        limit: int,
    ) -> list[EventRow]:
        """The events of one conversation and thread, newest first."""
        before = _BIGGEST if before_record is None else before_record
        place = place_of(workspace, bot, conversation, thread)
        return self._all(EventRow, statements.EVENTS_IN, place, before, limit)

    def facts(self, query: FactQuery) -> list[RecordRow]:
        """The records of a query: ends of tool calls, steps of steering, failures, and messages for a channel."""
        before = _BIGGEST if query.before is None else query.before
        newer = next(iter(self.records(before - 1, 1)), None) if query.before is not None else None
        until_ms = _BIGGEST if newer is None else newer.created_ms
        place = (query.workspace, query.conversation, query.agent, query.bot or "", query.thread or "")
        return self._all(RecordRow, statements.FACTS, *place, until_ms, query.runs, before, query.limit)

    def facts_of_run(self, run_id: str, before: int | None, limit: int) -> list[RecordRow]:
        """The same records of one run, newest first; those before `before`."""
        return self._all(RecordRow, statements.FACTS_OF_RUN, run_id, _BIGGEST if before is None else before, limit)

    def actors_in(
        self, workspace: str, bot: str | None, conversation: str, thread: str | None, events: int
    ) -> list[Actor]:
        """The actors of the newest `events` events of one conversation and thread, in any order."""
        place = place_of(workspace, bot, conversation, thread)
        rows = self._database.read(statements.ACTORS_IN, (place, events))
        return [Actor(cast("str", row[0]), cast("str", row[1])) for row in rows]

    def pending_events(self, after_record: int, limit: int) -> list[EventRow]:
        """Events of all workspaces that wait for a run, in the order of arrival, those after `after_record`."""
        return self._all(EventRow, statements.PENDING_EVENTS, after_record, limit)

    def threads(self, workspace: str, bot: str | None, conversation: str, runs: int) -> list[str | None]:
        """The threads of the newest `runs` runs of a conversation, newest first."""
        rows = self._database.read(statements.THREADS, (workspace, conversation, runs, bot or ""))
        return [cast("str | None", row[0]) for row in rows]

    def conversations(self, workspace: str, before_seq: int | None, limit: int) -> list[ConversationRow]:
        """Conversations and their threads, the one with the newest message first; those before `before_seq`."""
        before = _BIGGEST if before_seq is None else before_seq
        return self._all(ConversationRow, statements.CONVERSATIONS, workspace, before, limit)

    def transcript(self, query: TranscriptQuery) -> list[TranscriptRow]:
        narrowed, more = _narrowed(query)
        statement = statements.TRANSCRIPT.format(narrowed=narrowed, way="ASC" if query.forward else "DESC")
        values = (_place(query), *_window(query), *more, query.limit)
        return self._all(TranscriptRow, statement, *values)

    def search(self, query: TranscriptQuery, clauses: Sequence[Clause]) -> list[TranscriptRow]:
        """Messages that fulfil all clauses (as `bollard.segments.clauses` makes them), best first, then newest."""
        if not clauses:
            return []
        place, (narrowed, more) = _place(query), _narrowed(query)
        values = (self._database.search_expression(place, clauses), place, *_window(query), *more, query.limit)
        return self._all(TranscriptRow, self._database.search.format(narrowed=narrowed), *values)

    def search_workspace(
        self, workspace: str, clauses: Sequence[Clause], before_seq: int | None, limit: int
    ) -> list[TranscriptRow]:
        """Messages of all conversations of a workspace that fulfil all clauses, newest first."""
        if not clauses:
            return []
        before = _BIGGEST if before_seq is None else before_seq
        expression = self._database.search_expression(None, clauses)
        return self._all(TranscriptRow, self._database.workspace_search, expression, workspace, before, limit)

    def state(self, scope_key: str, key: str, now_ms: int | None = None) -> StateRow | None:
        """The value, unless it has expired at `now_ms` (default: the store's clock)."""
        now = self.now_ms() if now_ms is None else now_ms
        return self._one(StateRow, statements.STATE, scope_key, key, now)

    def states(self, scope_key: str, after_key: str, limit: int, now_ms: int | None = None) -> list[StateRow]:
        """By key, those after `after_key` that have not expired."""
        now = self.now_ms() if now_ms is None else now_ms
        return self._all(StateRow, statements.STATES, scope_key, after_key, now, limit)

    def written_states(
        self, workspace: str, after: tuple[str, str], limit: int, now_ms: int | None = None
    ) -> list[WrittenState]:
        """The unexpired values of a workspace and their writers, by scope key and key, those after `after`."""
        now = self.now_ms() if now_ms is None else now_ms
        return self._all(WrittenState, statements.WRITTEN_STATES, workspace, *after, now, limit)

    def storage(self, area_key: str, key: str) -> StorageRow | None:
        return self._one(StorageRow, statements.STORAGE, area_key, key)

    def storages(self, area_key: str, after_key: str, limit: int) -> list[StorageRow]:
        """By key, those after `after_key`."""
        return self._all(StorageRow, statements.STORAGES, area_key, after_key, limit)

    def policies(self, kind: PolicyKind, workspace: str) -> list[PolicyRow]:
        """The saved resources of a workspace, by id."""
        return self._all(PolicyRow, statements.policies(kind), workspace)

    def policies_everywhere(self, kind: PolicyKind) -> list[PolicyRow]:
        """The saved resources of all workspaces, by workspace and id."""
        return self._all(PolicyRow, statements.policies_everywhere(kind))

    def kept(self, kind: str, workspace: str, kept_id: str, now_ms: int | None = None) -> KeptRow | None:
        """A `kept` row, unless it has expired at `now_ms` (default: the store's clock). Raises `StoreMismatch` for a
        row that this store did not write."""
        now = self.now_ms() if now_ms is None else now_ms
        found = self._read_kept(statements.KEPT, (kind, workspace, kept_id, now))
        return found[0] if found else None

    def all_kept(self, kind: str, workspace: str | None = None, now_ms: int | None = None) -> list[KeptRow]:
        """The unexpired `kept` rows of a kind, of one workspace or of all, by workspace and id. Raises `StoreMismatch`
        for a row that this store did not write."""
        now = self.now_ms() if now_ms is None else now_ms
        chosen = (kind,) if workspace is None else (kind, workspace)
        statement = statements.all_kept(of_one=workspace is not None)
        return self._read_kept(statement, (*chosen, now))

    def _read_kept(self, statement: str, values: Values) -> list[KeptRow]:
        rows: list[KeptRow] = []
        for found in self._database.read(statement, values):
            row, mac = kept_and_mac(found)
            if self._kept_key is not None and not self._kept_key.made(row, mac):
                raise StoreMismatch(
                    f"the {row.kind} {row.id} of workspace {row.workspace} was not written by this host",
                    reason="row_forged",
                    hint=f"restore keys/{KEPT_KEY} if it was replaced; otherwise delete such rows with `bollard log "
                    "rebuild --drop-unverified`, and set the password or secret again",
                    kind=row.kind,
                    id=row.id,
                    workspace=row.workspace,
                )
            rows.append(row)
        return rows

    def artifact(self, workspace: str, artifact_id: str) -> ArtifactRow | None:
        return self._one(ArtifactRow, statements.ARTIFACT, workspace, artifact_id)

    def uploads(self, workspace: str, after: str, limit: int) -> list[ArtifactRow]:
        """The uploaded files, by id, those after `after`. Cheap if `after` is the newest id."""
        return self._all(ArtifactRow, statements.UPLOADS, workspace, after, limit)

    def artifact_digests(self, after: str, limit: int) -> list[str]:
        """The digests that artifacts and storage refer to, in order, those after `after`. A blob sweep keeps them."""
        rows = self._database.read(statements.DIGESTS, (after, limit, after, limit, limit))
        return [cast("str", row[0]) for row in rows]

    def outbox_open(self, after_record: int, limit: int) -> list[OutboxRow]:
        """The open deliveries of all workspaces, in order, those after `after_record`."""
        return self._all(OutboxRow, statements.OUTBOX_OPEN, after_record, limit)

    def delivery(self, workspace: str, delivery_id: str) -> OutboxRow | None:
        """One row of the outbox."""
        return self._one(OutboxRow, statements.DELIVERY, delivery_id, workspace)

    def delivery_anywhere(self, delivery_id: str) -> OutboxRow | None:
        """One row of the outbox, of any workspace."""
        return self._one(OutboxRow, statements.DELIVERY_ANYWHERE, delivery_id)

    def outbox(
        self, workspace: str, channel: str | None, before_record: int | None, limit: int, run_id: str | None = None
    ) -> list[OutboxRow]:
        """The deliveries of one channel, of one run, or of the whole workspace, newest first."""
        before = _BIGGEST if before_record is None else before_record
        if run_id is not None:
            values = (workspace, channel, before, run_id, run_id, limit)
            return self._all(OutboxRow, statements.OUTBOX_OF_RUN, *values)
        if channel is None:
            return self._all(OutboxRow, statements.OUTBOX, workspace, before, limit)
        return self._all(OutboxRow, statements.OUTBOX_OF_CHANNEL, workspace, channel, before, limit)

    def tool_call(self, run_id: str, call_id: str) -> ToolCallRow | None:
        return self._one(ToolCallRow, statements.TOOL_CALL, run_id, call_id)

    def tool_calls(self, run_id: str, after_record: int, limit: int) -> list[ToolCallRow]:
        """The calls of a run in the order of their start, those after `after_record`."""
        return self._all(ToolCallRow, statements.TOOL_CALLS, run_id, after_record, limit)

    def open_tool_calls(self, after_record: int, limit: int) -> list[ToolCallRow]:
        """The started calls without an end, of all runs, in order."""
        return self._all(ToolCallRow, statements.OPEN_TOOL_CALLS, after_record, limit)

    def approval(self, workspace: str, approval_id: str) -> ApprovalRow | None:
        return self._one(ApprovalRow, statements.APPROVAL, workspace, approval_id)

    def approvals(
        self,
        workspace: str,
        status: ApprovalStatus | None,
        before: tuple[int, str] | None,
        limit: int,
        run_id: str | None = None,
    ) -> list[ApprovalRow]:
        """Approvals, newest first; those before (created_ms, approval_id), of one status or of all, of one run or of
        all."""
        end = (_BIGGEST, "") if before is None else before
        if run_id is not None:
            return self._all(ApprovalRow, statements.APPROVALS_OF_RUN, workspace, run_id, status, *end, limit)
        if status is None:
            return self._all(ApprovalRow, statements.APPROVALS, workspace, *end, limit)
        return self._all(ApprovalRow, statements.APPROVALS_BY_STATUS, workspace, status, *end, limit)

    def open_approvals(self, after: str, limit: int) -> list[ApprovalRow]:
        """Undecided approvals, and granted ones that were not used, of all workspaces, by id."""
        return self._all(ApprovalRow, statements.OPEN_APPROVALS, after, limit)

    def meta(self, key: str) -> str | None:
        rows = self._database.read(statements.META, (key,))
        return cast("str", rows[0][0]) if rows else None

    def revision(self) -> str | None:
        """The current schema revision. Another program may have changed it since the start."""
        rows = self._database.read(statements.REVISION)
        return cast("str", rows[0][0]) if rows else None

    def dump_projections(self) -> dict[str, list[tuple[object, ...]]]:
        """The rows of every projection in a fixed order, for comparison."""
        dump: dict[str, list[tuple[object, ...]]] = {}
        for table, (columns, order) in _PROJECTED.items():
            dump[table] = self._database.read(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}")  # noqa: S608 -- our own names
        return dump


def _pattern(text: str) -> str:
    """A pattern of LIKE for every text that contains this one."""
    escaped = "".join(f"!{character}" if character in "!%_" else character for character in text.lower())
    return f"%{escaped}%"


def _listed(found: Sequence[tuple[object, ...]]) -> list[ListedRun]:
    """Runs from their columns, followed by those of their events."""
    width = len(RunRow.__struct_fields__)
    runs = build_rows(RunRow, [values[:width] for values in found])
    return [
        ListedRun(run=run, **dict(zip(statements.ORIGIN, cast("tuple[str | None, ...]", values[width:]), strict=True)))
        for run, values in zip(runs, found, strict=True)
    ]


def _place(query: TranscriptQuery) -> str:
    return place_of(query.workspace, query.bot, query.conversation, query.thread)


def _narrowed(query: TranscriptQuery) -> tuple[str, list[object]]:
    """The conditions that the query adds, and their values."""
    wanted = {name: getattr(query, name) for name in statements.NARROWED}
    conditions = [statements.NARROWED[name] for name, value in wanted.items() if value is not None]
    values = [value for value in wanted.values() if value is not None]
    if event := _event_conditions(query):
        conditions.append(statements.OF_EVENTS.format(narrowed="".join(f" AND {each}" for each in event)))
        values += [_place(query), *(query.event_types or ())]
        values += [value for value in (query.actor_type, query.actor_id) if value is not None]
    if query.actor_type is not None or query.actor_id is not None:
        conditions.append("role = 'user'")  # an answer belongs to the event, but its sender did not write it
    return "".join(f" AND {condition}" for condition in conditions), values


def _event_conditions(query: TranscriptQuery) -> list[str]:
    conditions = [f"event.type IN ({', '.join('?' for _ in query.event_types)})"] if query.event_types else []
    names = (name for name in ("actor_type", "actor_id") if getattr(query, name) is not None)
    return conditions + [f"event.{name} = ?" for name in names]


def _window(query: TranscriptQuery) -> tuple[int, int]:
    return (-1 if query.after is None else query.after, _BIGGEST if query.before is None else query.before)
