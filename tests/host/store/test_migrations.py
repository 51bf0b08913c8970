"""Migrations: they run at open, finish after a kill, and refuse a future they do not know."""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from tests.replacement import replace

from bollard.host.errors import SchemaTooNew
from bollard.host.store.action_rows import ApprovalRow, ToolCallRow
from bollard.host.store.migrations import REVISIONS, Revisions, schema
from bollard.host.store.postgres import PostgresDatabase
from bollard.host.store.rows import (
    POLICY_KINDS,
    ArtifactRow,
    DeltaRow,
    EventRow,
    HeadRow,
    KeptRow,
    PolicyRow,
    PutKept,
    PutRun,
    RecordRow,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
)
from bollard.host.store.sqlite import SqliteDatabase
from bollard.host.store.store import Store

LAST = schema.REVISION
NEXT = f"{int(LAST) + 1:04}"
LATER = f'''
"""A further revision, for tests: changes a table on both databases."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{LAST}"


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
later = f"{int(REVISIONS.known[-1]) + 1:04}"
revisions = Revisions(known=(*REVISIONS.known, later), folders=(*REVISIONS.folders, Path(folder)))
database = (SqliteDatabase(Path(place), revisions=revisions) if kind == "sqlite"
            else PostgresDatabase(place, revisions=revisions))
database.open()
database.close()
print(seen)
"""

CREATION_KILLED_EVERYWHERE = """
import os, signal, sqlite3, sys
from pathlib import Path
import psycopg
from bollard.host.store.migrations import schema
from bollard.host.store.postgres import PostgresDatabase
from bollard.host.store.sqlite import SqliteDatabase

kind, place = sys.argv[1], sys.argv[2]
left = 0

def deadly(execute):
    def wrapped(self, statement, *rest):
        global left
        answer = execute(self, statement, *rest)
        text = statement.decode() if isinstance(statement, bytes) else statement
        left -= text.startswith(("CREATE", "INSERT", "ALTER"))
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer
    return wrapped

def start():
    if kind == "sqlite":
        SqliteDatabase.run = deadly(SqliteDatabase.run)
        SqliteDatabase(Path(place)).open()
    else:
        psycopg.Connection.execute = deadly(psycopg.Connection.execute)
        PostgresDatabase(place).open()

def tables():
    if kind == "sqlite":
        connection = sqlite3.connect(place)
        found = connection.execute("SELECT name FROM sqlite_master").fetchall()
    else:
        connection = psycopg.connect(place)
        found = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'fresh'::regnamespace").fetchall()
    connection.close()
    return found

statements = (*(schema.SQLITE if kind == "sqlite" else schema.POSTGRES), *schema.STAMP)
for last in range(1, len(statements) + 1):
    child = os.fork()
    if child == 0:
        left = last
        start()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (last, status)
    assert tables() == [], last
print(last)
"""

POSTGRES_SHAPE = [
    "SELECT table_name, column_name, data_type, collation_name, is_nullable, is_generated, generation_expression, "
    "ordinal_position::int, coalesce(character_maximum_length, 0)::int "
    "FROM information_schema.columns WHERE table_schema = 'fresh'",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'fresh'",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = 'fresh'::regnamespace",
    "SELECT sequencename, data_type::text FROM pg_sequences WHERE schemaname = 'fresh'",
]

TABLES = {
    "records": RecordRow,
    "deltas": DeltaRow,
    "heads": HeadRow,
    "events": EventRow,
    "runs": RunRow,
    "transcript": TranscriptRow,
    "state": StateRow,
    "storage": StorageRow,
    "artifacts": ArtifactRow,
    "kept": KeptRow,
    "tool_calls": ToolCallRow,
    "approvals": ApprovalRow,
}


@pytest.fixture
def next_revisions(tmp_path: Path) -> Revisions:
    folder = tmp_path / "versions"
    folder.mkdir()
    (folder / f"v{NEXT}_later.py").write_text(LATER)
    return Revisions(known=(*REVISIONS.known, NEXT), folders=(*REVISIONS.folders, folder))


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


def schema_of(place):
    """Everything in the database about its own shape."""
    kind, where = place
    if kind == "sqlite":
        with sqlite3.connect(where) as connection:
            rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        connection.close()
        return sorted(
            (*names, " ".join((sql or "").split()).replace("( ", "(").replace(" )", ")")) for *names, sql in rows
        )
    with psycopg.connect(where) as connection:
        return [sorted(connection.execute(statement).fetchall()) for statement in POSTGRES_SHAPE]


def renewed(place):
    """The place of another empty database."""
    kind, where = place
    if kind == "sqlite":
        return kind, where + ".other"
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("DROP SCHEMA fresh CASCADE")
        connection.execute("CREATE SCHEMA fresh")
    return place


def revision_of(place):
    kind, where = place
    connection = sqlite3.connect(where) if kind == "sqlite" else psycopg.connect(where)
    try:
        ((revision,),) = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    finally:
        connection.close()
    return revision


def test_every_row_type_has_its_table_and_columns(place):
    database = database_at(place)
    database.open()
    database.close()
    own = {
        "events": {"place"},
        "runs": {"ended"},
        "kept": {"mac"},
        "transcript": {"place", "vector"} if place[0] == "postgres" else {"place"},
    }
    for table, row in TABLES.items():
        assert columns_of(place, table) == set(row.__struct_fields__) | own.get(table, set())
    for kind in POLICY_KINDS:
        names = {f"{kind}_id" if name == "id" else name for name in PolicyRow.__struct_fields__}
        assert columns_of(place, f"{kind}s") == names


def test_the_known_revisions_are_the_files_of_the_folder():
    (folder,) = REVISIONS.folders
    found = sorted(path.name.split("_")[0].removeprefix("v") for path in folder.glob("v*.py"))
    assert found == list(REVISIONS.known)


def test_an_older_database_is_upgraded_and_keeps_its_rows(place, next_revisions, make):
    old = Store(database_at(place))
    old.open()
    with old.write() as transaction:
        transaction.apply([PutRun(make.run("r1"))])
        transaction.add_head(make.head(1))
    old.close()
    new = Store(database_at(place, next_revisions))
    new.open()
    assert new.run("r1") == make.run("r1")
    assert new.heads("w") == [make.head(1)]
    new.close()
    assert "witness" in columns_of(place, "heads")
    assert revision_of(place) == NEXT


LATER_COLUMNS = ("usage",)
"""Of runs, since the first version."""


def first_database(place, run):
    """A database as the first version made it, with a run in it."""
    kind, where = place
    stamp = [schema.STAMP[0], "INSERT INTO alembic_version (version_num) VALUES ('0001')"]
    statements = [*(schema.SCHEMAS["0001"].sqlite if kind == "sqlite" else schema.SCHEMAS["0001"].postgres), *stamp]
    connection = sqlite3.connect(where) if kind == "sqlite" else psycopg.connect(where)
    try:
        for statement in statements:
            connection.execute(statement)
        names = [name for name in run.__struct_fields__ if name not in LATER_COLUMNS]
        marks = ", ".join(["?" if kind == "sqlite" else "%s"] * len(names))
        insert = f"INSERT INTO runs ({', '.join(names)}) VALUES ({marks})"
        connection.execute(insert, [getattr(run, name) for name in names])
        connection.commit()
    finally:
        connection.close()


def test_a_database_of_the_first_version_upgrades_to_the_current_schema_with_its_rows(place, make):
    first_database(place, make.run("r1"))
    older = Store(database_at(place, replace(REVISIONS, known=("0001",), fresh="0001")))
    older.open()
    with older.write() as transaction:
        transaction.add_head(make.head(1))
    older.close()
    newer = Store(database_at(place))
    newer.open()
    assert newer.run("r1") == make.run("r1")
    assert newer.heads("w") == [make.head(1)]
    kept = KeptRow(kind="k", workspace="w", id="i", body=b"b", expires_ms=None, updated_ms=1)
    with newer.write() as transaction:
        transaction.keep([PutKept(kept)])
    assert newer.kept("k", "w", "i") == kept
    newer.close()
    upgraded = schema_of(place)
    place = renewed(place)
    fresh = database_at(place)
    fresh.open()
    fresh.close()
    assert schema_of(place) == upgraded


def test_the_first_version_refuses_a_current_database(place):
    database = database_at(place)
    database.open()
    database.close()
    with pytest.raises(SchemaTooNew, match=REVISIONS.known[-1]):
        database_at(place, replace(REVISIONS, known=("0001",), fresh="0001")).open()
    assert revision_of(place) == REVISIONS.known[-1]


def test_an_older_program_refuses_a_newer_database_and_changes_nothing(place, next_revisions):
    new = database_at(place, next_revisions)
    new.open()
    new.close()
    with pytest.raises(SchemaTooNew, match=NEXT) as caught:
        database_at(place).open()
    assert "newer version" in caught.value.hint
    assert revision_of(place) == NEXT


@pytest.mark.full
def test_a_migration_killed_at_any_statement_is_completed_by_the_next_start(place, next_revisions, make):
    base = Store(database_at(place))
    base.open()
    with base.write() as transaction:
        transaction.add_head(make.head(1))
    base.close()
    folder = str(next_revisions.folders[-1])
    killed = 0
    while True:
        command = [sys.executable, "-c", KILLED_AT, *place, folder, str(killed + 1)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            break
        assert result.returncode == -signal.SIGKILL, result.stderr
        killed += 1
        assert revision_of(place) == LAST
        assert "witness" not in columns_of(place, "heads")
    assert killed >= 5
    assert revision_of(place) == NEXT
    store = Store(database_at(place, next_revisions))
    store.open()
    assert store.heads("w") == [make.head(1)]
    store.close()


def test_a_new_schema_equals_the_result_of_all_migrations(place):
    fresh = database_at(place)
    fresh.open()
    fresh.close()
    made = schema_of(place)
    assert all(made)
    place = renewed(place)
    migrated = database_at(place, replace(REVISIONS, fresh=None))
    migrated.open()
    migrated.close()
    assert revision_of(place) == REVISIONS.known[-1]
    assert schema_of(place) == made


@pytest.mark.full
def test_a_first_start_killed_after_any_statement_is_completed_by_the_next(place):
    command = [sys.executable, "-c", CREATION_KILLED_EVERYWHERE, *place]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 20
    store = Store(database_at(place))
    store.open()
    assert store.records(0, 1) == []
    store.close()
    assert revision_of(place) == LAST


def test_a_first_start_of_a_later_version_killed_in_its_upgrade_is_completed_by_the_next(place, next_revisions):
    command = [sys.executable, "-c", KILLED_AT, *place, str(next_revisions.folders[-1]), "3"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert revision_of(place) == LAST
    database = database_at(place, next_revisions)
    database.open()
    database.close()
    assert revision_of(place) == NEXT


@pytest.mark.parametrize("start", ["first", "second"])
def test_opening_a_new_or_current_database_does_not_load_the_migration_modules(tmp_path, start):
    path = tmp_path / "bollard.db"
    if start == "second":
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


def test_a_new_postgres_database_needs_no_migration_modules(empty_postgres_url):
    program = (
        "import sys; from bollard.host.store.postgres import postgres_store\n"
        "store = postgres_store(sys.argv[1]); store.open(); store.run('r'); store.close()\n"
        "print([name for name in ('alembic', 'sqlalchemy') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, empty_postgres_url]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.full
def test_two_concurrent_starts_make_one_schema(place, next_revisions):
    command = [sys.executable, "-c", KILLED_AT, *place, str(next_revisions.folders[-1]), "1000000"]
    programs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [program.communicate()[1] for program in programs]
    assert [program.returncode for program in programs] == [0, 0], errors
    assert revision_of(place) == NEXT
