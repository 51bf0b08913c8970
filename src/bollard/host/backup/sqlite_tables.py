"""The tables of a SQLite file, for backups. A read transaction is one consistent view; the writer continues in its
write-ahead log."""

import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Final, cast

from msgspec.structs import replace

from bollard.host.archive.manifest import Column, ColumnKind, Table
from bollard.host.backup.tables import Row, condition_of, rows_collide
from bollard.host.errors import Conflict, StorageFull, StorageUnavailable, caused_by
from bollard.host.store.migrations import REVISIONS
from bollard.host.store.sqlite import BUSY_WAIT_S, SqliteDatabase

_DERIVED: Final = ("sqlite_", "transcript_search", "alembic_version")
_KINDS: Final[dict[str, ColumnKind]] = {"TEXT": "text", "BLOB": "bytes", "BOOLEAN": "boolean"}
_ROWS_AT_ONCE: Final = 1000


class SqliteSnapshot:
    """A read transaction on one file."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        with _errors(self._name):
            self._connection = sqlite3.connect(path, timeout=BUSY_WAIT_S, isolation_level=None, check_same_thread=False)
            try:
                self._connection.execute("PRAGMA query_only = ON")
                self._connection.execute("BEGIN")
                self._tables = [_table(self._connection, name) for name in _names(self._connection)]
                self._revision = _revision(self._connection)
            except BaseException:
                self._connection.close()
                raise

    @property
    def revision(self) -> str | None:
        return self._revision

    def tables(self) -> list[Table]:
        return self._tables

    def count(self, table: Table, workspace: str | None = None) -> int:
        where, values = _where(table, workspace)
        with _errors(self._name):
            (count,) = self._connection.execute(f"SELECT count(*) FROM {table.name}{where}", values).fetchone()  # noqa: S608 -- names of the schema
        return count

    def rows(self, table: Table, workspace: str | None = None) -> Iterator[Row]:
        where, values = _where(table, workspace)
        names = ", ".join(column.name for column in table.columns)
        flags = [index for index, column in enumerate(table.columns) if column.kind == "boolean"]
        order = _order(self._connection, table.name)
        statement = f"SELECT {names} FROM {table.name}{where} ORDER BY {order}"  # noqa: S608 -- names of the schema
        with _errors(self._name):
            cursor = self._connection.execute(statement, values)
            while page := cursor.fetchmany(_ROWS_AT_ONCE):
                for row in page:
                    yield _with_booleans(row, flags) if flags else row

    def stored(self, table: Table) -> Iterator[tuple[object, ...]]:
        return chain.from_iterable(self._pages(table))

    def _pages(self, table: Table) -> Iterator[list[tuple[object, ...]]]:
        names = ", ".join(column.name for column in table.columns)
        order = _order(self._connection, table.name)
        with _errors(self._name):
            cursor = self._connection.execute(f"SELECT {names} FROM {table.name} ORDER BY {order}")  # noqa: S608 -- names of the schema
            while page := cursor.fetchmany(_ROWS_AT_ONCE):
                yield page

    def newest(self, table: Table, limit: int) -> list[Row]:
        names = ", ".join(column.name for column in table.columns)
        flags = [index for index, column in enumerate(table.columns) if column.kind == "boolean"]
        order = _order(self._connection, table.name).replace(",", " DESC,")
        statement = f"SELECT {names} FROM {table.name} ORDER BY {order} DESC LIMIT ?"  # noqa: S608 -- names of the schema
        with _errors(self._name):
            rows = self._connection.execute(statement, (limit,)).fetchall()
        return [_with_booleans(row, flags) for row in reversed(rows)]

    def key_of(self, table: Table) -> list[str]:
        """The columns of the primary key."""
        return _order(self._connection, table.name).split(", ")

    def close(self) -> None:
        self._connection.close()


class SqliteLoader:
    """Fills a new file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def create(self, revision: str) -> None:
        if self._path.exists():
            raise Conflict(
                f"{self._path} exists already",
                reason="database_exists",
                hint="restore into an empty directory",
                path=str(self._path),
            )
        known = REVISIONS.known[: REVISIONS.known.index(revision) + 1]
        database = SqliteDatabase(self._path, revisions=replace(REVISIONS, known=known, fresh=None))
        database.open()
        database.close()

    def begin(self) -> None:
        with _errors(self._path.name):
            self._connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            # An interrupted file is thrown away, so it needs no syncs until the end.
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute("BEGIN IMMEDIATE")

    def fill(self, table: Table, rows: Iterable[Row]) -> None:
        connection = self._begun()
        places = ", ".join("?" * len(table.columns))
        names = ", ".join(column.name for column in table.columns)
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({places})"  # noqa: S608 -- names of the schema
        with _errors(self._path.name):
            connection.executemany(statement, rows)

    def commit(self) -> None:
        connection = self._begun()
        with _errors(self._path.name):
            connection.execute("COMMIT")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        self._connection = None

    def _begun(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("begin() was not called")
        return self._connection

    def abandon(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Does nothing: the file is not in use until it is moved into its place."""


def _names(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name for (name,) in rows if not name.startswith(_DERIVED)]


def _table(connection: sqlite3.Connection, name: str) -> Table:
    rows = connection.execute("SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,)).fetchall()
    columns = (Column(column, _KINDS.get(kind, "integer")) for column, kind in rows)
    return Table(name=name, columns=tuple(columns))


def _order(connection: sqlite3.Connection, name: str) -> str:
    rows = connection.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (name,)).fetchall()
    return ", ".join(column for (column,) in rows)


def _revision(connection: sqlite3.Connection) -> str | None:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchall():
        return None
    rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    return cast("str", rows[0][0]) if rows else None


def _where(table: Table, workspace: str | None) -> tuple[str, tuple[str, ...]]:
    condition = condition_of(table)
    if workspace is None or condition is None:
        return "", ()
    return f" WHERE {condition.format('?')}", (workspace,)


def _with_booleans(row: tuple[object, ...], flags: list[int]) -> Row:
    """Convert the numbers of boolean columns: SQLite has no booleans."""
    values = list(row)
    for index in flags:
        values[index] = bool(values[index])
    return values


@contextmanager
def _errors(name: str) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise StorageFull(
                "the disk is full", reason="disk_full_restore", hint="free some space and start again"
            ) from error
        if code == sqlite3.SQLITE_CONSTRAINT:
            raise rows_collide(error) from error
        raise StorageUnavailable(
            f"{name} cannot be used: {error}",
            reason="table_file_unusable",
            hint="check the disk and the file",
            file=name,
            **caused_by(error),
        ) from error
