"""What revision 0003 adds, as plain statements: what runs did, what people were asked about it, and which flow bits
travel with data. A new database runs them behind those of the second revision; the migration of an older one runs the
same.
"""

from typing import Final

from bollard.host.store.migrations.first_schema import POSTGRES_WORDS, SQLITE_WORDS

REVISION: Final = "0003"

_SAVED: Final = tuple(
    f"""CREATE TABLE {kind}s (
        workspace {{text}} NOT NULL,
        {kind}_id {{text}} NOT NULL,
        revision BIGINT NOT NULL,
        body {{bytes}} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, {kind}_id)
    )"""
    for kind in ("secret", "mcp_server", "skill")
)

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

# What was there before touched nothing that anybody kept an account of.
_FLOW: Final = tuple(
    f"ALTER TABLE {table} ADD COLUMN flow BIGINT NOT NULL DEFAULT 0"
    for table in ("events", "transcript", "state", "storage", "artifacts")
)

_ALL: Final = (*_SAVED, *_CALLS, *_APPROVALS, *_FLOW)

SQLITE: Final = tuple(statement.format(**SQLITE_WORDS) for statement in _ALL)
POSTGRES: Final = tuple(statement.format(**POSTGRES_WORDS) for statement in _ALL)
