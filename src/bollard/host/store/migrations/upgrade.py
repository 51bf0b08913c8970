"""Runs Alembic from inside the program, without its ini file and environment script. Imported only when needed."""

import sqlite3
import threading
from typing import Any, Final

from alembic import op
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.pool import NullPool

from bollard.host.store.migrations import UPGRADE_LOCK, Revisions
from bollard.host.store.migrations.schema import SCHEMAS

_ONE_AT_A_TIME: Final = threading.Lock()  # Alembic's `op` is one for the whole process
_POSTGRES: Final = ("postgresql:", "postgres:")


def upgrade(revisions: Revisions, url: str, wait_s: float) -> None:
    """One transaction from the stored revision to the newest. Raises the driver's own errors."""
    engine = _engine(url, wait_s)
    try:
        with _ONE_AT_A_TIME, engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": UPGRADE_LOCK})
            _run(connection, revisions)
    except Exception as error:
        original = getattr(error, "orig", None)
        if isinstance(original, Exception):
            raise original from error
        raise
    finally:
        engine.dispose()


def _engine(url: str, wait_s: float) -> Engine:
    scheme, _, rest = url.partition(":")
    if f"{scheme}:" in _POSTGRES:
        return create_engine(f"postgresql+psycopg:{rest}", poolclass=NullPool)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": wait_s})
    event.listen(engine, "connect", _without_implicit_transactions)
    event.listen(engine, "begin", _begin)
    return engine


def _without_implicit_transactions(connection: sqlite3.Connection, record: object) -> None:
    """Python's driver would commit before some statements; the upgrade must be one transaction."""
    del record
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _run(connection: Connection, revisions: Revisions) -> None:
    config = Config()
    config.set_main_option("path_separator", "newline")
    config.set_main_option("script_location", str(revisions.folders[0].parent))
    config.set_main_option("version_locations", "\n".join(str(folder) for folder in revisions.folders))
    script = ScriptDirectory.from_config(config)
    head = revisions.known[-1]

    def steps(revision: Any, context: MigrationContext) -> Any:
        del context
        return script._upgrade_revs(head, revision)  # pyright: ignore[reportPrivateUsage] -- as alembic.command does

    with EnvironmentContext(config, script, fn=steps, destination_rev=head) as environment:
        environment.configure(connection=connection, render_as_batch=True)
        environment.run_migrations()


def run_schema(revision: str) -> None:
    """Run the statements of one revision, inside of the transaction of `upgrade`."""
    connection, schema = op.get_bind(), SCHEMAS[revision]
    for statement in schema.postgres if connection.dialect.name == "postgresql" else schema.sqlite:
        connection.exec_driver_sql(statement)
