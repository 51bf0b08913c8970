"""Which entries of a batch may be written: decided inside the commit, by what is on disk."""

from collections.abc import Sequence

from msgspec.structs import replace

from bollard.host.log.entries import (
    Chore,
    Committed,
    Counted,
    Duplicate,
    Entry,
    FencedOff,
    Judgement,
    Missed,
    Outcome,
    Renewed,
    StateExpectation,
)
from bollard.host.store.boundary import WriteTransaction

__all__ = ["Admission"]

_COMMITTED = Committed()


class Admission:
    """Holds the epochs of the batch's runs, locked until the commit."""

    def __init__(self, transaction: WriteTransaction, batch: Sequence[Entry]) -> None:
        fenced_runs = {entry.fence[0] for entry in batch if entry.fence is not None}
        self._transaction = transaction
        self._epochs = transaction.lock_epochs(fenced_runs) if fenced_runs else {}

    def admit(self, entry: Entry) -> Outcome:
        transaction = self._transaction
        if entry.fence is not None and self._epochs.get(entry.fence[0]) != entry.fence[1]:
            return FencedOff()
        if entry.dedupe is not None:
            first = transaction.find_event(*entry.dedupe)
            if first is not None:
                return Duplicate(first)
        if entry.adopt is not None and transaction.event_dispatch(*entry.adopt) != "pending":
            return Missed()
        if entry.lease is not None and not transaction.take_lease(*entry.lease):
            return FencedOff()
        if entry.renew is not None:
            return Renewed(frozenset(transaction.renew_leases(*entry.renew)))
        if entry.chore is not None:
            return Counted(self._do(entry.chore))
        if entry.expects:
            return Committed(tuple(self._judge(wanted) for wanted in entry.expects))
        return _COMMITTED

    @staticmethod
    def settled(entry: Entry, judged: Sequence[Judgement]) -> Entry:
        """The entry with other records in the place of those whose expectation was not met."""
        records = list(entry.records)
        for wanted, judgement in zip(entry.expects, judged, strict=True):
            if judgement.unmet:
                kind, data = wanted.otherwise
                records[wanted.record] = replace(records[wanted.record], type=kind, data=data)
        return replace(entry, records=records)

    def _judge(self, wanted: StateExpectation) -> Judgement:
        row = self._transaction.find_state(wanted.scope_key, wanted.key)
        alive = row is not None and (row.expires_ms is None or row.expires_ms > wanted.now_ms)
        seen = row.version if row is not None and alive else 0
        if wanted.version is not None and wanted.version != seen:
            return Judgement(seen, "version")
        if not wanted.size:
            return Judgement(0)
        before = len(row.value) + len(row.key.encode()) if row is not None else 0
        if self._transaction.state_size(wanted.scope_key) - before + wanted.size > wanted.quota:
            return Judgement(seen, "quota")
        return Judgement(seen + 1)

    def _do(self, chore: Chore) -> int:
        match chore.kind:
            case "drop_data":
                return self._transaction.drop_data([chore.type], chore.before_ms, chore.limit)
            case "drop_deltas":
                return self._transaction.drop_deltas(chore.before_ms, chore.limit)
            case "drop_expired":
                return self._transaction.drop_expired(chore.before_ms, chore.limit)
