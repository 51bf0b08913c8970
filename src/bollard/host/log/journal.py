"""The journal: one writer that makes everything durable. It commits whenever it is idle; whatever queued up meanwhile
shares the next commit. Nothing is told to anyone before its commit.

Entries are data. The writer chains their records, projects them, and discards what is fenced: an owner that lost its
run can change nothing. The thread here could be a process behind the same interface.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import HostError, Overloaded, StorageFull, StorageUnavailable
from bollard.host.limits import (
    HEAD_RECORDS,
    HEAD_S,
    JOURNAL_BATCH_BYTES,
    JOURNAL_BATCH_RECORDS,
    JOURNAL_GIVE_UP_S,
    JOURNAL_LINGER_S,
    JOURNAL_QUEUE_BYTES,
    JOURNAL_QUEUE_ENTRIES,
    JOURNAL_RETRY_S,
)
from bollard.host.log.chaining import Chains
from bollard.host.log.entries import Committed, Duplicate, Entry, Fate, FencedOff, Outcome, Renewed, Told
from bollard.host.log.facts import RunFacts
from bollard.host.log.kill_points import kill_point
from bollard.host.log.projection import Projector
from bollard.host.log.sinks import BlobSink, NoReserve, Reserve
from bollard.host.store.boundary import Store, WriteTransaction
from bollard.host.store.rows import Change
from bollard.trust import SigningKey

__all__ = ["Journal"]


_FULL_S: Final = 1.0
"""Time between two looks whether a full disk has space again."""

_Filled = tuple[list[Outcome], list[str]]


@dataclass(slots=True)
class Numbers:
    """What the journal did, for metrics."""

    commits: int = 0
    records: int = 0
    entries: int = 0
    retries: int = 0
    failures: int = 0
    last_commit_s: float = 0.0
    waiting: int = 0


@dataclass(slots=True)
class _Queue:
    entries: deque[Entry] = field(default_factory=deque[Entry])
    bytes: int = 0
    urgent: int = 0
    hurried: bool = False
    closing: bool = False


class Journal:
    """Takes entries from the loop, writes them from its own thread."""

    def __init__(
        self,
        store: Store,
        blobs: BlobSink,
        clock: Clock,
        *,
        incarnation: str,
        key: SigningKey,
        reserve: Reserve | None = None,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._reserve = reserve or NoReserve()
        self._loop = asyncio.get_running_loop()
        self._projector = Projector()
        self._chains = Chains(incarnation, key, clock, every_records=HEAD_RECORDS, every_s=HEAD_S)
        self._queue = _Queue()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="bollard-journal", daemon=True)
        self.numbers: Final = Numbers()
        self.full = False
        """Whether the disk was found full: what runs may end, nothing new is taken until there is space again."""

    def start(self) -> None:
        self._reserve.hold()
        self._thread.start()

    def remember(self, facts: RunFacts) -> None:
        """A run of an earlier incarnation that goes on. Call before `start`, or before its first record."""
        self._projector.remember(facts)

    @property
    def waiting(self) -> int:
        return len(self._queue.entries)

    # --- the loop's side ---

    def append(self, entry: Entry) -> None:
        """Queue an entry; `entry.told` hears of it. Raises `Overloaded` when too much waits already."""
        with self._changed:
            queue = self._queue
            if queue.closing:
                raise StorageUnavailable("the journal is closed", hint="the host is shutting down")
            if len(queue.entries) >= JOURNAL_QUEUE_ENTRIES or queue.bytes + entry.size > JOURNAL_QUEUE_BYTES:
                raise Overloaded("the journal is behind", hint="try again in a moment", limit=JOURNAL_QUEUE_ENTRIES)
            was_idle = not queue.entries
            queue.entries.append(entry)
            queue.bytes += entry.size
            queue.urgent += entry.urgent
            if was_idle or entry.urgent:
                self._changed.notify()

    def hurry(self) -> None:
        """Somebody began to wait for what is queued: do not linger."""
        with self._changed:
            self._queue.hurried = True
            self._changed.notify()

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
            self.append(replace(entry, told=told, urgent=True))
        except HostError as error:
            if then is not None:
                then(error)
            raise
        return await fate

    async def housekeep(self, work: Callable[[WriteTransaction], int]) -> int:
        """A commit of its own for work that is not an entry, such as retention; returns what `work` counted."""
        counted = 0

        def counting(transaction: WriteTransaction) -> None:
            nonlocal counted
            counted = work(transaction)

        await self.commit(Entry(work=counting, urgent=False))
        return counted

    async def close(self) -> None:
        """Write what is queued, then stop."""
        with self._changed:
            self._queue.closing = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    # --- the writer's side ---

    def _work(self) -> None:
        while True:
            batch, closing = self._take()
            if fates := self._turn(batch, closing=closing):
                self._loop.call_soon_threadsafe(tell, fates)
            if closing and not batch:
                return

    def _turn(self, batch: list[Entry], *, closing: bool) -> list[Fate]:
        """One round of the writer: what it took, or what is due while there is nothing."""
        if self.full and not batch:
            self.full = not self._reserve.hold()
        if batch or closing or not self._chains.seconds_until_due():
            return self._write(batch, closing=closing and not batch)
        return []

    def _take(self) -> tuple[list[Entry], bool]:
        """The next batch, and whether the journal closes. Waits for company only when nobody waits for the batch."""
        with self._changed:
            queue = self._queue
            if not queue.entries and not queue.closing:
                self._changed.wait(min(self._chains.seconds_until_due(), _FULL_S if self.full else HEAD_S))
            if queue.entries and not queue.urgent and not queue.hurried and not queue.closing:
                self._changed.wait(JOURNAL_LINGER_S)
            return self._collect(), queue.closing

    def _collect(self) -> list[Entry]:
        """As many entries as fit one commit."""
        with self._changed:
            queue = self._queue
            queue.hurried = False
            batch: list[Entry] = []
            events: set[tuple[str, str, str]] = set()
            records = size = 0
            while queue.entries:
                entry = queue.entries[0]
                count = len(entry.records) + len(entry.deltas)
                full = records + count > JOURNAL_BATCH_RECORDS or size + entry.size > JOURNAL_BATCH_BYTES
                if batch and (full or entry.dedupe in events):
                    break  # the second of two equal events must find the first one on disk
                if entry.dedupe is not None:
                    events.add(entry.dedupe)
                queue.entries.popleft()
                queue.bytes -= entry.size
                queue.urgent -= entry.urgent
                records, size = records + count, size + entry.size
                batch.append(entry)
            return batch

    def _write(self, batch: list[Entry], *, closing: bool) -> list[Fate]:
        """One commit, tried again while the store is busy; the fate of each entry that has somebody to tell."""
        started = time.monotonic()
        doubt: tuple[Chains, _Filled] | None = None  # a commit that may be on disk, although it was not confirmed
        while True:
            chains, filled = self._chains.fork(), None
            try:
                if doubt is not None and self._landed(batch, doubt[0]):
                    return self._committed(batch, doubt[0], *doubt[1])
                doubt = None
                self._put_blobs(batch)
                with self._store.write() as transaction:
                    filled = self._fill(transaction, batch, chains, closing=closing)
                    kill_point("journal.before_commit")
            except StorageUnavailable as error:
                if filled is not None and error.details.get("outcome") == "unknown":
                    doubt = (chains, filled)
                # Nobody is told anything while it is in doubt: a second try would break the chain.
                given_up = time.monotonic() - started >= JOURNAL_GIVE_UP_S
                if given_up and (doubt is None or self._queue.closing):
                    return self._fail(batch, error)
                self.numbers.retries += 1
                time.sleep(JOURNAL_RETRY_S)
                continue
            except StorageFull as error:
                if self._spend_reserve():
                    continue
                return self._fail(batch, error)
            except Exception as error:  # noqa: BLE001 -- the writer must survive: a lost writer is a lost host
                if len(batch) > 1:  # one entry that cannot be written must not take the others with it
                    return [fate for entry in batch for fate in self._write([entry], closing=False)]
                known = isinstance(error, HostError)
                wrapped = error if known else StorageUnavailable(f"the store failed: {type(error).__name__}: {error}")
                return self._fail(batch, wrapped)
            kill_point("journal.after_commit")
            self.numbers.last_commit_s = time.monotonic() - started
            return self._committed(batch, chains, *filled)

    def _put_blobs(self, batch: list[Entry]) -> None:
        for entry in batch:
            for content in entry.blobs:
                self._blobs.put(content)
                kill_point("journal.after_blobs")

    def _committed(self, batch: list[Entry], chains: Chains, outcomes: list[Outcome], ended: list[str]) -> list[Fate]:
        self._chains.adopt(chains)
        for run_id in ended:
            self._projector.forget(run_id)
        self.numbers.commits += 1
        self.numbers.entries += len(batch)
        if self.full:
            self.full = not self._reserve.hold()
        return [(entry.told, outcome) for entry, outcome in zip(batch, outcomes, strict=True) if entry.told is not None]

    def _landed(self, batch: list[Entry], chains: Chains) -> bool:
        """Whether a commit whose outcome was not learned is on disk: then its chain has grown there, or its deltas."""
        if grown := chains.grown_since(self._chains):
            workspace, chain, position = grown[0]
            return bool(self._store.chain(workspace, chain, position - 1, 1))
        rows = (row for entry in batch for row in entry.deltas)
        return any(
            found.epoch == row.epoch
            for row in rows
            for found in self._store.deltas_of_run(row.run_id, row.last_seq - 1)
        )

    def _spend_reserve(self) -> bool:
        """The disk is full: what is under way may still end, on the space kept for it; nothing new is taken."""
        self.full = True
        if not self._reserve.held:
            return False
        self._reserve.release()
        return True

    def _fail(self, batch: list[Entry], error: HostError) -> list[Fate]:
        self.numbers.failures += 1
        return [(entry.told, error) for entry in batch if entry.told is not None]

    def _fill(
        self, transaction: WriteTransaction, batch: list[Entry], chains: Chains, *, closing: bool
    ) -> tuple[list[Outcome], list[str]]:
        """Everything of one commit, in as few statements as there are kinds of rows; and the runs that it ends."""
        fenced_runs = {entry.fence[0] for entry in batch if entry.fence is not None}
        epochs = transaction.lock_epochs(fenced_runs) if fenced_runs else {}
        outcomes: list[Outcome] = []
        accepted: list[Entry] = []
        for entry in batch:
            outcome = self._admit(transaction, entry, epochs)
            outcomes.append(outcome)
            if isinstance(outcome, Committed):
                accepted.append(entry)
        records = [record for entry in accepted for record in entry.records]
        rows = chains.chain(records, transaction.next_record_ids(len(records))) if records else []
        changes: list[Change] = []
        for row in rows:
            changes.extend(self._projector.feed(row))
        if rows:
            transaction.add_records(rows)
        if deltas := [row for entry in accepted for row in entry.deltas]:
            transaction.add_deltas(deltas)
        if changes:
            transaction.apply(changes)
        for entry in accepted:
            if entry.merge is not None:
                transaction.merge_deltas(entry.merge)
            if entry.work is not None:
                entry.work(transaction)
        for head in chains.due_heads(closing=closing):
            transaction.add_head(head)
        self.numbers.records += len(rows)
        return outcomes, [row.run_id for row in rows if row.type == "run.ended" and row.run_id is not None]

    @staticmethod
    def _admit(transaction: WriteTransaction, entry: Entry, epochs: dict[str, int]) -> Outcome:
        if entry.fence is not None and epochs.get(entry.fence[0]) != entry.fence[1]:
            return FencedOff()
        if entry.dedupe is not None:
            first = transaction.find_event(*entry.dedupe)
            if first is not None:
                return Duplicate(first)
        if entry.lease is not None and not transaction.take_lease(*entry.lease):
            return FencedOff()
        if entry.renew is not None:
            return Renewed(frozenset(transaction.renew_leases(*entry.renew)))
        return Committed()


def tell(fates: list[Fate]) -> None:
    """Tell each what became of its entry; on the loop."""
    for told, outcome in fates:
        told(outcome)
