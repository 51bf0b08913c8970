"""The journal's writer without thread or process: each commit is one turn of the loop, some time after it was asked
for, or happens between two reads of a reader.

Between the commit and telling of it lies time too, so that a crash can fall between them; and a trap makes one fall
right before or right after the commit of a record of one kind.
"""

import asyncio
from collections import deque
from collections.abc import Callable
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

__all__ = ["SteppedWriter", "Trap"]

_COMMIT_S: Final = 0.01
_TELL_S: Final = 0.002


class Trap(msgspec.Struct, frozen=True):
    """Where the host dies: at the n-th commit with such a record, before it is made or after."""

    kind: str
    times: int
    after: bool


class SteppedWriter:
    """A `Desk` driven by timers. `crash` ends it as a process ends."""

    def __init__(self, writer: Writer, dice: Random, trap: Trap | None = None, died: Callable[[], None] | None = None):
        self._writer = writer
        self._dice = dice
        self._trap = trap
        self._died = died
        self._left = trap.times if trap is not None else 0
        self._queue = EntryQueue()
        self._untold: deque[tuple[list[Fate], Numbers]] = deque()
        self._asked = False
        self._crashed = False

    async def open(self, tell: Tell) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell = tell
        self._writer.open()

    def put(self, entry: Entry) -> None:
        if self._crashed:
            return
        self._queue.put(entry)
        if not self._asked:
            self._asked = True
            self._loop.call_later(self._dice.uniform(0, _COMMIT_S), self._step)

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
        batch = self._queue.collect()
        trap = self._sprung(batch)
        if trap is not None and not trap.after:
            self._die()
            return
        fates = self._writer.turn(batch)
        if trap is not None:
            self._die()
            return
        numbers = msgspec.structs.replace(self._writer.numbers)
        self._untold.append((fates, numbers))
        self._loop.call_later(self._dice.uniform(0, _TELL_S), self._report)
        if len(self._queue) or numbers.full:
            self._asked = True
            wait_s = self._dice.uniform(0, _COMMIT_S) if len(self._queue) else JOURNAL_FULL_S
            self._loop.call_later(wait_s, self._step)

    def _sprung(self, batch: list[Entry]) -> Trap | None:
        trap = self._trap
        if trap is None or not any(record.type == trap.kind for entry in batch for record in entry.records):
            return None
        self._left -= 1
        return trap if self._left == 0 else None

    def _die(self) -> None:
        self.crash()
        if self._died is not None:
            self._died()

    def _report(self) -> None:
        """Tell of the oldest commit: fates are told in the order of their entries."""
        if not self._crashed:
            self._tell(*self._untold.popleft())

    async def close(self) -> None:
        await asyncio.sleep(0)
