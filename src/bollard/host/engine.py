"""The engine: ownership of runs, and signals to their owners. Each implementation must pass the same tests.

The store decides: only the host that won a run's epoch there executes the run. Messages of an engine are hints.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from bollard.host.clock import Clock
from bollard.host.limits import LEASE_S
from bollard.host.log.entries import Committed, Entry, Renewed
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord
from bollard.host.store.queries import Lease
from bollard.host.store.store import Store


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


class LocalEngine:
    """The engine of a single host: the store is the queue, and signals stay in the process. Owns claimed runs until it
    loses a lease or the process ends."""

    def __init__(self, journal: Journal, store: Store, clock: Clock, incarnation: str) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._incarnation = incarnation
        self._offered: Offered | None = None
        self._signalled: Signalled | None = None
        self._owned = 0
        self._clock_read: asyncio.Task[int] | None = None

    @property
    def incarnation(self) -> str:
        return self._incarnation

    def subscribe(self, offered: Offered, signalled: Signalled) -> None:
        self._offered = offered
        self._signalled = signalled

    def submit(self, run_id: str) -> None:
        if self._offered is not None:
            self._offered(run_id)

    async def claim(self, run_id: str, epoch: int, records: Sequence[NewRecord]) -> bool:
        lease = Lease(owner=self._incarnation, epoch=epoch, until_ms=await self._until_ms())
        size = sum(len(record.data) for record in records)
        outcome = await self._journal.commit(Entry(records=list(records), lease=(run_id, lease), size=size))
        return isinstance(outcome, Committed)

    async def renew(self, run_ids: Sequence[str]) -> set[str]:
        self._owned = len(run_ids)
        if not run_ids:
            return set()
        renewed = (self._incarnation, tuple(run_ids), await self._until_ms())
        outcome = await self._journal.commit(Entry(renew=renewed))
        owned = outcome.run_ids if isinstance(outcome, Renewed) else frozenset[str]()
        return set(run_ids) - owned

    def signal(self, run_id: str, signal: Signal) -> bool:
        return self._signalled is not None and self._signalled(run_id, signal)

    def presence(self) -> list[HostPresence]:
        return [HostPresence(incarnation=self._incarnation, runs=self._owned, seen_ms=self._clock.now_ms())]

    async def _until_ms(self) -> int:
        """The end of a new lease by the store's clock. It is read in a thread, so that a slow database does not block
        the loop. Concurrent callers share one read and continue in order, so that claims keep theirs."""
        if self._clock_read is None or self._clock_read.done():
            self._clock_read = asyncio.create_task(asyncio.to_thread(self._store.now_ms))
        return await asyncio.shield(self._clock_read) + round(LEASE_S * 1000)
