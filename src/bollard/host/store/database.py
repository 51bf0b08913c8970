"""What SQLite and PostgreSQL do differently, as a boundary beneath the SQL store. Statements use `?` for parameters.

A database has one writer, used by one thread at a time between `begin` and `commit`, and readers that any thread may
use. It translates its driver's errors into `StorageFull`, `StorageUnavailable` and `Conflict`.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from bollard.host.store.rows import TranscriptRow

__all__ = ["Database", "Values"]

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
