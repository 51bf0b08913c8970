"""Knowledge in its own SQLite file beside that of the host, because two writers of one file would wait for each other.

The word index is an FTS5 table for each base, without a copy of the text. SQLite overwrites deleted rows
(`secure_delete`); `purge` rewrites the index to remove deleted words.
"""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from bollard.knowledge.database import CHUNK_COLUMNS, SCHEMA, TABLES, Row, Values, upgrade_schema
from bollard.knowledge.errors import OutOfService
from bollard.knowledge.limits import LOCK_WAIT_S, PURGE_PAGES
from bollard.segments import is_prefix

_POLL_S: Final = 0.02
_PAGE_CACHE_KIB: Final = 16_384
_SETTINGS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=NORMAL",
    "PRAGMA secure_delete=ON",
    f"PRAGMA cache_size=-{_PAGE_CACHE_KIB}",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA journal_size_limit=67108864",
)
_MERGE_ALL: Final = -16
"""FTS5 merge command that merges all segments of an index."""


class SqliteKnowledge:
    """`knowledge.sqlite` in a data directory."""

    def __init__(self, data: Path) -> None:
        self._path = data / "knowledge.sqlite"
        self._lock_path = data / "knowledge.lock"
        self._lock = threading.Lock()
        self._listing = threading.Lock()
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._merging: set[int] = set()

    def open(self) -> None:
        self._alone = _locked(self._lock_path)
        self.close_to_others()
        with _translated():
            self._writer = self._connect()
            if self.fetch("SELECT 1 FROM sqlite_master WHERE name = 'knowledge_meta'"):
                upgrade_schema(self)
            for statement in TABLES:
                self._writer.execute(statement.format(bytes="BLOB", key="INTEGER PRIMARY KEY", words=""))
            self._writer.execute("INSERT OR IGNORE INTO knowledge_meta VALUES ('schema', ?)", (str(SCHEMA),))

    def close_to_others(self) -> None:
        """Make the file readable by its owner only. SQLite creates its companion files with the same mode."""
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for path in (self._path, *self._path.parent.glob(f"{self._path.name}-*")):
            if path.stat().st_mode & 0o777 != 0o600:
                path.chmod(0o600)

    def close(self) -> None:
        with self._lock, self._listing:
            for connection in self._opened:
                connection.close()
            self._opened.clear()
        os.close(self._alone)

    # --- writing ---

    @contextmanager
    def writing(self) -> Generator[None]:
        with self._lock, _translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._writer.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # the error may have rolled it back
                    self._writer.execute("ROLLBACK")
                raise

    def run(self, statement: str, values: Values = ()) -> None:
        self._writer.execute(statement, values)

    def run_many(self, statement: str, values: Iterable[Values]) -> None:
        self._writer.executemany(statement, values)

    def fetch(self, statement: str, values: Values = ()) -> list[Row]:
        return self._writer.execute(statement, values).fetchall()

    # --- reading ---

    def read(self, statement: str, values: Values = ()) -> list[Row]:
        with _translated():
            return self._reader().execute(statement, values).fetchall()

    def among(self, column: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 -- our own names

    def listed(self, numbers: Iterable[int]) -> object:
        return msgspec.json.encode([*numbers]).decode()

    # --- chunks, and the index by words ---

    def make_words(self, base: int) -> None:
        table = _table(base)
        # `segment` has split the words; the tokenizer must only split at spaces.
        self.run(
            f"CREATE VIRTUAL TABLE {table} USING fts5(words, content='', tokenize=\"unicode61 remove_diacritics 0\")"
        )
        self.run(f"CREATE VIRTUAL TABLE {table}_vocabulary USING fts5vocab({table}, 'row')")

    def drop_words(self, base: int) -> None:
        self.run(f"DROP TABLE IF EXISTS {_table(base)}_vocabulary")
        self.run(f"DROP TABLE IF EXISTS {_table(base)}")

    def add_chunks(self, base: int, rows: Sequence[Row], words: Sequence[str]) -> None:
        self.run_many(f"INSERT INTO knowledge_chunks ({CHUNK_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
        numbered = [(row[0], each) for row, each in zip(rows, words, strict=True)]
        self.run_many(f"INSERT INTO {_table(base)} (rowid, words) VALUES (?, ?)", numbered)  # noqa: S608 -- our own name

    def forget_words(self, base: int, rows: Sequence[tuple[int, str]]) -> None:
        table = _table(base)
        self.run_many(f"INSERT INTO {table} ({table}, rowid, words) VALUES ('delete', ?, ?)", rows)  # noqa: S608

    # --- searching ---

    def frequency(self, base: int, term: str) -> int:
        if is_prefix(term):
            found = self.read(
                f"SELECT sum(doc) FROM {_table(base)}_vocabulary WHERE term >= ? AND term < ?",  # noqa: S608
                (term, term + "\U0010ffff"),
            )
        else:
            found = self.read(f"SELECT doc FROM {_table(base)}_vocabulary WHERE term = ?", (term,))  # noqa: S608
        return found[0][0] or 0 if found else 0

    def search(
        self, base: int, terms: Sequence[str], *, every: bool, limit: int, documents: Sequence[int] | None
    ) -> list[int]:
        table = _table(base)
        wanted = (" AND " if every else " OR ").join(_quoted(term) for term in terms)
        if documents is None:
            statement = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rank LIMIT ?"  # noqa: S608
            return [row[0] for row in self.read(statement, (wanted, limit))]
        statement = (
            f"SELECT {table}.rowid FROM {table} JOIN knowledge_chunks AS chunk ON chunk.number = {table}.rowid "  # noqa: S608
            f"WHERE {table} MATCH ? AND {self.among('chunk.document')} ORDER BY {table}.rank LIMIT ?"
        )
        return [row[0] for row in self.read(statement, (wanted, self.listed(documents), limit))]

    # --- clearing away ---

    def purge(self, base: int) -> bool:
        table = _table(base)
        with self.writing():
            if not self.fetch("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)):
                return True
            pages = PURGE_PAGES if base in self._merging else _MERGE_ALL
            before = self._writer.total_changes
            self.run(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))  # noqa: S608
            done = base in self._merging and self._writer.total_changes - before < 2  # as FTS5 tells
        self._merging.discard(base) if done else self._merging.add(base)
        return done

    def settle(self) -> bool:
        with self._lock, _translated():
            ((busy, _, _),) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return not busy

    # --- connections ---

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=LOCK_WAIT_S)
        with self._listing:
            self._opened.append(connection)
        for setting in _SETTINGS:
            connection.execute(setting)
        return connection

    def _reader(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if found is None:
            found = self._readers.connection = self._connect()
        return found


def _table(base: int) -> str:
    return f"knowledge_words_{base:d}"


def _quoted(term: str) -> str:
    escaped = term.replace('"', '""').replace("\0", " ")
    return f'"{escaped}"*' if is_prefix(term) else f'"{escaped}"'


def _locked(path: Path) -> int:
    """Take the lock of the data directory. Waits a moment for a process that was just killed."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                message = "another process uses the knowledge file of this data directory"
                hint = "stop the other host, or use another directory"
                raise OutOfService(message, hint=hint, reason="data_in_use") from None
            time.sleep(_POLL_S)
        else:
            return descriptor


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OutOfService(
            f"the knowledge file failed: {error}",
            hint="check the disk, its space and its permissions",
            reason="file_failed",
            problem=str(error),
        ) from error
