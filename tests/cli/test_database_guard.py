"""One host on a PostgreSQL database: another, and every command that rewrites it, is refused while it runs."""

import http.client
import json
import os
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from bollard.host.store.postgres import postgres_store

pytestmark = pytest.mark.full


SERVERS = ("postgresql://postgres@127.0.0.1:5432/postgres", "postgresql://root@127.0.0.1:5432/postgres")
PATIENCE_S = 120.0
ENDED_BY_SERVER = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'bollard' AND datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture
def database() -> Iterator[str]:
    named = os.environ.get("BOLLARD_TEST_POSTGRES")
    for url in (named,) if named else SERVERS:
        try:
            admin = psycopg.connect(url, autocommit=True, connect_timeout=120)
        except psycopg.Error:
            continue
        name = f"bollard_guard_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
        with admin:
            admin.execute(f"CREATE DATABASE {name}")
            yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        return
    pytest.fail("no PostgreSQL server answers", pytrace=False)


def test_a_database_in_use_by_a_host_is_refused_to_every_other_command(
    database, new_host, bollard, started, tmp_path
) -> None:
    host = new_host().start("--database", database)
    chat = started("chat", "--json", "--message", "slow", **host.variables)
    assert chat.stdout is not None
    assert json.loads(chat.stdout.readline())["type"] == "run.created"
    exported = bollard("export", "w.zip", "--data", str(host.data), "--database", database)
    assert exported.code == 0
    (tmp_path / "other").mkdir()
    trusted = ("import", "w.zip", "--trust", exported.json["signed_by"])
    for command in (("up", "--port", "0"), ("log", "rebuild"), trusted):
        done = bollard(*command, "--data", "other", "--database", database)
        assert (done.code, done.out) == (2, ""), command
        assert done.err.startswith("bollard: another host or command is writing to the database: session ")
        assert done.err.splitlines()[1] == "hint: stop it first, or choose another database with --database"
    assert [json.loads(line) for line in chat.stdout][-1]["data"] == {"status": "completed"}


def test_a_host_stops_when_another_process_wrote_to_its_database(database, new_host) -> None:
    host = new_host().start("--database", database)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(ENDED_BY_SERVER)
        with closing(postgres_store(database, lock_wait_s=PATIENCE_S, alone=True)) as other:
            other.open()
            with other.write() as transaction:
                transaction.put_meta("k", "v")
    asked = http.client.HTTPConnection("127.0.0.1", host.port, timeout=PATIENCE_S)
    body = b'{"agent": "echo", "input": {"text": "hello"}}'
    asked.request("POST", "/api/v1/runs", body, {"Authorization": f"Bearer {host.token}"})
    assert asked.getresponse().status == 503
    asked.close()
    assert host.process is not None
    assert host.process.wait(timeout=PATIENCE_S) == 1
    host.process = None
