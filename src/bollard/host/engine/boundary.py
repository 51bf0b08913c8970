"""The engine protocol. Implemented by `local` for one process; each implementation must pass the same tests.

The store decides: only the host that won a run's epoch there executes the run. Messages of an engine are hints.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from bollard.host.log.records import NewRecord


class Cancel(msgspec.Struct, frozen=True):
    """Stop the run."""

    reason: str
    """A failure code."""
    superseded: bool = False
    """Whether a newer message replaces the run. Its unanswered messages are not dropped then."""


Signal = Cancel

Offered = Callable[[str], None]
"""Called with the id of a queued run."""
Signalled = Callable[[str, Signal], bool]
"""Called with a run and a signal; returns whether this host owns the run."""


class HostPresence(msgspec.Struct, frozen=True, kw_only=True):
    """A live host."""

    incarnation: str
    runs: int
    seen_ms: int


class Engine(Protocol):
    """Ownership and signals."""

    @property
    def incarnation(self) -> str:
        """The id of this host since its start."""
        ...

    def subscribe(self, offered: Offered, signalled: Signalled) -> None:
        """Register the callbacks for queued runs and for signals."""
        ...

    def submit(self, run_id: str) -> None:
        """Offer a queued run, which is on disk, to a host with room."""
        ...

    async def claim(self, run_id: str, epoch: int, records: Sequence[NewRecord]) -> bool:
        """Become the owner of a run under `epoch`, and write `records` with it. False if another host was first."""
        ...

    async def renew(self, run_ids: Sequence[str]) -> set[str]:
        """Renew the leases of runs; returns the lost ones. Others may take an expired lease, but until one does the
        run stays with its owner: the epoch decides, never the clock."""
        ...

    def signal(self, run_id: str, signal: Signal) -> bool:
        """Signal the owner of a run; false if no owner is known."""
        ...

    def presence(self) -> list[HostPresence]:
        """The live hosts, including this one."""
        ...
