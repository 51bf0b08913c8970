"""Makes batches of entries durable: chains their records, projects them, discards what is fenced. One commit each.

It blocks, and knows neither loop nor thread: the journal's thread, its process and the simulator turn the same writer.
"""

import time

from bollard.host.clock import Clock
from bollard.host.errors import HostError, StorageFull, StorageUnavailable
from bollard.host.limits import HEAD_RECORDS, HEAD_S, JOURNAL_FULL_S, JOURNAL_GIVE_UP_S, JOURNAL_RETRY_S
from bollard.host.log.admission import Admission
from bollard.host.log.chaining import Chains
from bollard.host.log.ends import sign_ends
from bollard.host.log.entries import Committed, Counted, Entry, Outcome
from bollard.host.log.facts import RunFacts
from bollard.host.log.kill_points import kill_point
from bollard.host.log.numbers import Numbers
from bollard.host.log.projection import Projector
from bollard.host.log.sinks import BlobSink, NoReserve, Reserve
from bollard.host.store.boundary import Store, WriteTransaction
from bollard.host.store.rows import Change, DeltaRow, HeadRow
from bollard.trust import SigningKey

__all__ = ["Fate", "Writer"]

Fate = Outcome | HostError
_Filled = tuple[list[Outcome], list[str], list[HeadRow]]
"""Fates, the runs that ended, and the heads that were signed."""


class Writer:
    """The single writer of one incarnation."""

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
        self._clock = clock
        self._key = key
        self._reserve = reserve or NoReserve()
        self._projector = Projector()
        self._chains = Chains(incarnation, key, clock, every_records=HEAD_RECORDS, every_s=HEAD_S)
        self._closing = self._failing = False
        self._signed: list[HeadRow] = []
        self.numbers = Numbers()

    def open(self) -> None:
        """Raises nothing: what cannot be signed of earlier incarnations is, at the next start."""
        self._reserve.hold()
        try:
            self._signed.extend(sign_ends(self._store, self._key, self._clock.now_ms()))
        except Exception:  # noqa: BLE001 -- a row that somebody spoiled must not keep a host from starting
            self.numbers.failures += 1

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
        doubt: tuple[Chains, _Filled] | None = None  # a commit that may be on disk, although it was not confirmed
        while True:
            chains, filled = self._chains.fork(), None
            try:
                if doubt is not None and self._landed(batch, doubt[0]):
                    return self._committed(batch, doubt[0], *doubt[1])
                doubt = None
                self._put_blobs(batch)
                with self._store.write() as transaction:
                    filled = self._fill(transaction, batch, chains, last=last)
                    kill_point("journal.before_commit")
            except StorageUnavailable as error:
                if filled is not None and error.details.get("outcome") == "unknown":
                    doubt = (chains, filled)
                # Nobody is told anything while it is in doubt: a second try would break the chain.
                given_up = time.monotonic() - started >= JOURNAL_GIVE_UP_S
                if given_up and (doubt is None or self._closing):
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
                    return [fate for entry in batch for fate in self._write([entry], last=False)]
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

    def _committed(
        self, batch: list[Entry], chains: Chains, outcomes: list[Outcome], ended: list[str], heads: list[HeadRow]
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
        sheet = _Sheet(transaction, chains, self._projector)
        outcomes: list[Outcome] = []
        for entry in batch:
            if entry.expects:
                sheet.write()  # what it expects is about everything before it, in this commit too
            outcome = admission.admit(entry)
            outcomes.append(outcome)
            if isinstance(outcome, Committed):
                sheet.entries.append(admission.settled(entry, outcome.judged) if outcome.judged else entry)
            elif isinstance(outcome, Counted) and outcome.rows:
                sheet.entries.append(admission.accounted(entry, outcome.rows))
        sheet.write()
        heads = chains.due_heads(closing=last)
        for head in heads:
            transaction.add_head(head)
        self.numbers.records += sheet.records
        return outcomes, sheet.ended, heads


class _Sheet:
    """Admitted entries that are not written yet."""

    def __init__(self, transaction: WriteTransaction, chains: Chains, projector: Projector) -> None:
        self._transaction = transaction
        self._chains = chains
        self._projector = projector
        self.entries: list[Entry] = []
        self.records = 0
        self.ended: list[str] = []

    def write(self) -> None:
        entries, self.entries = self.entries, []
        transaction = self._transaction
        if records := [record for entry in entries for record in entry.records]:
            rows = self._chains.chain(records, transaction.next_record_ids(len(records)))
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
            if entry.merge is not None:
                transaction.merge_deltas(entry.merge)
