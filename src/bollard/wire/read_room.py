"""How many ranged reads of a channel are answered at once. Their answers are the largest there are, so that one begins
only when there is room for what it brings: a content is not read to wait in memory for a worker that is behind."""

from collections.abc import Callable, Hashable

from bollard.wire.limits import READS_AT_ONCE

__all__ = ["ReadRoom"]


class ReadRoom:
    """One per channel. First come, first served."""

    def __init__(self, at_once: int = READS_AT_ONCE) -> None:
        self._at_once = at_once
        self._under_way = 0
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._filling = False

    def enter(self, read: Hashable, begin: Callable[[], None]) -> None:
        """Begin a read now, or when one that is under way has left."""
        self._waiting[read] = begin
        self._fill()

    def leave(self) -> None:
        """The answer of a read that was begun is on its way."""
        self._under_way -= 1
        self._fill()

    def forget(self, read: Hashable) -> None:
        """A read that may wait need not begin any more."""
        self._waiting.pop(read, None)

    def close(self) -> None:
        """Nothing begins any more."""
        self._waiting.clear()

    def _fill(self) -> None:
        if self._filling:
            return  # a read that is refused at once leaves while it begins: the loop below goes on
        self._filling = True
        try:
            while self._waiting and self._under_way < self._at_once:
                read = next(iter(self._waiting))
                self._under_way += 1
                self._waiting.pop(read)()
        finally:
            self._filling = False
