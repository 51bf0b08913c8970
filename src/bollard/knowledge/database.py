"""What SQLite and PostgreSQL do differently for knowledge, as a boundary. Statements use `?` for parameters.

One transaction is written at a time, by whichever thread holds `writing`; any thread may read what is committed.
Drivers' errors become `OutOfService`.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

__all__ = ["Database", "Row", "Values"]

Values = Sequence[object]
Row = tuple[Any, ...]


class Database(Protocol):
    """The tables of one installation. Opened by one process at a time."""

    def open(self) -> None:
        """Make the tables, or find them. Raises `OutOfService`, also when a newer version made them."""
        ...

    def close(self) -> None: ...

    # --- writing ---

    def writing(self) -> AbstractContextManager[None]:
        """One transaction: committed at its end, rolled back when something is raised inside."""
        ...

    def run(self, statement: str, values: Values = ()) -> None: ...

    def run_many(self, statement: str, values: Iterable[Values]) -> None: ...

    def fetch(self, statement: str, values: Values = ()) -> list[Row]:
        """Rows as the transaction sees them."""
        ...

    # --- reading ---

    def read(self, statement: str, values: Values = ()) -> list[Row]:
        """Rows of what is committed."""
        ...

    def among(self, column: str) -> str:
        """A condition: the column is one of a list of numbers, which is one parameter made by `listed`."""
        ...

    def listed(self, numbers: Iterable[int]) -> object: ...

    # --- chunks, and the index by words of each base; inside a transaction ---

    def make_words(self, base: int) -> None: ...

    def drop_words(self, base: int) -> None: ...

    def add_chunks(self, base: int, rows: Sequence[Row], words: Sequence[str]) -> None:
        """Rows with the columns of `CHUNK_COLUMNS`, each with its words."""
        ...

    def forget_words(self, base: int, rows: Sequence[tuple[int, str]]) -> None:
        """Chunks by their number, with the words that they were added with."""
        ...

    # --- searching, on what is committed ---

    def frequency(self, base: int, term: str) -> int:
        """In how many chunks a word is. Where that is more than a question may weigh (`MATCHES`), how many more does
        not matter."""
        ...

    def search(
        self, base: int, terms: Sequence[str], *, every: bool, limit: int, documents: Sequence[int] | None
    ) -> list[int]:
        """Numbers of chunks that hold all of the terms, or one of them, best first; of these documents where given."""
        ...

    # --- clearing away, outside of a transaction ---

    def purge(self, base: int) -> bool:
        """One step of making room where something was deleted, until no file holds it any more. Whether that is all."""
        ...

    def settle(self) -> bool:
        """Have what was written in the main file, and what was deleted in none. Whether that could be done now."""
        ...
