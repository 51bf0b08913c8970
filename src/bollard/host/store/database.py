"""The boundary between the SQL store and its two databases, SQLite and PostgreSQL. Statements use `?` for parameters.

A database has one writer, used by one thread at a time between `begin` and `commit`, and readers for any thread. It
translates the errors of its driver into `StorageFull`, `StorageUnavailable` and `Conflict`.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final, Generic, Protocol, TypeVar, cast

import msgspec

from bollard.host.errors import Conflict, StorageUnavailable
from bollard.host.store.rows import KeptRow, OutboxRow, RecordRow, TranscriptRow
from bollard.segments import Clause

Values = Sequence[object]
"""Parameters of one statement."""


class Database(Protocol):
    """One SQL database."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def now_ms(self) -> int: ...

    # --- the writer ---

    def begin(self) -> None: ...

    def commit(self) -> None:
        """Commit the transaction. If this raises, it was rolled back."""
        ...

    def rollback(self) -> None:
        """Roll back. Never raises: the writer is usable again, or the next `begin` reconnects."""
        ...

    def fetch(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        """Read rows in the writer's transaction."""
        ...

    def run(self, statement: str, values: Values = ()) -> None:
        """Run a statement without a result. It may be sent, and fail, together with others."""
        ...

    def run_many(self, statement: str, values: Iterable[Values]) -> None: ...

    def expect_ids(self, count: int) -> None:
        """Announce how many ids this transaction may reserve, so that a server delivers them with the next query."""
        ...

    def reserve_ids(self, count: int) -> int:
        """Reserve `count` consecutive record ids, larger than all before; returns the first."""
        ...

    def skip_ids(self, last: int) -> None:
        """Never reserve ids up to `last`."""
        ...

    # --- readers ---

    def read(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        """Read committed rows."""
        ...

    # --- dialect ---

    row_lock: ClassVar[str]
    """The suffix of a select that locks its rows until the commit."""

    def among(self, column: str) -> str:
        """A condition: the column is in a list, which is one parameter made by `listed`."""
        ...

    def listed(self, values: Iterable[str]) -> object: ...

    def byte_length(self, column: str) -> str:
        """An expression: the length of a text or of bytes, in bytes."""
        ...

    def ensure_index(self, name: str) -> None:
        """Create an index of retention, if needed, in the writer's transaction."""
        ...

    put_transcript: ClassVar[str]

    def transcript_values(self, row: TranscriptRow) -> Values: ...

    def clear(self, tables: Sequence[str]) -> None:
        """Empty these tables in the writer's transaction."""
        ...

    search: ClassVar[str]
    """The full-text query, best first, then newest. Parameters: expression, place, after, before, those of
    `{narrowed}`, limit."""

    workspace_search: ClassVar[str]
    """The full-text query in all conversations of a workspace, newest first. Parameters: expression, workspace, before,
    limit."""

    def search_expression(self, place: str | None, clauses: Sequence[Clause]) -> str:
        """The expression of the full-text queries, for one place or for all."""
        ...

    from_events_by_source: ClassVar[str]
    """The `events` table for a query by source and ids: without statistics a planner might scan the workspace."""

    from_unfinished: ClassVar[str]
    """The `runs` table for a query of unfinished runs."""

    saved_thing: ClassVar[str]
    """The index expression that names the resource of a `policy.changed` record."""


class _Closable(Protocol):
    def close(self) -> None: ...


_Connection = TypeVar("_Connection", bound=_Closable)


class ConnectionPool(Generic[_Connection]):
    """The connections that readers share: bounded, opened on demand and reused. A connection that raised is closed."""

    def __init__(self, connect: Callable[[], _Connection], *, size: int, wait_s: float) -> None:
        self._connect = connect
        self._idle: list[_Connection] = []
        self._free = threading.BoundedSemaphore(size)
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def use(self) -> Generator[_Connection]:
        if not self._free.acquire(timeout=self._wait_s):
            raise StorageUnavailable("all read connections are busy", reason="readers_busy", hint="retry in a moment")
        try:
            connection = self._take()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
        finally:
            self._free.release()

    def open(self) -> None:
        with self._lock:
            self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def drop_idle(self) -> None:
        """Close the idle connections after one of them failed: they had the same server."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> _Connection:
        with self._lock:
            if self._closed:
                raise store_closed()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: _Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()


def store_closed() -> StorageUnavailable:
    return StorageUnavailable("the store is closed", reason="store_closed", hint="the host is shutting down")


def row_exists(problem: str, **details: str | None) -> Conflict:
    return Conflict(
        f"the row exists already: {problem}",
        reason="row_exists",
        hint="read it and decide again",
        problem=problem,
        **details,
    )


_Row = TypeVar("_Row", bound=msgspec.Struct)
_FLAGS: Final[dict[type[msgspec.Struct], str]] = {RecordRow: "observed", OutboxRow: "preview"}
"""Boolean columns. SQLite has no booleans, and the hash of a record distinguishes `1` from `true`."""


def build_rows(row: type[_Row], tuples: Sequence[tuple[object, ...]]) -> list[_Row]:
    """Build a row from each tuple, whose values are in the order of the row's fields."""
    names, flag = row.__struct_fields__, _FLAGS.get(row)
    if flag is None:
        return [row(**dict(zip(names, values, strict=True))) for values in tuples]
    rows: list[_Row] = []
    for values in tuples:
        fields = dict(zip(names, values, strict=True))
        fields[flag] = bool(fields[flag])
        rows.append(row(**fields))
    return rows


def kept_and_mac(values: tuple[object, ...]) -> tuple[KeptRow, bytes | None]:
    """A row of `kept`, and its HMAC in the last column."""
    (row,) = build_rows(KeptRow, [values[:-1]])
    return row, cast("bytes | None", values[-1])
