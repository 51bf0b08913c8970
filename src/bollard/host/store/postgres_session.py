"""Two parts of the PostgreSQL database: text search vectors and expressions, and the lock of the single writer.

The writer's session holds an advisory lock of its schema, and leaves a mark in `meta`. A session that reconnects takes
the lock again and checks the mark: another mark means that another writer was active in between, so this writer's
memory of the database may be stale.
"""

import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import psycopg

from bollard.host.errors import StorageUnavailable, StoreTaken
from bollard.host.store import statements
from bollard.segments import Clause, is_prefix

VECTOR_POSITIONS: Final = 256
"""Positions per word that the server stores; it numbers words up to 16383."""
VECTOR_LAST_POSITION: Final = 16_383


def expression_of(place: str | None, clauses: Sequence[Clause]) -> str:
    """The query of some clauses. The place is indexed too, so the cost depends on the conversation, not on the
    store."""
    words = [
        f"({' | '.join(_quoted(term) + (':*' if is_prefix(term) else '') for term in clause)})" for clause in clauses
    ]
    return " & ".join(words if place is None else [_quoted(_place_lexeme(place)), *words])


def _quoted(term: str) -> str:
    text = term.replace("\\", "\\\\").replace("'", "''").replace("\0", " ")
    return f"'{text}'"


def _place_lexeme(place: str) -> str:
    return f"place/{place}"  # words have no slash, so no query can contain it


def vector_of(place: str, search: str) -> str:
    """Our segmented words as a text search vector: the server's parser would split them differently."""
    places: dict[str, list[int]] = {}
    for position, word in enumerate(search.split(), start=1):
        at = places.setdefault(word, [])
        if position <= VECTOR_LAST_POSITION and len(at) < VECTOR_POSITIONS:
            at.append(position)
    lexemes = [_quoted(_place_lexeme(place))]
    for word, at in places.items():
        lexemes.append(_quoted(word) + (f":{','.join(map(str, at))}" if at else ""))
    return " ".join(lexemes)


# --- the lock of the single writer ---

POLL_S: Final = 0.02
"""Seconds between two tries to get the lock: the session of a host that was just killed needs a moment to end."""
_MARK: Final = "writer"
_CLASS: Final = 0x626F_6C77
_KEY: Final = f"{_CLASS}, hashtext(coalesce(current_schema(), ''))"
_TAKE: Final = f"SELECT pg_try_advisory_lock({_KEY})"
_TAKE_SHARED: Final = f"SELECT pg_try_advisory_lock_shared({_KEY})"
_HOLDERS: Final = (
    "SELECT l.pid, l.mode, coalesce(host(a.client_addr), 'localhost') FROM pg_locks l "  # noqa: S608 -- our own
    "LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.pid <> pg_backend_pid() "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND l.classid = {_CLASS} AND l.objid = (hashtext(coalesce(current_schema(), ''))::bigint & 4294967295)::oid"
)
_NOTICE_THE_DEAD: Final = (
    "SELECT set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false), "
    "set_config('tcp_keepalives_count', '3', false)"
)
"""With the server's default of two hours, a machine that lost its power would keep the lock that long."""
_Connection = psycopg.Connection[tuple[Any, ...]]


class _Holder(NamedTuple):
    pid: int
    mode: str
    address: str


class WriterGuard:
    """The lock of a single writer, across its connections."""

    def __init__(self, *, wait_s: float) -> None:
        self._wait_s = wait_s
        self._token = secrets.token_hex(16)
        self._pid = 0
        """The session that held the lock last."""
        self._marked = False

    def take(self, connection: _Connection) -> None:
        """Lock the database for this session. Raises `StorageUnavailable` if another session holds the lock, and
        `StoreTaken` if another one held it since the last time."""
        _locked(connection, _TAKE, self._wait_s, own_pid=self._pid)
        self._pid = connection.info.backend_pid
        connection.execute(_NOTICE_THE_DEAD)
        if self._marked and _mark_of(connection) != self._token:
            raise StoreTaken(
                "another host or command wrote to the database while this host had no connection",
                reason="database_taken",
                hint="this host stops; start it again when no other host uses the database",
            )

    def mark(self, connection: _Connection) -> None:
        """Leave this writer's mark, by which it recognises other writers."""
        connection.execute(statements.PUT_META.replace("?", "%s").encode(), (_MARK, self._token))
        self._marked = True


def hold_shared(connection: _Connection, wait_s: float) -> None:
    """Exclude single writers while this session lives. Raises `StorageUnavailable` if one is active."""
    _locked(connection, _TAKE_SHARED, wait_s, own_pid=0)


def check_unwritten(connection: _Connection) -> None:
    """Raises `StorageUnavailable` while a single writer is active: its schema must not be changed."""
    if holder := next((each for each in _holders(connection) if each.mode == "ExclusiveLock"), None):
        raise _in_use(holder)


def _locked(connection: _Connection, statement: str, wait_s: float, own_pid: int) -> None:
    until = time.monotonic() + wait_s
    while not connection.execute(statement.encode()).fetchall()[0][0]:
        holder = next(iter(_holders(connection)), None)
        if holder is not None and holder.pid == own_pid:
            with suppress(psycopg.Error):  # our own lost session: the server has not noticed yet
                connection.execute("SELECT pg_terminate_backend(%s)", (own_pid,))
        if time.monotonic() >= until:
            raise _in_use(holder)
        time.sleep(POLL_S)


def _holders(connection: _Connection) -> list[_Holder]:
    return [_Holder(*row) for row in connection.execute(_HOLDERS.encode()).fetchall()]


def _mark_of(connection: _Connection) -> str | None:
    rows = connection.execute(statements.META.replace("?", "%s").encode(), (_MARK,)).fetchall()
    return rows[0][0] if rows else None


def _in_use(holder: _Holder | None) -> StorageUnavailable:
    session, address = ("?", "?") if holder is None else (str(holder.pid), holder.address)
    return StorageUnavailable(
        f"another host or command writes to this database: session {session} from {address}",
        reason="database_in_use",
        hint="stop it first, or name another database",
        field="database",
        session=session,
        address=address,
    )
