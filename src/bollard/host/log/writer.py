"""Makes batches of entries durable: chains their records, projects them, discards what is fenced. One commit each.

It blocks, and knows neither loop nor thread: the journal's thread, its process and the simulator turn the same writer.
"""

import time
from typing import Protocol

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, StorageFull, StorageUnavailable, StoreTaken
from bollard.host.limits import (
    HEAD_RECORDS,
    HEAD_S,
    JOURNAL_FULL_S,
    JOURNAL_GIVE_UP_S,
    JOURNAL_RETRY_S,
    REPLAY_PAGE,
)
from bollard.host.log.admission import Admission
from bollard.host.log.chain import ChainGrowth, Chains, sign_ends
from bollard.host.log.entries import ChoreDone, CommitResult, Committed, Entry
from bollard.host.log.journal import WriterNumbers
from bollard.host.log.kill_points import kill_point
from bollard.host.log.projection import Projector
from bollard.host.log.records import NewRecord, RunFacts
from bollard.host.log.tail import go_on_behind
from bollard.host.store.rows import Change, DeltaRow, HeadRow, RecordRow
from bollard.host.store.store import Store
from bollard.host.store.transaction import WriteTransaction
from bollard.trust import HeadSigner

# Where else the journal writes: contents before the records that name them, and the space kept for a full disk.


class BlobSink(Protocol):
    """Where contents go before the record that names them."""

    def put(self, content: bytes) -> str:
        """On disk when it returns its digest; the same content again changes nothing."""
        ...


class Reserve(Protocol):
    """Space that is kept for the day the disk is full."""

    @property
    def held(self) -> bool: ...

    def hold(self) -> bool: ...

    def release(self) -> None: ...


class NoReserve:
    """Where there is no disk to fill."""

    held = False

    def hold(self) -> bool:
        return True

    def release(self) -> None:
        """Nothing to give."""


Fate = CommitResult | HostError
_Filled = tuple[list[CommitResult], list[str], list[HeadRow]]
"""Fates, the runs that ended, and the heads that were signed."""


class _UncertainCommit(msgspec.Struct, frozen=True):
    """A commit that may be on disk, although the store said that it failed, or that its place was taken: nobody else
    writes there."""

    chains: Chains
    filled: _Filled | None
    open: bool = False
    """Whether not even the store can say."""
    clash: Conflict | None = None


class Writer:
    """The single writer of one incarnation."""

    def __init__(
        self,
        store: Store,
        blobs: BlobSink,
        clock: Clock,
        *,
        incarnation: str,
        key: HeadSigner,
        reserve: Reserve | None = None,
        broken_log: str = "",
    ) -> None:
        """`broken_log` names the end of a log that is not what was written, behind which it may go on all the same."""
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._key = key
        self._reserve = reserve or NoReserve()
        self._broken_log = broken_log
        self._projector = Projector()
        self._chains = Chains(incarnation, key, clock, every_records=HEAD_RECORDS, every_s=HEAD_S)
        self._closing = self._failing = False
        self._signed: list[HeadRow] = []
        self.numbers = WriterNumbers()
        self.taken = False
        """Somebody else wrote to the store since: nothing is written here any more."""

    def open(self) -> None:
        """Raises `LogBroken` where nothing may be written behind what is there. What cannot be signed of earlier
        incarnations is, at the next start."""
        gap = go_on_behind(self._store, self._key, self._broken_log, self._clock.now_ms())
        self._reserve.hold()
        try:
            self._signed.extend(sign_ends(self._store, self._key, self._clock.now_ms()))
        except Exception:  # noqa: BLE001 -- a row that somebody spoiled long ago must not keep a host from starting
            self.numbers.failures += 1
        if gap is not None:
            self._write([gap], last=False)

    def remember(self, facts: RunFacts) -> None:
        """A run of an earlier incarnation that goes on."""
        self._projector.remember(facts)

    def hasten(self) -> None:
        """The journal closes: a commit in doubt is not waited for without end."""
        self._closing = True

    @property
    def rest_s(self) -> float:
        """How long there is nothing to do without entries."""
        if self._signed:
            return 0.0  # somebody is to be told
        if self._failing:
            return JOURNAL_RETRY_S  # a head that is due and cannot be written must not make the writer spin
        return min(self._chains.seconds_until_due(), JOURNAL_FULL_S if self.numbers.full else HEAD_S)

    def turn(self, batch: list[Entry]) -> list[Fate]:
        """One commit with these entries, or what is due without any; the fate of each entry, in order."""
        if self.numbers.full and not batch:
            self.numbers.full = not self._reserve.hold()
        if batch or not self._chains.seconds_until_due():
            return self._write(batch, last=False)
        return []

    def signed_heads(self) -> list[HeadRow]:
        """The heads that went to disk since this was asked last."""
        signed, self._signed = self._signed, []
        return signed

    def finish(self) -> None:
        """The last commit: every chain gets its signed head."""
        self._write([], last=True)

    def _write(self, batch: list[Entry], *, last: bool) -> list[Fate]:
        """One commit, tried again while the store is busy."""
        started = time.monotonic()
        doubt: _UncertainCommit | None = None
        clashed = False
        while True:
            chains, filled = self._chains, None
            try:
                if doubt is not None and self._landed(batch, doubt) and doubt.filled is not None:
                    return self._committed(batch, doubt.chains, *doubt.filled)
                doubt, chains = None, self._chains.fork()
                self._put_blobs(batch)
                with self._store.write() as transaction:
                    filled = self._fill(transaction, batch, chains, last=last)
                    kill_point("journal.before_commit")
            except StorageUnavailable as error:
                if filled is not None:
                    doubt = _UncertainCommit(chains, filled, open=error.details.get("outcome") == "unknown")
                # Nobody is told anything while nobody can say: a second try would break the chain.
                waits = doubt is not None and doubt.open and not self._closing
                given_up = time.monotonic() - started >= JOURNAL_GIVE_UP_S
                self.taken = isinstance(error, StoreTaken)
                if self.taken or (given_up and not waits):
                    return self._fail(batch, error)
                self.numbers.retries += 1
                time.sleep(JOURNAL_RETRY_S)
                continue
            except StorageFull as error:
                if self._spend_reserve():
                    continue
                return self._fail(batch, error)
            except Exception as error:  # noqa: BLE001 -- the writer must survive: a lost writer is a lost host
                if isinstance(error, Conflict) and not clashed:
                    doubt, clashed = _UncertainCommit(chains, filled, clash=error), True
                    continue
                if len(batch) > 1:  # one entry that cannot be written must not take the others with it
                    return [fate for entry in batch for fate in self._write([entry], last=False)]
                known = isinstance(error, HostError)
                said = f"the store failed: {type(error).__name__}: {error}"
                wrapped = error if known else StorageUnavailable(said, outcome="refused")
                return self._fail(batch, wrapped)
            kill_point("journal.after_commit")
            self.numbers.last_commit_s = time.monotonic() - started
            return self._committed(batch, chains, *filled)

    def _put_blobs(self, batch: list[Entry]) -> None:
        for entry in batch:
            for content in entry.blobs:
                self._blobs.put(content)
                kill_point("journal.after_blobs")

    def _committed(
        self, batch: list[Entry], chains: Chains, outcomes: list[CommitResult], ended: list[str], heads: list[HeadRow]
    ) -> list[Fate]:
        self._failing = False
        self._chains.adopt(chains)
        self._signed.extend(heads)
        for run_id in ended:
            self._projector.forget(run_id)
        self.numbers.commits += 1
        self.numbers.entries += len(batch)
        if self.numbers.full:
            self.numbers.full = not self._reserve.hold()
        return list(outcomes)

    def _landed(self, batch: list[Entry], doubt: _UncertainCommit) -> bool:
        """Whether such a commit is on disk. Where it is not, the next try begins behind what is there; raises the
        conflict where that has nothing to do with it."""
        grown = doubt.chains.grown_since(self._chains)
        there = self._is_there(batch, grown)
        if there and doubt.filled is not None:
            return True
        workspaces = {workspace for workspace, *_ in grown}
        if doubt.filled is not None:
            workspaces |= {head.workspace for head in doubt.filled[2]}
        moved = [self._catch_up(workspace) for workspace in workspaces]
        if doubt.clash is not None and (there or not any(moved)):
            raise doubt.clash
        return False

    def _is_there(self, batch: list[Entry], grown: list[ChainGrowth]) -> bool:
        """Whether its chain has grown on disk just so, or its deltas are there."""
        if grown:
            workspace, chain, position, hash_ = grown[0]
            found = self._store.chain(workspace, chain, position - 1, 1)
            return bool(found) and (found[0].position, found[0].hash) == (position, hash_)
        rows = [row for entry in batch for row in entry.deltas]
        return bool(rows) and all(self._has_deltas(row) for row in rows)

    def _has_deltas(self, row: DeltaRow) -> bool:
        return any(found.epoch == row.epoch for found in self._store.deltas_of_run(row.run_id, row.last_seq - 1))

    def _catch_up(self, workspace: str) -> bool:
        """Whether a chain of this writer is longer on disk than it knew, because a commit was taken for failed that was
        not. From then on it knows: what it would put into the same place would be refused for ever."""
        chain, position, hash_ = self._chains.tip_of(workspace)
        while rows := self._store.chain(workspace, chain, position, REPLAY_PAGE):
            position, hash_ = rows[-1].position, rows[-1].hash
        signed = max((head.position for head in self._store.heads(workspace) if head.chain == chain), default=0)
        return self._chains.resume(workspace, position, hash_, signed)

    def _spend_reserve(self) -> bool:
        """The disk is full: what is under way may still end, on the space kept for it; nothing new is taken."""
        self.numbers.full = True
        if not self._reserve.held:
            return False
        self._reserve.release()
        return True

    def _fail(self, batch: list[Entry], error: HostError) -> list[Fate]:
        self._failing = True
        self.numbers.failures += 1
        return [error] * len(batch)

    def _fill(self, transaction: WriteTransaction, batch: list[Entry], chains: Chains, *, last: bool) -> _Filled:
        """Everything of one commit, in as few statements as there are kinds of rows; and the runs that it ends."""
        transaction.expect_records(sum(len(entry.records) for entry in batch))
        admission = Admission(transaction, batch)
        sheet = _AdmittedBatch(transaction, chains, self._projector)
        outcomes: list[CommitResult] = []
        for entry in batch:
            first_id = 0
            if entry.expects:
                sheet.write()  # what it expects is about everything before it, in this commit too
                first_id = sheet.set_apart(len(entry.records))
            outcome = admission.admit(entry, first_id)
            outcomes.append(outcome)
            if isinstance(outcome, Committed):
                sheet.entries.append(admission.settled(entry, outcome.judged) if outcome.judged else entry)
            elif isinstance(outcome, ChoreDone) and outcome.rows:
                sheet.entries.append(admission.accounted(entry, outcome.rows))
        sheet.write()
        heads = chains.due_heads(closing=last)
        for head in heads:
            transaction.add_head(head)
        self.numbers.records += sheet.records
        return outcomes, sheet.ended, heads


class _AdmittedBatch:
    """Admitted entries that are not written yet."""

    def __init__(self, transaction: WriteTransaction, chains: Chains, projector: Projector) -> None:
        self._transaction = transaction
        self._chains = chains
        self._projector = projector
        self._apart = range(0)
        self.entries: list[Entry] = []
        self.records = 0
        self.ended: list[str] = []

    def set_apart(self, count: int) -> int:
        """The ids of the next records, before they are written: returns the first."""
        first = self._transaction.next_record_ids(count)
        self._apart = range(first, first + count)
        return first

    def _chained(self, records: list[NewRecord]) -> list[RecordRow]:
        apart, self._apart = self._apart, range(0)
        first, rest = records[: len(apart)], records[len(apart) :]
        rows = self._chains.chain(first, apart.start)
        return [*rows, *self._chains.chain(rest, self._transaction.next_record_ids(len(rest)))] if rest else rows

    def write(self) -> None:
        entries, self.entries = self.entries, []
        transaction = self._transaction
        if records := [record for entry in entries for record in entry.records]:
            rows = self._chained(records)
            changes: list[Change] = []
            for row in rows:
                changes.extend(self._projector.feed(row))
                if row.type == "run.ended" and row.run_id is not None:
                    self.ended.append(row.run_id)
            transaction.add_records(rows)
            if changes:
                transaction.apply(changes)
            self.records += len(rows)
        deltas: list[DeltaRow] = [row for entry in entries for row in entry.deltas]
        if deltas:
            transaction.add_deltas(deltas)
        for entry in entries:
            if entry.keeps:
                transaction.keep(entry.keeps)
            for piece in entry.merge:
                transaction.merge_deltas(*piece)
