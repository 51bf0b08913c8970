"""One writer of a PostgreSQL database: who writes alone keeps others out, and finds out when it could not."""

import subprocess
import sys
from contextlib import closing
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from bollard.host.backup.postgres_tables import PostgresLoader
from bollard.host.errors import StorageUnavailable, StoreTaken
from bollard.host.store.migrations import REVISIONS
from bollard.host.store.postgres import postgres_store

NAMED = "application_name = 'bollard' AND datname = current_database()"


@pytest.fixture
def alone(postgres_url):
    store = postgres_store(postgres_url, lock_wait_s=1.0, alone=True)
    store.open()
    yield store
    store.close()


def another(url):
    return closing(postgres_store(url, lock_wait_s=0.05, alone=True))


def end_connections(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {NAMED}")


def write(store, key):
    with store.write() as transaction:
        transaction.put_meta(key, "v")


def test_two_exclusive_writers_cannot_open_a_database(alone, postgres_url):
    with another(postgres_url) as second:
        with pytest.raises(StorageUnavailable, match="another host or command writes") as caught:
            second.open()
        assert caught.value.details["field"] == "database"
        assert int(caught.value.details["session"])
        assert caught.value.hint
        alone.close()
        second.open()
        write(second, "k")


def test_a_shared_database_is_open_to_all_hosts(alone, postgres_store):
    write(postgres_store, "shared")
    write(alone, "k")
    assert postgres_store.meta("k") == "v"


def test_each_schema_of_a_database_has_its_own_writer(alone, empty_postgres_url):
    with another(empty_postgres_url) as second:
        second.open()
        write(second, "k")
    write(alone, "k")


def test_a_killed_writer_leaves_the_database_to_the_next(postgres_url):
    program = (
        "import sys; from bollard.host.store.postgres import postgres_store\n"
        "store = postgres_store(sys.argv[1], alone=True); store.open(); print('open', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, postgres_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.kill()
    with closing(postgres_store(postgres_url, lock_wait_s=60.0, alone=True)) as second:
        second.open()
        write(second, "k")


def test_a_writer_with_a_lost_connection_continues_if_no_other_writer_came(alone, postgres_url):
    write(alone, "before")
    end_connections(postgres_url)
    with pytest.raises(StorageUnavailable) as caught:
        write(alone, "lost")
    assert not isinstance(caught.value, StoreTaken)
    write(alone, "after")
    assert alone.meta("after") == "v"
    with another(postgres_url) as second, pytest.raises(StorageUnavailable, match="another host or command writes"):
        second.open()


def test_a_writer_ends_its_own_old_session(alone, postgres_url):
    write(alone, "before")
    with alone._database._writer:
        alone._database._writer = None  # cut off on this side only: the server has not noticed
        write(alone, "after")
    assert alone.meta("after") == "v"


def test_a_writer_that_lost_the_database_writes_nothing_while_another_has_it(alone, postgres_url):
    write(alone, "before")
    end_connections(postgres_url)
    with closing(postgres_store(postgres_url, lock_wait_s=60.0, alone=True)) as second:
        second.open()
        for _ in range(2):
            with pytest.raises(StorageUnavailable):
                write(alone, "lost")
        write(second, "k")
    assert second.open() is None
    assert second.meta("lost") is None
    second.close()


def test_a_writer_never_writes_again_after_another_wrote(alone, postgres_url):
    write(alone, "before")
    end_connections(postgres_url)
    with closing(postgres_store(postgres_url, lock_wait_s=60.0, alone=True)) as second:
        second.open()
        write(second, "k")
    with pytest.raises(StorageUnavailable):
        write(alone, "lost")
    for _ in range(2):
        with pytest.raises(StoreTaken) as caught:
            write(alone, "lost")
    assert caught.value.hint
    assert alone.meta("lost") is None


def test_a_schema_is_not_upgraded_under_an_active_writer(postgres_database):
    parts = urlsplit(postgres_database)
    name = f"{parts.path[1:]}_older"
    with psycopg.connect(postgres_database, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    url = urlunsplit(parts._replace(path=f"/{name}"))
    try:
        filling = PostgresLoader(url)
        filling.create(REVISIONS.known[-2])
        filling.close()
        with psycopg.connect(url, autocommit=True) as older:
            older.execute(
                "SELECT pg_advisory_lock(%s, hashtext(current_schema()))", (0x626F6C77,)
            )  # as the host of that version would, if it had one
            with closing(postgres_store(url)) as store, pytest.raises(StorageUnavailable, match="another host"):
                store.open()
            ((revision,),) = older.execute("SELECT version_num FROM alembic_version").fetchall()
        assert revision == REVISIONS.known[-2]
        with closing(postgres_store(url)) as store:
            store.open()
            assert store.revision() == REVISIONS.known[-1]
    finally:
        with psycopg.connect(postgres_database, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_database_under_restore_refuses_other_writers(postgres_url, empty_postgres_url):
    filling = PostgresLoader(empty_postgres_url)
    filling.create(REVISIONS.known[-1])
    try:
        with another(empty_postgres_url) as second, pytest.raises(StorageUnavailable, match="another host or command"):
            second.open()
    finally:
        filling.close()
    with another(empty_postgres_url) as second:
        second.open()
