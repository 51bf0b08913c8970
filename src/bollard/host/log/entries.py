"""What is given to the journal, and what becomes of it. Values only: they cross to the writer's process as they are."""

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
    """What became of an expectation."""

    version: int
    """The version of the value now; 0 where there is none."""
    unmet: Literal["", "version", "quota"] = ""
    existed: bool = False
    """Whether there was a value before."""


class Committed(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """On disk; and what became of each expectation, in order."""

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
    """The event does not wait for a run any more; nothing was written."""


class ChoreDone(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """A chore is done: so many rows."""

    rows: int


CommitResult = Committed | Duplicate | FencedOff | Renewed | EventMissed | ChoreDone
Told = Callable[[CommitResult | HostError], None]


class StateExpectation(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What must be true of a state value for the record that changes it. Where it is not, another record takes its
    place: the run's numbers stay without holes, and the log says what was refused."""

    record: int
    """Which record of the entry."""
    otherwise: tuple[str, bytes]
    """Type and data of the record that is written instead."""
    scope_key: str
    key: str
    now_ms: int = 0
    """When the record was made: by this time it is known what has expired, here and in the projection. The run that
    makes the record knows."""
    version: int | None = None
    """The version that must be there, 0 for none at all; `None` when any will do."""
    size: int = 0
    """Bytes of the new value and its key; 0 where it is removed."""
    quota: int = 0
    """Bytes that the scope may hold afterwards."""
    expires_ms: int | None = None
    """When the new value will be gone."""


class Chore(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Housekeeping, at most `limit` rows. Where there were any, its entry's record is written, with their number."""

    kind: Literal["drop_data", "drop_deltas", "drop_expired"]
    limit: int
    before_ms: int
    type: str = ""
    """The type of the records whose data is dropped."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What must be written together, or not at all."""

    records: list[NewRecord] = []
    deltas: list[DeltaRow] = []
    fence: tuple[str, int] | None = None
    """The run and the epoch that must still own it."""
    dedupe: tuple[str, str, str] | None = None
    """Workspace, source and id of an event that must be new. With nothing to write, a question whether it is."""
    adopt: tuple[str, str] | None = None
    """Workspace and id of an event that must still wait for a run."""
    lease: tuple[str, Lease] | None = None
    """Give this run, which exists, to this owner; fenced off when someone was quicker."""
    expects: list[StateExpectation] = []
    blobs: list[bytes] = []
    """Contents that must be on disk before the records that name them."""
    keeps: list[KeptChange] = []
    """What is kept beside the log in the same commit: what the log must not hold."""
    renew: tuple[str, tuple[str, ...], int] | None = None
    """An owner, the runs whose leases it extends, and until when."""
    chore: Chore | None = None
    merge: list[tuple[str, int, int]] = []
    """Delta rows that become one, with this entry's own: the run, and the first seqs of the first and the last row."""
    size: int = 0
    urgent: bool = True
    """Whether somebody waits. A batch that nobody waits for may linger."""

    @property
    def key(self) -> tuple[str, ...] | None:
        """What no second entry of one commit may be about: it must find the first one on disk."""
        return self.dedupe or self.adopt


# Entries that wait for their commit, on the writer's side. Decides what shares one commit; knows no thread.


class EntryQueue:
    """First in, first out."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._urgent = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def patient(self) -> bool:
        """Whether something waits and nobody waits for it."""
        return bool(self._entries) and not self._urgent

    def put(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._urgent += entry.urgent

    def collect(self) -> list[Entry]:
        """As many entries as fit one commit."""
        entries, batch = self._entries, list[Entry]()
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
