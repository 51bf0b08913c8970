"""The newest schema as a new database runs it: the statements of every revision, in order, and what stamps it."""

from typing import Final

from bollard.host.store.migrations import fifth_schema, first_schema, fourth_schema, second_schema, third_schema
from bollard.host.store.migrations.first_schema import RETENTION_INDICES

__all__ = ["POSTGRES", "RETENTION_INDICES", "REVISION", "SQLITE", "STAMP"]

REVISION: Final = fifth_schema.REVISION
_REVISIONS: Final = (first_schema, second_schema, third_schema, fourth_schema, fifth_schema)
SQLITE: Final = tuple(statement for revision in _REVISIONS for statement in revision.SQLITE)
POSTGRES: Final = tuple(statement for revision in _REVISIONS for statement in revision.POSTGRES)

# As Alembic itself would make it.
_VERSION: Final = (
    "CREATE TABLE alembic_version "
    "(version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
STAMP: Final = (_VERSION, f"INSERT INTO alembic_version (version_num) VALUES ('{REVISION}')")  # noqa: S608 -- our own
"""What says that the rest is there."""
