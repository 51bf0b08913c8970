"""The selection of the database of a backup or restore. PostgreSQL's driver is an extra, imported on demand."""

from pathlib import Path
from types import ModuleType

from bollard.host.backup.sqlite_tables import SqliteLoader, SqliteSnapshot
from bollard.host.backup.tables import Snapshot, TableLoader
from bollard.host.errors import NotFound
from bollard.host.store.selection import postgres_missing


def open_snapshot(database: str, data: Path) -> Snapshot:
    """A snapshot of the database that the settings name. Raises `NotFound`, `StorageUnavailable`."""
    if database:
        return _postgres().PostgresSnapshot(database)
    path = data / "bollard.db"
    if not path.is_file():
        raise NotFound(
            f"{data} holds no database",
            reason="no_database",
            hint="name the data directory of a host with --data",
            path=str(data),
        )
    return SqliteSnapshot(path)


def open_filling(database: str, data: Path) -> TableLoader:
    """A loader for an empty database. Opens nothing yet."""
    return _postgres().PostgresLoader(database) if database else SqliteLoader(data / "bollard.db")


def _postgres() -> ModuleType:
    try:
        from bollard.host.backup import postgres_tables  # noqa: PLC0415 -- an extra, only needed here
    except ImportError as error:
        raise postgres_missing() from error
    return postgres_tables
