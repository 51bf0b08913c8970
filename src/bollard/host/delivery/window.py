"""Which messages of the outbox are held in memory: so many of each channel, each in the order of the outbox. Pure.

A channel that is away or slow fills its own window, and what is meant for others goes past it. What found no room stays
on disk and is read again when there is some; until then nothing behind it of the same channel is held either.
"""

from collections import Counter

from bollard.host.store.rows import OutboxRow

__all__ = ["Place", "Window"]

Place = tuple[str, str]
"""Workspace and channel."""


class Window:
    """The outbox is read in pages: `turn`, then each row of the page is asked for with `admits`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: set[str] = set()
        self._of: Counter[Place] = Counter()
        self._left: dict[Place, int] = {}
        """Of each channel that is full the first record that found no room."""
        self._roomy: set[Place] = set()
        """Those of them that have room again."""
        self._over: set[str] = set()
        """What was done with while a page was being read: it may be in the page as if it were not."""
        self._seen_to = 0
        self.read_to = 0
        """The record behind which the next page begins."""

    def __len__(self) -> int:
        return len(self._held)

    def is_full(self, place: Place) -> bool:
        """Whether something of it stayed on disk."""
        return place in self._left

    def holds_any(self, place: Place) -> bool:
        return place in self._of

    def turn(self) -> None:
        """A page is read now."""
        self._over.clear()
        for place in self._roomy:
            self.read_to = min(self.read_to, self._left.pop(place) - 1)
        self._roomy.clear()

    def admits(self, row: OutboxRow) -> bool:
        """Whether the next row of the page is to be dealt with. A preview is, when it is seen first."""
        is_new = row.record_id > self._seen_to
        self._seen_to = max(self._seen_to, row.record_id)
        self.read_to = row.record_id
        if row.preview:
            return is_new
        place = (row.workspace, row.channel)
        if row.delivery_id in self._held or row.delivery_id in self._over or place in self._left:
            return False
        if self._of[place] >= self._most:
            self._left[place] = row.record_id
            return False
        self._held.add(row.delivery_id)
        self._of[place] += 1
        return True

    def release(self, row: OutboxRow) -> bool:
        """It is done with. Whether there is room now for what stayed on disk."""
        place = (row.workspace, row.channel)
        self._held.discard(row.delivery_id)
        self._over.add(row.delivery_id)
        self._of[place] -= 1
        left = self._of[place]
        if not left:
            del self._of[place]
        if place in self._left and left <= self._most // 2:
            self._roomy.add(place)
            return True
        return False
