"""Admission of the entries of a batch: decided inside the commit, from the rows on disk."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from bollard.host.log.entries import (
    Chore,
    ChoreDone,
    CommitResult,
    Committed,
    Duplicate,
    Entry,
    EventMissed,
    ExpectationResult,
    FencedOff,
    Renewed,
    StateExpectation,
)
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import encode_data, with_version
from bollard.host.store.transaction import WriteTransaction

_COMMITTED = Committed()


class Admission:
    """Decides each entry of one batch. The epochs of its runs stay locked until the commit."""

    def __init__(self, transaction: WriteTransaction, batch: Sequence[Entry]) -> None:
        fenced_runs = {entry.fence[0] for entry in batch if entry.fence is not None}
        self._transaction = transaction
        self._epochs = transaction.lock_epochs(fenced_runs) if fenced_runs else {}
        # No two entries of a batch name the same event, so one query finds them all.
        deliveries = [entry.dedupe for entry in batch if entry.dedupe is not None]
        self._known = transaction.find_events(deliveries) if deliveries else {}

    def admit(self, entry: Entry, first_id: int) -> CommitResult:
        """Decide whether the entry may be written. If it has expectations, its records get ids from `first_id` on."""
        transaction = self._transaction
        if entry.fence is not None and self._epochs.get(entry.fence[0]) != entry.fence[1]:
            return FencedOff()
        if entry.dedupe is not None and (first := self._known.get(entry.dedupe)) is not None:
            return Duplicate(first)
        if entry.adopt is not None and transaction.event_dispatch(*entry.adopt) != "pending":
            return EventMissed()
        if entry.lease is not None and not transaction.take_lease(*entry.lease):
            return FencedOff()
        if entry.renew is not None:
            return Renewed(frozenset(transaction.renew_leases(*entry.renew)))
        if entry.chore is not None:
            return ChoreDone(self._do(entry.chore))
        if entry.expects:
            state = _PendingState(transaction, first_id)
            return Committed(tuple(state.apply(expectation) for expectation in entry.expects))
        return _COMMITTED

    @staticmethod
    def settled(entry: Entry, results: Sequence[ExpectationResult]) -> Entry:
        """The entry with its final records: a record whose expectation failed is replaced, and one that writes a value
        gets its version."""
        records = list(entry.records)
        for expectation, result in zip(entry.expects, results, strict=True):
            record = records[expectation.record]
            if result.unmet:
                kind, data = expectation.otherwise
                records[expectation.record] = replace(record, type=kind, data=data)
            elif result.version:
                records[expectation.record] = replace(record, data=with_version(record.data, result.version))
        return replace(entry, records=records)

    @staticmethod
    def accounted(entry: Entry, rows: int) -> Entry:
        """The entry of a chore, whose record says how many rows were dropped."""
        chore = entry.chore
        if chore is None or chore.kind == "erase":  # its record counts what was selected
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
            case "erase":
                return self._transaction.erase(chore.ids, chore.runs, chore.storage)


class _Value(msgspec.Struct, frozen=True):
    """A state value after the commit. `size` includes the key; it is 0 if there is no value."""

    version: int = 0
    size: int = 0
    expires_ms: int | None = None

    def at(self, now_ms: int) -> "_Value":
        """The value at this time: none if it has expired."""
        return self if self.expires_ms is None or self.expires_ms > now_ms else _NO_VALUE


_NO_VALUE = _Value()


class _PendingState:
    """State as the records of one entry will leave it. None of them is written yet.

    A version is the id of the record that wrote the value, so no two values of a key share a version, even after the
    first one expired or was deleted.
    """

    def __init__(self, transaction: WriteTransaction, first_id: int) -> None:
        self._transaction = transaction
        self._first_id = first_id
        self._stored: dict[tuple[str, str], _Value] = {}
        self._values: dict[tuple[str, str], _Value] = {}
        """The values that the entry touches: on disk, and after the records so far."""
        self._sizes: dict[tuple[str, int], int] = {}
        """Bytes of a scope on disk at a time."""

    def apply(self, expectation: StateExpectation) -> ExpectationResult:
        """Check one expectation against the state so far, and apply its change if it is met."""
        scope_key, key, now_ms = expectation.scope_key, expectation.key, expectation.now_ms
        current = self._value(scope_key, key).at(now_ms)
        existed = current.version > 0
        if expectation.version is not None and expectation.version != current.version:
            return ExpectationResult(current.version, "version", existed)
        if not expectation.size:
            self._values[scope_key, key] = _NO_VALUE
            return ExpectationResult(0, existed=existed)
        if self._size(scope_key, now_ms) - current.size + expectation.size > expectation.quota:
            return ExpectationResult(current.version, "quota", existed)
        version = self._first_id + expectation.record
        self._values[scope_key, key] = _Value(version, expectation.size, expectation.expires_ms)
        return ExpectationResult(version, existed=existed)

    def _value(self, scope_key: str, key: str) -> _Value:
        value = self._values.get((scope_key, key))
        if value is None:
            row = self._transaction.find_state(scope_key, key)
            value = _NO_VALUE
            if row is not None:
                value = _Value(row.version, len(row.value) + len(key.encode()), row.expires_ms)
            self._stored[scope_key, key] = self._values[scope_key, key] = value
        return value

    def _size(self, scope_key: str, now_ms: int) -> int:
        """Bytes of the scope at a time: the rows on disk, corrected by the values that the entry touches."""
        if (scope_key, now_ms) not in self._sizes:
            self._sizes[scope_key, now_ms] = self._transaction.state_size(scope_key, now_ms)
        differences = (
            value.at(now_ms).size - self._stored[place].at(now_ms).size
            for place, value in self._values.items()
            if place[0] == scope_key
        )
        return self._sizes[scope_key, now_ms] + sum(differences)
