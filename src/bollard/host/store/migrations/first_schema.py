"""The tables of revision 0001 as plain statements: the log, its projections, and full-text search over the transcript.

`schema` adds the later revisions. Nothing is imported here, so that a first start needs no migration machinery.

Every index here is written with every run, so each has a read that needs it. On SQLite a commit writes whole pages,
one at least for each index it touches; there, the two that only retention reads are made by the first purge.
"""

from typing import Final


def saved_tables(*kinds: str) -> tuple[str, ...]:
    """A table for each kind of saved resource."""
    return tuple(
        f"""CREATE TABLE {kind}s (
        workspace {{text}} NOT NULL,
        {kind}_id {{text}} NOT NULL,
        revision BIGINT NOT NULL,
        body {{bytes}} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, {kind}_id)
    )"""
        for kind in kinds
    )


_LOG: Final = (
    """CREATE TABLE records (
        id {id} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        chain {text} NOT NULL,
        position BIGINT NOT NULL,
        run_id {text},
        seq BIGINT,
        epoch BIGINT,
        source_seq BIGINT,
        type {text} NOT NULL,
        observed BOOLEAN NOT NULL,
        created_ms BIGINT NOT NULL,
        data {bytes},
        data_sha256 {text} NOT NULL,
        hash {text} NOT NULL
    )""",
    "CREATE UNIQUE INDEX records_of_run ON records (run_id, seq) WHERE run_id IS NOT NULL",
    "CREATE UNIQUE INDEX records_of_chain ON records (workspace, chain, position)",
    """CREATE TABLE deltas (
        run_id {text} NOT NULL,
        epoch BIGINT NOT NULL,
        first_seq BIGINT NOT NULL,
        last_seq BIGINT NOT NULL,
        created_ms BIGINT NOT NULL,
        spans {bytes} NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (run_id, first_seq)
    ){small}""",
    """CREATE TABLE heads (
        workspace {text} NOT NULL,
        chain {text} NOT NULL,
        position BIGINT NOT NULL,
        hash {text} NOT NULL,
        created_ms BIGINT NOT NULL,
        key_id {text} NOT NULL,
        signature {bytes} NOT NULL,
        PRIMARY KEY (workspace, chain, position)
    ){small}""",
)

_EVENTS_AND_RUNS: Final = (
    """CREATE TABLE events (
        record_id BIGINT NOT NULL,
        event_id {text} NOT NULL,
        workspace {text} NOT NULL,
        source {text} NOT NULL,
        source_id {text} NOT NULL,
        type {text} NOT NULL,
        run_id {text},
        bot {text},
        conversation {text},
        thread {text},
        actor_type {text},
        actor_id {text},
        actor_name {text},
        subject_type {text},
        subject_id {text},
        summary {text},
        event_ms BIGINT,
        created_ms BIGINT NOT NULL,
        dispatch {text} NOT NULL,
        steering {text},
        steering_ms BIGINT,
        place {text},
        PRIMARY KEY (workspace, record_id)
    ){small}""",
    "CREATE UNIQUE INDEX events_by_id ON events (workspace, event_id)",
    "CREATE UNIQUE INDEX events_by_source ON events (workspace, source, source_id)",
    # An event without a conversation has no place, and costs this index nothing.
    "CREATE INDEX events_in_place ON events (place, record_id) WHERE place IS NOT NULL",
    "CREATE INDEX events_pending ON events (record_id) WHERE dispatch = 'pending'",
    # `ended` is what the small index of unfinished runs is about. Not the status itself: PostgreSQL would then touch
    # every index each time a run takes a step.
    """CREATE TABLE runs (
        run_id {text} NOT NULL PRIMARY KEY,
        workspace {text} NOT NULL,
        event_id {text} NOT NULL,
        agent_id {text} NOT NULL,
        binding_id {text} NOT NULL,
        runner_id {text} NOT NULL,
        bot {text},
        conversation {text},
        thread {text},
        parent_run_id {text},
        depth BIGINT NOT NULL,
        status {text} NOT NULL,
        reason {text},
        epoch BIGINT NOT NULL,
        owner {text},
        lease_until_ms BIGINT,
        grant_sha256 {text} NOT NULL,
        created_ms BIGINT NOT NULL,
        started_ms BIGINT,
        finished_ms BIGINT,
        updated_ms BIGINT NOT NULL,
        cancel_requested_ms BIGINT,
        last_seq BIGINT NOT NULL,
        facts {bytes} NOT NULL,
        ended SMALLINT NOT NULL GENERATED ALWAYS AS (
            CASE WHEN status IN ('completed', 'failed', 'cancelled', 'timeout') THEN 1 ELSE 0 END
        ) STORED
    ){small}""",
    "CREATE INDEX runs_unfinished ON runs (run_id) WHERE ended = 0",
    "CREATE INDEX runs_in_order ON runs (workspace, created_ms, run_id)",
    "CREATE INDEX runs_of_agent ON runs (workspace, agent_id, created_ms, run_id)",
    "CREATE INDEX runs_of_conversation ON runs (workspace, conversation, created_ms, run_id) "
    "WHERE conversation IS NOT NULL",
    "CREATE INDEX runs_of_parent ON runs (parent_run_id, created_ms, run_id) WHERE parent_run_id IS NOT NULL",
)

_TRANSCRIPT: Final = (
    """CREATE TABLE transcript (
        seq {id} NOT NULL PRIMARY KEY,
        transcript_id {text} NOT NULL,
        place {text} NOT NULL,
        workspace {text} NOT NULL,
        bot {text},
        conversation {text},
        thread {text},
        event_id {text} NOT NULL,
        run_id {text},
        role {text} NOT NULL,
        content {text},
        content_json {bytes},
        search {text} NOT NULL,
        created_ms BIGINT NOT NULL{vector}
    )""",
    # A message without a conversation is in no history and cannot be searched.
    "CREATE INDEX transcript_in_place ON transcript (place, seq) WHERE conversation IS NOT NULL",
)

_KEPT: Final = (
    """CREATE TABLE state (
        scope_key {text} NOT NULL,
        key {text} NOT NULL,
        workspace {text} NOT NULL,
        scope {text} NOT NULL,
        value {bytes} NOT NULL,
        version BIGINT NOT NULL,
        expires_ms BIGINT,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (scope_key, key)
    )""",
    "CREATE INDEX state_expiry ON state (expires_ms) WHERE expires_ms IS NOT NULL",
    """CREATE TABLE storage (
        area_key {text} NOT NULL,
        key {text} NOT NULL,
        sha256 {text} NOT NULL,
        size_bytes BIGINT NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (area_key, key)
    ){small}""",
    "CREATE INDEX storage_content ON storage (sha256)",
    """CREATE TABLE artifacts (
        artifact_id {text} NOT NULL,
        workspace {text} NOT NULL,
        run_id {text},
        runner_id {text},
        conversation {text},
        type {text} NOT NULL,
        mime_type {text},
        name {text},
        size_bytes BIGINT,
        sha256 {text},
        source {text} NOT NULL,
        created_ms BIGINT NOT NULL,
        expires_ms BIGINT,
        metadata {bytes} NOT NULL,
        PRIMARY KEY (workspace, artifact_id)
    )""",
    "CREATE INDEX artifacts_expiry ON artifacts (expires_ms) WHERE expires_ms IS NOT NULL",
    "CREATE INDEX artifacts_content ON artifacts (sha256)",
    *saved_tables("agent", "binding"),
    "CREATE TABLE meta (key {text} NOT NULL PRIMARY KEY, value {text} NOT NULL){small}",
)

RETENTION_INDICES: Final = {
    "records_kept": "records_kept ON records (type, created_ms) WHERE data IS NOT NULL",
    "deltas_by_age": "deltas_by_age ON deltas (created_ms)",
}
"""What only retention reads."""

# Sizes of columns are not kept: a search counts the words of what it found, and a message costs a page less.
_FORGET: Final = (
    "INSERT INTO transcript_search (transcript_search, rowid, place, search) "
    "VALUES ('delete', old.seq, old.place, old.search);"
)
_LEARN: Final = "INSERT INTO transcript_search (rowid, place, search) VALUES (new.seq, new.place, new.search);"
_SQLITE_SEARCH: Final = (
    "CREATE VIRTUAL TABLE transcript_search USING fts5(place, search, content = 'transcript', "
    "content_rowid = 'seq', columnsize = 0, tokenize = 'unicode61 remove_diacritics 0')",
    f"CREATE TRIGGER transcript_said AFTER INSERT ON transcript WHEN new.conversation IS NOT NULL BEGIN {_LEARN} END",
    f"CREATE TRIGGER transcript_changed AFTER UPDATE ON transcript "
    f"WHEN new.conversation IS NOT NULL BEGIN {_FORGET} {_LEARN} END",
    f"CREATE TRIGGER transcript_forgotten AFTER DELETE ON transcript "
    f"WHEN old.conversation IS NOT NULL BEGIN {_FORGET} END",
)
_POSTGRES_SEARCH: Final = (
    "CREATE INDEX transcript_search ON transcript USING gin (vector) WHERE conversation IS NOT NULL",
    "CREATE SEQUENCE record_ids AS BIGINT",
    *(f"CREATE INDEX {index}" for index in RETENTION_INDICES.values()),
)


SQLITE_WORDS: Final = {"id": "INTEGER", "text": "TEXT", "bytes": "BLOB", "vector": "", "small": " WITHOUT ROWID"}
# Text is compared byte by byte on both databases, so that pages come in the same order everywhere.
POSTGRES_WORDS: Final = {
    "id": "BIGINT",
    "text": 'TEXT COLLATE "C"',
    "bytes": "BYTEA",
    "vector": ",\n        vector TSVECTOR NOT NULL",
    "small": "",
}
_ALL: Final = (*_LOG, *_EVENTS_AND_RUNS, *_TRANSCRIPT, *_KEPT)

SQLITE: Final = (*(statement.format(**SQLITE_WORDS) for statement in _ALL), *_SQLITE_SEARCH)
POSTGRES: Final = (*(statement.format(**POSTGRES_WORDS) for statement in _ALL), *_POSTGRES_SEARCH)
