"""PostgreSQL as a database of the store: one writing connection, a few reading ones.

Statements of one commit travel together (pipeline), so a commit waits for the network about as often as it must know
an answer. When a commit that was asked for is not confirmed, the server is asked afterwards whether it was made: what
the driver knows of a connection that dies is not enough to say so.
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

from bollard.host.errors import Conflict, HostError, InvalidRequest, SettingsError, StorageFull, StorageUnavailable
from bollard.host.store import statements
from bollard.host.store.database import ConnectionPool, Values
from bollard.host.store.kept_key import KeptKey
from bollard.host.store.keys import place_of
from bollard.host.store.migrations import REVISIONS, UPGRADE_LOCK, Revisions, migrate, schema
from bollard.host.store.migrations.fifth_schema import POSTGRES_SAVED_THING
from bollard.host.store.postgres_session import WriterGuard, check_unwritten, expression_of, vector_of
from bollard.host.store.rows import TranscriptRow
from bollard.host.store.store import Store

LOCK_WAIT_S: Final = 2.0
"""How long a statement waits for rows that another host has locked."""
CONNECT_WAIT_S: Final = 5
READERS: Final = 8
READ_WAIT_S: Final = 5.0
SETTLE_PAUSE_S: Final = 0.01
"""Time between two questions about a commit whose answer was lost."""
RESERVE_TRIES: Final = 100
"""Times to ask for ids again because another host took some in between."""

_BUGS: Final = (psycopg.ProgrammingError, psycopg.DataError, psycopg.InterfaceError, psycopg.NotSupportedError)
"""Not the store's trouble: trying again would not help, so they are raised as they are."""
_OF_THE_LOG: Final = frozenset({statements.ADD_RECORD, statements.ADD_DELTA})
"""Their text is the host's own and is hashed, so it is never replaced; and they are many."""
_Connection = psycopg.Connection[tuple[Any, ...]]
_Cursor = psycopg.Cursor[tuple[Any, ...]]
_TAKE_IDS: Final = (
    "SELECT min(id), max(id), count(id) FROM (SELECT nextval('record_ids') AS id FROM generate_series(1, %s)) taken"
)
_SESSION: Final = (
    "SELECT set_config('lock_timeout', %s, false), set_config('synchronous_commit', "
    "replace(current_setting('synchronous_commit'), 'off', 'on'), false)"
)
"""What is acknowledged is on disk, whatever the database or the role is set to; every other value flushes here too."""
_QUIET: Final = frozenset({TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR})
_TRANSCRIPT_COLUMNS: Final = (*TranscriptRow.__struct_fields__, "place", "vector")
_SEARCH: Final = (
    f"SELECT {statements.columns(TranscriptRow)} FROM transcript, CAST(? AS tsquery) AS wanted "  # noqa: S608 -- our own names
    "WHERE vector @@ wanted AND place = ? AND conversation IS NOT NULL AND seq > ? AND seq < ?{narrowed} "
    "ORDER BY ts_rank(vector, wanted, 1) DESC, seq DESC LIMIT ?"
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
        """With a `guard` nobody else writes with one while this is open; without one it is shared."""
        self._url = url
        self._guard = guard
        self._lock_wait_s = lock_wait_s
        self._revisions = revisions
        self._writer: _Connection | None = None
        self._is_open = False
        self._commit = ExitStack()
        self._transaction_id: _Cursor | None = None
        self._asked_ids: _Cursor | None = None
        """Ids of this transaction that are on their way, and those that are here."""
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
        self._asked_ids, self._ids = None, range(0)
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
            if transaction_id is None:  # it was not asked for
                _refuse(error)
            self._settle(transaction_id, error)

    def rollback(self) -> None:
        writer, self._transaction_id = self._writer, None
        with suppress(psycopg.Error):  # the reason why there is a rollback, said again
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
            self._asked_ids = self._ask_for_ids(count)

    def reserve_ids(self, count: int) -> int:
        """Ids in a row: asked for again in the rare case that another host took one in between."""
        for _ in range(RESERVE_TRIES):
            if len(self._ids) >= count:
                first, self._ids = self._ids[0], self._ids[count:]
                return first
            asked, self._asked_ids = self._asked_ids or self._ask_for_ids(count), None
            first, last, taken = self._writing(lambda _, asked=asked: asked.fetchone())
            self._ids = range(first, last + 1) if last - first + 1 == taken else range(0)
        raise StorageUnavailable("no ids in a row", hint="too many hosts write at once; try again")

    def skip_ids(self, last: int) -> None:
        self.fetch("SELECT setval('record_ids', greatest(last_value, ?)) FROM record_ids", (last,))
        self._ids, self._asked_ids = range(0), None

    def _ask_for_ids(self, count: int) -> _Cursor:
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
        try:  # a connection that lay idle may have died with the server it was made to; a new one tells
            return self._read_once(statement, values)
        except psycopg.Error as error:
            _refuse(error)

    def _read_once(self, statement: str, values: Values) -> list[tuple[object, ...]]:
        with self._readers.use() as connection, connection.cursor(binary=True) as cursor:
            return cursor.execute(self._text(statement), _storable(values)).fetchall()

    # --- what the statements say differently ---

    row_lock: ClassVar[str] = "FOR UPDATE"

    def among(self, column: str) -> str:
        return f"{column} = ANY(?)"

    def listed(self, values: Iterable[str]) -> object:
        return list(_storable(list(values)))

    def byte_length(self, column: str) -> str:
        return f"octet_length({column})"

    def ensure_index(self, name: str) -> None:
        """They are in the schema: here an index costs a commit a few bytes, and making one later stops other hosts."""

    put_transcript: ClassVar[str] = statements.upsert(
        statements.insert("transcript", TranscriptRow, "place", "vector"), ("seq",), _TRANSCRIPT_COLUMNS
    )

    def transcript_values(self, row: TranscriptRow) -> Values:
        place = place_of(row.workspace, row.bot, row.conversation, row.thread)
        return (*msgspec.structs.astuple(row), place, vector_of(place, row.search))

    def clear(self, tables: Sequence[str]) -> None:
        for table in tables:  # not TRUNCATE, which readers would have to wait for
            self.run(f"DELETE FROM {table}")  # noqa: S608 -- our own names

    search: ClassVar[str] = _SEARCH

    def search_expression(self, place: str, terms: Sequence[str]) -> str:
        return expression_of(place, terms)

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
                f"the database keeps text as {encoding}, which cannot hold every character",
                hint="make one with: createdb --encoding=UTF8 --template=template0 NAME",
                field="database",
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
            raise StorageUnavailable("the store is closed", hint="the host is shutting down")
        if self._writer is None or self._writer.closed:
            self._writer = self._connect_writer()
        return self._writer

    def _under_way(self) -> _Connection:
        if self._writer is None:
            raise StorageUnavailable("the connection to PostgreSQL is gone", hint="try again in a moment")
        return self._writer

    def _writing(self, work: Callable[[_Cursor], Any]) -> Any:
        writer = self._under_way()
        try:
            return work(writer.cursor(binary=True))
        except psycopg.Error as error:
            _refuse(error)

    def _text(self, statement: str) -> Any:
        """Our statements with the driver's placeholders."""
        known = self._texts.get(statement)
        if known is None:
            known = self._texts[statement] = statement.replace("?", "%s")
        return known

    def _revision(self, connection: _Connection) -> str | None:
        ((table,),) = connection.execute("SELECT to_regclass('alembic_version')::text").fetchall()
        rows = connection.execute(statements.REVISION).fetchall() if table else []
        return cast("str", rows[0][0]) if rows else None

    def _create(self) -> str:
        """The schema of an empty database, unless another host made it while this one waited; the revision."""
        with self._connect() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (UPGRADE_LOCK,))
            if stored := self._revision(connection):
                return stored
            for statement in (*schema.POSTGRES, *schema.STAMP):
                connection.execute(statement.encode())
        return schema.REVISION

    def _known_transaction_id(self) -> str | None:
        found = self._transaction_id.fetchone() if self._transaction_id is not None else None
        return cast("str", found[0]) if found else None

    def _settle(self, transaction_id: str, error: psycopg.Error) -> None:
        """A commit was asked for and not confirmed: ask the server what became of it."""
        until = time.monotonic() + self._lock_wait_s
        while (status := self._status_of(transaction_id)) not in ("committed", "aborted"):
            if time.monotonic() >= until:
                hint = "reconnect, then look whether the newest records are there"
                raise StorageUnavailable("a commit was not confirmed", hint=hint, outcome="unknown") from error
            time.sleep(SETTLE_PAUSE_S)  # the server has not noticed yet that it was left alone, or is not there
        if status == "aborted":
            _refuse(error)

    def _status_of(self, transaction_id: str) -> str | None:
        """What the server says of a transaction; nothing where it cannot be asked now."""
        try:
            statement = "SELECT pg_xact_status(%s::xid8)"
            ((status,),) = self._connected().execute(statement, (transaction_id,)).fetchall()
        except (psycopg.Error, HostError):
            return None
        return status


def postgres_store(
    url: str, *, lock_wait_s: float = LOCK_WAIT_S, alone: bool = False, kept_key: KeptKey | None = None
) -> Store:
    """The store in one PostgreSQL database. `alone`: nobody else who says so can open it to write meanwhile."""
    guard = WriterGuard(wait_s=lock_wait_s) if alone else None
    return Store(PostgresDatabase(url, lock_wait_s=lock_wait_s, guard=guard), wait_s=lock_wait_s, kept_key=kept_key)


def _is_usable(writer: _Connection) -> bool:
    """Whether a statement can be sent: a pipeline that could not be left is still waiting for answers."""
    pgconn = writer.pgconn
    return not writer.closed and pgconn.pipeline_status == PipelineStatus.OFF and pgconn.transaction_status in _QUIET


def _storable(values: Values) -> Values:
    """PostgreSQL's text cannot hold U+0000. The log's own bytes can; only projections show a replacement."""
    return [value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value for value in values]


def _refuse(error: psycopg.Error) -> NoReturn:
    if isinstance(error, _BUGS):
        raise error
    raise _translated(error) from error


def _translated(error: psycopg.Error) -> HostError:
    code = error.sqlstate
    if isinstance(error, DiskFull | OutOfMemory):
        return StorageFull("PostgreSQL has no space left", hint="free some space; writing resumes by itself")
    if isinstance(error, ProgramLimitExceeded):  # also the next time: whoever sent it is told, and nobody else
        hint = "shorten the names and ids in it"
        return InvalidRequest(f"PostgreSQL cannot keep a value of this size: {error}", hint=hint, sqlstate=code)
    if isinstance(error, IntegrityError):
        return Conflict(f"a row is there already: {error}", hint="read it and decide again", sqlstate=code)
    if isinstance(error, LockNotAvailable | DeadlockDetected):
        return StorageUnavailable("another host has locked a row", hint="try again", sqlstate=code)
    return StorageUnavailable(f"PostgreSQL cannot be used: {error}", hint="is the server up?", sqlstate=code)
