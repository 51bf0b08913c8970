"""F18, R12: the upgrade of a database that the previous revision made is killed at every statement. Nothing is lost,
and the next start completes it."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from tests.simulation.ledger import all_records

from bollard.host.clock import SystemClock
from bollard.host.log.rebuild import rebuild
from bollard.host.store.migrations import REVISIONS
from bollard.host.store.rows import ENDED, RunRow
from bollard.host.store.selection import choose_store

FIXTURES = Path(__file__).parents[1] / "host/backup/fixtures"
SERVERS = ("postgresql://postgres@127.0.0.1:5432/postgres", "postgresql://root@127.0.0.1:5432/postgres")
SHORT_ROUNDS, SLICE = 4, 5

# One process that loads the migration machinery, and forks one that dies for each statement: first before the
# statement, then after it, until one lives to the end.
KILLED_EVERYWHERE = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
import bollard.host.store.migrations.upgrade
from bollard.host.clock import SystemClock
from bollard.host.store.selection import choose_store

database, data, most = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
first, step = int(sys.argv[5]), int(sys.argv[6])
left = 0

def die(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def deaths(moment):
    global left
    event.listen(Engine, moment, die)
    for last in range(first, most, step):
        child = os.fork()
        if child == 0:
            left = last
            store = choose_store(database, data, SystemClock())
            store.open()
            store.close()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, status
            return last - 1
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        yield last

moment = sys.argv[4]
for count in deaths(moment):
    print(count, flush=True)
    sys.stdin.readline()
"""


class Old:
    """A database of revision 0001, and its content."""

    def __init__(self, database, data):
        self.database = database
        self.data = data

    def opened(self):
        store = choose_store(self.database, self.data, SystemClock())
        store.open()
        return store

    def _connect(self):
        return psycopg.connect(self.database) if self.database else sqlite3.connect(self.data / "bollard.db")

    def revision(self):
        connection = self._connect()
        try:
            ((revision,),) = connection.execute("SELECT version_num FROM alembic_version").fetchall()
            return revision
        finally:
            connection.close()

    def hashes(self):
        connection = self._connect()
        try:
            return [row[0] for row in connection.execute("SELECT hash FROM records ORDER BY id").fetchall()]
        finally:
            connection.close()


@pytest.fixture
def postgres_server():
    named = os.environ.get("BOLLARD_TEST_POSTGRES")
    for url in (named,) if named else SERVERS:
        try:
            psycopg.connect(url, connect_timeout=30).close()
        except psycopg.Error:
            continue
        return url
    pytest.fail("no PostgreSQL server answers on 127.0.0.1:5432")


@pytest.fixture(params=["sqlite", "postgres"])
def old(request, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    script = (FIXTURES / f"v0001.{request.param}.sql").read_text(encoding="utf-8")
    if request.param == "sqlite":
        with sqlite3.connect(data / "bollard.db") as connection:
            connection.executescript(script)
        connection.close()
        yield Old("", data)
        return
    server, name = request.getfixturevalue("postgres_server"), f"bollard_kills_{os.getpid()}"
    url = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        admin.execute(f"CREATE DATABASE {name}")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(script.encode())
        yield Old(url, data)
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.mark.parametrize("moment", ["before_cursor_execute", "after_cursor_execute"])
def test_an_upgrade_killed_at_any_statement_changes_nothing_and_the_next_one_completes_it(old, moment, seed, rounds):
    before = old.hashes()
    assert before
    step = 1 if rounds > SHORT_ROUNDS else SLICE  # every statement in `make chaos`, every few in what a commit runs
    command = [sys.executable, "-c", KILLED_EVERYWHERE, old.database, str(old.data), "1000", moment]
    command += [str(1 + seed % step), str(step)]
    killed = 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            killed = int(line)
            assert old.revision() == "0001", f"{killed} statements were enough to change it"
            assert old.hashes() == before
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.returncode == 0
    assert killed >= 8
    assert old.revision() == REVISIONS.known[-1]
    store = old.opened()
    try:
        assert [record.hash for record in all_records(store)] == before
        projected = _without_stale_leases(store.dump_projections())
        rebuild(store)
        assert store.dump_projections() == projected
    finally:
        store.close()


def test_a_host_killed_during_its_start_on_an_old_database_starts_the_next_time(old, tmp_path):
    """The whole program, at random instants: the upgrade is one of its first steps."""
    bollard = str(Path(sys.executable).with_name("bollard"))
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    command = [bollard, "up", "--data", str(old.data), "--port", "0"]
    if old.database:
        command += ["--database", old.database]
    before = old.hashes()
    for wait_s in (0.2, 0.4, 0.6, 0.8):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.wait()
        assert old.hashes()[: len(before)] == before
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout is not None
        assert b"listening" in process.stdout.readline()
        process.terminate()
    assert old.revision() == REVISIONS.known[-1]
    assert old.hashes()[: len(before)] == before


def _without_stale_leases(projected):
    """Earlier versions left the lease of a run behind when it ended; a rebuild does not."""
    lease, status = (RunRow.__struct_fields__.index(name) for name in ("lease_until_ms", "status"))
    runs = [
        (*row[:lease], None if row[status] in ENDED else row[lease], *row[lease + 1 :]) for row in projected["runs"]
    ]
    return {**projected, "runs": runs}
