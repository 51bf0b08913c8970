"""Which store the settings ask for. PostgreSQL's driver is an extra, so it is imported only where it is wanted."""

from pathlib import Path

from bollard.host.clock import Clock
from bollard.host.errors import SettingsError
from bollard.host.store.kept_key import KeptKey
from bollard.host.store.sqlite import sqlite_store
from bollard.host.store.store import Store


def choose_store(database: str, data: Path, clock: Clock, *, alone: bool = False) -> Store:
    """SQLite in the data directory, or the PostgreSQL that the URL names. Nothing is opened yet.

    Whoever writes asks for it `alone`: two of them cannot have a PostgreSQL database open at once. SQLite is in a
    directory that has a lock of its own.
    """
    kept_key = KeptKey(data / "keys")
    if not database:
        return sqlite_store(data / "bollard.db", clock=clock, kept_key=kept_key)
    if not database.startswith(("postgresql://", "postgres://")):
        raise SettingsError(
            "the database is not a PostgreSQL URL",
            hint="use postgresql://user@host/name, or leave it empty",
            field="database",
        )
    try:
        from bollard.host.store.postgres import postgres_store  # noqa: PLC0415 -- an extra, only needed here
    except ImportError as error:
        raise SettingsError("PostgreSQL needs the extra `postgres`", hint="pip install 'bollard[postgres]'") from error
    return postgres_store(database, alone=alone, kept_key=kept_key)
