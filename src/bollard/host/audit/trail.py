"""What a host does for its audit beside writing the log: the witness, and the archive. One value for the composition
root."""

from collections.abc import Callable
from pathlib import Path

from bollard.host.audit.archiving import Archiver
from bollard.host.audit.witness import Witness, WitnessNumbers
from bollard.host.audit.witness_file import WitnessFile
from bollard.host.clock import Clock
from bollard.host.log.journal import Journal
from bollard.host.settings import Settings
from bollard.host.store.boundary import Store

__all__ = ["ARCHIVE_FOLDER", "Trail", "witness_path"]

ARCHIVE_FOLDER = "archive"
"""In the data directory."""


def witness_path(settings: Settings) -> Path:
    """Where heads are written a second time."""
    return Path(settings.witness) if settings.witness else settings.data / "witness" / "heads.jsonl"


class Trail:
    """One per host."""

    def __init__(
        self, settings: Settings, *, store: Store, journal: Journal, clock: Clock, incarnation: str, workspace: str
    ) -> None:
        """`workspace` is where what happens to the audit itself is recorded."""
        path = witness_path(settings)
        self._store = store
        self._witness = Witness(
            WitnessFile(path), journal, clock, incarnation=incarnation, workspace=workspace, place=str(path)
        )
        self._archiver: Archiver | None = None
        if settings.archive_days:
            folder = settings.data / ARCHIVE_FOLDER
            self._archiver = Archiver(
                store=store, journal=journal, clock=clock, folder=folder, days=settings.archive_days
            )

    @property
    def numbers(self) -> Callable[[], WitnessNumbers]:
        return lambda: self._witness.numbers

    def start(self) -> None:
        """Before the first record."""
        self._witness.start(self._store)

    async def keep_house(self) -> None:
        """Before retention takes anything. Raises `HostError`."""
        if self._archiver is not None:
            await self._archiver.run()

    async def close(self) -> None:
        """After the journal."""
        await self._witness.close()
