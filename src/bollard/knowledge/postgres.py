"""Knowledge in its own tables of the host's PostgreSQL. One process of all hosts writes them at a time.

Each chunk has a text search vector that also contains its base as a word, so that a search reads the chunks of one base
only. `purge` vacuums deleted rows; the operator of the server decides about its write-ahead log.
"""

import os
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, LiteralString, cast

import psycopg
import psycopg.conninfo

from bollard.knowledge.database import CHUNK_COLUMNS, SCHEMA, TABLES, Row, Values, upgrade_schema
from bollard.knowledge.errors import OutOfService, WriterLost
from bollard.knowledge.limits import CONNECT_WAIT_S, LOCK_WAIT_S, MATCHES
from bollard.segments import is_prefix

_OWNER: Final = 0x626F6C6B6E6F77
"""The advisory lock of the writing process."""
_PLACES: Final = (1 << 14) - 1
"""The largest word position that PostgreSQL stores."""
_POLL_S: Final = 0.05
_SHARED: Final = ("knowledge_chunks", "knowledge_vectors", "knowledge_contents", "knowledge_documents")
_Connection = psycopg.Connection[Row]


_FILE_PARAMETERS: Final = ("sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir")
_OF_USER: Final = ".postgresql"
"""The folder of the user with certificates."""
_ONCE: Final = ("PGSERVICE", "PGSERVICEFILE", "PGPASSFILE")
"""Variables that a resolved connection does not need, and whose files cannot be read any more."""
_ROLE: Final = "SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user"
_EARLIER: Final = (
    "SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE relname = 'knowledge_meta' "
    "AND relkind = 'r' AND pg_get_userbyid(relowner) <> current_user"
)
_FOREIGN: Final = """
    SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
    AND NOT (c.relname ~ '^knowledge_' AND pg_get_userbyid(c.relowner) = current_user)
    AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
    AND (pg_has_role(c.relowner, 'MEMBER') OR CASE WHEN c.relkind = 'S'
        THEN has_sequence_privilege(c.oid, 'USAGE, SELECT, UPDATE')
        ELSE has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE')
            OR has_table_privilege(c.oid, 'DELETE, TRUNCATE, TRIGGER') END)
    ORDER BY 1 LIMIT 1"""
"""A table, view or sequence of others that the role may use, or whose owner it may become. Those of extensions are not
of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConnection:
    """A connection that needs no name server, no password file and no service file."""

    url: str
    port: int | None
    """The TCP port; `None` for a socket file."""
    files: tuple[str, ...]
    """Certificates that further connections read."""


def resolve_connection(url: str) -> ResolvedConnection:
    """Connect once, and keep the address and the password that it took. Raises `OutOfService`."""
    with translated(), psycopg.connect(url, connect_timeout=CONNECT_WAIT_S) as connection:
        taken = connection.pgconn
        parameters: dict[str, Any] = {**connection.info.get_parameters()}
        parameters |= {"host": taken.host.decode(), "port": taken.port.decode(), "dbname": taken.db.decode()}
        if taken.password:
            parameters["password"] = taken.password.decode()
        is_tcp = bool(taken.hostaddr)
        if is_tcp:
            parameters["hostaddr"] = taken.hostaddr.decode()
    for name in ("service", "passfile"):
        parameters.pop(name, None)
    for name in _ONCE:
        os.environ.pop(name, None)
    files = (*(str(parameters[name]) for name in _FILE_PARAMETERS if parameters.get(name)), str(Path.home() / _OF_USER))
    return ResolvedConnection(
        url=psycopg.conninfo.make_conninfo("", **parameters),
        port=int(parameters["port"]) if is_tcp else None,
        files=files,
    )


class PostgresKnowledge:
    """One database of a server, named by a URL."""

    def __init__(self, url: str, *, is_alone: bool = False) -> None:
        """With `is_alone` the role of the URL must have no right to a table of others."""
        self._url = url
        self._is_alone = is_alone
        self._lock = threading.Lock()
        self._listing = threading.Lock()
        self._readers = threading.local()
        self._opened: list[_Connection] = []

    def open(self) -> None:
        with translated():
            self._writer = self._connect()
            if self._is_alone:
                self._check_role()
            self._own()
            if self.fetch("SELECT to_regclass('knowledge_meta') IS NOT NULL")[0][0]:
                upgrade_schema(self)
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
            with self._lock, translated(), self._writer.transaction():
                yield
        except OutOfService as error:
            if self._writer.closed:  # not reopened here: the write lock is gone with it
                raise WriterLost(error.message, hint=error.hint, reason=error.reason, **error.details) from error
            raise

    def run(self, statement: str, values: Values = ()) -> None:
        self._writer.execute(_text(statement), _storable(values))

    def run_many(self, statement: str, values: Iterable[Values]) -> None:
        with self._writer.cursor() as cursor:
            cursor.executemany(_text(statement), map(_storable, values))

    def copy(self, statement: str, body: bytes) -> None:
        """Insert rows in the binary format of PostgreSQL."""
        with self._writer.cursor() as cursor, cursor.copy(_text(statement)) as copy:
            copy.write(body)

    def fetch(self, statement: str, values: Values = ()) -> list[Row]:
        return self._writer.execute(_text(statement), _storable(values)).fetchall()

    # --- reading ---

    def read(self, statement: str, values: Values = ()) -> list[Row]:
        with translated():
            try:
                return self._read_once(statement, values)
            except psycopg.OperationalError:  # an idle connection, closed by a restart of the server
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

    # --- chunks, and the index by words ---

    def make_words(self, base: int) -> None:
        """Nothing to do: the words are in the rows of the chunks."""

    def drop_words(self, base: int) -> None:
        """Nothing to do, as in `make_words`."""

    def add_chunks(self, base: int, rows: Sequence[Row], words: Sequence[str]) -> None:
        statement = _text(f"COPY knowledge_chunks ({CHUNK_COLUMNS}, words) FROM STDIN")
        with self._writer.cursor() as cursor, cursor.copy(statement) as copy:
            for row, each in zip(rows, words, strict=True):
                copy.write_row(_storable((*row, _vector(base, each))))

    def forget_words(self, base: int, rows: Sequence[tuple[int, str]]) -> None:
        """Nothing to do, as in `make_words`."""

    # --- searching ---

    def frequency(self, base: int, term: str) -> int:
        statement = (
            "SELECT count(*) FROM (SELECT 1 FROM knowledge_chunks WHERE words @@ CAST(? AS tsquery) LIMIT ?) AS counted"
        )
        return self.read(statement, (_query(base, [term], every=True), MATCHES + 1))[0][0]

    def search(
        self, base: int, terms: Sequence[str], *, every: bool, limit: int, documents: Sequence[int] | None
    ) -> list[int]:
        narrowed = "" if documents is None else f" AND {self.among('document')}"
        statement = (
            "SELECT number FROM knowledge_chunks, CAST(? AS tsquery) AS wanted WHERE words @@ wanted"  # noqa: S608
            f"{narrowed} ORDER BY ts_rank(words, wanted, 1) DESC, number LIMIT ?"
        )
        chosen = () if documents is None else (self.listed(documents),)
        found = self.read(statement, (_query(base, terms, every=every), *chosen, limit))
        return [row[0] for row in found]

    # --- clearing away ---

    def purge(self, base: int) -> bool:
        """Vacuum the shared tables and the vectors of the base, in one step."""
        with self._lock, translated():
            for table in (*_SHARED, vector_table(base)):
                if self.fetch("SELECT to_regclass(?) IS NOT NULL", (table,))[0][0]:
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

    def _check_role(self) -> None:
        """Raises `OutOfService` if this process could use tables of the host."""
        (role, is_super), found = self.fetch(_ROLE)[0], self.fetch(_FOREIGN)
        if not is_super and not found:
            self._check_handover(role)
            return
        what = "every table, as a superuser" if is_super else f"{found[0][0]}, a table of others"
        raise OutOfService(
            f"the role {role} of knowledge_database can use {what}",
            hint="give it a role that owns only the knowledge tables, see docs/guides/operate.md",
            reason="role_too_strong" if is_super else "role_reaches_others",
            role=role,
            table="" if is_super else found[0][0],
        )

    def _check_handover(self, role: str) -> None:
        """Raises `OutOfService` if the documents are in tables that another role owns: this one would begin empty."""
        if owners := self.fetch(_EARLIER):
            raise OutOfService(
                f"the knowledge tables belong to the role {owners[0][0]}, not to {role}",
                hint="hand them over, see docs/guides/operate.md",
                reason="tables_of_another_role",
                role=role,
                owner=owners[0][0],
            )

    def _own(self) -> None:
        until = time.monotonic() + LOCK_WAIT_S
        while not self.fetch("SELECT pg_try_advisory_lock(?)", (_OWNER,))[0][0]:
            if time.monotonic() > until:
                message = "another host uses the knowledge tables of this database"
                raise OutOfService(message, hint="use that host, or stop it", reason="database_in_use")
            time.sleep(_POLL_S)


def vector_table(base: int) -> str:
    """Table of the vectors of one base, if the server searches them."""
    return f"knowledge_vectors_{base:d}"


def _text(statement: str) -> LiteralString:
    return cast("LiteralString", statement.replace("?", "%s"))


def _storable(values: Values) -> Values:
    """Remove NUL, which PostgreSQL does not store in text."""
    return [value.replace("\0", "") if isinstance(value, str) else value for value in values]


def _base_word(base: int) -> str:
    return f"base/{base:d}"  # no word contains a slash, so no question can match it


def _quoted(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''").replace("\0", " ")
    return f"'{escaped}'"


def _query(base: int, terms: Sequence[str], *, every: bool) -> str:
    """Query for chunks of one base that contain all of the words, or any of them."""
    wanted = (" & " if every else " | ").join(_quoted(term) + (":*" if is_prefix(term) else "") for term in terms)
    return f"{_quoted(_base_word(base))} & ({wanted})"


def _vector(base: int, words: str) -> str:
    """Our own words as a text search vector, because the server's parser would split them differently. Repeated words
    keep all their positions, so that their frequency counts."""
    quoted = words.replace("\\", "\\\\").replace("'", "''").split()[:_PLACES]
    places = " ".join([f"'{word}':{place}" for place, word in enumerate(quoted, start=1)])
    return f"{_quoted(_base_word(base))} {places}"


@contextmanager
def translated() -> Generator[None]:
    """Translate errors of the driver."""
    try:
        yield
    except psycopg.Error as error:
        raise OutOfService(
            f"the knowledge database failed: {type(error).__name__}",
            hint="check the database server",
            reason="database_failed",
            problem=type(error).__name__,
        ) from error
