"""Stores with a past: the data that a killed host of the previous revision left, on either database."""

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
from tests.doubles.manual_clock import ManualClock

from bollard.host.backup.archive_verification import ArchiveTrust
from bollard.host.backup.backup import BackupSource
from bollard.host.clock import SystemClock
from bollard.host.store.blobs import BlobStore
from bollard.host.store.selection import choose_store
from bollard.host.store.store import Store

FIXTURES = Path(__file__).parent / "fixtures"
_NUMBERS = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Past:
    """A database of an earlier revision and its content as read by the code of that time."""

    kind: str
    revision: str
    source: BackupSource
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


SKILL = b"---\nname: report-writer\ndescription: Writes the weekly report.\n---\nBegin with what changed.\n"
"""The one that `make_previous.py` adds."""
FIRST_WITH_SKILLS = "0003"


def laid_down(folder: Path, kind: str, revision: str, new_database: Callable[[], str]) -> Past:
    """The data of the old host, unchanged."""
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
    if revision >= FIRST_WITH_SKILLS:
        (data / "skills" / "default").mkdir(parents=True)
        (data / "skills" / "default" / hashlib.sha256(SKILL).hexdigest()).write_bytes(SKILL)
    if kind == "sqlite":
        database = ""
        with sqlite3.connect(data / "bollard.db") as connection:
            connection.executescript(script)
        connection.close()
    else:
        database = new_database()
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(script.encode())
    return Past(kind=kind, revision=revision, source=BackupSource(database=database, data=data), read=told["read"])


@pytest.fixture
def new_database(postgres_database: str) -> Iterator[Callable[[], str]]:
    with empty_databases(postgres_database) as make:
        yield make


@pytest.fixture
def make_past(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Past]:
    """Creates the data of an old host."""

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
def target(request: pytest.FixtureRequest, tmp_path: Path) -> BackupSource:
    """Where nothing is yet."""
    database = request.getfixturevalue("new_database")() if request.param == "postgres" else ""
    return BackupSource(database=database, data=tmp_path / "restored")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000_000)


def believing(path: Path) -> ArchiveTrust:
    """Trusts this archive with any signer, and without a signature: for tests of the later steps."""
    with zipfile.ZipFile(path) as archive:
        if "signature.json" not in archive.namelist():
            return ArchiveTrust(unsigned=True)
        public = json.loads(archive.read("signature.json"))["public_key"]
    return ArchiveTrust(fingerprints=frozenset({hashlib.sha256(bytes.fromhex(public)).hexdigest()}))


def rewritten(path: Path, other: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> Path:
    """Writes an archive again with other members, without a signature: anyone who knows the format can do that."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    members.pop("signature.json", None)
    members["manifest.json"] = json.dumps({**json.loads(members["manifest.json"]), "format": 1}).encode()
    with zipfile.ZipFile(other, "w") as new:
        for name, content in change(members).items():
            new.writestr(name, content)
    return other


@pytest.fixture
def with_lines() -> Callable[..., Path]:
    """Writes an archive again with other rows and their digest: anyone who knows the format can do that."""
    return _with_lines


def _with_lines(path: Path, other: Path, member: str, change: Callable[[list[bytes]], list[bytes]]) -> Path:
    def changed(members: dict[str, bytes]) -> dict[str, bytes]:
        lines = change(members[member].splitlines())
        body = b"".join(line + b"\n" for line in lines)
        noted = {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "lines": len(lines)}
        manifest = json.loads(members["manifest.json"])
        manifest["members"][member] = noted
        return {**members, member: body, "manifest.json": json.dumps(manifest).encode()}

    return rewritten(path, other, changed)
