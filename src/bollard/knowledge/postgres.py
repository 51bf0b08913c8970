"""Knowledge in the host's PostgreSQL, in tables of its own. One process of all hosts on it writes them at a time.

Words are a text search vector of each chunk, with its base as one more word, so that a common word costs what its base
holds. What is deleted is vacuumed away; what the server keeps in its log of changes is its operator's business.
"""

import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final, LiteralString, cast

import psycopg

from bollard.knowledge.database import Row, Values
from bollard.knowledge.errors import OutOfService, WriterLost
from bollard.knowledge.limits import CONNECT_WAIT_S, LOCK_WAIT_S
from bollard.knowledge.schema import SCHEMA, TABLES
from bollard.segments import is_prefix

__all__ = ["PostgresKnowledge"]

_OWNER: Final = 0x626F6C6B6E6F77
"""The lock that says who writes."""
_POSITIONS: Final = 8
"""Places of one word that are kept: how often it is there counts, not where."""
_POLL_S: Final = 0.05
_Connection = psycopg.Connection[Row]


class PostgresKnowledge:
    """One database of a server, named by a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._listing = threading.Lock()
        self._readers = threading.local()
        self._opened: list[_Connection] = []

    def open(self) -> None:
        with _translated():
            self._writer = self._connect()
            self._own()
            self._check_version()
            for statement in TABLES:
                words = ", words TSVECTOR"
                self.run(statement.format(bytes="BYTEA", key="BIGINT PRIMARY KEY", words=words))
            self.run("CREATE INDEX IF NOT EXISTS knowledge_chunks_words ON knowledge_chunks USING gin (words)")
            self.run("INSERT INTO knowledge_meta VALUES ('schema', ?) ON CONFLICT DO NOTHING", (str(SCHEMA),))

    def close(self) -> None:
        with self._lock, self._listing:
            for connection in self._opened:
                connection.close()
            self._opened.clear()

    # --- writing ---

    @contextmanager
    def writing(self) -> Generator[None]:
        try:
            with self._lock, _translated(), self._writer.transaction():
                yield
        except OutOfService as error:
            if self._writer.closed:  # and not made anew here: the lock that says who writes went with it
                raise WriterLost(error.message, hint=error.hint) from error
            raise

    def run(self, statement: str, values: Values = ()) -> None:
        self._writer.execute(_text(statement), _storable(values))

    def run_many(self, statement: str, values: Iterable[Values]) -> None:
        with self._writer.cursor() as cursor:
            cursor.executemany(_text(statement), map(_storable, values))

    def fetch(self, statement: str, values: Values = ()) -> list[Row]:
        return self._writer.execute(_text(statement), _storable(values)).fetchall()

    # --- reading ---

    def read(self, statement: str, values: Values = ()) -> list[Row]:
        with _translated():
            try:
                return self._read_once(statement, values)
            except psycopg.OperationalError:  # it lay idle, and died with the server that it was made to
                self._readers.connection = None
                return self._read_once(statement, values)

    def _read_once(self, statement: str, values: Values) -> list[Row]:
        found: _Connection | None = getattr(self._readers, "connection", None)
        if found is None:
            found = self._readers.connection = self._connect()
        return found.execute(_text(statement), _storable(values), binary=True).fetchall()

    def among(self, column: str) -> str:
        return f"{column} = ANY(?)"

    def listed(self, numbers: Iterable[int]) -> object:
        return [*numbers]

    # --- the index by words ---

    def make_words(self, base: int) -> None:
        """Chunks have their words with them."""

    def drop_words(self, base: int) -> None:
        """They go with the chunks."""

    def add_words(self, base: int, rows: Sequence[tuple[int, str]]) -> None:
        self.run_many(
            "UPDATE knowledge_chunks SET words = CAST(? AS tsvector) WHERE number = ?",
            [(_vector(base, words), number) for number, words in rows],
        )

    def forget_words(self, base: int, rows: Sequence[tuple[int, str]]) -> None:
        """They go with the chunks."""

    # --- searching ---

    def frequency(self, base: int, term: str) -> int | None:
        del base, term  # counting would read every chunk that has it

    def search(
        self, base: int, terms: Sequence[str], *, every: bool, limit: int, documents: Sequence[int] | None
    ) -> list[int]:
        wanted = (" & " if every else " | ").join(_quoted(term) + (":*" if is_prefix(term) else "") for term in terms)
        narrowed = "" if documents is None else f" AND {self.among('document')}"
        statement = (
            "SELECT number FROM knowledge_chunks, CAST(? AS tsquery) AS wanted WHERE words @@ wanted"  # noqa: S608
            f"{narrowed} ORDER BY ts_rank(words, wanted, 1) DESC, number LIMIT ?"
        )
        chosen = () if documents is None else (self.listed(documents),)
        found = self.read(statement, (f"{_quoted(_base_word(base))} & ({wanted})", *chosen, limit))
        return [row[0] for row in found]

    # --- clearing away ---

    def purge(self, base: int) -> bool:
        del base  # the tables are shared
        with self._lock, _translated():
            for table in ("knowledge_chunks", "knowledge_vectors", "knowledge_contents", "knowledge_documents"):
                self.run(f"VACUUM {table}")
        return True

    def settle(self) -> bool:
        return True  # the server does that by itself

    # --- connections ---

    def _connect(self) -> _Connection:
        connection = psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_WAIT_S)
        with self._listing:
            self._opened.append(connection)
        return connection

    def _own(self) -> None:
        until = time.monotonic() + LOCK_WAIT_S
        while not self.fetch("SELECT pg_try_advisory_lock(?)", (_OWNER,))[0][0]:
            if time.monotonic() > until:
                message = "another host's process writes the knowledge of this database"
                raise OutOfService(message, hint="ask that host, or stop it")
            time.sleep(_POLL_S)

    def _check_version(self) -> None:
        if self.fetch("SELECT to_regclass('knowledge_meta') IS NULL")[0][0]:
            return
        found = self.fetch("SELECT value FROM knowledge_meta WHERE name = 'schema'")
        if found and int(found[0][0]) > SCHEMA:
            raise OutOfService(
                "the tables of knowledge were made by a newer version of Bollard",
                hint="start that version, or a newer one",
            )


def _text(statement: str) -> LiteralString:
    return cast("LiteralString", statement.replace("?", "%s"))


def _storable(values: Values) -> Values:
    """PostgreSQL keeps no zero in a text."""
    return [value.replace("\0", "") if isinstance(value, str) else value for value in values]


def _base_word(base: int) -> str:
    return f"base/{base:d}"  # no word has a slash, so nobody can ask for it


def _quoted(term: str) -> str:
    said = term.replace("\\", "\\\\").replace("'", "''").replace("\0", " ")
    return f"'{said}'"


def _vector(base: int, words: str) -> str:
    """Our own words as a text search vector: the server's parser would cut them its own way."""
    places: dict[str, list[int]] = {}
    for position, word in enumerate(words.split()[: (1 << 14) - 1], start=1):
        at = places.setdefault(word, [])
        if len(at) < _POSITIONS:
            at.append(position)
    lexemes = [_quoted(_base_word(base))]
    lexemes += [f"{_quoted(word)}:{','.join(map(str, at))}" for word, at in places.items()]
    return " ".join(lexemes)


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise OutOfService(
            f"the database of knowledge cannot be used: {type(error).__name__}", hint="look at the server"
        ) from error
