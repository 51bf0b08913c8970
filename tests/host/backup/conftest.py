"""Stores with a past: what a host of the previous revision left when it was killed, on either database."""

import base64
import hashlib
import itertools
import json
import os
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from bollard.host.backup.copying import Source
from bollard.host.clock import ManualClock, SystemClock
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.store.opening import choose_store

FIXTURES = Path(__file__).parent / "fixtures"
_NUMBERS = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Past:
    """A database of an earlier revision and what the code of that time read of it."""

    kind: str
    revision: str
    source: Source
    read: dict[str, Any]

    def open(self) -> Store:
        """As a host does, which brings it to the newest revision."""
        store = choose_store(self.source.database, self.source.data, SystemClock())
        store.open()
        return store


@contextmanager
def empty_databases(server: str) -> Iterator[Callable[[], str]]:
    """Makes empty databases on the server of the tests, and drops them again."""
    made: list[str] = []

    def make() -> str:
        name = f"bollard_copy_{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name}")
        made.append(name)
        return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))

    yield make
    with psycopg.connect(server, autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def laid_down(folder: Path, kind: str, revision: str, new_database: Callable[[], str]) -> Past:
    """What the old host left, as it was."""
    told = json.loads((FIXTURES / f"v{revision}.{kind}.json").read_text(encoding="utf-8"))
    script = (FIXTURES / f"v{revision}.{kind}.sql").read_text(encoding="utf-8")
    data = folder / f"past-{kind}"
    (data / "keys").mkdir(parents=True)
    key = data / "keys" / "heads.ed25519"
    key.write_text(told["key"])
    key.chmod(0o600)
    blobs = BlobStore(data / "blobs")
    for sha256, content in told["blobs"].items():
        assert blobs.put(base64.b64decode(content)) == sha256
    if kind == "sqlite":
        database = ""
        with sqlite3.connect(data / "bollard.db") as connection:
            connection.executescript(script)
        connection.close()
    else:
        database = new_database()
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(script.encode())
    return Past(kind=kind, revision=revision, source=Source(database=database, data=data), read=told["read"])


@pytest.fixture
def new_database(postgres_database: str) -> Iterator[Callable[[], str]]:
    with empty_databases(postgres_database) as make:
        yield make


@pytest.fixture
def make_past(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Past]:
    """Lays down what an old host left."""

    def database() -> str:
        made: str = request.getfixturevalue("new_database")()
        return made

    def make(kind: str, revision: str = "0002") -> Past:
        return laid_down(tmp_path, kind, revision, database)

    return make


@pytest.fixture(params=["sqlite", "postgres"])
def past(request: pytest.FixtureRequest, make_past: Callable[..., Past]) -> Past:
    return make_past(request.param)


@pytest.fixture(params=["sqlite", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    """Where nothing is yet."""
    database = request.getfixturevalue("new_database")() if request.param == "postgres" else ""
    return Source(database=database, data=tmp_path / "restored")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000_000)


@pytest.fixture
def with_lines() -> Callable[..., Path]:
    """Writes an archive again with other rows, and with the digest of those: as somebody would who knows the format."""
    return _with_lines


def _with_lines(path: Path, other: Path, member: str, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    with zipfile.ZipFile(path) as old:
        lines = change(old.read(member).splitlines())
    body = b"".join(line + b"\n" for line in lines)
    noted = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "lines": len(lines)}

    def change_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
        manifest["members"][member] = noted
        return manifest

    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for entry in old.infolist():
            content = body if entry.filename == member else old.read(entry)
            if entry.filename == "manifest.json":
                content = json.dumps(change_manifest(json.loads(content))).encode()
            new.writestr(entry.filename, content)
    return other
