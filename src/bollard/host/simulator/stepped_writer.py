"""The journal's writer without thread or process: each commit is one turn of the loop, some time after it was asked
for, or happens between two reads of a reader.

Between the commit and telling of it lies time too, so that a crash can fall between them.
"""

import asyncio
from random import Random
from typing import Final

import msgspec

from bollard.host.limits import JOURNAL_FULL_S
from bollard.host.log.entries import Entry
from bollard.host.log.entry_queue import EntryQueue
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Tell
from bollard.host.log.numbers import Numbers
from bollard.host.log.writer import Fate, Writer

__all__ = ["SteppedWriter"]

_COMMIT_S: Final = 0.01
_TELL_S: Final = 0.002


class SteppedWriter:
    """A `Desk` driven by timers. `crash` ends it as a process ends."""

    def __init__(self, writer: Writer, random: Random) -> None:
        self._writer = writer
        self._random = random
        self._queue = EntryQueue()
        self._asked = False
        self._crashed = False

    async def open(self, tell: Tell) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell = tell

    def put(self, entry: Entry) -> None:
        self._queue.put(entry)
        if not self._asked:
            self._asked = True
            self._loop.call_later(self._random.uniform(0, _COMMIT_S), self._step)

    def hurry(self) -> None:
        """It never lingers."""

    def remember(self, facts: RunFacts) -> None:
        self._writer.remember(facts)

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
        fates = self._writer.turn(self._queue.collect())
        numbers = msgspec.structs.replace(self._writer.numbers)
        self._loop.call_later(self._random.uniform(0, _TELL_S), self._report, fates, numbers)
        if len(self._queue) or numbers.full:
            self._asked = True
            wait_s = self._random.uniform(0, _COMMIT_S) if len(self._queue) else JOURNAL_FULL_S
            self._loop.call_later(wait_s, self._step)

    def _report(self, fates: list[Fate], numbers: Numbers) -> None:
        if not self._crashed:
            self._tell(fates, numbers)

    async def close(self) -> None:
        await asyncio.sleep(0)
