"""What revision 0004 adds, as plain statements: models and knowledge bases that people save, and
what runs used of models. A new database runs them
behind those of the third revision; the migration of an older one runs the same.
"""

from typing import Final

from bollard.host.store.migrations.first_schema import POSTGRES_WORDS, SQLITE_WORDS

REVISION: Final = "0004"

_SAVED: Final = tuple(
    f"""CREATE TABLE {kind}s (
        workspace {{text}} NOT NULL,
        {kind}_id {{text}} NOT NULL,
        revision BIGINT NOT NULL,
        body {{bytes}} NOT NULL,
        updated_ms BIGINT NOT NULL,
        PRIMARY KEY (workspace, {kind}_id)
    )"""
    for kind in ("model", "kb")
)

# What a run's model calls came to, as JSON; nothing where it made none.
_USAGE: Final = ("ALTER TABLE runs ADD COLUMN usage {text}",)

_ALL: Final = (*_SAVED, *_USAGE)

SQLITE: Final = tuple(statement.format(**SQLITE_WORDS) for statement in _ALL)
POSTGRES: Final = tuple(statement.format(**POSTGRES_WORDS) for statement in _ALL)
