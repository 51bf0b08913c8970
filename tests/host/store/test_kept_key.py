"""Kept rows beside the log carry an HMAC under a key that is not in the database."""

import os
import subprocess
import sys

import pytest
from tests.replacement import replace

from bollard.host.errors import StorageUnavailable, StoreMismatch
from bollard.host.store.kept_key import KEPT_KEY, KeptKey
from bollard.host.store.postgres import postgres_store
from bollard.host.store.rows import DropKept, KeptRow, PutKept
from bollard.host.store.selection import choose_store
from bollard.host.store.sqlite import SqliteDatabase
from bollard.host.store.store import Store

PASSWORD = KeptRow(kind="password", workspace="w", id="ada", body=b"hash", expires_ms=None, updated_ms=1)
SECRET = KeptRow(kind="secret", workspace="w", id="token", body=b"\x01sealed", expires_ms=None, updated_ms=2)
SESSION = KeptRow(kind="session", workspace="w", id="s", body=b"", expires_ms=1 << 50, updated_ms=3)
ROWS = (PASSWORD, SECRET, SESSION)

KILLED = """
import os, signal, sys
from pathlib import Path
from bollard.host.clock import SystemClock
from bollard.host.store.kept_key import KeptKey
from bollard.host.store.selection import choose_store
KeptKey.finish = lambda self: os.kill(os.getpid(), signal.SIGKILL)
choose_store("", Path(sys.argv[1]), SystemClock()).open()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request, tmp_path):
    """Opens the store of one database, with the key of a folder or without one."""
    stores = []

    def make(keyed=True):
        key = KeptKey(tmp_path / "keys") if keyed else None
        if request.param == "sqlite":
            store = Store(SqliteDatabase(tmp_path / "bollard.db"), kept_key=key)
        else:
            store = postgres_store(request.getfixturevalue("empty_postgres_url"), kept_key=key)
        store.open()
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()


def keep(store, *changes):
    with store.write() as transaction:
        transaction.keep(changes)


def edited(store, statement):
    """A direct write to the database, not through a store."""
    store._database.begin()
    store._database.run(statement)
    store._database.commit()


def test_an_edited_kept_row_is_refused_with_the_command_that_deletes_it(opened):
    store = opened()
    keep(store, *map(PutKept, ROWS))
    assert store.all_kept("password") == [PASSWORD]
    for change in (
        "body = 'other'",
        "mac = NULL",
        "id = 'eve'",
        "workspace = 'v'",
        "updated_ms = 9",
        "expires_ms = 4000000000000000",
        "mac = (SELECT other.mac FROM kept other WHERE other.kind = 'secret')",
    ):
        edited(store, f"UPDATE kept SET {change} WHERE kind = 'password'")
        with pytest.raises(StoreMismatch, match=r"password (ada|eve) of workspace") as refused:
            store.all_kept("password")
        assert "log rebuild --drop-unverified" in refused.value.hint
        (row,) = store._database.read("SELECT workspace, id FROM kept WHERE kind = 'password'")
        with pytest.raises(StoreMismatch):
            store.kept("password", *row)
        assert store.all_kept("secret") == [SECRET]
        with store.write() as transaction:
            assert [(gone.workspace, gone.id) for gone in transaction.drop_unverified()] == [row]
        assert store.all_kept("password") == []
        keep(store, PutKept(PASSWORD))
    keep(store, PutKept(replace(PASSWORD, body=b"new")), DropKept("secret", "w", "token"))
    assert opened().all_kept("password") == [replace(PASSWORD, body=b"new")]


def test_old_rows_get_their_hmac_at_the_first_start_only(opened, tmp_path):
    keep(opened(keyed=False), *map(PutKept, ROWS))
    store = opened()
    assert [store.kept(row.kind, row.workspace, row.id) for row in ROWS] == list(ROWS)
    assert [path.name for path in (tmp_path / "keys").iterdir()] == [KEPT_KEY]
    edited(store, "UPDATE kept SET mac = NULL")
    with pytest.raises(StoreMismatch):
        opened().all_kept("password")


@pytest.mark.parametrize("mac", ["'text'", "12", "1.5", "X''"])
def test_an_hmac_of_another_type_is_invalid(tmp_path, mac):
    """SQLite takes values of any type."""
    store = Store(SqliteDatabase(tmp_path / "bollard.db"), kept_key=KeptKey(tmp_path / "keys"))
    store.open()
    keep(store, PutKept(PASSWORD))
    edited(store, f"UPDATE kept SET mac = {mac}")
    with pytest.raises(StoreMismatch):
        store.all_kept("password")
    with store.write() as transaction:
        assert [gone.id for gone in transaction.drop_unverified()] == ["ada"]
    store.close()


def test_a_lost_key_verifies_no_row_and_works_again_once_restored(opened, tmp_path):
    store = opened()
    keep(store, PutKept(PASSWORD), PutKept(SECRET))
    edited(store, "UPDATE kept SET mac = NULL, body = 'mine' WHERE kind = 'password'")
    kept = (tmp_path / "keys" / KEPT_KEY).rename(tmp_path / "elsewhere")
    for kind in ("password", "secret"):
        with pytest.raises(StoreMismatch):
            opened().all_kept(kind)
    kept.rename(tmp_path / "keys" / KEPT_KEY)
    assert opened().all_kept("secret") == [SECRET]
    (tmp_path / "keys" / KEPT_KEY).unlink()
    with opened().write() as transaction:
        assert len(transaction.drop_unverified()) == 2
    store = opened()
    keep(store, PutKept(PASSWORD))
    assert opened().all_kept("password") == [PASSWORD]


def test_a_first_start_killed_before_the_key_has_its_name_is_completed_by_the_next(tmp_path, clock):
    unsealed = Store(SqliteDatabase(tmp_path / "bollard.db"))
    unsealed.open()
    keep(unsealed, PutKept(PASSWORD))
    unsealed.close()
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode < 0
    assert not (tmp_path / "keys" / KEPT_KEY).exists()
    store = choose_store("", tmp_path, clock)
    store.open()
    assert store.all_kept("password") == [PASSWORD]
    store.close()
    assert (tmp_path / "keys" / KEPT_KEY).exists()


def test_a_key_readable_by_others_is_refused(tmp_path, clock):
    store = choose_store("", tmp_path, clock)
    store.open()
    store.close()
    os.chmod(tmp_path / "keys" / KEPT_KEY, 0o644)
    with pytest.raises(StorageUnavailable, match="readable by others"):
        choose_store("", tmp_path, clock).open()
