"""The statements of the SQL stores that are the same for SQLite and PostgreSQL, in one place. Parameters are `?`.

Columns come from the rows, so a row and its table cannot drift apart silently. Written out instead of composed at
start: composing them costs half a second and 25 MiB of imports that nothing else here needs.
"""

from functools import cache
from typing import Final

import msgspec

from bollard.host.store.rows import (
    ArtifactRow,
    DeltaRow,
    EventField,
    EventRow,
    HeadRow,
    PolicyKind,
    PolicyRow,
    RecordRow,
    RunField,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
)

__all__ = [
    "columns",
    "drop_data",
    "drop_policy",
    "event_dispatch",
    "find_events",
    "insert",
    "lock_epochs",
    "patch_event",
    "patch_run",
    "policies",
    "policy_columns",
    "put_policy",
    "renew_leases",
    "select",
    "state_size",
    "upsert",
]


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


def patch_run(fields: tuple[RunField, ...]) -> str:
    return f"UPDATE runs SET {', '.join(f'{name} = ?' for name in fields)} WHERE run_id = ?"  # noqa: S608 -- checked names


def patch_event(fields: tuple[EventField, ...]) -> str:
    changed = ", ".join(f"{name} = ?" for name in fields)
    return f"UPDATE events SET {changed} WHERE workspace = ? AND event_id = ?"  # noqa: S608 -- checked names


def event_dispatch(row_lock: str) -> str:
    return f"SELECT dispatch FROM events WHERE workspace = ? AND event_id = ? {row_lock}"  # noqa: S608 -- our own


def state_size(key_bytes: str, value_bytes: str) -> str:
    return f"SELECT CAST(coalesce(sum({key_bytes} + {value_bytes}), 0) AS BIGINT) FROM state WHERE scope_key = ?"  # noqa: S608 -- our own


def policy_columns(kind: PolicyKind) -> tuple[str, ...]:
    """The columns of a table of policies, in the order of the row: an agent's id is called `agent_id`."""
    return tuple(f"{kind}_id" if name == "id" else name for name in PolicyRow.__struct_fields__)


def put_policy(kind: PolicyKind) -> str:
    names = policy_columns(kind)
    statement = f"INSERT INTO {kind}s ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 -- our own
    return upsert(statement, ("workspace", f"{kind}_id"), names)


def drop_policy(kind: PolicyKind) -> str:
    return f"DELETE FROM {kind}s WHERE workspace = ? AND {kind}_id = ?"  # noqa: S608 -- our own


def policies(kind: PolicyKind) -> str:
    return f"SELECT {', '.join(policy_columns(kind))} FROM {kind}s WHERE workspace = ? ORDER BY {kind}_id"  # noqa: S608 -- our own


def lock_epochs(among: str, row_lock: str) -> str:
    """In order of id, so that two hosts that lock the same runs wait for each other instead of dead-locking."""
    return f"SELECT run_id, epoch FROM runs WHERE {among} AND ended = 0 ORDER BY run_id {row_lock}"  # noqa: S608 -- our own


def renew_leases(among: str) -> str:
    return f"UPDATE runs SET lease_until_ms = ? WHERE owner = ? AND {among} AND ended = 0 RETURNING run_id"  # noqa: S608 -- our own


def drop_data(among: str) -> str:
    old = f"{among} AND created_ms < ? AND data IS NOT NULL ORDER BY created_ms, id LIMIT ?"
    return f"UPDATE records SET data = NULL WHERE id IN (SELECT id FROM records WHERE {old}) RETURNING 1"  # noqa: S608 -- our own


ADD_RECORD: Final = insert("records", RecordRow)
ADD_DELTA: Final = insert("deltas", DeltaRow)
ADD_HEAD: Final = insert("heads", HeadRow)
PUT_EVENT: Final = insert("events", EventRow, "place")
PUT_RUN: Final = insert("runs", RunRow)
PUT_ARTIFACT: Final = upsert(
    insert("artifacts", ArtifactRow), ("workspace", "artifact_id"), ArtifactRow.__struct_fields__
)
ADD_ARTIFACT: Final = f"{insert('artifacts', ArtifactRow)} ON CONFLICT (workspace, artifact_id) DO NOTHING"
PUT_STATE: Final = upsert(insert("state", StateRow), ("scope_key", "key"), StateRow.__struct_fields__)
COUNT_STATE: Final = PUT_STATE.replace(
    "version = excluded.version",
    "version = CASE WHEN state.expires_ms <= excluded.updated_ms THEN 1 ELSE state.version + 1 END",
)
PUT_STORAGE: Final = upsert(insert("storage", StorageRow), ("area_key", "key"), StorageRow.__struct_fields__)
DROP_STORAGE: Final = "DELETE FROM storage WHERE area_key = ? AND key = ?"
DROP_STATE: Final = "DELETE FROM state WHERE scope_key = ? AND key = ?"
PUT_META: Final = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


@cache
def find_events(table: str, among_ids: str) -> str:
    """The events of one source whose id is one of a list."""
    return select(table, EventRow, f"WHERE workspace = ? AND source = ? AND {among_ids}")


FIND_EVENT: Final = select("events", EventRow, "WHERE workspace = ? AND source = ? AND source_id = ?")
DELTAS: Final = select("deltas", DeltaRow, "WHERE run_id = ? AND last_seq > ? ORDER BY first_seq")
DELTAS_BETWEEN: Final = select("deltas", DeltaRow, "WHERE run_id = ? AND first_seq BETWEEN ? AND ? ORDER BY first_seq")
DELTA_EXTENTS: Final = (
    "SELECT epoch, first_seq, length(spans) + length(body) FROM deltas "
    "WHERE run_id = ? AND first_seq > ? ORDER BY first_seq LIMIT ?"
)
DROP_DELTAS_BETWEEN: Final = "DELETE FROM deltas WHERE run_id = ? AND first_seq BETWEEN ? AND ?"
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
PROJECTIONS: Final = ("events", "runs", "transcript", "state", "storage", "artifacts", "agents", "bindings")

RUN: Final = select("runs", RunRow, "WHERE run_id = ?")
UNFINISHED_RUNS: Final = select("runs", RunRow, "WHERE ended = 0 AND run_id > ? ORDER BY run_id LIMIT ?")
CHILDREN: Final = select("runs", RunRow, "WHERE parent_run_id = ? ORDER BY created_ms, run_id")
COUNT_RUNS: Final = "SELECT count(*) FROM runs WHERE workspace = ? AND agent_id = ? AND created_ms >= ?"
THREADS: Final = (
    "SELECT thread FROM (SELECT bot, thread, created_ms FROM runs WHERE workspace = ? AND conversation = ? "
    "ORDER BY created_ms DESC, run_id DESC LIMIT ?) newest WHERE coalesce(bot, '') = ? "
    "GROUP BY thread ORDER BY max(created_ms) DESC, coalesce(thread, '')"
)
RECORDS_OF_RUN: Final = select("records", RecordRow, "WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?")
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
HEADS: Final = select("heads", HeadRow, "WHERE workspace = ? ORDER BY chain, position")
EVENT: Final = select("events", EventRow, "WHERE workspace = ? AND event_id = ?")
EVENTS: Final = select("events", EventRow, "WHERE workspace = ? AND record_id < ? ORDER BY record_id DESC LIMIT ?")
EVENTS_IN: Final = select("events", EventRow, "WHERE place = ? AND record_id < ? ORDER BY record_id DESC LIMIT ?")
PENDING_EVENTS: Final = select(
    "events", EventRow, "WHERE dispatch = 'pending' AND record_id > ? ORDER BY record_id LIMIT ?"
)
FIND_STATE: Final = select("state", StateRow, "WHERE scope_key = ? AND key = ?")
_ALIVE: Final = "(expires_ms IS NULL OR expires_ms > ?)"
STATE: Final = select("state", StateRow, f"WHERE scope_key = ? AND key = ? AND {_ALIVE}")
STATES: Final = select("state", StateRow, f"WHERE scope_key = ? AND key > ? AND {_ALIVE} ORDER BY key LIMIT ?")
STORAGE: Final = select("storage", StorageRow, "WHERE area_key = ? AND key = ?")
STORAGES: Final = select("storage", StorageRow, "WHERE area_key = ? AND key > ? ORDER BY key LIMIT ?")
ARTIFACT: Final = select("artifacts", ArtifactRow, "WHERE workspace = ? AND artifact_id = ?")
# Each half ends at the limit too, so that a page costs a page.
DIGESTS: Final = (
    "SELECT sha256 FROM (SELECT DISTINCT sha256 FROM artifacts WHERE sha256 > ? ORDER BY sha256 LIMIT ?) made "
    "UNION "
    "SELECT sha256 FROM (SELECT DISTINCT sha256 FROM storage WHERE sha256 > ? ORDER BY sha256 LIMIT ?) stored "
    "ORDER BY sha256 LIMIT ?"
)
META: Final = "SELECT value FROM meta WHERE key = ?"
TRANSCRIPT: Final = select(
    "transcript",
    TranscriptRow,
    "WHERE place = ? AND conversation IS NOT NULL AND seq > ? AND seq < ?{narrowed} ORDER BY seq {way} LIMIT ?",
)
NARROWED: Final = {"role": "role = ?", "before_ms": "created_ms < ?", "after_ms": "created_ms > ?"}
"""What a read of the transcript may be narrowed by, field of the query by field."""
REVISION: Final = "SELECT version_num FROM alembic_version"
