"""The tables of a PostgreSQL database, for backups: read in one repeatable transaction, copied in bulk both ways."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

import psycopg
from msgspec.structs import replace
from psycopg.errors import DiskFull, IntegrityError
from psycopg.sql import SQL, Composed, Identifier, Literal

from bollard.host.archive.manifest import Column, ColumnKind, Table
from bollard.host.backup.tables import Row, condition_of, rows_collide
from bollard.host.errors import Conflict, StorageFull
from bollard.host.store.migrations import REVISIONS
from bollard.host.store.postgres import CONNECT_WAIT_S, LOCK_WAIT_S, PostgresDatabase, postgres_unusable
from bollard.host.store.postgres_session import hold_shared, vector_of

_Connection = psycopg.Connection[tuple[Any, ...]]
_KINDS: Final[dict[str, ColumnKind]] = {
    "bigint": "integer",
    "integer": "integer",
    "smallint": "integer",
    "text": "text",
    "character varying": "text",
    "bytea": "bytes",
    "boolean": "boolean",
}
_WIRE: Final[dict[ColumnKind, str]] = {"integer": "int8", "text": "text", "bytes": "bytea", "boolean": "bool"}
_COLUMNS: Final = (
    "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns "
    "WHERE table_schema = current_schema() AND is_generated = 'NEVER' AND table_name <> 'alembic_version' "
    "AND table_name NOT LIKE 'knowledge\\_%' "  # of another process, and with a schema of their own
    "ORDER BY table_name, ordinal_position"
)
_KEY: Final = (
    "SELECT a.attname::text FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, place) "
    "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum "
    "WHERE i.indrelid = to_regclass(%s) AND i.indisprimary ORDER BY k.place"
)
_REVISION: Final = "SELECT version_num FROM alembic_version"


class PostgresSnapshot:
    """A repeatable read of one database."""

    def __init__(self, url: str) -> None:
        with _errors():
            self._connection = _connect(url)
            try:
                self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                self._revision = _revision(self._connection)
                self._tables = _tables(self._connection)
            except BaseException:
                self._connection.close()
                raise

    @property
    def revision(self) -> str | None:
        return self._revision

    def tables(self) -> list[Table]:
        return self._tables

    def count(self, table: Table, workspace: str | None = None) -> int:
        statement = SQL("SELECT count(*) FROM {}{}").format(Identifier(table.name), _where(table, workspace))
        with _errors():
            ((count,),) = self._connection.execute(statement).fetchall()
        return count

    def rows(self, table: Table, workspace: str | None = None) -> Iterator[Row]:
        with _errors():
            key = [name for (name,) in self._connection.execute(_KEY, (table.name,)).fetchall()]
            chosen = SQL(", ").join(
                SQL("{}::int8").format(Identifier(column.name)) if column.kind == "integer" else Identifier(column.name)
                for column in table.columns
            )
            statement = SQL("COPY (SELECT {} FROM {}{} ORDER BY {}) TO STDOUT (FORMAT BINARY)").format(
                chosen, Identifier(table.name), _where(table, workspace), SQL(", ").join(map(Identifier, key))
            )
            with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
                copy.set_types([_WIRE[column.kind] for column in table.columns])
                yield from copy.rows()

    def stored(self, table: Table) -> Iterator[tuple[object, ...]]:
        return cast("Iterator[tuple[object, ...]]", self.rows(table))

    def newest(self, table: Table, limit: int) -> list[Row]:
        with _errors():
            key = [name for (name,) in self._connection.execute(_KEY, (table.name,)).fetchall()]
            statement = SQL("SELECT {} FROM {} ORDER BY {} LIMIT {}").format(
                SQL(", ").join(Identifier(column.name) for column in table.columns),
                Identifier(table.name),
                SQL(", ").join(SQL("{} DESC").format(Identifier(name)) for name in key),
                Literal(limit),
            )
            return list(reversed(self._connection.execute(statement).fetchall()))

    def close(self) -> None:
        self._connection.close()


class PostgresLoader:
    """Fills a database without tables, or with empty ones."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: _Connection | None = None
        self._holding: _Connection | None = None
        """Holds the lock that keeps hosts away until the restore is settled."""

    def create(self, revision: str) -> None:
        with _errors():
            self._holding = _connect(self._url)
            hold_shared(self._holding, LOCK_WAIT_S)
        with _errors(), _connect(self._url) as connection:
            stored = _revision(connection)
            known = _has_knowledge(connection)
            if stored == revision and not known and not _has_rows(connection):  # left by an interrupted restore
                return
            if _tables(connection) or stored is not None or known:
                raise Conflict(
                    "the database is not empty",
                    reason="database_not_empty",
                    hint="name a database without tables; createdb creates one",
                )
        revisions = REVISIONS.known[: REVISIONS.known.index(revision) + 1]
        database = PostgresDatabase(self._url, revisions=replace(REVISIONS, known=revisions, fresh=None))
        database.open()
        database.close()

    def begin(self) -> None:
        with _errors():
            self._connection = _connect(self._url)
            self._connection.execute("BEGIN")
            self._connection.execute("DELETE FROM meta")  # it can only hold the identity of an earlier host

    def fill(self, table: Table, rows: Iterable[Row]) -> None:
        names = [column.name for column in table.columns]
        texts = [index for index, column in enumerate(table.columns) if column.kind == "text"]
        with _errors(), self._begun().cursor() as cursor:
            if table.name == "transcript":
                self._fill_transcript(cursor, [*names, "vector"], rows, texts, table)
                return
            statement = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(
                Identifier(table.name), SQL(", ").join(map(Identifier, names))
            )
            with cursor.copy(statement) as copy:
                copy.set_types([_WIRE[column.kind] for column in table.columns])
                for row in rows:
                    copy.write_row(_storable(row, texts))

    @staticmethod
    def _fill_transcript(
        cursor: psycopg.Cursor[tuple[Any, ...]], names: list[str], rows: Iterable[Row], texts: list[int], table: Table
    ) -> None:
        """Copy as text, because the driver has no binary form of vectors."""
        place, search = table.index("place"), table.index("search")
        statement = SQL("COPY transcript ({}) FROM STDIN").format(SQL(", ").join(map(Identifier, names)))
        with cursor.copy(statement) as copy:
            for row in rows:
                values = _storable(row, texts)
                copy.write_row([*values, vector_of(cast("str", values[place]), cast("str", values[search]))])

    def commit(self) -> None:
        with _errors(), self._begun() as connection:
            # New ids follow the existing ones.
            newest = "SELECT coalesce(max(id), 0) + 1 FROM records"
            connection.execute(f"SELECT setval('record_ids', ({newest}), false)".encode())
            connection.execute("COMMIT")
        self._connection = None

    def _begun(self) -> _Connection:
        if self._connection is None:
            raise RuntimeError("begin() was not called")
        return self._connection

    def abandon(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        if self._holding is not None:
            with suppress(psycopg.Error):
                self._holding.close()
            self._holding = None


def _connect(url: str) -> _Connection:
    return psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_WAIT_S, application_name="bollard backup")


def _revision(connection: _Connection) -> str | None:
    ((table,),) = connection.execute("SELECT to_regclass('alembic_version')::text").fetchall()
    rows = connection.execute(_REVISION).fetchall() if table else []
    return cast("str", rows[0][0]) if rows else None


def _tables(connection: _Connection) -> list[Table]:
    """The tables without derived columns. The vectors of full-text search have a type that is not listed."""
    found: dict[str, list[Column]] = {}
    for table, column, kind in connection.execute(_COLUMNS).fetchall():
        found.setdefault(table, [])
        if kind in _KINDS:
            found[table].append(Column(column, _KINDS[kind]))
    return [Table(name=name, columns=tuple(columns)) for name, columns in found.items()]


def _has_rows(connection: _Connection) -> bool:
    tables = (Identifier(table.name) for table in _tables(connection) if table.name != "meta")
    return any(connection.execute(SQL("SELECT 1 FROM {} LIMIT 1").format(name)).fetchall() for name in tables)


def _has_knowledge(connection: _Connection) -> bool:
    ((table,),) = connection.execute("SELECT to_regclass('knowledge_documents')::text").fetchall()
    return table is not None


def _where(table: Table, workspace: str | None) -> Composed:
    condition = condition_of(table)
    if workspace is None or condition is None:
        return SQL("{}").format(SQL(""))
    return SQL(cast("Any", f" WHERE {condition}")).format(Literal(workspace))


def _storable(row: Row, texts: list[int]) -> Row:
    """Replace U+0000, which PostgreSQL cannot store as text. The log stores it as bytes."""
    if not any("\0" in (cast("str | None", row[index]) or "") for index in texts):
        return row
    return [
        value.replace("\0", "\ufffd") if index in texts and isinstance(value, str) else value
        for index, value in enumerate(row)
    ]


@contextmanager
def _errors() -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        if isinstance(error, DiskFull):
            raise StorageFull(
                "PostgreSQL has no space left", reason="postgres_full_restore", hint="free some space and start again"
            ) from error
        if isinstance(error, IntegrityError):
            raise rows_collide(error) from error
        raise postgres_unusable(error) from error
