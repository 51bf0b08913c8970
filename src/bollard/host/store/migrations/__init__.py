"""Upgrades a database to the schema of this version. Runs at start; does nothing if the schema is current.

Plain statements create a new database in one transaction. Alembic upgrades an older one, also in one transaction, so an
interrupted upgrade changes nothing and the next start repeats it. Alembic is imported only for an upgrade.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.errors import SchemaTooNew
from bollard.host.store.migrations.schema import REVISION, SCHEMAS

UPGRADE_LOCK: Final = 0x626F_6C6C
"""One program at a time makes or upgrades the schema of a PostgreSQL database."""


class Revisions(msgspec.Struct, frozen=True, kw_only=True):
    """The revisions that a program knows, oldest first, and the folders that hold them."""

    known: tuple[str, ...]
    folders: tuple[Path, ...]
    fresh: str | None = REVISION
    """The revision that plain statements make of an empty database; without it, migrations start from nothing."""


REVISIONS: Final = Revisions(known=tuple(SCHEMAS), folders=(Path(__file__).parent / "versions",))


def migrate(revisions: Revisions, stored: str | None, create: Callable[[], str], url: str, wait_s: float) -> None:
    """Bring the database at `url`, whose revision is `stored`, to the newest known one.

    `create` creates the schema unless another process was faster, and returns the resulting revision.
    """
    if stored is None and revisions.fresh is not None:
        stored = create()
    if stored == revisions.known[-1]:
        return
    if stored is not None and stored not in revisions.known:
        raise SchemaTooNew(
            f"the database has revision {stored}, this version knows up to {revisions.known[-1]}",
            reason="database_too_new",
            hint="start the newer version, or restore a backup made by this one",
            stored=stored,
            known=revisions.known[-1],
        )
    # Imported by name: Alembic and SQLAlchemy cost a third of a second, which an ordinary start need not pay.
    importlib.import_module("bollard.host.store.migrations.upgrade").upgrade(revisions, url, wait_s)
