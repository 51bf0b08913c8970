"""A database as a backup sees it: tables of plain rows, read from a snapshot or loaded into an empty database.

The rows are the same for SQLite and PostgreSQL, so a backup of one can be restored into the other. Derived data
(full-text indices, generated columns) is left out and rebuilt.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from bollard.host.archive.manifest import ColumnKind, Table
from bollard.host.errors import Conflict, caused_by

Row = Sequence[object]
_TYPES: Final[dict[ColumnKind, object]] = {
    "text": str | None,
    "integer": int | None,
    "bytes": bytes | None,
    "boolean": bool | None,
}


def rows_collide(error: Exception) -> Conflict:
    return Conflict(
        f"two rows have the same key: {error}",
        reason="rows_collide",
        hint="the archive is damaged; use another copy",
        **caused_by(error),
    )


class Snapshot(Protocol):
    """A consistent view of a database. Concurrent writes are invisible and do not wait."""

    @property
    def revision(self) -> str | None:
        """The schema revision, or `None` for an empty database."""
        ...

    def tables(self) -> list[Table]:
        """Every table that is not derived, ordered by name."""
        ...

    def count(self, table: Table, workspace: str | None = None) -> int: ...

    def rows(self, table: Table, workspace: str | None = None) -> Iterator[Row]:
        """All rows, or those of one workspace, in the order of the primary key."""
        ...

    def stored(self, table: Table) -> Iterator[tuple[object, ...]]:
        """All rows in the same order without conversion: booleans may be numbers."""
        ...

    def newest(self, table: Table, limit: int) -> list[Row]:
        """The last rows in the order of the primary key."""
        ...

    def close(self) -> None: ...


class TableLoader(Protocol):
    """Fills an empty database, completely or not at all."""

    def create(self, revision: str) -> None:
        """Create the tables of a known revision. Raises `Conflict` unless the database is empty."""
        ...

    def begin(self) -> None: ...

    def fill(self, table: Table, rows: Iterable[Row]) -> None: ...

    def commit(self) -> None: ...

    def abandon(self) -> None:
        """Roll back. Never raises."""
        ...

    def close(self) -> None:
        """Release the database for others. Never raises."""
        ...


def condition_of(table: Table) -> str | None:
    """The condition for rows of one workspace, with `{}` for its name. `None` if the table has no workspace."""
    if table.has("workspace"):
        return "workspace = {}"
    if table.name == "deltas":
        return "run_id IN (SELECT run_id FROM runs WHERE workspace = {})"
    return None


def row_decoder(table: Table) -> msgspec.json.Decoder[Row]:
    """A decoder for rows of this table that `msgspec.json.encode` wrote."""
    types = tuple(_TYPES[column.kind] for column in table.columns)
    return msgspec.json.Decoder(tuple.__class_getitem__(types))  # the type is known only at run time
