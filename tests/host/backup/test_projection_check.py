"""Every projection, content and kept row is compared with the log and its key."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from bollard.host.backup.projection_check import check_projections
from bollard.host.backup.table_source import open_snapshot
from bollard.host.clock import SystemClock
from bollard.host.log.entries import Chore, Entry
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import NewRecord
from bollard.host.log.writer import Writer
from bollard.host.store.blobs import BlobStore
from bollard.host.store.statements import PROJECTIONS
from bollard.trust.keys import load_or_make_signing_key


def checked(past, now_ms=None):
    with closing(open_snapshot(past.source.database, past.source.data)) as snapshot:
        return check_projections(snapshot, past.source, now_ms=now_ms or SystemClock().now_ms())


def execute(past, *statements):
    """Write to the database directly, which is forbidden."""
    if past.source.database:
        with psycopg.connect(past.source.database) as connection:
            return [connection.execute(each).rowcount for each in statements]
    with closing(sqlite3.connect(past.source.data / "bollard.db")) as connection, connection:
        return [connection.execute(each).rowcount for each in statements]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004"])
def test_a_database_of_each_revision_matches_its_log_before_and_after_the_upgrade(make_past, kind, revision):
    past = make_past(kind, revision)
    before = checked(past)
    assert (before.mismatches, before.kept) == ((), None)
    past.open().close()
    after = checked(past)
    assert after.mismatches == ()
    assert after.rows >= before.rows > 0
    assert after.contents
    assert after.kept is not None


EDITS = [
    ("UPDATE runs SET status = 'failed' WHERE status = 'completed'", "edited", "runs"),
    ("UPDATE runs SET usage = '{}' WHERE status = 'completed'", "edited", "runs"),
    (
        "UPDATE transcript SET content = 'never said' WHERE seq = (SELECT min(seq) FROM transcript)",
        "edited",
        "transcript",
    ),
    ("UPDATE transcript SET place = 'elsewhere' WHERE seq = (SELECT min(seq) FROM transcript)", "edited", "transcript"),
    ("DELETE FROM transcript WHERE seq = (SELECT max(seq) FROM transcript)", "missing", "transcript"),
    ("UPDATE events SET actor_id = 'eve' WHERE record_id = (SELECT min(record_id) FROM events)", "edited", "events"),
    (
        "INSERT INTO state (scope_key, key, workspace, scope, value, version, updated_ms) "
        "VALUES ('s', 'k', 'default', 'runner', '1', 1, 1)",
        "unknown",
        "state",
    ),
    ("UPDATE artifacts SET mime_type = 'text/html'", "edited", "artifacts"),
    ("UPDATE approvals SET status = 'granted' WHERE status = 'requested'", "edited", "approvals"),
    ("UPDATE tool_calls SET result = '{}' WHERE status <> 'started'", "edited", "tool_calls"),
    ("DELETE FROM conversations", "missing", "conversations"),
    ("UPDATE agents SET revision = 9 WHERE agent_id = 'helper'", "edited", "agents"),
    (
        "INSERT INTO keys (workspace, key_id, revision, body, updated_ms) VALUES ('default', 'mine', 1, '{}', 1)",
        "unknown",
        "keys",
    ),
    ("UPDATE kept SET body = 'mine' WHERE kind = 'secret'", "kept", "kept"),
    ("UPDATE kept SET mac = NULL", "kept", "kept"),
]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_edit_of_any_projection_is_found_and_a_rebuild_mends_it(make_past, kind):
    past = make_past(kind, "0004")
    past.open().close()
    for statement, said, table in EDITS:
        assert execute(past, statement)[0] > 0, statement
        found = checked(past).mismatches
        assert {(each.kind, each.table) for each in found} == {(said, table)}, statement
        with closing(past.open()) as store:
            rebuild(store)
            if table == "kept":
                with store.write() as transaction:
                    assert len(transaction.drop_unverified()) == len(found)
        assert checked(past).mismatches == (), statement
        if table == "kept":
            break
    assert {table for _, _, table in EDITS} <= {*PROJECTIONS, "kept"}


def test_a_content_that_was_edited_or_removed_is_named(make_past):
    past = make_past("sqlite", "0004")
    past.open().close()
    files = sorted(path for path in (past.source.data / "blobs" / "sha256").rglob("*") if path.is_file())
    first, second, *_ = files
    first.chmod(0o600)
    first.write_bytes(first.read_bytes() + b"!")
    second.unlink()
    found = {(each.kind, each.key) for each in checked(past).mismatches}
    assert found == {("content_edited", first.name), ("content_missing", second.name)}


def test_dropped_and_expired_data_are_no_mismatch(make_past):
    past = make_past("sqlite", "0004")
    clock, key = SystemClock(), load_or_make_signing_key(past.source.data / "keys" / "heads.ed25519")
    with closing(past.open()) as store:
        writer = Writer(store, BlobStore(past.source.data / "blobs"), clock, incarnation="later", key=key)
        record = NewRecord(workspace="default", type="retention.purged", data=b"{}", created_ms=clock.now_ms())
        for kind in ("message.completed", "event.received"):
            chore = Chore(kind="drop_data", type=kind, before_ms=clock.now_ms(), limit=1000)
            (fate,) = writer.turn([Entry(chore=chore, records=[record])])
            assert fate.rows > 0
        before = checked(past)
        assert before.mismatches == ()
        assert execute(past, "UPDATE artifacts SET expires_ms = NULL WHERE expires_ms IS NOT NULL")[0] > 0
        assert {each.kind for each in checked(past).mismatches} == {"edited"}
        rebuild(store)
    ever = 1 << 52
    assert checked(past, ever).mismatches == ()
    execute(past, "DELETE FROM artifacts WHERE expires_ms IS NOT NULL")
    assert checked(past, ever).mismatches == (), "a sweep took it"
    assert {each.kind for each in checked(past).mismatches} == {"missing"}
