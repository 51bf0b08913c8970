"""The journal without its thread: each commit is one turn of the loop, some time after it was asked for, or happens
between two reads of a reader.

Between the commit and telling of it lies time too, so that a crash can fall between them.
"""

import asyncio
from random import Random
from typing import Final

from bollard.host.log.entries import Entry, Fate
from bollard.host.log.journal import Journal, tell

__all__ = ["SteppedJournal"]

_COMMIT_S: Final = 0.01
_TELL_S: Final = 0.002
_FULL_S: Final = 1.0
"""Time between two looks whether a full disk has space again."""


class SteppedJournal(Journal):
    """What `Journal` does, driven by timers. `crash` ends it as a process ends."""

    random: Random = Random(0)  # noqa: S311 -- a seed, not a secret
    _asked = False
    _crashed = False

    def start(self) -> None:
        """There is no thread to start."""

    def append(self, entry: Entry) -> None:
        super().append(entry)
        if not self._asked:
            self._asked = True
            self._loop.call_later(self.random.uniform(0, _COMMIT_S), self._step)

    def crash(self) -> None:
        """Nothing is written and nobody is told any more."""
        self._crashed = True

    def interleave(self) -> None:
        """A reader's thread lost the processor: the writer commits what waits, if anything does."""
        if self._asked:
            self._step()

    def _step(self) -> None:
        if self._crashed:
            return
        self._asked = False
        fates = self._turn(self._collect(), closing=False)
        self._loop.call_later(self.random.uniform(0, _TELL_S), self._tell, fates)
        if self._queue.entries or self.full:
            self._asked = True
            wait_s = self.random.uniform(0, _COMMIT_S) if self._queue.entries else _FULL_S
            self._loop.call_later(wait_s, self._step)

    def _tell(self, fates: list[Fate]) -> None:
        if not self._crashed:
            tell(fates)

    async def close(self) -> None:
        await asyncio.sleep(0)
