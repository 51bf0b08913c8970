"""F17: every later change of a log is found, and its place is named.

An attacker with write access to the database and without the signing key changes one thing; the heads of the witness
are out of reach. A slice of the mutations runs here; `make chaos` runs all 10 000 (CHAOS_MUTATIONS, CHAOS_SEED).
"""

import os
import random
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import psycopg
import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.audit.heads import head_line
from bollard.host.audit.verification import LogReport
from bollard.host.audit.witness_sinks import WitnessFile
from bollard.host.backup.log_check import check_log, read_witnesses
from bollard.host.backup.table_source import open_snapshot
from bollard.host.log.chain import Chains, signed_head
from bollard.host.log.records import NewRecord
from bollard.host.store.postgres import postgres_store
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.host.store.sqlite import sqlite_store
from bollard.host.store.store import Store
from bollard.trust import Header, genesis, link, sha256_of, sign_head
from bollard.trust.keys import SigningKey

SEED = int(os.environ.get("CHAOS_SEED", "1"))
MUTATIONS = int(os.environ.get("CHAOS_MUTATIONS", "500"))
"""On SQLite; a twentieth of them on PostgreSQL."""
KEY = SigningKey(b"h" * 32)
STRANGER = SigningKey(b"s" * 32)
KEYS = {KEY.verify_key.key_id: KEY.verify_key}
COLUMNS = RecordRow.__struct_fields__
APART = 10
"""Between two ids: space for inserted records."""


@dataclass(frozen=True)
class Written:
    """A log as it was written: three starts of a host, two workspaces."""

    rows: list[RecordRow]
    heads: list[HeadRow]

    @property
    def chains(self) -> dict[tuple[str, str], list[RecordRow]]:
        found: dict[tuple[str, str], list[RecordRow]] = defaultdict(list)
        for row in self.rows:
            found[row.workspace, row.chain].append(row)
        return found

    def head_after(self, row: RecordRow) -> HeadRow:
        of_chain = [head for head in self.heads if (head.workspace, head.chain) == (row.workspace, row.chain)]
        return min((head for head in of_chain if head.position >= row.position), key=lambda head: head.position)

    def witnessed(self) -> bytes:
        """The newest head of each chain, as the witness has it after an orderly end."""
        newest = {(head.workspace, head.chain): head for head in sorted(self.heads, key=lambda head: head.position)}
        return b"".join(head_line(head, closed=True) for head in newest.values())


def written() -> Written:
    dice, rows, heads = random.Random(7), list[RecordRow](), list[HeadRow]()
    kinds = ("run.created", "api.called", "message.completed", "run.ended", "policy.changed", "action.started")
    for start in ("start-1", "start-2", "start-3"):
        chains = Chains(start, KEY, ManualClock(), every_records=20, every_s=1e9)
        for _ in range(10):
            new = [
                NewRecord(
                    workspace=dice.choice(("default", "default", "other")),
                    type=dice.choice(kinds),
                    data=b'{"said":%d}' % dice.randrange(10**9),
                    created_ms=1_790_000_000_000 + len(rows),
                    run_id=f"run_{dice.randrange(9)}" if dice.random() < 0.7 else None,
                    seq=dice.randrange(1, 1_000_000),
                    epoch=1,
                    observed=dice.random() < 0.8,
                )
                for _ in range(7)
            ]
            rows += chains.chain(new, len(rows) + 1)
            heads += chains.due_heads()
        heads += chains.due_heads(closing=True)
    return Written([msgspec.structs.replace(row, id=row.id * APART) for row in rows], heads)


class Database(Protocol):
    """A database that holds the log, and can be reset."""

    def run(self, statement: str, *values: object) -> None: ...

    def report(self) -> LogReport: ...

    def mend(self) -> None: ...


def fill(store: Store, log: Written) -> None:
    store.open()
    with store.write() as transaction:
        transaction.add_records(log.rows)
        for head in log.heads:
            transaction.add_head(head)
    store.close()


def checked(database: str, data: Path) -> LogReport:
    snapshot = open_snapshot(database, data)
    try:
        return check_log(snapshot, read_witnesses(KEYS, [WitnessFile(data / "heads.jsonl")])).report
    finally:
        snapshot.close()


class Sqlite:
    def __init__(self, folder: Path, log: Written) -> None:
        self._folder, self._good = folder, folder / "good.db"
        fill(sqlite_store(self._good), log)
        with sqlite3.connect(self._good) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("DROP INDEX records_of_chain")  # who can write the file can do that too
            connection.execute("DROP INDEX records_of_run")
        connection.close()
        (folder / "heads.jsonl").write_bytes(log.witnessed())
        self.mend()

    def run(self, statement: str, *values: object) -> None:
        self._connection.execute(statement, values)

    def report(self) -> LogReport:
        self._connection.commit()
        return checked("", self._folder)

    def mend(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()
        shutil.copyfile(self._good, self._folder / "bollard.db")
        self._connection = sqlite3.connect(self._folder / "bollard.db")
        self._connection.execute("PRAGMA synchronous = OFF")


class Postgres:
    def __init__(self, url: str, folder: Path, log: Written) -> None:
        self._url, self._folder = url, folder
        fill(postgres_store(url), log)
        self._connection = psycopg.connect(url, autocommit=True)
        for statement in ("DROP INDEX records_of_chain", "DROP INDEX records_of_run"):
            self._connection.execute(statement)
        for table in ("records", "heads"):
            self._connection.execute(f"CREATE TABLE good_{table} AS SELECT * FROM {table}")  # type: ignore[arg-type]
        (folder / "heads.jsonl").write_bytes(log.witnessed())

    def run(self, statement: str, *values: object) -> None:
        self._connection.execute(statement.replace("?", "%s"), values)  # type: ignore[arg-type]

    def report(self) -> LogReport:
        return checked(self._url, self._folder)

    def mend(self) -> None:
        for table in ("records", "heads"):
            self._connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
            self._connection.execute(f"INSERT INTO {table} SELECT * FROM good_{table}")  # type: ignore[arg-type]


Place = tuple[str, str, set[int]]
"""The workspace and the chain that must be named, and the positions of which one must be."""
Mutation = Callable[[Database, Written, random.Random], Place]


def at(row: RecordRow, *positions: int) -> Place:
    return row.workspace, row.chain, set(positions or (row.position,))


def put(database: Database, row: RecordRow) -> None:
    database.run(
        f"INSERT INTO records ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})",
        *msgspec.structs.astuple(row),
    )


def change(database: Database, row: RecordRow, **fields: object) -> None:
    names = ", ".join(f"{name} = ?" for name in fields)
    database.run(f"UPDATE records SET {names} WHERE id = ?", *fields.values(), row.id)


def relinked(rows: Sequence[RecordRow], previous: str) -> list[RecordRow]:
    """The rows with matching hashes, which need no key."""
    found: list[RecordRow] = []
    for row in rows:
        fields = {name: getattr(row, name) for name in Header.__struct_fields__}
        fields["data_sha256"] = sha256_of(row.data or b"")
        previous = link(previous, Header(**fields))
        found.append(msgspec.structs.replace(row, data_sha256=fields["data_sha256"], hash=previous))
    return found


def before(log: Written, row: RecordRow) -> str:
    if row.position == 1:
        return genesis(row.workspace, row.chain)
    return log.chains[row.workspace, row.chain][row.position - 2].hash


def edit_header(database: Database, log: Written, dice: random.Random) -> Place:
    row = dice.choice(log.rows)
    changes: dict[str, object] = {
        "workspace": "other" if row.workspace == "default" else "default",
        "chain": "start-9",
        "position": row.position + dice.choice((-1, 1, 7)),
        "run_id": "run_else",
        "seq": (row.seq or 0) + 1,
        "epoch": 2,
        "source_seq": 5,
        "type": row.type + "x",
        "observed": not row.observed,
        "created_ms": row.created_ms - 1,
        "data_sha256": sha256_of(b"else"),
        "hash": sha256_of(b"else"),
    }
    name = dice.choice(sorted(changes))
    change(database, row, **{name: changes[name]})
    return at(row)


def edit_data(database: Database, log: Written, dice: random.Random) -> Place:
    row = dice.choice(log.rows)
    data = bytearray(row.data or b"")
    place = dice.randrange(len(data))
    data[place] ^= 1 << dice.randrange(7)
    change(database, row, data=bytes(data))
    return at(row)


def take_data(database: Database, log: Written, dice: random.Random) -> Place:
    """As retention does, which would have left a record about it."""
    row = dice.choice(log.rows)
    change(database, row, data=None)
    return at(row)


def delete(database: Database, log: Written, dice: random.Random) -> Place:
    row = dice.choice(log.rows)
    database.run("DELETE FROM records WHERE id = ?", row.id)
    return at(row)


def delete_last(database: Database, log: Written, dice: random.Random) -> Place:
    row = dice.choice(list(log.chains.values()))[-1]
    database.run("DELETE FROM records WHERE id = ?", row.id)
    return at(row)


def truncate(database: Database, log: Written, dice: random.Random) -> Place:
    """The end of a chain, and every head in the database that knew of it: the witness still does."""
    row = dice.choice(dice.choice(list(log.chains.values())))
    where = "WHERE workspace = ? AND chain = ? AND position >= ?"
    database.run(f"DELETE FROM records {where}", row.workspace, row.chain, row.position)
    if dice.random() < 0.7:
        database.run(f"DELETE FROM heads {where}", row.workspace, row.chain, row.position)
    return at(row)


def insert(database: Database, log: Written, dice: random.Random) -> Place:
    """One more record that fits the one before it; those behind it are moved on by one."""
    row = dice.choice(log.rows)
    forged = msgspec.structs.replace(row, id=row.id - 1, data=b'{"forged":true}')
    (forged,) = relinked([forged], before(log, row))
    where = "WHERE workspace = ? AND chain = ? AND position >= ?"
    database.run(f"UPDATE records SET position = position + 1 {where}", row.workspace, row.chain, row.position)
    put(database, forged)
    return at(row, row.position, row.position + 1)


def append(database: Database, log: Written, dice: random.Random) -> Place:
    """One more record behind the end of a chain whose writer has ended."""
    last = dice.choice(list(log.chains.values()))[-1]
    forged = msgspec.structs.replace(last, id=log.rows[-1].id + 1, position=last.position + 1, data=b'{"forged":1}')
    put(database, relinked([forged], last.hash)[0])
    return at(last, last.position + 1)


def found_chain(database: Database, log: Written, dice: random.Random) -> Place:
    """A whole forged chain."""
    rows = dice.choice(list(log.chains.values()))[: dice.randrange(1, 5)]
    first = log.rows[-1].id + 1
    moved = [msgspec.structs.replace(row, chain="start-0", id=first + place) for place, row in enumerate(rows)]
    for row in relinked(moved, genesis(rows[0].workspace, "start-0")):
        put(database, row)
    return rows[0].workspace, "start-0", {1}


def lose_chain(database: Database, log: Written, dice: random.Random) -> Place:
    row = dice.choice(log.rows)
    for table in ("records", "heads"):
        database.run(f"DELETE FROM {table} WHERE workspace = ? AND chain = ?", row.workspace, row.chain)
    return at(row, 1)


def swap_places(database: Database, log: Written, dice: random.Random) -> Place:
    one, two = sorted(dice.sample(dice.choice(list(log.chains.values())), 2), key=lambda row: row.position)
    change(database, one, id=-1)
    change(database, two, id=one.id)
    database.run("UPDATE records SET id = ? WHERE id = -1", two.id)
    return at(one)


def swap_contents(database: Database, log: Written, dice: random.Random) -> Place:
    while True:
        one, two = sorted(dice.sample(dice.choice(list(log.chains.values())), 2), key=lambda row: row.position)
        if one.data != two.data:
            break
    names = ("type", "data", "data_sha256", "run_id", "seq")
    change(database, one, **{name: getattr(two, name) for name in names})
    change(database, two, **{name: getattr(one, name) for name in names})
    return at(one)


def rewrite(database: Database, log: Written, dice: random.Random) -> Place:
    """Change a record and every hash behind it, which needs no key; the next signed head reveals it."""
    row = dice.choice(log.rows)
    rest = log.chains[row.workspace, row.chain][row.position - 1 :]
    forged = [msgspec.structs.replace(row, data=b'{"forged":true}'), *rest[1:]]
    for each in relinked(forged, before(log, row)):
        change(database, each, data=each.data, data_sha256=each.data_sha256, hash=each.hash)
    if dice.random() < 0.5:
        return at(row, log.head_after(row).position)
    where = "WHERE workspace = ? AND chain = ? AND position >= ?"
    database.run(f"DELETE FROM heads {where}", row.workspace, row.chain, row.position)
    return at(row, rest[-1].position)


def sign_anew(database: Database, log: Written, dice: random.Random) -> Place:
    """Put another head into the database, signed with a foreign key, under the host's name or not."""
    head = dice.choice(log.heads)
    signed = sign_head(signed_head(msgspec.structs.replace(head, hash=sha256_of(b"else"))).head, STRANGER)
    key_id = dice.choice((head.key_id, signed.key_id))
    where = "WHERE workspace = ? AND chain = ? AND position = ?"
    place = (head.workspace, head.chain, head.position)
    values = (signed.head.hash, key_id, signed.signature, *place)
    database.run(f"UPDATE heads SET hash = ?, key_id = ?, signature = ? {where}", *values)
    return head.workspace, head.chain, {head.position}


ALL: tuple[Mutation, ...] = (
    edit_header,
    edit_data,
    take_data,
    delete,
    delete_last,
    truncate,
    insert,
    append,
    found_chain,
    lose_chain,
    swap_places,
    swap_contents,
    rewrite,
    sign_anew,
)


@pytest.fixture(scope="module")
def log() -> Written:
    return written()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path, log: Written) -> Iterator[Any]:
    if request.param == "sqlite":
        yield Sqlite(tmp_path, log)
        return
    made = Postgres(request.getfixturevalue("empty_postgres_url"), tmp_path, log)
    yield made
    made._connection.close()


def test_every_mutation_is_found_and_its_place_is_named(database: Database, log: Written) -> None:
    untouched = database.report()
    assert untouched.problems == ()
    assert (untouched.records, untouched.unsigned) == (len(log.rows), 0)
    count = MUTATIONS if isinstance(database, Sqlite) else max(len(ALL), MUTATIONS // 20)
    for number in range(count):
        dice = random.Random(f"{SEED}.{number}")
        mutate = ALL[number % len(ALL)]
        workspace, chain, positions = mutate(database, log, dice)
        found = database.report().problems
        told = {(each.workspace, each.chain, each.position) for each in found}
        wanted = {(workspace, chain, position) for position in positions}
        assert told & wanted, f"CHAOS_SEED={SEED}, mutation {number}, {mutate.__name__}: wanted {wanted}, told {found}"
        database.mend()
