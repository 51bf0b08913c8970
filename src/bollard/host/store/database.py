"""What SQLite and PostgreSQL do differently, as a boundary beneath the SQL store. Statements use `?` for parameters.

A database has one writer, used by one thread at a time between `begin` and `commit`, and readers that any thread may
use. It translates its driver's errors into `StorageFull`, `StorageUnavailable` and `Conflict`.
"""

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import ClassVar, Generic, Protocol, TypeVar

from bollard.host.errors import StorageUnavailable
from bollard.host.store.rows import TranscriptRow

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
        """When it raises, the transaction was rolled back."""
        ...

    def rollback(self) -> None:
        """Never raises: the writer is usable again, or is made anew by the next `begin`."""
        ...

    def fetch(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        """Rows as the writer's transaction sees them."""
        ...

    def run(self, statement: str, values: Values = ()) -> None:
        """A statement whose answer nobody needs: it may travel with others, and fail with them."""
        ...

    def run_many(self, statement: str, values: Iterable[Values]) -> None: ...

    def expect_ids(self, count: int) -> None:
        """As many may be reserved in this transaction: a server is asked for them along with the next question."""
        ...

    def reserve_ids(self, count: int) -> int:
        """The first of `count` record ids in a row, larger than all before."""
        ...

    def skip_ids(self, last: int) -> None:
        """Reserve none up to `last` from now on."""
        ...

    # --- readers ---

    def read(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        """Rows of what is committed."""
        ...

    # --- what the statements say differently ---

    row_lock: ClassVar[str]
    """Ends a select whose rows stay locked until the commit."""

    def among(self, column: str) -> str:
        """A condition: the column is one of a list, which is one parameter made by `listed`."""
        ...

    def listed(self, values: Iterable[str]) -> object: ...

    def byte_length(self, column: str) -> str:
        """An expression: the bytes of a text or of bytes."""
        ...

    def ensure_index(self, name: str) -> None:
        """Inside the writer's transaction, before a statement that needs one of the indices of retention."""
        ...

    put_transcript: ClassVar[str]

    def transcript_values(self, row: TranscriptRow) -> Values: ...

    def clear(self, tables: Sequence[str]) -> None:
        """Empty these tables inside the writer's transaction."""
        ...

    search: ClassVar[str]
    """Best first, then newest. Takes: expression, place, after, before, what stands for `{narrowed}`, limit."""

    def search_expression(self, place: str, terms: Sequence[str]) -> str: ...

    from_events_by_source: ClassVar[str]
    """The `events` table for a query by source and ids: without statistics a planner may read the whole workspace."""

    from_unfinished: ClassVar[str]
    """The `runs` table for a query that only wants runs that have not ended."""

    saved_thing: ClassVar[str]
    """Which thing a `policy.changed` record is about: the expression of the index over them."""


# A few connections that readers share. Bounded: a reader waits for one, and not for ever.


class _Closable(Protocol):
    def close(self) -> None: ...


_Connection = TypeVar("_Connection", bound=_Closable)


class ConnectionPool(Generic[_Connection]):
    """Connections are made when they are first needed and kept. One that raised is not used again."""

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
            raise StorageUnavailable("every reading connection is busy", hint="try again in a moment")
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
        """One of them was found dead, and they had the same server: the next is a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> _Connection:
        with self._lock:
            if self._closed:
                raise StorageUnavailable("the store is closed", hint="the host is shutting down")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: _Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()
