"""Options of commands on a store, its schema revision, and sizes as text."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.errors import UsageProblem

if TYPE_CHECKING:
    from bollard.host.settings import Settings


DataOption = Annotated[str | None, typer.Option("--data", metavar="DIR", help="up.option.data")]
"""A string, because an empty value means the default, and `Path('')` is the current folder."""
DatabaseOption = Annotated[str | None, typer.Option("--database", metavar="URL", help="up.option.database")]
IncompleteOption = Annotated[bool, typer.Option("--incomplete", help="backup.incomplete")]
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The store that a command works on."""

    data: DataOption = None
    database: DatabaseOption = None

    def settings(self, *, there: bool = True) -> "Settings":
        """The settings with these options. Raises `UsageProblem` if the directory must exist and does not."""
        from bollard.host.settings import read_settings

        settings = read_settings(os.environ, Path(), {"data": self.data, "database": self.database})
        if there and not settings.data.is_dir():
            raise UsageProblem("error.no_folder", "hint.no_data", path=settings.data)
        return settings


def revision_of(settings: "Settings") -> str | None:
    """The schema revision of a database. Changes nothing."""
    from bollard.host.backup.table_source import open_snapshot

    snapshot = open_snapshot(settings.database, settings.data)
    try:
        return snapshot.revision
    finally:
        snapshot.close()


def size_text(size: int) -> str:
    """A size with its unit."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
