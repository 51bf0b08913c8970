"""Which entries of a batch may be written: decided inside the commit, by what is on disk."""

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
    """Holds the epochs of the batch's runs, locked until the commit."""

    def __init__(self, transaction: WriteTransaction, batch: Sequence[Entry]) -> None:
        fenced_runs = {entry.fence[0] for entry in batch if entry.fence is not None}
        self._transaction = transaction
        self._epochs = transaction.lock_epochs(fenced_runs) if fenced_runs else {}
        # No two entries of a batch are about one event, so that all can be looked for at once.
        deliveries = [entry.dedupe for entry in batch if entry.dedupe is not None]
        self._known = transaction.find_events(deliveries) if deliveries else {}

    def admit(self, entry: Entry, first_id: int) -> CommitResult:
        """Whether the entry may be written; its records have ids from `first_id` on where it expects anything."""
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
            foreseen = _Foreseen(transaction, first_id)
            return Committed(tuple(foreseen.judge(wanted) for wanted in entry.expects))
        return _COMMITTED

    @staticmethod
    def settled(entry: Entry, judged: Sequence[ExpectationResult]) -> Entry:
        """The entry with other records in the place of those whose expectation was not met, and with versions in those
        that write a value."""
        records = list(entry.records)
        for wanted, judgement in zip(entry.expects, judged, strict=True):
            record = records[wanted.record]
            if judgement.unmet:
                kind, data = wanted.otherwise
                records[wanted.record] = replace(record, type=kind, data=data)
            elif judgement.version:
                records[wanted.record] = replace(record, data=with_version(record.data, judgement.version))
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


class _Value(msgspec.Struct, frozen=True):
    """A state value as it will be: `size` counts its key too, and is 0 where there is none."""

    version: int = 0
    size: int = 0
    expires_ms: int | None = None

    def at(self, now_ms: int) -> "_Value":
        """What is left of it by then."""
        return self if self.expires_ms is None or self.expires_ms > now_ms else _NO_VALUE


_NO_VALUE = _Value()


class _Foreseen:
    """State as the records of one entry will leave it, one after the other: none of them is written yet.

    A version is the id of the record that wrote the value, so that no two values of a key ever have the same: whoever
    remembers one of a value that expired or was deleted cannot take another value for it.
    """

    def __init__(self, transaction: WriteTransaction, first_id: int) -> None:
        self._transaction = transaction
        self._first_id = first_id
        self._stored: dict[tuple[str, str], _Value] = {}
        self._values: dict[tuple[str, str], _Value] = {}
        """The values that the entry is about: on disk, and as it leaves them."""
        self._sizes: dict[tuple[str, int], int] = {}
        """Bytes of a scope on disk at a time."""

    def judge(self, wanted: StateExpectation) -> ExpectationResult:
        seen = self._value(wanted.scope_key, wanted.key).at(wanted.now_ms)
        existed = seen.version > 0
        if wanted.version is not None and wanted.version != seen.version:
            return ExpectationResult(seen.version, "version", existed)
        if not wanted.size:
            self._values[wanted.scope_key, wanted.key] = _NO_VALUE
            return ExpectationResult(0, existed=existed)
        if self._size(wanted.scope_key, wanted.now_ms) - seen.size + wanted.size > wanted.quota:
            return ExpectationResult(seen.version, "quota", existed)
        version = self._first_id + wanted.record
        self._values[wanted.scope_key, wanted.key] = _Value(version, wanted.size, wanted.expires_ms)
        return ExpectationResult(version, existed=existed)

    def _value(self, scope_key: str, key: str) -> _Value:
        known = self._values.get((scope_key, key))
        if known is None:
            row = self._transaction.find_state(scope_key, key)
            known = _NO_VALUE
            if row is not None:
                known = _Value(row.version, len(row.value) + len(key.encode()), row.expires_ms)
            self._stored[scope_key, key] = self._values[scope_key, key] = known
        return known

    def _size(self, scope_key: str, now_ms: int) -> int:
        """Bytes of what the scope holds at a time: what is on disk, but for the values that the entry is about."""
        if (scope_key, now_ms) not in self._sizes:
            self._sizes[scope_key, now_ms] = self._transaction.state_size(scope_key, now_ms)
        changed = (
            value.at(now_ms).size - self._stored[place].at(now_ms).size
            for place, value in self._values.items()
            if place[0] == scope_key
        )
        return self._sizes[scope_key, now_ms] + sum(changed)
