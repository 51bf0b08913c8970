"""The journal, as the loop sees it: entries go in, each is told its fate once, in order. Nothing is told before its
commit.

Who writes is a `Desk`: a thread of this process, a process of its own, or the simulator's.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from bollard.host.errors import HostError, Overloaded, StorageUnavailable
from bollard.host.limits import JOURNAL_QUEUE_BYTES, JOURNAL_QUEUE_ENTRIES
from bollard.host.log.entries import Chore, Counted, Entry, Outcome, Told
from bollard.host.log.facts import RunFacts
from bollard.host.log.numbers import Numbers

__all__ = ["Desk", "Journal", "Tell"]


class Tell(Protocol):
    """How a desk reports, on the loop: the fates of the oldest entries it holds, and its numbers."""

    def __call__(self, fates: Sequence[Outcome | HostError], numbers: Numbers) -> None: ...


class Desk(Protocol):
    """Where a journal's entries are written: in the order they were put, as few commits as there can be."""

    async def open(self, tell: Tell) -> None:
        """Ready to write. Raises `HostError` when it cannot be."""
        ...

    def put(self, entry: Entry) -> None: ...

    def hurry(self) -> None:
        """Somebody began to wait for what was put: do not linger."""
        ...

    def remember(self, facts: RunFacts) -> None:
        """A run of an earlier incarnation that goes on; before its first record."""
        ...

    async def close(self) -> None:
        """Write what was put, tell of it, then stop."""
        ...


class Journal:
    """Takes entries, bounded in number and bytes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        self._open: deque[tuple[Told | None, int]] = deque()
        self._bytes = 0
        self._closing = False
        self.numbers = Numbers()

    async def start(self) -> None:
        await self._desk.open(self._tell)

    @property
    def full(self) -> bool:
        """Whether the disk was found full: what runs may end, nothing new is taken until there is space again."""
        return self.numbers.full

    @property
    def waiting(self) -> int:
        """Entries whose fate is not known yet."""
        return len(self._open)

    def remember(self, facts: RunFacts) -> None:
        """A run of an earlier incarnation that goes on. Call before its first record."""
        self._desk.remember(facts)

    def append(self, entry: Entry, told: Told | None = None) -> None:
        """Queue an entry; `told` hears of it. Raises `Overloaded` when too much waits already."""
        if self._closing:
            raise StorageUnavailable("the journal is closed", hint="the host is shutting down")
        if len(self._open) >= JOURNAL_QUEUE_ENTRIES or self._bytes + entry.size > JOURNAL_QUEUE_BYTES:
            raise Overloaded("the journal is behind", hint="try again in a moment", limit=JOURNAL_QUEUE_ENTRIES)
        self._open.append((told, entry.size))
        self._bytes += entry.size
        self._desk.put(entry)

    def hurry(self) -> None:
        """Somebody began to wait for what is queued: do not linger."""
        self._desk.hurry()

    async def commit(self, entry: Entry, then: Told | None = None) -> Outcome:
        """Queue an entry and wait until it is on disk. Raises what kept it from that.

        `then` is told in any case, and once: also when whoever waits here was cancelled meanwhile.
        """
        fate: asyncio.Future[Outcome] = self._loop.create_future()

        def told(outcome: Outcome | HostError) -> None:
            if then is not None:
                then(outcome)
            if fate.done():
                return
            if isinstance(outcome, HostError):
                fate.set_exception(outcome)
            else:
                fate.set_result(outcome)

        try:
            self.append(entry, told)
        except HostError as error:
            if then is not None:
                then(error)
            raise
        return await fate

    async def housekeep(self, chore: Chore) -> int:
        """A chore in a commit of its own; returns how many rows it was."""
        outcome = await self.commit(Entry(chore=chore, urgent=False))
        return outcome.rows if isinstance(outcome, Counted) else 0

    async def close(self) -> None:
        """Write what is queued, then stop."""
        self._closing = True
        await self._desk.close()

    def _tell(self, fates: Sequence[Outcome | HostError], numbers: Numbers) -> None:
        self.numbers = numbers
        for fate in fates:
            told, size = self._open.popleft()
            self._bytes -= size
            if told is not None:
                told(fate)
