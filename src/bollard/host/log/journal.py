"""The journal on the event loop: it queues entries, and reports the result of each entry once, in order, after its
commit.

An `EntryWriter` does the writing: a thread of this process, a separate process, or the simulator's.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from bollard.host.errors import HostError, Overloaded, StorageUnavailable
from bollard.host.limits import JOURNAL_QUEUE_BYTES, JOURNAL_QUEUE_ENTRIES, REFUSED_TRIES
from bollard.host.log.commit_watch import CommitWatch
from bollard.host.log.entries import Chore, ChoreDone, CommitListener, CommitOutcome, CommitResult, Entry
from bollard.host.log.records import NewRecord, RunFacts
from bollard.host.store.rows import HeadRow


class WriterNumbers(msgspec.Struct, array_like=True):
    """Counters of the writer, for metrics and for admission of new work."""

    commits: int = 0
    records: int = 0
    entries: int = 0
    retries: int = 0
    failures: int = 0
    last_commit_s: float = 0.0
    full: bool = False
    """Whether the disk is full: active runs may end, and new work is refused until there is space again."""


class WriterListener(Protocol):
    """Called on the loop with the results of the oldest entries, the numbers of the writer, and signed heads."""

    def __call__(
        self, outcomes: Sequence[CommitOutcome], numbers: WriterNumbers, heads: Sequence[HeadRow] = ()
    ) -> None: ...


class EntryWriter(Protocol):
    """Writes the entries of a journal, in the order of `put`, in as few commits as possible."""

    async def open(self, tell: WriterListener) -> None:
        """Prepare for writing. Raises `HostError`."""
        ...

    def put(self, entry: Entry) -> None: ...

    def hurry(self) -> None:
        """Commit the queued entries without lingering: a caller waits for them now."""
        ...

    def remember(self, facts: RunFacts) -> None:
        """Load the facts of a run of an earlier incarnation, before its next record."""
        ...

    async def close(self) -> None:
        """Write the queued entries, report their results, then stop."""
        ...


def passes(error: HostError, tries: int) -> bool:
    """Whether an entry that was refused with this error may be retried after so many tries. An unexpected error is
    retried a few times only, because it may be a bug."""
    if error.details.get("outcome") == "refused":
        return tries < REFUSED_TRIES
    return error.retryable


class Journal:
    """Queues entries for the writer, bounded in number and bytes."""

    def __init__(self, writer: EntryWriter, committed: Callable[[int, float], None] | None = None) -> None:
        """`committed` is called with each commit: how many entries shared it, and how long it took in seconds."""
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._open: deque[tuple[CommitListener | None, Entry]] = deque()
        self._bytes = 0
        self._closing = False
        self.numbers = WriterNumbers()
        self._committed = committed
        self.watch = CommitWatch()
        self.signed: Callable[[Sequence[HeadRow]], None] | None = None
        """Called with signed heads once they are on disk."""

    async def start(self) -> None:
        await self._writer.open(self._report)

    @property
    def full(self) -> bool:
        """Whether the disk is full: active runs may end, and new work is refused until there is space again."""
        return self.numbers.full

    @property
    def waiting(self) -> int:
        """The number of entries without a result."""
        return len(self._open)

    def remember(self, facts: RunFacts) -> None:
        """Load the facts of a run of an earlier incarnation, before its next record."""
        self._writer.remember(facts)

    def append(self, entry: Entry, listener: CommitListener | None = None) -> None:
        """Queue an entry; `listener` is called with its result. Raises `Overloaded` if the queue is full."""
        if self._closing:
            raise StorageUnavailable(
                "the journal is closed",
                reason="journal_closed",
                hint="the host is shutting down; retry after its start",
            )
        # Only queued entries count towards the limit, so that an entry of any size is accepted at some time.
        if len(self._open) >= JOURNAL_QUEUE_ENTRIES or self._bytes >= JOURNAL_QUEUE_BYTES:
            raise Overloaded(
                "the journal is behind", reason="journal_behind", hint="retry in a moment", limit=JOURNAL_QUEUE_ENTRIES
            )
        self._open.append((listener, entry))
        self._bytes += entry.size
        self._writer.put(entry)

    def hurry(self) -> None:
        """Commit the queued entries without lingering: a caller waits for them now."""
        self._writer.hurry()

    async def commit(self, entry: Entry, then: CommitListener | None = None) -> CommitResult:
        """Queue an entry and wait until it is on disk. Raises the error that prevented it.

        `then` is called exactly once with the result, even if the waiting task is cancelled.
        """
        return await self.submit(entry, then)

    def submit(self, entry: Entry, then: CommitListener | None = None) -> asyncio.Future[CommitResult]:
        """Like `commit`, but return a future, so that the caller can work while the disk writes."""
        result: asyncio.Future[CommitResult] = self._loop.create_future()

        def settle(outcome: CommitResult | HostError) -> None:
            if then is not None:
                then(outcome)
            if result.done():
                return
            if isinstance(outcome, HostError):
                result.set_exception(outcome)
            else:
                result.set_result(outcome)

        try:
            self.append(entry, settle)
        except HostError as error:
            if then is not None:
                then(error)
            raise
        return result

    async def commit_through(self, entry: Entry, then: CommitListener | None = None) -> CommitResult:
        """Like `commit`, for callers that hold a lock: a cancelled caller still waits for the result."""
        result = asyncio.ensure_future(self.commit(entry, then))
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            await asyncio.wait([result])
            if not result.cancelled():
                result.exception()  # retrieved, so that asyncio does not log it
            raise

    async def housekeep(self, chore: Chore, record: NewRecord | None = None) -> int:
        """Run a chore; returns the number of dropped rows. The record is written if there were any."""
        outcome = await self.commit(Entry(chore=chore, records=[] if record is None else [record], urgent=False))
        return outcome.rows if isinstance(outcome, ChoreDone) else 0

    async def close(self) -> None:
        """Write the queued entries, then stop."""
        self._closing = True
        await self._writer.close()

    def _report(self, outcomes: Sequence[CommitOutcome], numbers: WriterNumbers, heads: Sequence[HeadRow] = ()) -> None:
        before, self.numbers = self.numbers, numbers
        if heads and self.signed is not None:
            self.signed(heads)
        if outcomes and self._committed is not None and numbers.commits > before.commits:
            self._committed(len(outcomes), numbers.last_commit_s)
        for outcome in outcomes:
            listener, entry = self._open.popleft()
            self._bytes -= entry.size
            if listener is not None:
                listener(outcome)
            self.watch.committed(entry)
