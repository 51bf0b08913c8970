"""What revision 0002 adds, as plain statements: the things of the surface that people save, and what is kept beside the
log. A new database runs them behind those of the first revision; the migration of an older one runs the same.
"""

from typing import Final

from bollard.host.store.migrations.first_schema import POSTGRES_WORDS, SQLITE_WORDS

REVISION: Final = "0002"

_SAVED: Final = tuple(
    f"""CREATE TABLE {kind}s (
        workspace {{text}} NOT NULL,
        {kind}_id {{text}} NOT NULL,
        revision BIGINT NOT NULL,
        body {{bytes}} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, {kind}_id)
    )"""
    for kind in ("workspace", "user", "key", "actor", "channel", "plugin", "runtime")
)

# No projection: what is here must not be in the log, so nothing can make it again.
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

# A projection of the transcript: what was said before it is there counts too.
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

_ALL: Final = (*_SAVED, *_OUTBOX, *_KEPT, *_CONVERSATIONS)

SQLITE: Final = tuple(statement.format(**SQLITE_WORDS) for statement in _ALL)
POSTGRES: Final = tuple(statement.format(**POSTGRES_WORDS) for statement in _ALL)
