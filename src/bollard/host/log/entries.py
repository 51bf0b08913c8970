"""What is given to the journal, and what becomes of it. Values only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bollard.host.errors import HostError
from bollard.host.log.records import NewRecord
from bollard.host.store.boundary import Lease, WriteTransaction
from bollard.host.store.rows import DeltaRow, EventRow

__all__ = ["Committed", "Duplicate", "Entry", "Fate", "FencedOff", "Outcome", "Renewed", "Told"]


@dataclass(frozen=True, slots=True)
class Committed:
    """On disk."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The event was accepted before; nothing was written."""

    first: EventRow


@dataclass(frozen=True, slots=True)
class FencedOff:
    """The run has another owner or has ended; nothing of this entry was written."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The runs that this owner still owns."""

    run_ids: frozenset[str]


Outcome = Committed | Duplicate | FencedOff | Renewed
Told = Callable[[Outcome | HostError], None]
Fate = tuple[Told, Outcome | HostError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What must be written together, or not at all."""

    records: Sequence[NewRecord] = ()
    deltas: Sequence[DeltaRow] = ()
    fence: tuple[str, int] | None = None
    """The run and the epoch that must still own it."""
    dedupe: tuple[str, str, str] | None = None
    """Workspace, source and id of an event that must be new."""
    lease: tuple[str, Lease] | None = None
    """Give this run, which exists, to this owner; fenced off when someone was quicker."""
    blobs: Sequence[bytes] = ()
    """Contents that must be on disk before the records that name them."""
    renew: tuple[str, tuple[str, ...], int] | None = None
    """An owner, the runs whose leases it extends, and until when."""
    work: Callable[[WriteTransaction], None] | None = None
    """Housekeeping inside the commit."""
    merge: str | None = None
    """The run that has ended, whose delta rows become one."""
    size: int = 0
    urgent: bool = True
    """Whether somebody waits. A batch that nobody waits for may linger."""
    told: Told | None = None
    """Called on the loop once the fate is known."""
