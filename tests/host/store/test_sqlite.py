"""Faults of SQLite only: a full file, a second writer, flipped bits, files of another format."""

import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import time

import pytest

from bollard.host.errors import StorageFull, StorageUnavailable
from bollard.host.store.migrations.schema import SQLITE_SAVED_THING
from bollard.host.store.rows import POLICY_KINDS, PutRun, RecordRow
from bollard.host.store.sqlite import SqliteDatabase, sqlite_store
from bollard.host.store.store import Store
from bollard.trust import ChainedRecord, Header, verify_chain

HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


def chained(row: RecordRow) -> ChainedRecord:
    header = Header(*(getattr(row, name) for name in Header.__struct_fields__))
    return ChainedRecord(header, row.data, row.hash)


@pytest.fixture
def other_writer(sqlite_store, sqlite_path):
    """A second process that holds the write lock until it is released."""
    command = [sys.executable, "-c", HOLD_THE_LOCK, str(sqlite_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.communicate("\n")


def test_a_locked_database_is_waited_for_within_a_limit(other_writer, sqlite_path, make):
    store = sqlite_store(sqlite_path, busy_wait_s=0.1)
    store.open()
    try:
        started = time.monotonic()
        with pytest.raises(StorageUnavailable, match="locked by another writer") as caught, store.write():
            pytest.fail("the lock is held by another process")
        assert time.monotonic() - started > 0.05
        assert caught.value.retryable
        assert caught.value.hint
        assert store.records(0, 10) == []
        other_writer.communicate("\n")
        with store.write() as transaction:
            transaction.add_records([make.record(1)])
        assert len(store.records(0, 10)) == 1
    finally:
        store.close()


def test_a_full_database_refuses_writes_and_recovers_once_it_has_space(sqlite_path, make):
    store = Store(SqliteDatabase(sqlite_path, max_pages=160))
    store.open()

    def fill():
        while True:
            with store.write() as transaction:
                rows = [make.record(transaction.next_record_ids(1), data=b"x" * 4000) for _ in range(1)]
                transaction.add_records(rows)

    with pytest.raises(StorageFull) as caught:
        fill()
    assert caught.value.retryable
    kept = store.records(0, 1000)
    assert 10 < len(kept) < 120
    assert [row.id for row in kept] == list(range(1, len(kept) + 1))
    with pytest.raises(StorageFull), store.write() as transaction:
        transaction.add_records([make.record(transaction.next_record_ids(1), data=b"y" * 160_000)])
    assert store.records(0, 1000) == kept
    store.close()
    roomy = sqlite_store(sqlite_path)
    roomy.open()
    with roomy.write() as transaction:
        transaction.add_records([make.record(transaction.next_record_ids(1), data=b"z" * 40_000)])
    assert len(roomy.records(0, 1000)) == len(kept) + 1
    roomy.close()


def test_a_flipped_bit_is_named_by_the_chain(sqlite_store, sqlite_path, tmp_path, make):
    rows = [make.record(index, data=b'{"text":"needle-%03d"}' % index) for index in range(1, 51)]
    with sqlite_store.write() as transaction:
        transaction.add_records(rows)
    sqlite_store.close()
    copy = tmp_path / "copy.db"
    shutil.copy(sqlite_path, copy)
    content = bytearray(copy.read_bytes())
    at = content.index(b"needle-037")
    content[at] ^= 0x01
    copy.write_bytes(content)
    damaged = sqlite_store_at(copy)
    report = verify_chain("w", "c", map(chained, damaged.chain("w", "c", 0, 100)))
    damaged.close()
    assert (report.records, report.fault.kind, report.fault.position) == (36, "data_edited", 37)


def sqlite_store_at(path):
    store = sqlite_store(path)
    store.open()
    return store


def test_a_file_of_another_format_is_refused_and_unchanged(sqlite_path):
    sqlite_path.write_bytes(b"these are my notes, not a database " * 100)
    before = sqlite_path.read_bytes()
    with pytest.raises(StorageUnavailable, match="not a database") as caught:
        sqlite_store(sqlite_path).open()
    assert caught.value.hint
    assert sqlite_path.read_bytes() == before


def test_an_unwritable_path_is_refused_with_a_hint(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageUnavailable, match="cannot be opened") as caught:
        sqlite_store(tmp_path / "file" / "bollard.db").open()
    assert "writable" in caught.value.hint


def test_the_file_is_private_to_its_owner(sqlite_store, sqlite_path, make):
    with sqlite_store.write() as transaction:
        transaction.add_records([make.record(1)])
    for name in (sqlite_path, sqlite_path.with_name("bollard.db-wal")):
        assert stat.S_IMODE(name.stat().st_mode) == 0o600


def test_every_commit_is_flushed_and_readers_cannot_write(sqlite_path):
    database = SqliteDatabase(sqlite_path)
    database.open()
    assert database.fetch("PRAGMA synchronous") == [(2,)]
    assert database.fetch("PRAGMA journal_mode") == [("wal",)]
    with pytest.raises(StorageUnavailable, match="readonly"):
        database.read("DELETE FROM records")
    database.close()


def test_committed_records_are_in_a_copy_of_the_files_of_an_open_store(sqlite_store, sqlite_path, tmp_path, make):
    with sqlite_store.write() as transaction:
        transaction.add_records(make.records(1, 10, "r"))
    copies = tmp_path / "crashed"
    copies.mkdir()
    with sqlite_store.write() as transaction:
        transaction.add_records(make.records(11, 10, "r2"))
        for file in sqlite_path.parent.glob("bollard.db*"):
            shutil.copy(file, copies)
    survivor = sqlite_store_at(copies / "bollard.db")
    assert [row.id for row in survivor.records(0, 100)] == list(range(1, 11))
    survivor.close()


def test_an_invalid_statement_is_not_reported_as_a_storage_problem(sqlite_store, make):
    with pytest.raises(sqlite3.ProgrammingError), sqlite_store.write() as transaction:
        transaction.apply([PutRun(make.run("r", facts=object()))])
    assert sqlite_store.run("r") is None


EXPLAIN = [
    ("runs WHERE ended = 0 AND run_id > '' ORDER BY run_id LIMIT 5", "runs_unfinished"),
    ("records WHERE run_id = 'r' AND seq > 0 ORDER BY seq LIMIT 5", "records_of_run"),
    (
        "records WHERE id IN (SELECT max(id) FROM records WHERE type = 'policy.changed' "
        f"GROUP BY workspace, {SQLITE_SAVED_THING})",
        "records_of_saved",
    ),
    ("records WHERE workspace = 'w' AND chain = 'c' AND position > 0 ORDER BY position LIMIT 5", "records_of_chain"),
    ("runs WHERE workspace = 'w' ORDER BY created_ms DESC, run_id DESC LIMIT 5", "runs_in_order"),
    (
        "transcript WHERE place = 'p' AND conversation IS NOT NULL AND seq > 0 ORDER BY seq DESC LIMIT 5",
        "transcript_in_place",
    ),
    ("events WHERE workspace = 'w' AND record_id < 9 ORDER BY record_id DESC LIMIT 5", "PRIMARY KEY"),
    ("deltas WHERE run_id = 'r' AND last_seq > 0 ORDER BY first_seq", "PRIMARY KEY"),
    ("events WHERE place = 'p' AND record_id < 9 ORDER BY record_id DESC LIMIT 5", "events_in_place"),
    ("events WHERE dispatch = 'pending' AND record_id > 5 ORDER BY record_id LIMIT 5", "events_pending"),
    ("events WHERE workspace = 'w' AND event_id = 'e'", "events_by_id"),
    ("events WHERE workspace = 'w' AND source = 's' AND source_id = 'i'", "events_by_source"),
    (
        "events INDEXED BY events_by_source WHERE workspace = 'w' AND source = 's' "
        "AND source_id IN (SELECT value FROM json_each('[]'))",
        "events_by_source",
    ),
    ("runs WHERE parent_run_id = 'r' ORDER BY created_ms, run_id", "runs_of_parent"),
    ("runs WHERE workspace = 'w' AND agent_id = 'a' AND created_ms >= 5", "runs_of_agent"),
    ("runs WHERE workspace = 'w' AND agent_id = 'a' ORDER BY created_ms DESC, run_id DESC LIMIT 5", "runs_of_agent"),
    (
        "runs WHERE workspace = 'w' AND conversation = 'c' ORDER BY created_ms DESC, run_id DESC LIMIT 5",
        "runs_of_conversation",
    ),
    ("state WHERE scope_key = 's' AND key > 'k' ORDER BY key LIMIT 5", "sqlite_autoindex_state_1"),
    ("state WHERE expires_ms <= 5 ORDER BY expires_ms LIMIT 5", "state_expiry"),
    ("storage WHERE area_key = 'a' AND key > 'k' ORDER BY key LIMIT 5", "PRIMARY KEY"),
    ("storage WHERE sha256 > 'a' ORDER BY sha256 LIMIT 5", "storage_content"),
    ("artifacts WHERE sha256 > 'a' ORDER BY sha256 LIMIT 5", "artifacts_content"),
    ("artifacts WHERE expires_ms <= 5 ORDER BY expires_ms LIMIT 5", "artifacts_expiry"),
    (
        "outbox WHERE status IN ('queued', 'started', 'shown') AND record_id > 5 ORDER BY record_id LIMIT 5",
        "outbox_open",
    ),
    ("outbox WHERE workspace = 'w' AND record_id < 9 ORDER BY record_id DESC LIMIT 5", "outbox_in_order"),
    (
        "outbox WHERE workspace = 'w' AND channel = 'c' AND record_id < 9 ORDER BY record_id DESC LIMIT 5",
        "outbox_of_channel",
    ),
    ("tool_calls WHERE run_id = 'r' AND call_id = 'c'", "sqlite_autoindex_tool_calls_1"),
    ("tool_calls WHERE status = 'started' AND record_id > 5 ORDER BY record_id LIMIT 5", "tool_calls_open"),
    (
        "approvals WHERE workspace = 'w' AND (created_ms, approval_id) < (9, 'a') "
        "ORDER BY created_ms DESC, approval_id DESC LIMIT 5",
        "approvals_in_order",
    ),
    (
        "approvals WHERE workspace = 'w' AND status = 'requested' AND (created_ms, approval_id) < (9, 'a') "
        "ORDER BY created_ms DESC, approval_id DESC LIMIT 5",
        "approvals_by_status",
    ),
    (
        "approvals WHERE status IN ('requested', 'granted') AND approval_id > 'a' ORDER BY approval_id LIMIT 5",
        "approvals_open",
    ),
    ("approvals WHERE run_id = 'r' ORDER BY created_ms, approval_id", "approvals_of_run"),
    ("conversations WHERE workspace = 'w' AND last_seq < 9 ORDER BY last_seq DESC LIMIT 5", "conversations_in_order"),
    ("kept WHERE kind = 'k' AND workspace = 'w' AND id = 'i'", "sqlite_autoindex_kept_1"),
    ("kept WHERE kind = 'k' ORDER BY workspace, id", "sqlite_autoindex_kept_1"),
    ("kept WHERE expires_ms <= 5 ORDER BY expires_ms LIMIT 5", "kept_expiry"),
    *((f"{kind}s WHERE workspace = 'w' ORDER BY {kind}_id", f"sqlite_autoindex_{kind}s_1") for kind in POLICY_KINDS),
]


@pytest.mark.parametrize(("query", "index"), EXPLAIN)
def test_reads_use_an_index_and_never_sort_a_table(sqlite_path, query, index):
    database = SqliteDatabase(sqlite_path)
    database.open()
    plan = " ".join(str(row[3]) for row in database.read(f"EXPLAIN QUERY PLAN SELECT * FROM {query}"))
    database.close()
    assert index in plan
    assert "SCAN" not in re.sub(rf"SCAN (runs|records) USING INDEX {index}|SCAN json_each", "", plan)
    assert "TEMP B-TREE" not in plan


def test_every_index_of_the_schema_serves_a_read(sqlite_path):
    database = SqliteDatabase(sqlite_path)
    database.open()
    rows = database.read("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    database.close()
    assert {str(name) for (name,) in rows} <= {index for _, index in EXPLAIN}


@pytest.mark.parametrize(
    ("purge", "index", "query"),
    [
        (
            lambda transaction: transaction.drop_data(["t"], 5, 5),
            "records_kept",
            "records WHERE type = 't' AND created_ms < 5 AND data IS NOT NULL ORDER BY created_ms, id LIMIT 5",
        ),
        (
            lambda transaction: transaction.drop_deltas(5, 5),
            "deltas_by_age",
            "deltas WHERE created_ms < 5 ORDER BY created_ms LIMIT 5",
        ),
    ],
    ids=["records", "deltas"],
)
def test_the_indices_of_retention_are_made_by_the_first_purge(sqlite_path, purge, index, query):
    database = SqliteDatabase(sqlite_path)
    store = Store(database)
    store.open()

    def plan():
        return " ".join(str(row[3]) for row in database.fetch(f"EXPLAIN QUERY PLAN SELECT * FROM {query}"))

    assert index not in plan()
    for _ in range(2):
        with store.write() as transaction:
            assert purge(transaction) == 0
    assert index in plan()
    assert "TEMP B-TREE" not in plan()
    store.close()


def test_the_checkpoint_size_in_bytes_is_independent_of_the_page_size(tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("PRAGMA page_size = 1024")
        connection.execute("CREATE TABLE anything (x)")
    connection.close()
    for path, page_bytes in ((tmp_path / "new.db", 4096), (other, 1024)):
        database = SqliteDatabase(path)
        database.open()
        assert database.fetch("PRAGMA page_size") == [(page_bytes,)]
        assert database.fetch("PRAGMA wal_autocheckpoint") == [(8 * 1024 * 1024 // page_bytes,)]
        database.close()
