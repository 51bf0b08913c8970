"""The selection of the store by the settings. PostgreSQL's driver is an extra, so it is imported on demand."""

from pathlib import Path

from bollard.extras import install_command
from bollard.host.clock import Clock
from bollard.host.errors import SettingsError
from bollard.host.store.kept_key import KeptKey
from bollard.host.store.sqlite import sqlite_store
from bollard.host.store.store import Store


def choose_store(database: str, data: Path, clock: Clock, *, alone: bool = False) -> Store:
    """Create the store: SQLite in the data directory, or the PostgreSQL database of the URL. Opens nothing yet.

    A writer sets `alone`: two such stores cannot have a PostgreSQL database open at once. For SQLite the data directory
    has its own lock. Raises `SettingsError`.
    """
    kept_key = KeptKey(data / "keys")
    if not database:
        return sqlite_store(data / "bollard.db", clock=clock, kept_key=kept_key)
    if not database.startswith(("postgresql://", "postgres://")):
        raise SettingsError(
            "the database is not a PostgreSQL URL",
            reason="database_not_postgres_url",
            hint="use postgresql://user@host/name, or leave it empty",
            field="database",
        )
    try:
        from bollard.host.store.postgres import postgres_store  # noqa: PLC0415 -- an extra, only needed here
    except ImportError as error:
        raise postgres_missing() from error
    return postgres_store(database, alone=alone, kept_key=kept_key)


def postgres_missing() -> SettingsError:
    command = install_command("postgres")
    return SettingsError(
        "PostgreSQL needs the extra `postgres`",
        reason="postgres_missing",
        hint=f"install it: `{command}`",
        command=command,
    )
