"""A role of PostgreSQL that owns only the knowledge tables: the script that creates it, the check, and the process."""

import itertools
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from bollard.host.backup.backup import BackupSource
from bollard.host.errors import KnowledgeUnavailable, SettingsError
from bollard.host.knowledge.bases import SavedKnowledgeBase
from bollard.host.knowledge.boundary import NewDocument
from bollard.host.knowledge.engine import ProcessEngine
from bollard.host.settings import Settings
from bollard.host.store.postgres import postgres_store
from bollard.knowledge.errors import OutOfService
from bollard.knowledge.postgres import PostgresKnowledge, resolve_connection

pytestmark = pytest.mark.full

SCRIPT = Path(__file__).parents[3] / "deploy" / "knowledge_role.sql"
PASSWORD = "it's 1 secret"
PLAIN = SavedKnowledgeBase(kb_id="k", embedding="none")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A database with the tables of a host, and a name for a role."""

    superuser: str
    role: str
    script: Path

    @property
    def url(self) -> str:
        """For the role."""
        parts = urlsplit(self.superuser)
        return urlunsplit(parts._replace(netloc=f"{self.role}@{parts.hostname}:{parts.port or 5432}"))

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            found = connection.execute(statement)  # type: ignore[arg-type]
            return found.fetchall() if found.description else []

    def run_script(self) -> None:
        program = shutil.which("psql")
        if program is None:
            pytest.skip("there is no psql here")
        line = [program, "-X", "-d", self.superuser, "-v", f"role={self.role}", "-f", str(self.script)]
        environment = {**os.environ, "KNOWLEDGE_PASSWORD": PASSWORD}
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False, env=environment)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def server(postgres_database: str) -> Iterator[Server]:
    role = f"knowledge_test_{os.getpid()}_{next(_numbers)}"
    database = urlunsplit(urlsplit(postgres_database)._replace(path=f"/{role}"))
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {role}")  # type: ignore[arg-type]
        store = postgres_store(database)
        store.open()
        store.close()
        yield Server(superuser=database, role=role, script=SCRIPT)
        connection.execute(f"DROP DATABASE {role} WITH (FORCE)")  # type: ignore[arg-type]
        connection.execute(f"DROP ROLE IF EXISTS {role}")  # type: ignore[arg-type]


@pytest.fixture
async def engine(server: Server, tmp_path: Path) -> AsyncIterator[Callable[[str], ProcessEngine]]:
    opened: list[ProcessEngine] = []

    def open_engine(url: str) -> ProcessEngine:
        opened.append(ProcessEngine(data=tmp_path, database=url, is_alone=True, is_confined=True))
        return opened[-1]

    yield open_engine
    for each in opened:
        await each.close()


def opened(url: str) -> None:
    database = PostgresKnowledge(url, is_alone=True)
    try:
        database.open()
    finally:
        database.close()


def test_the_role_of_the_script_creates_its_tables_and_reads_no_other(server: Server) -> None:
    server.run_script()
    server.run_script()  # again: it changes nothing
    opened(server.url)
    owners = server.run("SELECT DISTINCT schemaname, tableowner FROM pg_tables WHERE tablename ~ '^knowledge_'")
    assert owners == [(server.role, server.role)]
    with psycopg.connect(server.url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT * FROM records")


def test_a_superuser_is_refused(server: Server) -> None:
    with pytest.raises(OutOfService) as refused:
        opened(server.superuser)
    assert refused.value.reason == "role_too_strong"


@pytest.mark.parametrize(
    "grant",
    [
        "GRANT SELECT ON records TO {role}",
        "GRANT SELECT (seq) ON records TO {role}",
        "GRANT TRUNCATE ON records TO PUBLIC",
    ],
)
def test_a_role_with_any_right_to_a_table_of_the_host_is_refused(server: Server, grant: str) -> None:
    server.run_script()
    server.run(grant.format(role=server.role))
    with pytest.raises(OutOfService) as refused:
        opened(server.url)
    assert (refused.value.reason, refused.value.details["table"]) == ("role_reaches_others", "records")
    assert "records" in refused.value.message
    assert "docs/guides/operate.md" in refused.value.hint


def test_a_role_that_may_become_the_owner_of_a_table_is_refused(server: Server) -> None:
    server.run_script()
    owner = f"{server.role}_owner"
    server.run(f"CREATE ROLE {owner}")
    server.run(f"ALTER TABLE records OWNER TO {owner}")
    server.run(f"GRANT {owner} TO {server.role}")
    server.run(f"ALTER ROLE {server.role} NOINHERIT")
    try:
        with pytest.raises(OutOfService, match="records"):
            opened(server.url)
    finally:
        server.run(f"REASSIGN OWNED BY {owner} TO CURRENT_USER")
        server.run(f"DROP ROLE {owner}")


def test_tables_of_the_host_role_are_handed_over_with_their_documents(server: Server) -> None:
    before = PostgresKnowledge(server.superuser)
    before.open()
    with before.writing():
        before.run("INSERT INTO knowledge_bases VALUES (7, 'w', 'k', 'none', 1, 0, 0)")
    before.close()
    server.run(f"CREATE ROLE {server.role} LOGIN")
    server.run(f"CREATE SCHEMA {server.role} AUTHORIZATION {server.role}")
    with pytest.raises(OutOfService) as refused:
        opened(server.url)
    assert refused.value.reason == "tables_of_another_role", "a new role must not begin with empty tables"
    server.run_script()
    after = PostgresKnowledge(server.url, is_alone=True)
    after.open()
    assert after.fetch("SELECT number, kb_id FROM knowledge_bases") == [(7, "k")]
    after.close()


def test_a_resolved_connection_needs_no_file_and_no_name(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = urlsplit(server.superuser)
    passwords, services = tmp_path / "passwords", tmp_path / "services"
    passwords.write_text(f"*:*:*:*:{PASSWORD}\n")
    passwords.chmod(0o600)
    services.write_text(f"[there]\nhost=localhost\nport={parts.port or 5432}\ndbname={server.role}\n")
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    found = resolve_connection(f"service=there user={parts.username}")
    passwords.unlink()
    services.unlink()
    known = psycopg.conninfo.conninfo_to_dict(found.url)
    assert (known["host"], known["hostaddr"]) == ("localhost", "127.0.0.1")
    assert found.port == (parts.port or 5432)
    with psycopg.connect(found.url) as connection:
        assert connection.info.dbname == server.role


async def test_the_confined_process_works_with_its_role(server: Server, engine: Callable[[str], ProcessEngine]) -> None:
    server.run_script()
    running = engine(server.url)
    document = NewDocument(document_id="a", name="a.md", mime_type="text/markdown", content=b"# A\n\ncats")
    await running.open_base("w", PLAIN)
    assert (await running.put("w", "k", document)).document_id == "a"


async def test_a_refusal_reaches_the_person_who_uses_a_knowledge_base(
    server: Server, engine: Callable[[str], ProcessEngine]
) -> None:
    with pytest.raises(KnowledgeUnavailable) as refused:
        await engine(server.superuser).open_base("w", PLAIN)
    assert refused.value.reason == "role_too_strong"


def test_backups_read_documents_by_the_role_of_the_knowledge_tables() -> None:
    settings = Settings(database="postgresql://host/b", knowledge_database="postgresql://role@host/b")
    assert BackupSource.of(settings).documents == "postgresql://role@host/b"
    assert BackupSource.of(Settings(database="postgresql://host/b")).documents == "postgresql://host/b"


def test_a_knowledge_database_needs_a_database() -> None:
    with pytest.raises(SettingsError) as refused:
        Settings(knowledge_database="postgresql://role@host/b")
    assert refused.value.reason == "knowledge_database_alone"
