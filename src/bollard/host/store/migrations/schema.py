"""The schema as plain statements, revision by revision. A new database runs all of them (`SQLITE`, `POSTGRES`) and is
stamped; the migration of an older database runs those of the later revisions. The first revision is in `first_schema`.
"""

from typing import Final

import msgspec

from bollard.host.store.migrations import first_schema
from bollard.host.store.migrations.first_schema import POSTGRES_WORDS, RETENTION_INDICES, SQLITE_WORDS, saved_tables

__all__ = ["POSTGRES", "RETENTION_INDICES", "REVISION", "SCHEMAS", "SQLITE", "STAMP"]


class Schema(msgspec.Struct, frozen=True):
    """The statements that a revision adds."""

    revision: str
    sqlite: tuple[str, ...]
    postgres: tuple[str, ...]


def _schema(revision: str, statements: tuple[str, ...]) -> Schema:
    return Schema(
        revision,
        tuple(statement.format(**SQLITE_WORDS) for statement in statements),
        tuple(statement.format(**POSTGRES_WORDS) for statement in statements),
    )


# --- 0002: the saved resources of the surface, and data that is kept beside the log ---

# Not a projection: this data must not be in the log, so it cannot be rebuilt.
_KEPT: Final = (
    """CREATE TABLE kept (
        kind {text} NOT NULL,
        workspace {text} NOT NULL,
        id {text} NOT NULL,
        body {bytes} NOT NULL,
        expires_ms BIGINT,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (kind, workspace, id)
    )""",
    "CREATE INDEX kept_expiry ON kept (expires_ms) WHERE expires_ms IS NOT NULL",
)

_OUTBOX: Final = (
    """CREATE TABLE outbox (
        delivery_id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        channel {text} NOT NULL,
        target {text} NOT NULL,
        run_id {text} NOT NULL,
        event_id {text} NOT NULL,
        message_key {text} NOT NULL,
        preview BOOLEAN NOT NULL,
        record_id BIGINT NOT NULL,
        max_message_size BIGINT,
        status {text} NOT NULL,
        attempts BIGINT NOT NULL,
        due_ms BIGINT NOT NULL,
        messages {bytes} NOT NULL,
        reason {text},
        created_ms BIGINT NOT NULL,
        updated_ms BIGINT NOT NULL
    ){small}""",
    "CREATE INDEX outbox_open ON outbox (record_id) WHERE status IN ('queued', 'started', 'shown')",
    "CREATE INDEX outbox_in_order ON outbox (workspace, record_id)",
    "CREATE INDEX outbox_of_channel ON outbox (workspace, channel, record_id)",
)

# A projection of the transcript, filled with the messages that exist already.
_CONVERSATIONS: Final = (
    """CREATE TABLE conversations (
        place {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        bot {text},
        conversation {text} NOT NULL,
        thread {text},
        last_seq BIGINT NOT NULL,
        last_ms BIGINT NOT NULL
    ){small}""",
    "CREATE INDEX conversations_in_order ON conversations (workspace, last_seq)",
    "INSERT INTO conversations (place, workspace, bot, conversation, thread, last_seq, last_ms) "
    "SELECT place, workspace, bot, conversation, thread, seq, created_ms FROM transcript "
    "WHERE seq IN (SELECT max(seq) FROM transcript WHERE conversation IS NOT NULL GROUP BY place)",
)

# --- 0003: calls and approvals of runs, and the flow bits of data ---

_CALLS: Final = (
    """CREATE TABLE tool_calls (
        run_id {text} NOT NULL,
        call_id {text} NOT NULL,
        workspace {text} NOT NULL,
        record_id BIGINT NOT NULL,
        capability {text} NOT NULL,
        name {text} NOT NULL,
        effects {text} NOT NULL,
        arguments_sha256 {text} NOT NULL,
        approval_id {text},
        flow BIGINT NOT NULL,
        status {text} NOT NULL,
        result {bytes},
        started_ms BIGINT NOT NULL,
        ended_ms BIGINT,
        PRIMARY KEY (run_id, call_id)
    )""",
    "CREATE INDEX tool_calls_open ON tool_calls (record_id) WHERE status = 'started'",
)

_APPROVALS: Final = (
    """CREATE TABLE approvals (
        approval_id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        run_id {text} NOT NULL,
        call_id {text} NOT NULL,
        agent_id {text} NOT NULL,
        digest {text} NOT NULL,
        status {text} NOT NULL,
        body {bytes} NOT NULL,
        decision {bytes},
        created_ms BIGINT NOT NULL,
        expires_ms BIGINT NOT NULL,
        decided_ms BIGINT
    )""",
    "CREATE INDEX approvals_in_order ON approvals (workspace, created_ms, approval_id)",
    "CREATE INDEX approvals_by_status ON approvals (workspace, status, created_ms, approval_id)",
    "CREATE INDEX approvals_open ON approvals (approval_id) WHERE status IN ('requested', 'granted')",
    "CREATE INDEX approvals_of_run ON approvals (run_id, created_ms, approval_id)",
)

# Existing rows have no flow, because it was not recorded before.
_FLOW: Final = tuple(
    f"ALTER TABLE {table} ADD COLUMN flow BIGINT NOT NULL DEFAULT 0"
    for table in ("events", "transcript", "state", "storage", "artifacts")
)

# --- 0005: an index that finds the newest record of each saved resource, and the HMAC of data beside the log ---
#
# The HMACs of existing rows are made when the store is opened (`Store.open`).

# The data of `policy.changed` is `{"kind":…,"id":…,"action":…}`: the part before the action names the resource. A quote
# inside a name is escaped, so these bytes occur only there. No JSON function of PostgreSQL is both immutable and never
# fails.
_BEFORE_ACTION: Final = b'","action":"'.hex()
SQLITE_SAVED_THING: Final = f"substr(data, 1, instr(data, X'{_BEFORE_ACTION}'))"
POSTGRES_SAVED_THING: Final = f"substring(data from 1 for position('\\x{_BEFORE_ACTION}'::bytea in data))"
_INDEX: Final = "CREATE INDEX records_of_saved ON records (workspace, ({thing}), id) WHERE type = 'policy.changed'"

# --- all of them ---

_SURFACE: Final = saved_tables("workspace", "user", "key", "actor", "channel", "plugin", "runtime")
SCHEMAS: Final = {
    schema.revision: schema
    for schema in (
        Schema("0001", first_schema.SQLITE, first_schema.POSTGRES),
        _schema("0002", (*_SURFACE, *_OUTBOX, *_KEPT, *_CONVERSATIONS)),
        _schema("0003", (*saved_tables("secret", "mcp_server", "skill"), *_CALLS, *_APPROVALS, *_FLOW)),
        # The usage of a run's model calls is JSON, and null if it made none.
        _schema("0004", (*saved_tables("model", "kb"), "ALTER TABLE runs ADD COLUMN usage {text}")),
        Schema(
            "0005",
            ("ALTER TABLE kept ADD COLUMN mac BLOB", _INDEX.format(thing=SQLITE_SAVED_THING)),
            ("ALTER TABLE kept ADD COLUMN mac BYTEA", _INDEX.format(thing=POSTGRES_SAVED_THING)),
        ),
    )
}
"""By revision, oldest first."""
REVISION: Final = max(SCHEMAS)
SQLITE: Final = tuple(statement for schema in SCHEMAS.values() for statement in schema.sqlite)
POSTGRES: Final = tuple(statement for schema in SCHEMAS.values() for statement in schema.postgres)

# As Alembic itself would make it.
_VERSION: Final = (
    "CREATE TABLE alembic_version "
    "(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
STAMP: Final = (_VERSION, f"INSERT INTO alembic_version (version_num) VALUES ('{REVISION}')")  # noqa: S608 -- our own
"""Marks the schema as complete."""
