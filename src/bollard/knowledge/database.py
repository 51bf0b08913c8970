"""The interface of both knowledge databases, SQLite and PostgreSQL. Statements use `?` for parameters.

One transaction runs at a time, in the thread that holds `writing`; any thread may read committed data. Errors of the
driver become `OutOfService`.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from bollard.knowledge.errors import OutOfService

Values = Sequence[object]
Row = tuple[Any, ...]


class Database(Protocol):
    """The tables of one installation. Opened by one process at a time."""

    def open(self) -> None:
        """Open or create the tables. Raises `OutOfService`, also if a newer version created them."""
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
        """Committed rows."""
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

    # --- searching, on committed data ---

    def frequency(self, base: int, term: str) -> int:
        """The number of chunks that contain a word. Numbers above `MATCHES` may be too small."""
        ...

    def search(
        self, base: int, terms: Sequence[str], *, every: bool, limit: int, documents: Sequence[int] | None
    ) -> list[int]:
        """The numbers of the chunks that contain all of the terms, or any of them, best first; only of `documents` if
        given."""
        ...

    # --- erasing, outside of a transaction ---

    def purge(self, base: int) -> bool:
        """One step of erasing deleted data from the files. Returns whether it is complete."""
        ...

    def settle(self) -> bool:
        """Move written data to the main file and deleted data out of all files. Returns whether that was possible."""
        ...


def upgrade_schema(database: Database) -> None:
    """Upgrade tables of an earlier version. Called by `open` if the tables exist. Raises `OutOfService` for tables of a
    newer version."""
    found = database.fetch("SELECT value FROM knowledge_meta WHERE name = 'schema'")
    if not found:
        return
    version = int(found[0][0])
    if version > SCHEMA:
        raise OutOfService(
            "a newer version of Bollard created the knowledge tables",
            hint="start that version or a newer one",
            reason="schema_too_new",
        )
    if version < SCHEMA:
        with database.writing():
            for upgrade in _UPGRADES[version - 1 :]:
                database.run(upgrade)
            database.run("UPDATE knowledge_meta SET value = ? WHERE name = 'schema'", (str(SCHEMA),))


# --- schema of both databases; the word index of a base is created with the base ---


_UPGRADES: Final = ("ALTER TABLE knowledge_documents ADD COLUMN problem TEXT",)
"""The statement that makes version n + 1 of version n, for n = 1, 2, …"""
SCHEMA: Final = len(_UPGRADES) + 1
"""Stored in the tables; a larger one is refused. Increase it also when `bollard.segments` splits words differently."""

CHUNK_COLUMNS: Final = "number, document, first_character, last_character, page, headings, body"

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS knowledge_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS knowledge_bases (
        number BIGINT PRIMARY KEY,
        workspace TEXT NOT NULL,
        kb_id TEXT NOT NULL,
        embedding TEXT NOT NULL,
        chunk_tokens BIGINT NOT NULL,
        overlap_tokens BIGINT NOT NULL,
        purge BIGINT NOT NULL DEFAULT 0,
        UNIQUE (workspace, kb_id))""",
    """CREATE TABLE IF NOT EXISTS knowledge_documents (
        number BIGINT PRIMARY KEY,
        base BIGINT NOT NULL,
        document_id TEXT NOT NULL,
        name TEXT NOT NULL,
        mime_type TEXT NOT NULL,
        size_bytes BIGINT NOT NULL,
        sha256 TEXT NOT NULL,
        status TEXT NOT NULL,
        chunks BIGINT NOT NULL DEFAULT 0,
        done_chunks BIGINT NOT NULL DEFAULT 0,
        error TEXT,
        problem TEXT,
        source TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_ms BIGINT NOT NULL,
        updated_ms BIGINT NOT NULL,
        attempts BIGINT NOT NULL DEFAULT 0,
        UNIQUE (base, document_id))""",
    "CREATE INDEX IF NOT EXISTS knowledge_documents_status ON knowledge_documents (status, number)",
    "CREATE TABLE IF NOT EXISTS knowledge_contents (document BIGINT PRIMARY KEY, body {bytes} NOT NULL)",
    """CREATE TABLE IF NOT EXISTS knowledge_chunks (
        number {key},
        document BIGINT NOT NULL,
        first_character BIGINT NOT NULL,
        last_character BIGINT NOT NULL,
        page BIGINT,
        headings TEXT NOT NULL,
        body TEXT NOT NULL{words})""",
    "CREATE INDEX IF NOT EXISTS knowledge_chunks_document ON knowledge_chunks (document, number)",
    """CREATE TABLE IF NOT EXISTS knowledge_vectors (
        base BIGINT NOT NULL,
        first_chunk BIGINT NOT NULL,
        document BIGINT NOT NULL,
        chunks BIGINT NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (base, first_chunk))""",
    "CREATE INDEX IF NOT EXISTS knowledge_vectors_document ON knowledge_vectors (document)",
)
"""The vectors of a batch share a row, so that a base of 100 000 chunks has a few hundred rows."""
