"""A database as a backup sees it: tables of plain rows, read at one moment or filled from nothing. Two implementations.

The rows are the same for SQLite and PostgreSQL, so that a backup of one can be restored into the other. What a
database derives by itself (full-text indices, generated columns) is left out and made anew.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from bollard.host.archive.manifest import ColumnKind, Table
from bollard.host.errors import Conflict

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
        problem=str(error),
    )


class Snapshot(Protocol):
    """One moment of a database: what others write meanwhile is not seen, and does not wait."""

    @property
    def revision(self) -> str | None:
        """The schema; nothing where the database is empty."""
        ...

    def tables(self) -> list[Table]:
        """Every table that is not derived, by name."""
        ...

    def count(self, table: Table, workspace: str | None = None) -> int: ...

    def rows(self, table: Table, workspace: str | None = None) -> Iterator[Row]:
        """In the order of the primary key; all, or those of one workspace."""
        ...

    def stored(self, table: Table) -> Iterator[tuple[object, ...]]:
        """All rows in the same order, as fast as they come: booleans may be numbers."""
        ...

    def newest(self, table: Table, limit: int) -> list[Row]:
        """The last rows in the order of the primary key, the newest last."""
        ...

    def close(self) -> None: ...


class TableLoader(Protocol):
    """An empty database that gets rows: all of them or none."""

    def create(self, revision: str) -> None:
        """The tables of a revision that this program knows. Raises `Conflict` unless the database is empty."""
        ...

    def begin(self) -> None: ...

    def fill(self, table: Table, rows: Iterable[Row]) -> None: ...

    def commit(self) -> None: ...

    def abandon(self) -> None:
        """Nothing of it happened. Never raises."""
        ...

    def close(self) -> None:
        """From here on others may use it. Never raises."""
        ...


def condition_of(table: Table) -> str | None:
    """Which rows are of one workspace, with one `{}` for its name; nothing where no row is."""
    if table.has("workspace"):
        return "workspace = {}"
    if table.name == "deltas":
        return "run_id IN (SELECT run_id FROM runs WHERE workspace = {})"
    return None


def row_decoder(table: Table) -> msgspec.json.Decoder[Row]:
    """Reads lines that `msgspec.json.encode` made of rows of this table."""
    types = tuple(_TYPES[column.kind] for column in table.columns)
    return msgspec.json.Decoder(tuple.__class_getitem__(types))  # a shape that is only known now
