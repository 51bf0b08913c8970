"""The journal, as the loop sees it: entries go in, each is told its fate once, in order. Nothing is told before its
commit.

Who writes is a `EntryWriter`: a thread of this process, a process of its own, or the simulator's.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from bollard.host.errors import HostError, Overloaded, StorageUnavailable
from bollard.host.limits import JOURNAL_QUEUE_BYTES, JOURNAL_QUEUE_ENTRIES, REFUSED_TRIES
from bollard.host.log.entries import Chore, ChoreDone, CommitResult, Entry, Told
from bollard.host.log.records import NewRecord, RunFacts
from bollard.host.store.rows import HeadRow

# What the journal did, for metrics and for deciding whether anything new may be taken.


class WriterNumbers(msgspec.Struct, array_like=True):
    commits: int = 0
    records: int = 0
    entries: int = 0
    retries: int = 0
    failures: int = 0
    last_commit_s: float = 0.0
    full: bool = False
    """Whether the disk was found full: what runs may end, nothing new is taken until there is space again."""


class WriterListener(Protocol):
    """Called on the loop with the results of the oldest entries, the numbers of the writer, and signed heads."""

    def __call__(
        self, fates: Sequence[CommitResult | HostError], numbers: WriterNumbers, heads: Sequence[HeadRow] = ()
    ) -> None: ...


class EntryWriter(Protocol):
    """Writes the entries of a journal, in the order of `put`, in as few commits as possible."""

    async def open(self, tell: WriterListener) -> None:
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


def passes(error: HostError, tries: int) -> bool:
    """Whether what was refused with this, so many times, may be taken another time. What nobody foresaw is tried a few
    times: it may be a bug, and then it is always the same."""
    if error.details.get("outcome") == "refused":
        return tries < REFUSED_TRIES
    return error.retryable


class Journal:
    """Takes entries, bounded in number and bytes."""

    def __init__(self, writer: EntryWriter, committed: Callable[[int, float], None] | None = None) -> None:
        """`committed` is called with each commit: how many entries shared it, and how long it took in seconds."""
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._open: deque[tuple[Told | None, int]] = deque()
        self._bytes = 0
        self._closing = False
        self.numbers = WriterNumbers()
        self._committed = committed
        self.signed: Callable[[Sequence[HeadRow]], None] | None = None
        """Told of heads that were signed, once they are on disk."""

    async def start(self) -> None:
        await self._writer.open(self._tell)

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
        self._writer.remember(facts)

    def append(self, entry: Entry, told: Told | None = None) -> None:
        """Queue an entry; `told` hears of it. Raises `Overloaded` when too much waits already."""
        if self._closing:
            raise StorageUnavailable("the journal is closed", hint="the host is shutting down")
        # What waits counts, and not what comes: an entry of any size has its turn.
        if len(self._open) >= JOURNAL_QUEUE_ENTRIES or self._bytes >= JOURNAL_QUEUE_BYTES:
            raise Overloaded("the journal is behind", hint="try again in a moment", limit=JOURNAL_QUEUE_ENTRIES)
        self._open.append((told, entry.size))
        self._bytes += entry.size
        self._writer.put(entry)

    def hurry(self) -> None:
        """Somebody began to wait for what is queued: do not linger."""
        self._writer.hurry()

    async def commit(self, entry: Entry, then: Told | None = None) -> CommitResult:
        """Queue an entry and wait until it is on disk. Raises what kept it from that.

        `then` is told in any case, and once: also when whoever waits here was cancelled meanwhile.
        """
        return await self.submit(entry, then)

    def submit(self, entry: Entry, then: Told | None = None) -> asyncio.Future[CommitResult]:
        """The same for who can use the time: the disk is at work when this returns."""
        fate: asyncio.Future[CommitResult] = self._loop.create_future()

        def told(outcome: CommitResult | HostError) -> None:
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
        return fate

    async def commit_through(self, entry: Entry, then: Told | None = None) -> CommitResult:
        """The same for who holds a lock: cancelled meanwhile, it leaves when the fate is known, and not before."""
        fate = asyncio.ensure_future(self.commit(entry, then))
        try:
            return await asyncio.shield(fate)
        except asyncio.CancelledError:
            await asyncio.wait([fate])
            if not fate.cancelled():
                fate.exception()  # heard, though nobody is left to be told
            raise

    async def housekeep(self, chore: Chore, record: NewRecord | None = None) -> int:
        """A chore; returns how many rows it was. The record is written with it, where there were any."""
        outcome = await self.commit(Entry(chore=chore, records=[] if record is None else [record], urgent=False))
        return outcome.rows if isinstance(outcome, ChoreDone) else 0

    async def close(self) -> None:
        """Write what is queued, then stop."""
        self._closing = True
        await self._writer.close()

    def _tell(
        self, fates: Sequence[CommitResult | HostError], numbers: WriterNumbers, heads: Sequence[HeadRow] = ()
    ) -> None:
        before, self.numbers = self.numbers, numbers
        if heads and self.signed is not None:
            self.signed(heads)
        if fates and self._committed is not None and numbers.commits > before.commits:
            self._committed(len(fates), numbers.last_commit_s)
        for fate in fates:
            told, size = self._open.popleft()
            self._bytes -= size
            if told is not None:
                told(fate)
