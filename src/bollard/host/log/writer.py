"""The writer: makes each batch of entries durable in one commit. It chains the records, projects them and discards
fenced entries.

It blocks, and uses neither event loop nor threads: the journal's thread, its process and the simulator drive it.
"""

import time

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, StorageFull, StorageUnavailable, StoreTaken
from bollard.host.limits import HEAD_RECORDS, HEAD_S, JOURNAL_FULL_S, JOURNAL_GIVE_UP_S, JOURNAL_RETRY_S, REPLAY_PAGE
from bollard.host.log.admission import Admission
from bollard.host.log.chain import ChainGrowth, Chains, sign_ends
from bollard.host.log.entries import ChoreDone, CommitOutcome, CommitResult, Committed, Entry
from bollard.host.log.journal import WriterNumbers
from bollard.host.log.kill_points import kill_point
from bollard.host.log.projection import Projector
from bollard.host.log.records import NewRecord, RunFacts
from bollard.host.log.tail import check_tail
from bollard.host.store.blobs import BlobStore
from bollard.host.store.reserve import ReserveFile
from bollard.host.store.rows import Change, DeltaRow, HeadRow, RecordRow
from bollard.host.store.store import Store
from bollard.host.store.transaction import WriteTransaction
from bollard.trust import HeadSigner


class NoReserve:
    """A reserve for stores without a disk."""

    held = False

    def hold(self) -> bool:
        return True

    def release(self) -> None:
        """No effect."""


_Filled = tuple[list[CommitResult], list[str], list[HeadRow]]
"""Results, ended runs and signed heads of one commit."""


class _UncertainCommit(msgspec.Struct, frozen=True):
    """A commit that may be on disk although the store reported a failure, or a conflict that no other writer can have
    caused."""

    chains: Chains
    filled: _Filled | None
    open: bool = False
    """Whether the store itself does not know the outcome."""
    clash: Conflict | None = None


class Writer:
    """The single writer of one incarnation."""

    def __init__(
        self,
        store: Store,
        blobs: BlobStore,
        clock: Clock,
        *,
        incarnation: str,
        key: HeadSigner,
        reserve: ReserveFile | None = None,
        broken_log: str = "",
    ) -> None:
        """`broken_log` names a damaged end of the log after which the writer may continue."""
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
        """Whether another process wrote to the store. Then this writer writes nothing more."""

    def open(self) -> None:
        """Check the end of the log. Raises `LogBroken` if nothing may be appended. Heads left unsigned by an earlier
        incarnation are signed now, or at the next start."""
        gap = check_tail(self._store, self._key, self._broken_log, self._clock.now_ms())
        self._reserve.hold()
        try:
            self._signed.extend(sign_ends(self._store, self._key, self._clock.now_ms()))
        except Exception:  # noqa: BLE001 -- a damaged old row must not prevent the start
            self.numbers.failures += 1
        if gap is not None:
            self._write([gap], last=False)

    def remember(self, facts: RunFacts) -> None:
        """Load the facts of a run of an earlier incarnation."""
        self._projector.remember(facts)

    def hasten(self) -> None:
        """The journal closes: stop waiting for the outcome of an uncertain commit after the usual time."""
        self._closing = True

    @property
    def rest_s(self) -> float:
        """Seconds until there is work without new entries."""
        if self._signed:
            return 0.0  # signed heads must be reported
        if self._failing:
            return JOURNAL_RETRY_S  # a head that is due and cannot be written must not make the writer spin
        return min(self._chains.seconds_until_due(), JOURNAL_FULL_S if self.numbers.full else HEAD_S)

    def turn(self, batch: list[Entry]) -> list[CommitOutcome]:
        """Commit these entries, or the work that is due without any. Returns the result of each entry, in order."""
        if self.numbers.full and not batch:
            self.numbers.full = not self._reserve.hold()
        if batch or not self._chains.seconds_until_due():
            return self._write(batch, last=False)
        return []

    def signed_heads(self) -> list[HeadRow]:
        """The heads that were written since the last call."""
        signed, self._signed = self._signed, []
        return signed

    def finish(self) -> None:
        """Make the last commit, which signs the head of every chain."""
        self._write([], last=True)

    def _write(self, batch: list[Entry], *, last: bool) -> list[CommitOutcome]:
        """Make one commit, with retries while the store is busy."""
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
                # No result is reported while the outcome is unknown: a second try would break the chain.
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
                if len(batch) > 1:  # an entry that cannot be written must not fail the others
                    return [outcome for entry in batch for outcome in self._write([entry], last=False)]
                return self._fail(batch, error if isinstance(error, HostError) else _unexpected(error))
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
    ) -> list[CommitOutcome]:
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
        """Whether an uncertain commit is on disk. If not, the next try starts after the records on disk. Raises the
        conflict if it has another cause."""
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
        """Whether the chain on disk has the expected end, or the deltas are on disk."""
        if grown:
            workspace, chain, position, hash_ = grown[0]
            rows = self._store.chain(workspace, chain, position - 1, 1)
            return bool(rows) and (rows[0].position, rows[0].hash) == (position, hash_)
        deltas = [row for entry in batch for row in entry.deltas]
        return bool(deltas) and all(self._has_deltas(row) for row in deltas)

    def _has_deltas(self, row: DeltaRow) -> bool:
        return any(stored.epoch == row.epoch for stored in self._store.deltas_of_run(row.run_id, row.last_seq - 1))

    def _catch_up(self, workspace: str) -> bool:
        """Read the tip of a chain from disk; returns whether it is further than this writer knew, because a commit that
        counted as failed had succeeded. Otherwise every later record would conflict with it."""
        chain, position, hash_ = self._chains.tip_of(workspace)
        while rows := self._store.chain(workspace, chain, position, REPLAY_PAGE):
            position, hash_ = rows[-1].position, rows[-1].hash
        signed = max((head.position for head in self._store.heads(workspace) if head.chain == chain), default=0)
        return self._chains.resume(workspace, position, hash_, signed)

    def _spend_reserve(self) -> bool:
        """Release the reserve of a full disk, so that active runs can end. New work is refused."""
        self.numbers.full = True
        if not self._reserve.held:
            return False
        self._reserve.release()
        return True

    def _fail(self, batch: list[Entry], error: HostError) -> list[CommitOutcome]:
        self._failing = True
        self.numbers.failures += 1
        return [error] * len(batch)

    def _fill(self, transaction: WriteTransaction, batch: list[Entry], chains: Chains, *, last: bool) -> _Filled:
        """Write everything of one commit, with one statement per kind of row."""
        transaction.expect_records(sum(len(entry.records) for entry in batch))
        admission = Admission(transaction, batch)
        admitted = _AdmittedBatch(transaction, chains, self._projector)
        outcomes: list[CommitResult] = []
        for entry in batch:
            first_id = 0
            if entry.expects:
                admitted.write()  # its expectations include everything before it in this commit
                first_id = admitted.reserve_ids(len(entry.records))
            outcome = admission.admit(entry, first_id)
            outcomes.append(outcome)
            if isinstance(outcome, Committed):
                admitted.entries.append(admission.settled(entry, outcome.judged) if outcome.judged else entry)
            elif isinstance(outcome, ChoreDone) and outcome.rows:
                admitted.entries.append(admission.accounted(entry, outcome.rows))
        admitted.write()
        heads = chains.due_heads(closing=last)
        for head in heads:
            transaction.add_head(head)
        self.numbers.records += admitted.records
        return outcomes, admitted.ended, heads


def _unexpected(error: Exception) -> StorageUnavailable:
    problem = f"{type(error).__name__}: {error}"
    return StorageUnavailable(
        f"the store failed: {problem}",
        reason="store_failed",
        hint="see the host's log",
        outcome="refused",
        problem=problem,
    )


class _AdmittedBatch:
    """Admitted entries that are not written yet."""

    def __init__(self, transaction: WriteTransaction, chains: Chains, projector: Projector) -> None:
        self._transaction = transaction
        self._chains = chains
        self._projector = projector
        self._reserved = range(0)
        self.entries: list[Entry] = []
        self.records = 0
        self.ended: list[str] = []

    def reserve_ids(self, count: int) -> int:
        """Reserve the ids of the next records before they are written; returns the first."""
        first = self._transaction.next_record_ids(count)
        self._reserved = range(first, first + count)
        return first

    def _chain(self, records: list[NewRecord]) -> list[RecordRow]:
        reserved, self._reserved = self._reserved, range(0)
        first, rest = records[: len(reserved)], records[len(reserved) :]
        rows = self._chains.chain(first, reserved.start)
        return [*rows, *self._chains.chain(rest, self._transaction.next_record_ids(len(rest)))] if rest else rows

    def write(self) -> None:
        entries, self.entries = self.entries, []
        transaction = self._transaction
        if records := [record for entry in entries for record in entry.records]:
            rows = self._chain(records)
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
