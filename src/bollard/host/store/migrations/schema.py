"""The schema as plain statements, revision by revision. A new database runs all of them (`SQLITE`, `POSTGRES`) and is
stamped; the migration of an older database runs those of the later revisions.
"""

from pathlib import Path
from typing import Final

import msgspec

_SQLITE_WORDS: Final = {"id": "INTEGER", "text": "TEXT", "bytes": "BLOB", "vector": "", "small": " WITHOUT ROWID"}
# Text is compared byte by byte on both databases, so that pages come in the same order everywhere.
_POSTGRES_WORDS: Final = {
    "id": "BIGINT",
    "text": 'TEXT COLLATE "C"',
    "bytes": "BYTEA",
    "vector": ",\n        vector TSVECTOR NOT NULL",
    "small": "",
}


class Schema(msgspec.Struct, frozen=True):
    """The statements that a revision adds."""

    revision: str
    sqlite: tuple[str, ...]
    postgres: tuple[str, ...]


def _statements(name: str) -> tuple[str, ...]:
    """The statements of a file, one in each paragraph. Paragraphs of comments are left out."""
    text = (Path(__file__).parent / "statements" / f"{name}.sql").read_text(encoding="utf-8")
    return tuple(each.rstrip("\n") for each in text.split("\n\n") if not each.startswith("--"))


def _schema(revision: str, sqlite: tuple[str, ...] = (), postgres: tuple[str, ...] = ()) -> Schema:
    """The statements of the revision's file in the words of each database, and those that only one of them has."""
    shared = _statements(revision)
    return Schema(
        revision,
        (*(statement.format(**_SQLITE_WORDS) for statement in shared), *sqlite),
        (*(statement.format(**_POSTGRES_WORDS) for statement in shared), *postgres),
    )


RETENTION_INDICES: Final = {
    "records_kept": "records_kept ON records (type, created_ms) WHERE data IS NOT NULL",
    "deltas_by_age": "deltas_by_age ON deltas (created_ms)",
}
"""Indices that only retention reads."""
_POSTGRES_SEARCH: Final = (
    "CREATE INDEX transcript_search ON transcript USING gin (vector) WHERE conversation IS NOT NULL",
    "CREATE SEQUENCE record_ids AS BIGINT",
    *(f"CREATE INDEX {index}" for index in RETENTION_INDICES.values()),
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

SCHEMAS: Final = {
    schema.revision: schema
    for schema in (
        _schema("0001", _statements("0001_sqlite"), _POSTGRES_SEARCH),
        _schema("0002"),
        _schema("0003"),
        _schema("0004"),
        Schema(
            "0005",
            ("ALTER TABLE kept ADD COLUMN mac BLOB", _INDEX.format(thing=SQLITE_SAVED_THING)),
            ("ALTER TABLE kept ADD COLUMN mac BYTEA", _INDEX.format(thing=POSTGRES_SAVED_THING)),
        ),
        _schema("0006"),
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
