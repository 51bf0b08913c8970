"""Which database the settings name. PostgreSQL's driver is an extra, so it is imported only where it is wanted."""

from pathlib import Path
from types import ModuleType

from bollard.host.backup.sqlite_tables import SqliteLoader, SqliteSnapshot
from bollard.host.backup.tables import Snapshot, TableLoader
from bollard.host.errors import NotFound, SettingsError


def open_snapshot(database: str, data: Path) -> Snapshot:
    """This moment of what the settings name. Raises `NotFound`, `StorageUnavailable`."""
    if database:
        return _postgres().PostgresSnapshot(database)
    path = data / "bollard.db"
    if not path.is_file():
        raise NotFound(f"{data} holds no database", hint="name the data directory of a host with --data")
    return SqliteSnapshot(path)


def open_filling(database: str, data: Path) -> TableLoader:
    """An empty database to fill. Nothing is opened yet."""
    return _postgres().PostgresLoader(database) if database else SqliteLoader(data / "bollard.db")


def _postgres() -> ModuleType:
    try:
        from bollard.host.backup import postgres_tables  # noqa: PLC0415 -- an extra, only needed here
    except ImportError as error:
        raise SettingsError("PostgreSQL needs the extra `postgres`", hint="pip install 'bollard[postgres]'") from error
    return postgres_tables
