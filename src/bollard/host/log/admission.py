"""Which entries of a batch may be written: decided inside the commit, by what is on disk."""

from collections.abc import Sequence
from dataclasses import dataclass

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
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import encode_data
from bollard.host.store.boundary import WriteTransaction

__all__ = ["Admission"]

_COMMITTED = Committed()


class Admission:
    """Holds the epochs of the batch's runs, locked until the commit."""

    def __init__(self, transaction: WriteTransaction, batch: Sequence[Entry]) -> None:
        fenced_runs = {entry.fence[0] for entry in batch if entry.fence is not None}
        self._transaction = transaction
        self._epochs = transaction.lock_epochs(fenced_runs) if fenced_runs else {}
        # No two entries of a batch are about one event, so that all can be looked for at once.
        deliveries = [entry.dedupe for entry in batch if entry.dedupe is not None]
        self._known = transaction.find_events(deliveries) if deliveries else {}

    def admit(self, entry: Entry) -> Outcome:
        transaction = self._transaction
        if entry.fence is not None and self._epochs.get(entry.fence[0]) != entry.fence[1]:
            return FencedOff()
        if entry.dedupe is not None and (first := self._known.get(entry.dedupe)) is not None:
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
            foreseen = _Foreseen(transaction)
            return Committed(tuple(foreseen.judge(wanted) for wanted in entry.expects))
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

    @staticmethod
    def accounted(entry: Entry, rows: int) -> Entry:
        """The entry of a chore, with a record that says how much it dropped."""
        chore = entry.chore
        if chore is None:
            return entry
        kind = {"drop_data": chore.type, "drop_deltas": "message.delta", "drop_expired": "expired"}[chore.kind]
        data = encode_data({"dropped": {kind: rows}, "before_ms": chore.before_ms})
        return replace(entry, records=[replace(record, data=data) for record in entry.records])

    def _do(self, chore: Chore) -> int:
        rows = self._drop(chore)
        if rows:
            kill_point("retention.after_drop")
        return rows

    def _drop(self, chore: Chore) -> int:
        match chore.kind:
            case "drop_data":
                return self._transaction.drop_data([chore.type], chore.before_ms, chore.limit)
            case "drop_deltas":
                return self._transaction.drop_deltas(chore.before_ms, chore.limit)
            case "drop_expired":
                return self._transaction.drop_expired(chore.before_ms, chore.limit)


@dataclass(frozen=True, slots=True)
class _Value:
    """A state value as it will be: `size` counts its key too, and is 0 where there is none."""

    version: int = 0
    size: int = 0
    expires_ms: int | None = None


class _Foreseen:
    """State as the records of one entry will leave it, one after the other: none of them is written yet."""

    def __init__(self, transaction: WriteTransaction) -> None:
        self._transaction = transaction
        self._values: dict[tuple[str, str], _Value] = {}
        self._stored: dict[str, int] = {}
        self._grown: dict[str, int] = {}
        """Bytes of a scope: those on disk, and those that the entry adds."""

    def judge(self, wanted: StateExpectation) -> Judgement:
        before = self._value(wanted.scope_key, wanted.key)
        alive = before.expires_ms is None or before.expires_ms > wanted.now_ms
        seen = before.version if alive else 0
        if wanted.version is not None and wanted.version != seen:
            return Judgement(seen, "version")
        if not wanted.size:
            self._change(wanted, before, _Value())
            return Judgement(0)
        if self._size(wanted.scope_key) - before.size + wanted.size > wanted.quota:
            return Judgement(seen, "quota")
        self._change(wanted, before, _Value(seen + 1, wanted.size, wanted.expires_ms))
        return Judgement(seen + 1)

    def _value(self, scope_key: str, key: str) -> _Value:
        known = self._values.get((scope_key, key))
        if known is None:
            row = self._transaction.find_state(scope_key, key)
            known = _Value() if row is None else _Value(row.version, len(row.value) + len(key.encode()), row.expires_ms)
            self._values[scope_key, key] = known
        return known

    def _size(self, scope_key: str) -> int:
        if scope_key not in self._stored:
            self._stored[scope_key] = self._transaction.state_size(scope_key)
        return self._stored[scope_key] + self._grown.get(scope_key, 0)

    def _change(self, wanted: StateExpectation, before: _Value, after: _Value) -> None:
        self._grown[wanted.scope_key] = self._grown.get(wanted.scope_key, 0) + after.size - before.size
        self._values[wanted.scope_key, wanted.key] = after
