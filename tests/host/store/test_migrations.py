"""Migrations: they run at open, finish after a kill, and refuse a future they do not know."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from bollard.host.errors import SchemaTooNew
from bollard.host.store.migrations import REVISIONS, Revisions
from bollard.host.store.postgres import PostgresDatabase
from bollard.host.store.rows import (
    ArtifactRow,
    DeltaRow,
    EventRow,
    HeadRow,
    PutRun,
    RecordRow,
    RunRow,
    StateRow,
    TranscriptRow,
)
from bollard.host.store.sql import SqlStore
from bollard.host.store.sqlite import SqliteDatabase

SECOND = '''
"""A second revision, for tests: changes a table on both databases."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    with op.batch_alter_table("heads") as batch:
        batch.add_column(sa.Column("witness", sa.Text))
    op.create_table("extra", sa.Column("id", sa.Integer, primary_key=True))
    op.execute("INSERT INTO extra (id) VALUES (1)")
'''

KILLED_AT = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from bollard.host.store.migrations import REVISIONS, Revisions
from bollard.host.store.postgres import PostgresDatabase
from bollard.host.store.sqlite import SqliteDatabase

kind, place, folder, last = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
seen = 0

def before(connection, cursor, statement, *rest):
    global seen
    seen += 1
    if seen == last:
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(Engine, "after_cursor_execute" if last % 2 else "before_cursor_execute", before)
revisions = Revisions(known=(*REVISIONS.known, "0002"), folders=(*REVISIONS.folders, Path(folder)))
database = (SqliteDatabase(Path(place), revisions=revisions) if kind == "sqlite"
            else PostgresDatabase(place, revisions=revisions))
database.open()
database.close()
print(seen)
"""

TABLES = {
    "records": RecordRow,
    "deltas": DeltaRow,
    "heads": HeadRow,
    "events": EventRow,
    "runs": RunRow,
    "transcript": TranscriptRow,
    "state": StateRow,
    "artifacts": ArtifactRow,
}


@pytest.fixture
def two_revisions(tmp_path: Path) -> Revisions:
    folder = tmp_path / "versions"
    folder.mkdir()
    (folder / "v0002_second.py").write_text(SECOND)
    return Revisions(known=(*REVISIONS.known, "0002"), folders=(*REVISIONS.folders, folder))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path) -> tuple[str, str]:
    """A kind of database, and where an empty one is."""
    if request.param == "sqlite":
        return "sqlite", str(tmp_path / "bollard.db")
    return "postgres", request.getfixturevalue("empty_postgres_url")


def database_at(place, revisions=REVISIONS):
    kind, where = place
    if kind == "sqlite":
        return SqliteDatabase(Path(where), revisions=revisions)
    return PostgresDatabase(where, revisions=revisions)


def columns_of(place, table):
    kind, where = place
    if kind == "sqlite":
        with sqlite3.connect(where) as connection:
            rows = connection.execute(f"SELECT name FROM pragma_table_xinfo('{table}')").fetchall()
        connection.close()
    else:
        with psycopg.connect(where) as connection:
            statement = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'fresh' "
            rows = connection.execute(statement + "AND table_name = %s", (table,)).fetchall()
    return {row[0] for row in rows}


def revision_of(place):
    kind, where = place
    connection = sqlite3.connect(where) if kind == "sqlite" else psycopg.connect(where)
    try:
        ((revision,),) = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    finally:
        connection.close()
    return revision


def test_every_row_has_its_table_with_its_columns(place):
    database = database_at(place)
    database.open()
    database.close()
    own = {"runs": {"ended"}, "transcript": {"place", "vector"} if place[0] == "postgres" else {"place"}}
    for table, row in TABLES.items():
        assert columns_of(place, table) == set(row.__struct_fields__) | own.get(table, set())


def test_the_known_revisions_are_the_files_of_the_folder():
    (folder,) = REVISIONS.folders
    found = sorted(path.name.split("_")[0].removeprefix("v") for path in folder.glob("v*.py"))
    assert found == list(REVISIONS.known)


def test_an_older_database_is_upgraded_and_keeps_its_rows(place, two_revisions, make):
    old = SqlStore(database_at(place))
    old.open()
    with old.write() as transaction:
        transaction.apply([PutRun(make.run("r1"))])
        transaction.add_head(make.head(1))
    old.close()
    new = SqlStore(database_at(place, two_revisions))
    new.open()
    assert new.run("r1") == make.run("r1")
    assert new.heads("w") == [make.head(1)]
    new.close()
    assert "witness" in columns_of(place, "heads")
    assert revision_of(place) == "0002"


def test_an_older_program_refuses_a_newer_database_and_changes_nothing(place, two_revisions):
    new = database_at(place, two_revisions)
    new.open()
    new.close()
    with pytest.raises(SchemaTooNew, match="0002") as caught:
        database_at(place).open()
    assert "newer version" in caught.value.hint
    assert revision_of(place) == "0002"


def test_a_migration_that_is_killed_at_any_statement_is_completed_by_the_next_start(place, two_revisions, make):
    base = SqlStore(database_at(place))
    base.open()
    with base.write() as transaction:
        transaction.add_head(make.head(1))
    base.close()
    folder = str(two_revisions.folders[-1])
    killed = 0
    while True:
        command = [sys.executable, "-c", KILLED_AT, *place, folder, str(killed + 1)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            break
        assert result.returncode == -signal.SIGKILL, result.stderr
        killed += 1
        assert revision_of(place) == "0001"
        assert "witness" not in columns_of(place, "heads")
    assert killed >= 5
    assert revision_of(place) == "0002"
    store = SqlStore(database_at(place, two_revisions))
    store.open()
    assert store.heads("w") == [make.head(1)]
    store.close()


def test_a_first_start_that_is_killed_half_way_is_completed_by_the_next(place, two_revisions):
    folder = str(two_revisions.folders[-1])
    for last in (3, 12):
        command = [sys.executable, "-c", KILLED_AT, *place, folder, str(last)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == -signal.SIGKILL, result.stderr
        assert columns_of(place, "records") == set()
    database = database_at(place, two_revisions)
    database.open()
    database.close()
    assert revision_of(place) == "0002"


def test_opening_a_current_database_does_not_load_the_migration_machinery(tmp_path):
    path = tmp_path / "bollard.db"
    database = SqliteDatabase(path)
    database.open()
    database.close()
    program = (
        "import sys; from pathlib import Path; from bollard.host.store.sqlite import sqlite_store\n"
        "store = sqlite_store(Path(sys.argv[1])); store.open(); store.run('r'); store.close()\n"
        "print([name for name in ('alembic', 'sqlalchemy', 'psycopg') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_two_programs_that_start_at_once_make_one_schema(place, two_revisions):
    command = [sys.executable, "-c", KILLED_AT, *place, str(two_revisions.folders[-1]), "1000000"]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [program.communicate()[1] for program in programs]
    assert [program.returncode for program in programs] == [0, 0], errors
    assert revision_of(place) == "0002"
