"""The first schema: the log, its projections, and full-text search over the transcript."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None

# Text is compared byte by byte on both databases, so that pages come in the same order everywhere.
TEXT = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, TEXT, nullable=False) for name in names]


def _maybe_text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, TEXT) for name in names]


def _ms(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def upgrade() -> None:
    _log()
    _events_and_runs()
    _transcript()
    _state_and_artifacts()
    op.create_table("meta", sa.Column("key", TEXT, primary_key=True), *_text("value"))
    if op.get_context().dialect.name == "postgresql":
        op.execute("CREATE SEQUENCE record_ids AS BIGINT")


def _log() -> None:
    op.create_table(
        "records",
        sa.Column("id", ID, primary_key=True, autoincrement=False),
        *_text("workspace", "chain"),
        sa.Column("position", sa.BigInteger, nullable=False),
        *_maybe_text("run_id"),
        sa.Column("seq", sa.BigInteger),
        sa.Column("epoch", sa.BigInteger),
        sa.Column("source_seq", sa.BigInteger),
        *_text("type"),
        sa.Column("observed", sa.Boolean, nullable=False),
        _ms("created_ms"),
        sa.Column("data", sa.LargeBinary),
        *_text("data_sha256", "hash"),
    )
    of_a_run, kept = sa.text("run_id IS NOT NULL"), sa.text("data IS NOT NULL")
    op.create_index(
        "records_of_run", "records", ["run_id", "seq"], unique=True, sqlite_where=of_a_run, postgresql_where=of_a_run
    )
    op.create_index("records_of_chain", "records", ["workspace", "chain", "position"], unique=True)
    op.create_index("records_kept", "records", ["type", "created_ms"], sqlite_where=kept, postgresql_where=kept)
    op.create_table(
        "deltas",
        *_text("run_id"),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        _ms("created_ms"),
        sa.Column("spans", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "first_seq"),
    )
    op.create_index("deltas_by_age", "deltas", ["created_ms"])
    op.create_table(
        "heads",
        *_text("workspace", "chain"),
        sa.Column("position", sa.BigInteger, nullable=False),
        *_text("hash"),
        _ms("created_ms"),
        *_text("key_id"),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("workspace", "chain", "position"),
    )


def _events_and_runs() -> None:
    op.create_table(
        "events",
        sa.Column("record_id", ID, primary_key=True, autoincrement=False),
        *_text("event_id", "workspace", "source", "source_id", "type"),
        *_maybe_text("run_id", "conversation", "thread", "actor_type", "actor_id", "actor_name"),
        *_maybe_text("subject_type", "subject_id", "summary"),
        _ms("event_ms", nullable=True),
        _ms("created_ms"),
    )
    op.create_index("events_by_id", "events", ["workspace", "event_id"], unique=True)
    op.create_index("events_by_source", "events", ["workspace", "source", "source_id"], unique=True)
    op.create_index("events_in_order", "events", ["workspace", "record_id"])
    ended = "CASE WHEN status IN ('completed', 'failed', 'cancelled', 'timeout') THEN 1 ELSE 0 END"
    op.create_table(
        "runs",
        sa.Column("run_id", TEXT, primary_key=True),
        *_text("workspace", "event_id", "agent_id", "binding_id", "runner_id"),
        *_maybe_text("bot", "conversation", "thread", "parent_run_id"),
        *_text("status"),
        *_maybe_text("reason"),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        *_maybe_text("owner"),
        _ms("lease_until_ms", nullable=True),
        *_text("grant_sha256"),
        _ms("created_ms"),
        _ms("started_ms", nullable=True),
        _ms("finished_ms", nullable=True),
        _ms("updated_ms"),
        _ms("cancel_requested_ms", nullable=True),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("facts", sa.LargeBinary, nullable=False),
        # What the small index of unfinished runs is about. Not the status itself: PostgreSQL would then touch every
        # index each time a run takes a step.
        sa.Column("ended", sa.SmallInteger, sa.Computed(ended, persisted=True), nullable=False),
    )
    unfinished, talking = sa.text("ended = 0"), sa.text("conversation IS NOT NULL")
    op.create_index("runs_unfinished", "runs", ["run_id"], sqlite_where=unfinished, postgresql_where=unfinished)
    op.create_index("runs_in_order", "runs", ["workspace", "created_ms", "run_id"])
    op.create_index("runs_of_agent", "runs", ["workspace", "agent_id", "created_ms", "run_id"])
    op.create_index(
        "runs_of_conversation",
        "runs",
        ["workspace", "conversation", "created_ms", "run_id"],
        sqlite_where=talking,
        postgresql_where=talking,
    )


def _transcript() -> None:
    on_postgres = op.get_context().dialect.name == "postgresql"
    op.create_table(
        "transcript",
        sa.Column("seq", ID, primary_key=True, autoincrement=False),
        *_text("transcript_id", "place", "workspace"),
        *_maybe_text("bot", "conversation", "thread"),
        *_text("event_id"),
        *_maybe_text("run_id"),
        *_text("role"),
        *_maybe_text("content"),
        sa.Column("content_json", sa.LargeBinary),
        *_text("search"),
        _ms("created_ms"),
        *([sa.Column("vector", postgresql.TSVECTOR, nullable=False)] if on_postgres else []),
    )
    op.create_index("transcript_by_id", "transcript", ["transcript_id"], unique=True)
    op.create_index("transcript_in_place", "transcript", ["place", "seq"])
    if on_postgres:
        op.create_index("transcript_search", "transcript", ["vector"], postgresql_using="gin")
        return
    op.execute(
        "CREATE VIRTUAL TABLE transcript_search USING fts5(place, search, content = 'transcript', "
        "content_rowid = 'seq', tokenize = 'unicode61 remove_diacritics 0')"
    )
    forget = (
        "INSERT INTO transcript_search (transcript_search, rowid, place, search) "
        "VALUES ('delete', old.seq, old.place, old.search);"
    )
    learn = "INSERT INTO transcript_search (rowid, place, search) VALUES (new.seq, new.place, new.search);"
    op.execute(f"CREATE TRIGGER transcript_said AFTER INSERT ON transcript BEGIN {learn} END")
    op.execute(f"CREATE TRIGGER transcript_changed AFTER UPDATE ON transcript BEGIN {forget} {learn} END")
    op.execute(f"CREATE TRIGGER transcript_forgotten AFTER DELETE ON transcript BEGIN {forget} END")


def _state_and_artifacts() -> None:
    expiring = sa.text("expires_ms IS NOT NULL")
    op.create_table(
        "state",
        *_text("scope_key", "key", "workspace", "scope"),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        _ms("expires_ms", nullable=True),
        _ms("updated_ms"),
        sa.PrimaryKeyConstraint("scope_key", "key"),
    )
    op.create_index("state_expiry", "state", ["expires_ms"], sqlite_where=expiring, postgresql_where=expiring)
    op.create_table(
        "artifacts",
        *_text("artifact_id", "workspace"),
        *_maybe_text("run_id", "runner_id", "conversation"),
        *_text("type"),
        *_maybe_text("mime_type", "name"),
        sa.Column("size_bytes", sa.BigInteger),
        *_maybe_text("sha256"),
        *_text("source"),
        _ms("created_ms"),
        _ms("expires_ms", nullable=True),
        sa.Column("metadata", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("workspace", "artifact_id"),
    )
    op.create_index("artifacts_expiry", "artifacts", ["expires_ms"], sqlite_where=expiring, postgresql_where=expiring)
    op.create_index("artifacts_content", "artifacts", ["sha256"])
