"""Stores of every kind. PostgreSQL is a running server: what BOLLARD_TEST_POSTGRES names, or one on loopback."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from bollard.host.clock import ManualClock
from bollard.host.store.boundary import Store
from bollard.host.store.memory import MemoryStore
from bollard.host.store.postgres import postgres_store as make_postgres_store
from bollard.host.store.sqlite import sqlite_store as make_sqlite_store

LOCAL_SERVERS = (
    "postgresql://postgres@127.0.0.1:5432/postgres",
    "postgresql://root@127.0.0.1:5432/postgres",
)
HINT = "start PostgreSQL on 127.0.0.1:5432 (user postgres, trust), or set BOLLARD_TEST_POSTGRES to a server's URL"
TABLES = "records, deltas, heads, events, runs, transcript, state, artifacts, meta"


def _server() -> str:
    """A URL that answers. These tests are never left out: without a server they fail."""
    named = os.environ.get("BOLLARD_TEST_POSTGRES")
    problems: list[str] = []
    for url in (named,) if named else LOCAL_SERVERS:
        try:
            psycopg.connect(url, connect_timeout=3).close()
        except psycopg.Error as error:
            problems.append(str(error).strip())
        else:
            return url
    pytest.fail(f"no PostgreSQL server answers: {problems}\nhint: {HINT}", pytrace=False)


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def postgres_database() -> Iterator[str]:
    """The URL of a database of this test process alone."""
    server = _server()
    name = f"bollard_test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        yield _with_database(server, name)
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def _migrated_postgres(postgres_database: str) -> str:
    store = make_postgres_store(postgres_database)
    store.open()
    store.close()
    return postgres_database


@pytest.fixture
def postgres_url(_migrated_postgres: str) -> Iterator[str]:
    """A database with the newest schema and no rows."""
    yield _migrated_postgres
    with psycopg.connect(_migrated_postgres, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {TABLES}")
        connection.execute("ALTER SEQUENCE record_ids RESTART")


@pytest.fixture
def empty_postgres_url(postgres_database: str) -> Iterator[str]:
    """A schema of its own, without any table."""
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA fresh")
        yield f"{postgres_database}?options=-csearch_path%3Dfresh"
        connection.execute("DROP SCHEMA fresh CASCADE")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory_store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "bollard.db"


@pytest.fixture
def sqlite_store(sqlite_path: Path, clock: ManualClock) -> Iterator[Store]:
    store = make_sqlite_store(sqlite_path, clock=clock)
    store.open()
    yield store
    store.close()


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[Store]:
    store = make_postgres_store(postgres_url)
    store.open()
    yield store
    store.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Any:
    """Each kind of store in turn: what holds for one must hold for all."""
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def reopen() -> Callable[[Store], None]:
    """Close a store and open it again: what is left is what was on disk."""

    def close_and_open(store: Store) -> None:
        store.close()
        store.open()

    return close_and_open
