"""SQLite as a database of the store: one file in WAL mode that is flushed with every commit.

The writer holds the write lock from `begin` on, and waits a bounded time for another process that holds it.
"""

import os
import shutil
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Final, NoReturn, cast

import msgspec

from bollard.host.clock import Clock, SystemClock
from bollard.host.errors import HostError, StorageUnavailable, caused_by
from bollard.host.store import statements
from bollard.host.store.blobs import disk_full
from bollard.host.store.database import ConnectionPool, Values, row_exists, store_closed
from bollard.host.store.kept_key import KeptKey
from bollard.host.store.keys import place_of
from bollard.host.store.migrations import REVISIONS, Revisions, migrate, schema
from bollard.host.store.migrations.schema import SQLITE_SAVED_THING
from bollard.host.store.rows import TranscriptRow
from bollard.host.store.store import Store
from bollard.segments import Clause, is_prefix
from bollard.trust import make_folder

BUSY_WAIT_S: Final = 2.0
"""Seconds that a commit waits for another process that writes."""
READERS: Final = 4
READ_WAIT_S: Final = 5.0
CACHE_KIB: Final = 8192
"""The writer's page cache."""
CHECKPOINT_BYTES: Final = 8 << 20
"""Size of the write-ahead log at which it is copied into the database; less on a small disk."""
CHECKPOINT_PART: Final = 8
"""The share of the free space for the write-ahead log, which never shrinks while the host runs."""
WAL_PAUSE_S: Final = 0.01
"""Seconds between two tries to enable the write-ahead log while another program does."""

# For a value without an adapter the driver raises and catches an error, which costs more than the rest of its binding.
# These adapters change nothing; they are functions of the interpreter, which are cheaper than ours.
sqlite3.register_adapter(type(None), dict[None, None]().get)
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(bytes, bytes)

_BUGS: Final = (sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.NotSupportedError)
"""Bugs rather than failures of the database: a retry would not help, so they are raised unchanged."""
_TRANSCRIPT_COLUMNS: Final = (*TranscriptRow.__struct_fields__, "place")
_SEARCH: Final = (
    f"SELECT {statements.columns(TranscriptRow, 'said.')} FROM transcript_search "  # noqa: S608 -- our own names
    "JOIN transcript said ON said.seq = transcript_search.rowid "
    "WHERE transcript_search MATCH ? AND said.place = ? AND said.seq > ? AND said.seq < ?{narrowed} "
    "ORDER BY bm25(transcript_search, 0.0, 1.0), said.seq DESC LIMIT ?"
)
_WORKSPACE_SEARCH: Final = (
    f"SELECT {statements.columns(TranscriptRow, 'said.')} FROM transcript_search "  # noqa: S608 -- our own names
    "JOIN transcript said ON said.seq = transcript_search.rowid "
    "WHERE transcript_search MATCH ? AND said.workspace = ? AND transcript_search.rowid < ? "
    "ORDER BY transcript_search.rowid DESC LIMIT ?"
)


class SqliteDatabase:
    """One file, and its `-wal` and `-shm` beside it."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        busy_wait_s: float = BUSY_WAIT_S,
        readers: int = READERS,
        max_pages: int | None = None,
        revisions: Revisions = REVISIONS,
    ) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._busy_wait_s = busy_wait_s
        self._max_pages = max_pages  # for tests of a full disk
        self._revisions = revisions
        self._writer: sqlite3.Connection | None = None
        self._is_open = False
        self._reserved = 0
        self._readers = ConnectionPool(self._connect_reader, size=readers, wait_s=READ_WAIT_S)

    def open(self) -> None:
        try:
            make_folder(self._path.parent)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))  # private data: readable by the owner only
        except OSError as error:
            raise StorageUnavailable(
                f"{self._path.name} cannot be opened: {error.strerror}",
                reason="file_not_opened",
                hint="make the data directory writable for this user",
                file=self._path.name,
                **caused_by(error),
            ) from error
        try:
            self._writer = self._connect_writer()
            migrate(self._revisions, self._revision(), self._create, self._url(), self._busy_wait_s)
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                self._refuse(error)
            raise
        self._is_open = True
        self._readers.open()

    def close(self) -> None:
        self._is_open = False
        self._readers.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def now_ms(self) -> int:
        return self._clock.now_ms()

    # --- the writer ---

    def begin(self) -> None:
        self._reserved = 0
        self._do("BEGIN IMMEDIATE")

    def commit(self) -> None:
        try:
            self._do("COMMIT")
        except HostError:
            self.rollback()
            raise

    def rollback(self) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        except sqlite3.Error:
            # This connection cannot recover the file; a new one does, from the write-ahead log.
            writer.close()
            self._writer = None

    def fetch(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        return self._do(statement, values).fetchall()

    def run(self, statement: str, values: Values = ()) -> None:
        self._do(statement, values)

    def run_many(self, statement: str, values: Iterable[Values]) -> None:
        try:
            self._connected().executemany(statement, values)
        except sqlite3.Error as error:
            self._refuse(error)

    def expect_ids(self, count: int) -> None:
        """No effect: ids need no server."""

    def reserve_ids(self, count: int) -> int:
        (newest,) = cast("list[tuple[int]]", self.fetch("SELECT coalesce(max(id), 0) FROM records"))
        first = max(newest[0], self._reserved) + 1
        self._reserved = first + count - 1
        return first

    def skip_ids(self, last: int) -> None:
        self._reserved = max(self._reserved, last)

    # --- readers ---

    def read(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        try:
            with self._readers.use() as connection:
                return connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._refuse(error)

    # --- dialect ---

    row_lock: ClassVar[str] = ""  # the writer locks the whole database

    def among(self, column: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 -- our own names

    def listed(self, values: Iterable[str]) -> object:
        return msgspec.json.encode(list(values)).decode()

    def byte_length(self, column: str) -> str:
        return f"length(CAST({column} AS BLOB))"

    def ensure_index(self, name: str) -> None:
        self.run(f"CREATE INDEX IF NOT EXISTS {schema.RETENTION_INDICES[name]}")

    put_transcript: ClassVar[str] = statements.upsert(
        statements.insert("transcript", TranscriptRow, "place"), ("seq",), _TRANSCRIPT_COLUMNS
    )

    def transcript_values(self, row: TranscriptRow) -> Values:
        place = place_of(row.workspace, row.bot, row.conversation, row.thread)
        return (*msgspec.structs.astuple(row), place)

    def clear(self, tables: Sequence[str]) -> None:
        for table in tables:
            self.run(f"DELETE FROM {table}")  # noqa: S608 -- our own names
        if "transcript" in tables:
            self.run("INSERT INTO transcript_search (transcript_search) VALUES ('delete-all')")

    search: ClassVar[str] = _SEARCH
    workspace_search: ClassVar[str] = _WORKSPACE_SEARCH

    def search_expression(self, place: str | None, clauses: Sequence[Clause]) -> str:
        """The query of some clauses. The place is indexed too, so the cost depends on the conversation, not the
        store."""
        words = " AND ".join(f"({' OR '.join(map(_quoted_term, clause))})" for clause in clauses)
        of_place = "" if place is None else f"(place : {_quoted(place)}) AND "
        return f"{of_place}(search : ({words}))"

    from_events_by_source: ClassVar[str] = "events INDEXED BY events_by_source"
    from_unfinished: ClassVar[str] = "runs INDEXED BY runs_unfinished"
    saved_thing: ClassVar[str] = SQLITE_SAVED_THING

    # --- connections ---

    def _connected(self) -> sqlite3.Connection:
        if self._writer is None:
            if not self._is_open:
                raise store_closed()
            self._writer = self._connect_writer()
        return self._writer

    def _do(self, statement: str, values: Values = ()) -> sqlite3.Cursor:
        try:
            return self._connected().execute(statement, values)
        except sqlite3.Error as error:
            self._refuse(error)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path, timeout=self._busy_wait_s, isolation_level=None, check_same_thread=False, cached_statements=256
        )

    def _connect_writer(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            mode = self._enable_wal(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            room = min(CHECKPOINT_BYTES, shutil.disk_usage(self._path.parent).free // CHECKPOINT_PART)
            connection.execute(f"PRAGMA wal_autocheckpoint = {max(room // page_bytes, 1)}")
            if self._max_pages is not None:
                connection.execute(f"PRAGMA max_page_count = {self._max_pages}")
        except BaseException:
            connection.close()
            raise
        if mode != "wal":
            connection.close()
            raise StorageUnavailable(
                f"{self._path.name} cannot use a write-ahead log here ({mode})",
                reason="no_write_ahead_log",
                hint="keep the data directory on a local disk",
                file=self._path.name,
                mode=mode,
            )
        return connection

    def _enable_wal(self, connection: sqlite3.Connection) -> str:
        """Enable the write-ahead log; returns the resulting mode. SQLite itself does not wait for others here."""
        until = time.monotonic() + self._busy_wait_s
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    raise
                time.sleep(WAL_PAUSE_S)
            else:
                return mode

    def _connect_reader(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _url(self) -> str:
        return f"sqlite:///{self._path}"

    def _revision(self) -> str | None:
        tables = self.fetch("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'")
        rows = self.fetch(statements.REVISION) if tables else []
        return cast("str", rows[0][0]) if rows else None

    def _create(self) -> str:
        """Create the schema of an empty file, unless another program did meanwhile; returns the revision."""
        self.begin()
        try:
            if stored := self._revision():
                self.rollback()
                return stored
            for statement in (*schema.SQLITE, *schema.STAMP):
                self.run(statement)
        except BaseException:
            self.rollback()
            raise
        self.commit()
        return schema.REVISION

    def _refuse(self, error: sqlite3.Error) -> NoReturn:
        if isinstance(error, _BUGS):
            raise error
        raise self._host_error(error) from error

    def _host_error(self, error: sqlite3.Error) -> HostError:
        code: int | None = getattr(error, "sqlite_errorcode", None)
        name: str = getattr(error, "sqlite_errorname", type(error).__name__)
        primary = None if code is None else code & 0xFF
        if primary == sqlite3.SQLITE_FULL:
            return disk_full(sqlite=name)
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StorageUnavailable(
                f"{self._path.name} is locked by another writer",
                reason="file_locked",
                hint="retry; check whether another host uses this file",
                sqlite=name,
                file=self._path.name,
            )
        if primary == sqlite3.SQLITE_CONSTRAINT:
            return row_exists(str(error), sqlite=name)
        return StorageUnavailable(
            f"{self._path.name} cannot be used: {error}",
            reason="file_unusable",
            hint="check the disk and the data directory; `bollard doctor` verifies the newest records",
            sqlite=name,
            file=self._path.name,
            **caused_by(error),
        )


def sqlite_store(
    path: Path, *, clock: Clock | None = None, busy_wait_s: float = BUSY_WAIT_S, kept_key: KeptKey | None = None
) -> Store:
    """The store in one file."""
    return Store(SqliteDatabase(path, clock=clock, busy_wait_s=busy_wait_s), wait_s=busy_wait_s, kept_key=kept_key)


def _quoted_term(term: str) -> str:
    return _quoted(term) + (" *" if is_prefix(term) else "")


def _quoted(term: str) -> str:
    text = term.replace('"', '""').replace("\0", " ")
    return f'"{text}"'
