"""Brings a database to the schema that this version of the code knows. Runs at start; does nothing when it is there.

The whole upgrade is one transaction on both databases, so one that is killed leaves the old schema and the next start
does it again. The machinery (Alembic) is imported only when there is something to do.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bollard.host.errors import SchemaTooNew

__all__ = ["REVISIONS", "Revisions", "migrate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """The revisions that a program knows, oldest first, and the folders that hold them."""

    known: tuple[str, ...]
    folders: tuple[Path, ...]


REVISIONS: Final = Revisions(known=("0001",), folders=(Path(__file__).parent / "versions",))


def migrate(revisions: Revisions, stored: str | None, url: str, wait_s: float) -> None:
    """Upgrade the database at `url`, whose revision is `stored`, to the newest known one."""
    if stored == revisions.known[-1]:
        return
    if stored is not None and stored not in revisions.known:
        message = f"the database has revision {stored}, this version knows up to {revisions.known[-1]}"
        raise SchemaTooNew(message, hint="start the newer version, or restore a backup made by this one", stored=stored)
    # By name, because Alembic and SQLAlchemy cost half a second that a start without news should not pay.
    importlib.import_module("bollard.host.store.migrations.upgrading").upgrade(revisions, url, wait_s)
