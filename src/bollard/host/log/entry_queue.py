"""Entries that wait for their commit, on the writer's side. Decides what shares one commit; knows no thread."""

from collections import deque

from bollard.host.limits import JOURNAL_BATCH_BYTES, JOURNAL_BATCH_RECORDS
from bollard.host.log.entries import Entry

__all__ = ["EntryQueue"]


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
