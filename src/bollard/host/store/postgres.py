"""PostgreSQL as a database of the store: one write connection and a few read connections.

The statements of one commit are pipelined, so a commit waits for the network only where it needs a result. If a commit
is not confirmed, the database reconnects and asks the server whether it was made.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, ClassVar, Final, NoReturn, cast

import msgspec
import psycopg
from psycopg.errors import (
    DeadlockDetected,
    DiskFull,
    IntegrityError,
    LockNotAvailable,
    OutOfMemory,
    ProgramLimitExceeded,
)
from psycopg.pq import PipelineStatus, TransactionStatus

from bollard.host.errors import HostError, InvalidRequest, SettingsError, StorageFull, StorageUnavailable, caused_by
from bollard.host.store import statements
from bollard.host.store.database import ConnectionPool, Values, row_exists, store_closed
from bollard.host.store.kept_key import KeptKey
from bollard.host.store.keys import place_of
from bollard.host.store.migrations import REVISIONS, UPGRADE_LOCK, Revisions, migrate, schema
from bollard.host.store.migrations.schema import POSTGRES_SAVED_THING
from bollard.host.store.postgres_session import WriterGuard, check_unwritten, expression_of, vector_of
from bollard.host.store.rows import TranscriptRow
from bollard.host.store.store import Store
from bollard.segments import Clause

LOCK_WAIT_S: Final = 2.0
"""Seconds that a statement waits for rows locked by another host."""
CONNECT_WAIT_S: Final = 5
READERS: Final = 8
READ_WAIT_S: Final = 5.0
SETTLE_PAUSE_S: Final = 0.01
"""Seconds between two checks of an unconfirmed commit."""
RESERVE_TRIES: Final = 100
"""Tries to reserve consecutive ids while another host reserves some."""

_BUGS: Final = (psycopg.ProgrammingError, psycopg.DataError, psycopg.InterfaceError, psycopg.NotSupportedError)
"""Bugs rather than failures of the database: a retry would not help, so they are raised unchanged."""
_OF_THE_LOG: Final = frozenset({statements.ADD_RECORD, statements.ADD_DELTA})
"""Statements whose text needs no replacement of U+0000: the host made and hashed it. They are frequent."""
_Connection = psycopg.Connection[tuple[Any, ...]]
_Cursor = psycopg.Cursor[tuple[Any, ...]]
_TAKE_IDS: Final = (
    "SELECT min(id), max(id), count(id) FROM (SELECT nextval('record_ids') AS id FROM generate_series(1, %s)) taken"
)
_SESSION: Final = (
    "SELECT set_config('lock_timeout', %s, false), set_config('synchronous_commit', "
    "replace(current_setting('synchronous_commit'), 'off', 'on'), false)"
)
"""A confirmed commit is on disk, whatever the database or the role sets; every value except `off` flushes."""
_QUIET: Final = frozenset({TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR})
_TRANSCRIPT_COLUMNS: Final = (*TranscriptRow.__struct_fields__, "place", "vector")
_SEARCH: Final = (
    f"SELECT {statements.columns(TranscriptRow)} FROM transcript, CAST(? AS tsquery) AS wanted "  # noqa: S608 -- our own names
    "WHERE vector @@ wanted AND place = ? AND conversation IS NOT NULL AND seq > ? AND seq < ?{narrowed} "
    "ORDER BY ts_rank(vector, wanted, 1) DESC, seq DESC LIMIT ?"
)
_WORKSPACE_SEARCH: Final = (
    f"SELECT {statements.columns(TranscriptRow)} FROM transcript "  # noqa: S608 -- our own names
    "WHERE vector @@ CAST(? AS tsquery) AND workspace = ? AND conversation IS NOT NULL AND seq < ? "
    "ORDER BY seq DESC LIMIT ?"
)


class PostgresDatabase:
    """One database of a PostgreSQL server, named by a URL."""

    def __init__(
        self,
        url: str,
        *,
        lock_wait_s: float = LOCK_WAIT_S,
        readers: int = READERS,
        revisions: Revisions = REVISIONS,
        guard: WriterGuard | None = None,
    ) -> None:
        """With a `guard` this is the only writer while it is open; without one the database is shared."""
        self._url = url
        self._guard = guard
        self._lock_wait_s = lock_wait_s
        self._revisions = revisions
        self._writer: _Connection | None = None
        self._is_open = False
        self._commit = ExitStack()
        self._transaction_id: _Cursor | None = None
        self._requested_ids: _Cursor | None = None
        """Requested ids of this transaction, and the received ones."""
        self._ids = range(0)
        self._readers = ConnectionPool(self._connect, size=readers, wait_s=READ_WAIT_S)
        self._texts: dict[str, str] = {}

    def open(self) -> None:
        try:
            self._writer = self._connect_writer()
            stored = self._revision(self._writer)
            if self._guard is None and stored != self._revisions.known[-1]:
                check_unwritten(self._writer)
            migrate(self._revisions, stored, self._create, self._url, self._lock_wait_s)
            if self._guard is not None:
                self._guard.mark(self._writer)
        except BaseException as error:
            self.close()
            if isinstance(error, psycopg.Error):
                _refuse(error)
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
        rows = self.read("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        return cast("int", rows[0][0])

    # --- the writer ---

    def begin(self) -> None:
        self._requested_ids, self._ids = None, range(0)
        try:
            writer = self._connected()
            self._commit.enter_context(writer.pipeline())
            writer.execute("BEGIN")
            self._transaction_id = writer.execute("SELECT pg_current_xact_id()::text")
        except psycopg.Error as error:
            self.rollback()
            _refuse(error)

    def commit(self) -> None:
        writer, transaction_id = self._under_way(), None
        try:
            transaction_id = self._known_transaction_id()
            answer = writer.execute("COMMIT")
            self._commit.close()
            if answer.statusmessage != "COMMIT":
                raise psycopg.OperationalError("the commit was not confirmed")
        except psycopg.Error as error:
            self.rollback()
            if transaction_id is None:  # the commit was not sent
                _refuse(error)
            self._settle(transaction_id, error)

    def rollback(self) -> None:
        writer, self._transaction_id = self._writer, None
        with suppress(psycopg.Error):  # the error that caused the rollback, again
            self._commit.close()
        if writer is None:
            return
        try:
            if _is_usable(writer):
                writer.execute("ROLLBACK")
            else:
                writer.close()
        except psycopg.Error:
            writer.close()
        if writer.closed:
            self._writer = None

    def fetch(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        return self._writing(lambda cursor: cursor.execute(self._text(statement), _storable(values)).fetchall())

    def run(self, statement: str, values: Values = ()) -> None:
        self._writing(lambda cursor: cursor.execute(self._text(statement), _storable(values)))

    def run_many(self, statement: str, values: Iterable[Values]) -> None:
        rows = values if statement in _OF_THE_LOG else map(_storable, values)
        self._writing(lambda cursor: cursor.executemany(self._text(statement), rows))

    def expect_ids(self, count: int) -> None:
        if count:
            self._requested_ids = self._request_ids(count)

    def reserve_ids(self, count: int) -> int:
        """Consecutive ids, with a retry in the rare case that another host reserved one in between."""
        for _ in range(RESERVE_TRIES):
            if len(self._ids) >= count:
                first, self._ids = self._ids[0], self._ids[count:]
                return first
            request, self._requested_ids = self._requested_ids or self._request_ids(count), None
            first, last, taken = self._writing(lambda _, request=request: request.fetchone())
            self._ids = range(first, last + 1) if last - first + 1 == taken else range(0)
        raise StorageUnavailable(
            "no consecutive record ids are available", reason="no_ids", hint="too many hosts write at once; retry"
        )

    def skip_ids(self, last: int) -> None:
        self.fetch("SELECT setval('record_ids', greatest(last_value, ?)) FROM record_ids", (last,))
        self._ids, self._requested_ids = range(0), None

    def _request_ids(self, count: int) -> _Cursor:
        return self._writing(lambda cursor: cursor.execute(_TAKE_IDS, (count,)))

    # --- readers ---

    def read(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        try:
            return self._read_once(statement, values)
        except psycopg.OperationalError as error:
            if isinstance(error, LockNotAvailable):
                _refuse(error)
        except psycopg.Error as error:
            _refuse(error)
        self._readers.drop_idle()
        try:  # an idle connection may have died with an earlier server process; a new one decides
            return self._read_once(statement, values)
        except psycopg.Error as error:
            _refuse(error)

    def _read_once(self, statement: str, values: Values) -> list[tuple[object, ...]]:
        with self._readers.use() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(self._text(statement), _storable(values)).fetchall()

    # --- dialect ---

    row_lock: ClassVar[str] = "FOR UPDATE"

    def among(self, column: str) -> str:
        return f"{column} = ANY(?)"

    def listed(self, values: Iterable[str]) -> object:
        return list(_storable(list(values)))

    def byte_length(self, column: str) -> str:
        return f"octet_length({column})"

    def ensure_index(self, name: str) -> None:
        """No effect: the indices are in the schema, because creating one later would block other hosts."""

    put_transcript: ClassVar[str] = statements.upsert(
        statements.insert("transcript", TranscriptRow, "place", "vector"), ("seq",), _TRANSCRIPT_COLUMNS
    )

    def transcript_values(self, row: TranscriptRow) -> Values:
        place = place_of(row.workspace, row.bot, row.conversation, row.thread)
        return (*msgspec.structs.astuple(row), place, vector_of(place, row.search))

    def clear(self, tables: Sequence[str]) -> None:
        for table in tables:  # not TRUNCATE, which blocks readers
            self.run(f"DELETE FROM {table}")  # noqa: S608 -- our own names

    search: ClassVar[str] = _SEARCH
    workspace_search: ClassVar[str] = _WORKSPACE_SEARCH

    def search_expression(self, place: str | None, clauses: Sequence[Clause]) -> str:
        return expression_of(place, clauses)

    from_events_by_source: ClassVar[str] = "events"
    from_unfinished: ClassVar[str] = "runs"
    saved_thing: ClassVar[str] = POSTGRES_SAVED_THING

    # --- connections ---

    def _connect(self) -> _Connection:
        connection: _Connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=CONNECT_WAIT_S,
            application_name="bollard",
            client_encoding="UTF8",
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )
        if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
            connection.close()
            raise SettingsError(
                f"the database stores text as {encoding}, which cannot hold every character",
                reason="database_not_utf8",
                hint="create one with: createdb --encoding=UTF8 --template=template0 NAME",
                field="database",
                encoding=encoding,
            )
        connection.execute(_SESSION, (f"{round(self._lock_wait_s * 1000)}ms",))
        return connection

    def _connect_writer(self) -> _Connection:
        connection = self._connect()
        if self._guard is not None:
            try:
                self._guard.take(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _connected(self) -> _Connection:
        if not self._is_open:
            raise store_closed()
        if self._writer is None or self._writer.closed:
            self._writer = self._connect_writer()
        return self._writer

    def _under_way(self) -> _Connection:
        if self._writer is None:
            raise StorageUnavailable(
                "the connection to PostgreSQL was lost", reason="connection_lost", hint="retry in a moment"
            )
        return self._writer

    def _writing(self, work: Callable[[_Cursor], Any]) -> Any:
        writer = self._under_way()
        try:
            return work(writer.cursor(binary=True))
        except psycopg.Error as error:
            _refuse(error)

    def _text(self, statement: str) -> Any:
        """A statement with the driver's placeholders."""
        known = self._texts.get(statement)
        if known is None:
            known = self._texts[statement] = statement.replace("?", "%s")
        return known

    def _revision(self, connection: _Connection) -> str | None:
        ((table,),) = connection.execute("SELECT to_regclass('alembic_version')::text").fetchall()
        rows = connection.execute(statements.REVISION).fetchall() if table else []
        return cast("str", rows[0][0]) if rows else None

    def _create(self) -> str:
        """Create the schema of an empty database, unless another host did meanwhile; returns the revision."""
        with self._connect() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (UPGRADE_LOCK,))
            if stored := self._revision(connection):
                return stored
            for statement in (*schema.POSTGRES, *schema.STAMP):
                connection.execute(statement.encode())
        return schema.REVISION

    def _known_transaction_id(self) -> str | None:
        row = self._transaction_id.fetchone() if self._transaction_id is not None else None
        return cast("str", row[0]) if row else None

    def _settle(self, transaction_id: str, error: psycopg.Error) -> None:
        """Ask the server for the outcome of an unconfirmed commit."""
        until = time.monotonic() + self._lock_wait_s
        while (status := self._status_of(transaction_id)) not in ("committed", "aborted"):
            if time.monotonic() >= until:
                raise StorageUnavailable(
                    "a commit was not confirmed",
                    reason="commit_unconfirmed",
                    hint="reconnect, then check whether the newest records exist",
                    outcome="unknown",
                ) from error
            time.sleep(SETTLE_PAUSE_S)  # the server has not noticed the lost connection yet, or is down
        if status == "aborted":
            _refuse(error)

    def _status_of(self, transaction_id: str) -> str | None:
        """The status of a transaction on the server; `None` if the server does not respond."""
        try:
            statement = "SELECT pg_xact_status(%s::xid8)"
            ((status,),) = self._connected().execute(statement, (transaction_id,)).fetchall()
        except (psycopg.Error, HostError):
            return None
        return status


def postgres_store(
    url: str, *, lock_wait_s: float = LOCK_WAIT_S, alone: bool = False, kept_key: KeptKey | None = None
) -> Store:
    """The store in one PostgreSQL database. With `alone` it is the only such writer while it is open."""
    guard = WriterGuard(wait_s=lock_wait_s) if alone else None
    return Store(PostgresDatabase(url, lock_wait_s=lock_wait_s, guard=guard), wait_s=lock_wait_s, kept_key=kept_key)


def _is_usable(writer: _Connection) -> bool:
    """Whether a statement can be sent: an unfinished pipeline still waits for results."""
    pgconn = writer.pgconn
    return not writer.closed and pgconn.pipeline_status == PipelineStatus.OFF and pgconn.transaction_status in _QUIET


def _storable(values: Values) -> Values:
    """Replace U+0000, which PostgreSQL text cannot hold. The bytes of the log keep it; only projections differ."""
    return [value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value for value in values]


def _refuse(error: psycopg.Error) -> NoReturn:
    if isinstance(error, _BUGS):
        raise error
    raise _host_error(error) from error


def _host_error(error: psycopg.Error) -> HostError:
    code = error.sqlstate
    if isinstance(error, DiskFull | OutOfMemory):
        return StorageFull(
            "PostgreSQL has no space left", reason="postgres_full", hint="free some space; writing resumes by itself"
        )
    if isinstance(error, ProgramLimitExceeded):  # permanent: only the sender of the value gets this error
        return InvalidRequest(
            f"PostgreSQL cannot store a value of this size: {error}",
            reason="value_too_large",
            hint="shorten its names and ids",
            sqlstate=code,
            **caused_by(error),
        )
    if isinstance(error, IntegrityError):
        return row_exists(str(error), sqlstate=code)
    if isinstance(error, LockNotAvailable | DeadlockDetected):
        return StorageUnavailable("another host has locked a row", reason="row_locked", hint="retry", sqlstate=code)
    return postgres_unusable(error, sqlstate=code)


def postgres_unusable(error: psycopg.Error, **details: str | None) -> StorageUnavailable:
    return StorageUnavailable(
        f"PostgreSQL cannot be used: {error}",
        reason="postgres_unusable",
        hint="check that the server is running",
        **caused_by(error),
        **details,
    )
