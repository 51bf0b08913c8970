"""What an engine does. Implementations: local (this process); a cluster's comes later and must pass the same tests.

The store is the truth: a run is executed only by the host that won its epoch there. Everything an engine carries
beside that is a hint.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from bollard.host.log.records import NewRecord


class Cancel(msgspec.Struct, frozen=True):
    """Stop the run for a reason that is a failure code."""

    reason: str
    superseded: bool = False
    """Whether a newer message takes its place: what it was given and has not answered is not dropped then."""


Signal = Cancel

Offered = Callable[[str], None]
"""Called with the id of a run that waits for an owner."""
Signalled = Callable[[str, Signal], bool]
"""Called with a run and a signal; true when this host owns the run."""


class HostPresence(msgspec.Struct, frozen=True, kw_only=True):
    """A host that is alive."""

    incarnation: str
    runs: int
    seen_ms: int


class Engine(Protocol):
    """Ownership and signals."""

    @property
    def incarnation(self) -> str:
        """This host, since its start."""
        ...

    def subscribe(self, offered: Offered, signalled: Signalled) -> None:
        """Hear of runs that wait, and of signals to runs."""
        ...

    def submit(self, run_id: str) -> None:
        """A run is on disk and waits: offer it to whoever has room."""
        ...

    async def claim(self, run_id: str, epoch: int, records: Sequence[NewRecord]) -> bool:
        """Become the owner of a run under `epoch`, and write `records` with it. False when someone was quicker."""
        ...

    async def renew(self, run_ids: Sequence[str]) -> set[str]:
        """Keep owning runs; returns those that were lost. A lease that has run out may be taken by others, and is its
        owner's until one of them did: the epoch decides, never the clock."""
        ...

    def signal(self, run_id: str, signal: Signal) -> bool:
        """Tell the owner of a run; false when nobody is known to own it."""
        ...

    def presence(self) -> list[HostPresence]:
        """The hosts that are alive, this one among them."""
        ...
