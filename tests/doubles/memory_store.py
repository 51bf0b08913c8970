"""The SQL store on a SQLite database in memory. Nothing outlives the object."""

import functools
import sqlite3
import threading
import weakref
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from bollard.host.clock import Clock
from bollard.host.store.database import Values
from bollard.host.store.migrations import schema
from bollard.host.store.sqlite import SqliteDatabase
from bollard.host.store.store import Store
from bollard.host.store.transaction import WriteTransaction


class MemoryStore(Store):
    """Reads and commits run on the calling thread, one at a time. The store is open from the start; `close` keeps its
    rows, so that a test can open it again."""

    def __init__(self, clock: Clock | None = None) -> None:
        database = _MemoryDatabase(clock)
        super().__init__(database)
        self._lock = database.lock

    @contextmanager
    def write(self) -> Generator[WriteTransaction]:
        with self._lock, super().write() as transaction:
            yield transaction


class _MemoryDatabase(SqliteDatabase):
    """Readers share the writer's connection: `lock` keeps them out of a transaction that another thread has begun."""

    def __init__(self, clock: Clock | None) -> None:
        super().__init__(Path(":memory:"), clock=clock)
        self.lock = threading.RLock()
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False, cached_statements=256)
        connection.deserialize(_empty_database())
        self._writer = connection
        weakref.finalize(self, connection.close)

    def open(self) -> None: ...

    def close(self) -> None: ...

    def begin(self) -> None:
        """Ids of a transaction that was rolled back are not reserved again. PostgreSQL leaves the same gaps."""
        reserved = self._reserved
        super().begin()
        self._reserved = reserved

    def read(self, statement: str, values: Values = ()) -> list[tuple[object, ...]]:
        with self.lock:
            return self.fetch(statement, values)


@functools.cache
def _empty_database() -> bytes:
    """The newest schema without rows. Copying it costs a tenth of running its statements."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in (*schema.SQLITE, *schema.STAMP):
            connection.execute(statement)
        return connection.serialize()
