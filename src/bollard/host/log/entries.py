"""Entries of the journal and their results. Plain values: they cross to the writer's process unchanged."""

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from bollard.host.errors import HostError
from bollard.host.limits import JOURNAL_BATCH_BYTES, JOURNAL_BATCH_RECORDS
from bollard.host.log.records import NewRecord
from bollard.host.store.queries import Lease
from bollard.host.store.rows import DeltaRow, EventRow, KeptChange


class ExpectationResult(msgspec.Struct, frozen=True, array_like=True):
    """The result of one expectation."""

    version: int
    """The current version of the value; 0 if there is none."""
    unmet: Literal["", "version", "quota"] = ""
    existed: bool = False
    """Whether a value existed before."""


class Committed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The entry is on disk, with the result of each expectation in order."""

    judged: tuple[ExpectationResult, ...] = ()


class Duplicate(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The event was accepted before; nothing was written."""

    first: EventRow


class FencedOff(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The run has another owner or has ended; nothing of this entry was written."""


class Renewed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The runs that this owner still owns."""

    run_ids: frozenset[str]


class EventMissed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The event no longer waits for a run; nothing was written."""


class ChoreDone(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The chore is done, with the number of rows it dropped."""

    rows: int


CommitResult = Committed | Duplicate | FencedOff | Renewed | EventMissed | ChoreDone
CommitOutcome = CommitResult | HostError
CommitListener = Callable[[CommitOutcome], None]


class StateExpectation(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A condition on a state value for the record that changes it. If the condition fails, another record is written
    instead: the run's sequence has no gaps, and the log documents the refusal."""

    record: int
    """The index of the record in the entry."""
    otherwise: tuple[str, bytes]
    """Type and data of the record that is written instead."""
    scope_key: str
    key: str
    now_ms: int = 0
    """When the record was made. This time decides what has expired, here and in the projection."""
    version: int | None = None
    """The required version, 0 for no value; `None` accepts any."""
    size: int = 0
    """Bytes of the new value and its key; 0 if it is removed."""
    quota: int = 0
    """Bytes that the scope may hold afterwards."""
    expires_ms: int | None = None
    """When the new value expires."""


class Chore(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A housekeeping step that drops at most `limit` rows. If it drops any, its entry's record says how many."""

    kind: Literal["drop_data", "drop_deltas", "drop_expired", "erase"]
    limit: int
    before_ms: int
    type: str = ""
    """The type of the records whose data is dropped."""
    ids: list[int] = []
    """Records to erase."""
    runs: list[str] = []
    """Runs whose rows go with their `run.created` record."""
    storage: list[tuple[str, str]] = []
    """Area and key of stored values that go with these runs."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A unit that is written as a whole, or not at all."""

    records: list[NewRecord] = []
    deltas: list[DeltaRow] = []
    fence: tuple[str, int] | None = None
    """The run and the epoch that must still own it."""
    dedupe: tuple[str, str, str] | None = None
    """Workspace, source and id of an event that must be new. An entry without records only checks that."""
    adopt: tuple[str, str] | None = None
    """Workspace and id of an event that must still be waiting for a run."""
    lease: tuple[str, Lease] | None = None
    """An existing run and its new owner; fenced off if another owner was faster."""
    expects: list[StateExpectation] = []
    blobs: list[bytes] = []
    """Contents that must be on disk before the records that name them."""
    keeps: list[KeptChange] = []
    """Changes of `kept` rows in the same commit: data that the log must not hold, such as secrets."""
    renew: tuple[str, tuple[str, ...], int] | None = None
    """An owner, the runs whose leases it renews, and the new end."""
    chore: Chore | None = None
    merge: list[tuple[str, int, int]] = []
    """Delta rows to merge into one: the run, and the first seqs of the first and the last row."""
    size: int = 0
    urgent: bool = True
    """Whether a caller waits for the commit. A batch without waiting callers may linger."""

    @property
    def key(self) -> tuple[str, ...] | None:
        """Two entries with the same key may not share a commit: the second must find the first on disk."""
        return self.dedupe or self.adopt


class EntryQueue:
    """The writer's queue of entries, first in, first out. Decides which entries share a commit. Not thread-safe."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._urgent = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def patient(self) -> bool:
        """Whether entries are queued and no caller waits for them."""
        return bool(self._entries) and not self._urgent

    def put(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._urgent += entry.urgent

    def collect(self) -> list[Entry]:
        """Remove and return as many entries as fit one commit."""
        entries = self._entries
        batch: list[Entry] = []
        keys: set[tuple[str, ...]] = set()
        records = size = 0
        while entries:
            entry = entries[0]
            count, key = len(entry.records) + len(entry.deltas), entry.key
            full = records + count > JOURNAL_BATCH_RECORDS or size + entry.size > JOURNAL_BATCH_BYTES
            if batch and (full or key in keys):
                break
            if key is not None:
                keys.add(key)
            entries.popleft()
            self._urgent -= entry.urgent
            records, size = records + count, size + entry.size
            batch.append(entry)
        return batch
