"""The statements of the SQL stores that are the same for SQLite and PostgreSQL, in one place. Parameters are `?`.

Columns come from the rows, so a row and its table cannot drift apart silently. Written out instead of composed at
start: composing them costs half a second and 25 MiB of imports that nothing else here needs.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final, get_args

import msgspec

from bollard.host.store.action_rows import ApprovalField, ApprovalRow, ToolCallRow
from bollard.host.store.rows import (
    POLICY_KINDS,
    ArtifactRow,
    ConversationRow,
    DeltaRow,
    EventField,
    EventRow,
    HeadRow,
    KeptRow,
    OutboxField,
    OutboxRow,
    PolicyKind,
    PolicyRow,
    RecordRow,
    RunField,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
)

_PATCHED: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "runs": ("run_id = ?", frozenset(get_args(RunField))),
    "events": ("workspace = ? AND event_id = ?", frozenset(get_args(EventField))),
    "outbox": ("delivery_id = ?", frozenset(get_args(OutboxField))),
    "approvals": ("approval_id = ?", frozenset(get_args(ApprovalField))),
}
"""By table, the key of a row and the columns that may change."""


def columns(row: type[msgspec.Struct], alias: str = "") -> str:
    return ", ".join(f"{alias}{name}" for name in row.__struct_fields__)


def insert(table: str, row: type[msgspec.Struct], *more: str) -> str:
    names = (*row.__struct_fields__, *more)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 -- names of our own


def select(table: str, row: type[msgspec.Struct], rest: str) -> str:
    return f"SELECT {columns(row)} FROM {table} {rest}"  # noqa: S608 -- names of our own


def upsert(statement: str, key: tuple[str, ...], names: tuple[str, ...]) -> str:
    """`statement` that replaces the row with the same key."""
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in key)
    return f"{statement} ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changed}"


def patch(table: str, names: Iterable[str]) -> str:
    """Change some columns of one row. Names become part of the statement: one that may not change is a `ValueError`."""
    key, fields = _PATCHED[table]
    if not fields.issuperset(names):
        raise ValueError(f"a row has no such field: {sorted(set(names) - fields)}")
    return f"UPDATE {table} SET {', '.join(f'{name} = ?' for name in names)} WHERE {key}"  # noqa: S608 -- checked names


def event_dispatch(row_lock: str) -> str:
    return f"SELECT dispatch FROM events WHERE workspace = ? AND event_id = ? {row_lock}"  # noqa: S608 -- our own


def state_size(key_bytes: str, value_bytes: str) -> str:
    size = f"CAST(coalesce(sum({key_bytes} + {value_bytes}), 0) AS BIGINT)"
    return f"SELECT {size} FROM state WHERE scope_key = ? AND {_ALIVE}"  # noqa: S608 -- our own


def policy_columns(kind: PolicyKind) -> tuple[str, ...]:
    """The columns of a table of policies, in the order of the row: an agent's id is called `agent_id`."""
    if kind not in POLICY_KINDS:  # it comes from a record, and becomes part of a statement
        raise ValueError(f"{kind!r} is not a kind of saved resource")
    return tuple(f"{kind}_id" if name == "id" else name for name in PolicyRow.__struct_fields__)


def put_policy(kind: PolicyKind) -> str:
    names = policy_columns(kind)
    statement = f"INSERT INTO {kind}s ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 -- our own
    return upsert(statement, ("workspace", f"{kind}_id"), names)


def drop_policy(kind: PolicyKind) -> str:
    _, name, *_ = policy_columns(kind)
    return f"DELETE FROM {kind}s WHERE workspace = ? AND {name} = ?"  # noqa: S608 -- our own


def policies(kind: PolicyKind) -> str:
    return f"SELECT {', '.join(policy_columns(kind))} FROM {kind}s WHERE workspace = ? ORDER BY {kind}_id"  # noqa: S608 -- our own


def policies_everywhere(kind: PolicyKind) -> str:
    return f"SELECT {', '.join(policy_columns(kind))} FROM {kind}s ORDER BY workspace, {kind}_id"  # noqa: S608 -- our own


def all_kept(*, of_one: bool) -> str:
    """Of one workspace, or of every one."""
    chosen = "kind = ? AND workspace = ?" if of_one else "kind = ?"
    return _select_kept(f"WHERE {chosen} AND {_ALIVE} ORDER BY workspace, id")


def _select_kept(rest: str) -> str:
    """Rows and their HMACs."""
    return f"SELECT {columns(KeptRow)}, mac FROM kept {rest}"  # noqa: S608 -- our own


def newest_saved(thing: str) -> str:
    """The newest record of each saved resource, and the hash of the record before it in its chain. `thing` is the
    expression of the index that finds them."""
    newest = (
        f"SELECT max(id) FROM records WHERE type = 'policy.changed' AND data IS NOT NULL GROUP BY workspace, {thing}"  # noqa: S608 -- our own
    )
    return (
        f"SELECT {columns(RecordRow, 'saved.')}, earlier.hash FROM records saved "  # noqa: S608 -- our own
        "LEFT JOIN records earlier ON earlier.workspace = saved.workspace AND earlier.chain = saved.chain "
        f"AND earlier.position = saved.position - 1 WHERE saved.id IN ({newest}) ORDER BY saved.id"
    )


def lock_epochs(among: str, row_lock: str) -> str:
    """In order of id, so that two hosts that lock the same runs wait for each other instead of dead-locking."""
    return f"SELECT run_id, epoch FROM runs WHERE {among} AND ended = 0 ORDER BY run_id {row_lock}"  # noqa: S608 -- our own


def renew_leases(among: str) -> str:
    return f"UPDATE runs SET lease_until_ms = ? WHERE owner = ? AND {among} AND ended = 0 RETURNING run_id"  # noqa: S608 -- our own


def first_deltas(among: str) -> str:
    return (
        f"SELECT first.run_id, first.created_ms, first.spans FROM deltas first WHERE {among} AND first.first_seq = "  # noqa: S608 -- our own
        "(SELECT min(least.first_seq) FROM deltas least WHERE least.run_id = first.run_id)"
    )


NEWEST_FIRST: Final = "ORDER BY created_ms DESC, run_id DESC"
ORIGIN: Final = ("source", "actor_type", "actor_id", "actor_name", "summary")
"""The columns of an event that a list of runs shows."""
_OF_PAGE: Final = "event.workspace = page.workspace AND event.event_id = page.event_id"
# The pages are read first: a planner that starts at the events would read all of them.
_LISTED: Final = (
    f"SELECT {columns(RunRow, 'run.')}, {', '.join(f'event.{name}' for name in ORIGIN)} "  # noqa: S608 -- our own
    f"FROM ({{page}}) page CROSS JOIN runs run LEFT JOIN events event ON {_OF_PAGE} "
    "WHERE run.run_id = page.run_id ORDER BY page.created_ms DESC, page.run_id DESC"
)


def _page_of_runs(table: str, conditions: str) -> str:
    return f"SELECT run_id, created_ms, workspace, event_id FROM {table} WHERE {conditions} {NEWEST_FIRST} LIMIT ?"  # noqa: S608 -- our own


def listed_runs(table: str, conditions: str) -> str:
    """A page of runs, each with the origin of its event."""
    return _LISTED.format(page=_page_of_runs(table, conditions))


def found_runs(table: str, conditions: str, of_events: str) -> str:
    """The same for those of some runs whose events meet conditions. Parameters: those of `conditions`, the number of
    runs, those of `of_events`, the limit."""
    found = (
        f"SELECT page.run_id, page.created_ms, page.workspace, page.event_id "  # noqa: S608 -- our own
        f"FROM ({_page_of_runs(table, conditions)}) page CROSS JOIN events event WHERE {_OF_PAGE} AND {of_events} "
        "ORDER BY page.created_ms DESC, page.run_id DESC LIMIT ?"
    )
    return _LISTED.format(page=found)


def last_searched(table: str, conditions: str) -> str:
    return f"SELECT created_ms, run_id FROM {table} WHERE {conditions} {NEWEST_FIRST} LIMIT 1 OFFSET ?"  # noqa: S608 -- our own


def drop_data(among: str) -> str:
    """Spares unfinished work: a run that has not ended, an event that waits for a run, a message that is being sent."""
    under_way = (
        "EXISTS (SELECT 1 FROM runs WHERE runs.run_id = old.run_id AND runs.ended = 0) OR EXISTS ("
        "SELECT 1 FROM events LEFT JOIN runs ON runs.run_id = events.run_id "
        "WHERE events.workspace = old.workspace AND events.record_id = old.id "
        "AND (events.dispatch = 'pending' OR runs.ended = 0)) OR EXISTS ("
        "SELECT 1 FROM outbox WHERE outbox.workspace = old.workspace AND outbox.record_id = old.id "
        "AND outbox.status IN ('queued', 'started', 'shown'))"
    )
    chosen = f"{among} AND created_ms < ? AND data IS NOT NULL AND NOT ({under_way}) ORDER BY created_ms, id LIMIT ?"
    return (
        f"UPDATE records SET data = NULL WHERE id IN (SELECT id FROM records old WHERE {chosen}) "  # noqa: S608 -- our own
        "RETURNING workspace, id"
    )


ERASE_DATA: Final = "UPDATE records SET data = NULL WHERE id = ? AND data IS NOT NULL RETURNING workspace, id"
ERASE_RUN: Final = tuple(
    f"DELETE FROM {table} WHERE run_id = ?"  # noqa: S608 -- our own names
    for table in ("runs", "deltas", "tool_calls", "approvals", "outbox", "artifacts")
)
"""The rows of a run that its records made."""


def drop_raw(among: str) -> str:
    """The full payloads of these events."""
    return f"DELETE FROM artifacts WHERE source = 'event' AND {among}"  # noqa: S608 -- our own


ADD_RECORD: Final = insert("records", RecordRow)
ADD_DELTA: Final = insert("deltas", DeltaRow)
ADD_HEAD: Final = insert("heads", HeadRow)
PUT_EVENT: Final = insert("events", EventRow, "place")
PUT_RUN: Final = insert("runs", RunRow)
PUT_ARTIFACT: Final = upsert(
    insert("artifacts", ArtifactRow), ("workspace", "artifact_id"), ArtifactRow.__struct_fields__
)
# One that has expired is not there, whether it was swept or not.
ADD_ARTIFACT: Final = f"{PUT_ARTIFACT} WHERE artifacts.expires_ms <= excluded.created_ms"
# A file of a message is replaced only by one that lives longer, or that has the content it lacked.
EXTEND_ARTIFACT: Final = (
    f"{PUT_ARTIFACT} WHERE excluded.expires_ms IS NULL OR artifacts.expires_ms < excluded.expires_ms "
    "OR (artifacts.sha256 IS NULL AND excluded.sha256 IS NOT NULL)"
)
ARTIFACT_PUTS: Final = (ADD_ARTIFACT, EXTEND_ARTIFACT, PUT_ARTIFACT)
DROP_ARTIFACT: Final = "DELETE FROM artifacts WHERE workspace = ? AND artifact_id = ?"
PUT_STATE: Final = upsert(insert("state", StateRow), ("scope_key", "key"), StateRow.__struct_fields__)
COUNT_STATE: Final = PUT_STATE.replace(
    "version = excluded.version",
    "version = CASE WHEN state.expires_ms <= excluded.updated_ms THEN 1 ELSE state.version + 1 END",
)
PUT_STORAGE: Final = upsert(insert("storage", StorageRow), ("area_key", "key"), StorageRow.__struct_fields__)
DROP_STORAGE: Final = "DELETE FROM storage WHERE area_key = ? AND key = ?"
DROP_STATE: Final = "DELETE FROM state WHERE scope_key = ? AND key = ?"
PUT_KEPT: Final = upsert(
    insert("kept", KeptRow, "mac"), ("kind", "workspace", "id"), (*KeptRow.__struct_fields__, "mac")
)
SET_MAC: Final = "UPDATE kept SET mac = ? WHERE kind = ? AND workspace = ? AND id = ?"
DROP_KEPT: Final = "DELETE FROM kept WHERE kind = ? AND workspace = ? AND id = ?"
PUT_OUTBOX: Final = upsert(insert("outbox", OutboxRow), ("delivery_id",), OutboxRow.__struct_fields__)
PUT_TOOL_CALL: Final = upsert(insert("tool_calls", ToolCallRow), ("run_id", "call_id"), ToolCallRow.__struct_fields__)
END_TOOL_CALL: Final = (
    "UPDATE tool_calls SET status = ?, result = ?, flow = ?, ended_ms = ? WHERE run_id = ? AND call_id = ?"
)
PUT_APPROVAL: Final = upsert(insert("approvals", ApprovalRow), ("approval_id",), ApprovalRow.__struct_fields__)
PUT_META: Final = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


@cache
def find_events(table: str, among_ids: str) -> str:
    """The events of one source whose id is one of a list."""
    return select(table, EventRow, f"WHERE workspace = ? AND source = ? AND {among_ids}")


FIND_EVENT: Final = select("events", EventRow, "WHERE workspace = ? AND source = ? AND source_id = ?")
DELTAS: Final = select("deltas", DeltaRow, "WHERE run_id = ? AND last_seq > ? ORDER BY first_seq")
_DELTAS_BEHIND: Final = (
    # Rows do not overlap, so that none before the one that may hold the next number needs to be looked at.
    "run_id = ? AND last_seq > ? AND first_seq >= "
    "coalesce((SELECT max(first_seq) FROM deltas WHERE run_id = ? AND first_seq <= ?), 0)"
)
DELTAS_PAGE: Final = select(
    "deltas",
    DeltaRow,
    f"WHERE {_DELTAS_BEHIND} AND first_seq <= ("  # noqa: S608 -- our own names
    "SELECT max(first_seq) FROM (SELECT first_seq, sum(size) OVER (ORDER BY first_seq) - size AS before_it FROM ("
    "SELECT first_seq, length(spans) + length(body) AS size FROM deltas "
    f"WHERE {_DELTAS_BEHIND} ORDER BY first_seq LIMIT ?) page) sized WHERE before_it < ?) "
    "ORDER BY first_seq",
)
DELTAS_BETWEEN: Final = select("deltas", DeltaRow, "WHERE run_id = ? AND first_seq BETWEEN ? AND ? ORDER BY first_seq")
DROP_DELTAS_BETWEEN: Final = "DELETE FROM deltas WHERE run_id = ? AND first_seq BETWEEN ? AND ?"
DROP_EVENT: Final = "DELETE FROM events WHERE workspace = ? AND record_id = ? RETURNING event_id"
DROP_DELIVERY: Final = "DELETE FROM outbox WHERE workspace = ? AND record_id = ?"
DROP_SAID: Final = "DELETE FROM transcript WHERE seq = ?"
PUT_CONVERSATION: Final = (
    upsert(insert("conversations", ConversationRow), ("place",), ConversationRow.__struct_fields__)
    + " WHERE excluded.last_seq >= conversations.last_seq"
)
FORGET_NEWEST: Final = "DELETE FROM conversations WHERE workspace = ? AND last_seq = ? RETURNING place"
NEWEST_AGAIN: Final = (
    f"INSERT INTO conversations ({columns(ConversationRow)}) "  # noqa: S608 -- our own names
    "SELECT place, workspace, bot, conversation, thread, seq, created_ms FROM transcript "
    "WHERE place = ? AND conversation IS NOT NULL ORDER BY seq DESC LIMIT 1"
)
TAKE_LEASE: Final = (
    "UPDATE runs SET epoch = ?, owner = ?, lease_until_ms = ? "
    "WHERE run_id = ? AND epoch = ? AND ended = 0 RETURNING run_id"
)
DROP_OLD_DELTAS: Final = (
    "DELETE FROM deltas WHERE (run_id, first_seq) IN ("
    "SELECT old.run_id, old.first_seq FROM deltas old JOIN runs ON runs.run_id = old.run_id "
    "WHERE old.created_ms < ? AND runs.ended = 1 AND NOT EXISTS ("
    "SELECT 1 FROM deltas newer WHERE newer.run_id = old.run_id AND newer.created_ms >= ?) "
    "ORDER BY old.created_ms, old.run_id, old.first_seq LIMIT ?) RETURNING 1"
)
DROP_EXPIRED_STATE: Final = (
    "DELETE FROM state WHERE (scope_key, key) IN ("
    "SELECT scope_key, key FROM state WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?) RETURNING 1"
)
DROP_EXPIRED_ARTIFACTS: Final = (
    "DELETE FROM artifacts WHERE (workspace, artifact_id) IN ("
    "SELECT workspace, artifact_id FROM artifacts WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?) RETURNING 1"
)
DROP_EXPIRED_KEPT: Final = (
    "DELETE FROM kept WHERE (kind, workspace, id) IN ("
    "SELECT kind, workspace, id FROM kept WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?) RETURNING 1"
)
PROJECTIONS: Final = (
    "events",
    "runs",
    "transcript",
    "conversations",
    "state",
    "storage",
    "artifacts",
    "outbox",
    "tool_calls",
    "approvals",
    *(f"{kind}s" for kind in POLICY_KINDS),
)

RUN: Final = select("runs", RunRow, "WHERE run_id = ?")
UNFINISHED_RUNS: Final = select("runs", RunRow, "WHERE ended = 0 AND run_id > ? ORDER BY run_id LIMIT ?")
CHILDREN: Final = select("runs", RunRow, "WHERE parent_run_id = ? ORDER BY created_ms, run_id")
NEWEST_RUNS: Final = select(
    "runs",
    RunRow,
    "WHERE run_id IN (SELECT run_id FROM (SELECT run_id, "
    "row_number() OVER (PARTITION BY agent_id ORDER BY created_ms DESC, run_id DESC) AS age FROM runs WHERE "
    "workspace = ? AND conversation = ? AND coalesce(bot, '') = ? AND coalesce(thread, '') = ?) aged WHERE age = 1)",
)
COUNTED_RUNS: Final = (
    "SELECT run_id, agent_id, status, reason, usage, created_ms FROM runs "
    "WHERE workspace = ? AND created_ms >= ? AND created_ms < ? ORDER BY created_ms, run_id"
)
COUNT_RUNS: Final = "SELECT count(*) FROM runs WHERE workspace = ? AND agent_id = ? AND created_ms >= ?"
THREADS: Final = (
    "SELECT thread FROM (SELECT bot, thread, created_ms FROM runs WHERE workspace = ? AND conversation = ? "
    "ORDER BY created_ms DESC, run_id DESC LIMIT ?) newest WHERE coalesce(bot, '') = ? "
    "GROUP BY thread ORDER BY max(created_ms) DESC, coalesce(thread, '')"
)
RECORDS_OF_RUN: Final = select(
    "records",
    RecordRow,
    "WHERE run_id = ? AND seq > ? AND seq <= ("
    "SELECT max(seq) FROM (SELECT seq, sum(size) OVER (ORDER BY seq) - size AS before_it FROM ("
    "SELECT seq, coalesce(length(data), 0) AS size FROM records "
    "WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?) page) sized WHERE before_it < ?) "
    "ORDER BY seq",
)
LAST_SEQ: Final = (
    "SELECT max(seq) FROM (SELECT max(seq) AS seq FROM records WHERE run_id = ? "
    "UNION ALL SELECT max(last_seq) FROM deltas WHERE run_id = ?) newest"
)
LAST_SEQ_OF_EPOCH: Final = (
    "SELECT max(seq) FROM (SELECT max(seq) AS seq FROM records WHERE run_id = ? AND coalesce(epoch, 0) <= ? "
    "UNION ALL SELECT max(last_seq) FROM deltas WHERE run_id = ? AND epoch <= ?) newest"
)
RECORDS: Final = select("records", RecordRow, "WHERE id > ? ORDER BY id LIMIT ?")
CHAIN: Final = select(
    "records", RecordRow, "WHERE workspace = ? AND chain = ? AND position > ? ORDER BY position LIMIT ?"
)
LAST_RECORD: Final = "SELECT coalesce(max(id), 0) FROM records"
RECORDS_AMONG: Final = select("records", RecordRow, "WHERE {conditions} ORDER BY id {way} LIMIT ?")
"""`conditions` and `way` are of the store itself."""
NEWEST_HEADS: Final = select(
    "heads",
    HeadRow,
    "WHERE (workspace, chain, position) IN (SELECT workspace, chain, max(position) FROM heads "
    "WHERE created_ms <= ? AND workspace = coalesce(?, workspace) GROUP BY workspace, chain) "
    "ORDER BY created_ms DESC, workspace, chain DESC LIMIT ?",
)
HEADS: Final = select("heads", HeadRow, "WHERE workspace = ? ORDER BY chain, position")
_NEWEST: Final = (
    "WITH RECURSIVE spaces(workspace) AS (SELECT min(workspace) FROM heads UNION ALL "
    "SELECT (SELECT min(h.workspace) FROM heads h WHERE h.workspace > spaces.workspace) "
    "FROM spaces WHERE spaces.workspace IS NOT NULL), "
    "chains(workspace, chain) AS (SELECT workspace, (SELECT min(h.chain) FROM heads h "
    "WHERE h.workspace = spaces.workspace) FROM spaces WHERE workspace IS NOT NULL UNION ALL "
    "SELECT workspace, (SELECT min(h.chain) FROM heads h WHERE h.workspace = chains.workspace "
    "AND h.chain > chains.chain) FROM chains WHERE chain IS NOT NULL), "
    "newest(workspace, chain, position) AS (SELECT workspace, chain, (SELECT max(h.position) FROM heads h "
    "WHERE h.workspace = chains.workspace AND h.chain = chains.chain) FROM chains WHERE chain IS NOT NULL) "
)
"""From chain to chain along the index of heads: a few seeks for each chain, however long the log is."""
LAGGING_HEADS: Final = _NEWEST + select(
    "newest JOIN heads USING (workspace, chain, position)",
    HeadRow,
    "WHERE key_id = ? AND EXISTS (SELECT 1 FROM records r WHERE r.workspace = newest.workspace "
    "AND r.chain = newest.chain AND r.position > newest.position) "
    "ORDER BY created_ms DESC, workspace, chain DESC LIMIT ?",
)
EVENT: Final = select("events", EventRow, "WHERE workspace = ? AND event_id = ?")
EVENTS: Final = select("events", EventRow, "WHERE workspace = ? AND record_id < ? ORDER BY record_id DESC LIMIT ?")
LAST_OF_SOURCE: Final = select("events", EventRow, "WHERE workspace = ? AND source = ? ORDER BY source_id DESC LIMIT 1")
EVENTS_IN: Final = select("events", EventRow, "WHERE place = ? AND record_id < ? ORDER BY record_id DESC LIMIT ?")
ACTORS_IN: Final = (
    "SELECT DISTINCT actor_type, actor_id FROM (SELECT actor_type, actor_id FROM events WHERE place = ? "
    "ORDER BY record_id DESC LIMIT ?) newest WHERE actor_id IS NOT NULL"
)
_FACTS: Final = (
    "AND id < ? AND (type IN ('action.completed', 'action.failed', 'action.rejected', 'action.unknown', "
    "'steering.queued', 'steering.injected', 'steering.acknowledged', 'steering.dropped') "
    "OR (type = 'run.ended' AND EXISTS (SELECT 1 FROM runs failed WHERE failed.run_id = records.run_id "
    "AND failed.status IN ('failed', 'timeout'))) OR (type = 'message.completed' AND EXISTS (SELECT 1 FROM outbox "
    "WHERE delivery_id = records.run_id || '.' || records.seq))) ORDER BY id DESC LIMIT ?"
)
FACTS: Final = select(
    "records",
    RecordRow,
    "WHERE run_id IN (SELECT run_id FROM ("  # noqa: S608 -- names of our own
    "SELECT run_id FROM runs WHERE workspace = ? AND conversation = ? AND agent_id = ? AND coalesce(bot, '') = ? "
    "AND coalesce(thread, '') = ? AND created_ms <= ? ORDER BY created_ms DESC, run_id DESC LIMIT ?) newest) " + _FACTS,
)
"""The facts of the newest runs of an agent in one place."""
FACTS_OF_RUN: Final = select("records", RecordRow, "WHERE run_id = ? " + _FACTS)
PENDING_EVENTS: Final = select(
    "events", EventRow, "WHERE dispatch = 'pending' AND record_id > ? ORDER BY record_id LIMIT ?"
)
FIND_STATE: Final = select("state", StateRow, "WHERE scope_key = ? AND key = ?")
_ALIVE: Final = "(expires_ms IS NULL OR expires_ms > ?)"
STATE: Final = select("state", StateRow, f"WHERE scope_key = ? AND key = ? AND {_ALIVE}")
STATES: Final = select("state", StateRow, f"WHERE scope_key = ? AND key > ? AND {_ALIVE} ORDER BY key LIMIT ?")
WRITTEN_STATES: Final = (
    "SELECT s.scope_key, s.key, s.scope, s.version, r.run_id, r.data FROM state s "  # noqa: S608 -- our own names
    "LEFT JOIN records r ON r.id = s.version AND r.workspace = s.workspace AND r.type = 'state.updated' WHERE "
    f"s.workspace = ? AND (s.scope_key, s.key) > (?, ?) AND {_ALIVE} ORDER BY s.scope_key, s.key LIMIT ?"
)
STORAGE: Final = select("storage", StorageRow, "WHERE area_key = ? AND key = ?")
STORAGES: Final = select("storage", StorageRow, "WHERE area_key = ? AND key > ? ORDER BY key LIMIT ?")
KEPT: Final = _select_kept(f"WHERE kind = ? AND workspace = ? AND id = ? AND {_ALIVE}")
EVERY_KEPT: Final = _select_kept("WHERE (kind, workspace, id) > (?, ?, ?) ORDER BY kind, workspace, id LIMIT ?")
SEALED_KEPT: Final = _select_kept("WHERE mac IS NOT NULL LIMIT 1")
ARTIFACT: Final = select("artifacts", ArtifactRow, "WHERE workspace = ? AND artifact_id = ?")
# Only uploads have an id after `file`, so the key alone finds them.
UPLOADS: Final = select(
    "artifacts",
    ArtifactRow,
    "WHERE workspace = ? AND artifact_id > ? AND source = 'upload' ORDER BY artifact_id LIMIT ?",
)
# Each half ends at the limit too, so that a page costs a page.
DIGESTS: Final = (
    "SELECT sha256 FROM (SELECT DISTINCT sha256 FROM artifacts WHERE sha256 > ? ORDER BY sha256 LIMIT ?) made "
    "UNION "
    "SELECT sha256 FROM (SELECT DISTINCT sha256 FROM storage WHERE sha256 > ? ORDER BY sha256 LIMIT ?) stored "
    "ORDER BY sha256 LIMIT ?"
)
OUTBOX_OPEN: Final = select(
    "outbox", OutboxRow, "WHERE status IN ('queued', 'started', 'shown') AND record_id > ? ORDER BY record_id LIMIT ?"
)
DELIVERY: Final = select("outbox", OutboxRow, "WHERE delivery_id = ? AND workspace = ?")
DELIVERY_ANYWHERE: Final = select("outbox", OutboxRow, "WHERE delivery_id = ?")
OUTBOX: Final = select("outbox", OutboxRow, "WHERE workspace = ? AND record_id < ? ORDER BY record_id DESC LIMIT ?")
OUTBOX_OF_CHANNEL: Final = select(
    "outbox", OutboxRow, "WHERE workspace = ? AND channel = ? AND record_id < ? ORDER BY record_id DESC LIMIT ?"
)
# The records of a run lead to its deliveries: the table has no index by run.
OUTBOX_OF_RUN: Final = select(
    "outbox",
    OutboxRow,
    "WHERE workspace = ? AND channel = coalesce(?, channel) AND record_id < ? AND run_id = ? "
    "AND record_id IN (SELECT id FROM records WHERE run_id = ?) ORDER BY record_id DESC LIMIT ?",
)
TOOL_CALL: Final = select("tool_calls", ToolCallRow, "WHERE run_id = ? AND call_id = ?")
TOOL_CALLS: Final = select("tool_calls", ToolCallRow, "WHERE run_id = ? AND record_id > ? ORDER BY record_id LIMIT ?")
OPEN_TOOL_CALLS: Final = select(
    "tool_calls", ToolCallRow, "WHERE status = 'started' AND record_id > ? ORDER BY record_id LIMIT ?"
)
APPROVAL: Final = select("approvals", ApprovalRow, "WHERE workspace = ? AND approval_id = ?")
APPROVALS: Final = select(
    "approvals",
    ApprovalRow,
    "WHERE workspace = ? AND (created_ms, approval_id) < (?, ?) ORDER BY created_ms DESC, approval_id DESC LIMIT ?",
)
APPROVALS_BY_STATUS: Final = APPROVALS.replace("workspace = ?", "workspace = ? AND status = ?")
APPROVALS_OF_RUN: Final = APPROVALS.replace(
    "workspace = ?", "workspace = ? AND run_id = ? AND status = coalesce(?, status)"
)
OPEN_APPROVALS: Final = select(
    "approvals",
    ApprovalRow,
    "WHERE status IN ('requested', 'granted') AND approval_id > ? ORDER BY approval_id LIMIT ?",
)
META: Final = "SELECT value FROM meta WHERE key = ?"
CONVERSATIONS: Final = select(
    "conversations", ConversationRow, "WHERE workspace = ? AND last_seq < ? ORDER BY last_seq DESC LIMIT ?"
)
TRANSCRIPT: Final = select(
    "transcript",
    TranscriptRow,
    "WHERE place = ? AND conversation IS NOT NULL AND seq > ? AND seq < ?{narrowed} ORDER BY seq {way} LIMIT ?",
)
NARROWED: Final = {"role": "role = ?", "before_ms": "created_ms < ?", "after_ms": "created_ms > ?"}
"""The filters of a transcript query, by field."""
OF_EVENTS: Final = "event_id IN (SELECT event.event_id FROM events event WHERE event.place = ?{narrowed})"
"""Limits a transcript query to messages of some events of the place."""
REVISION: Final = "SELECT version_num FROM alembic_version"
