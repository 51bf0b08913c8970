"""An event loop whose time passes only when nothing is left to do, and whose threads are turns of the same loop.

With it a history depends on its seed only. This module is independent of the simulated parts.
"""

import asyncio
import contextvars
import selectors
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.limits import JOURNAL_FULL_S
from bollard.host.log.entries import CommitOutcome, Entry, EntryQueue
from bollard.host.log.journal import WriterListener, WriterNumbers
from bollard.host.log.records import RunFacts
from bollard.host.log.writer import Writer

_EPOCH_MS: Final = 1_700_000_000_000
_THREAD_S: Final = 0.004
"""The longest time that work given to a thread takes to begin."""


class Standstill(Exception):
    """Nothing is scheduled any more and the work is not done: a task waits for ever."""


class _Selector(selectors.BaseSelector):
    """Waits for nothing: a wait moves the time instead."""

    def __init__(self, inner: selectors.BaseSelector, passed: Callable[[float | None], None]) -> None:
        self._inner = inner
        self._passed = passed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._passed(timeout)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def get_map(self) -> Any:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at `now`, and draws from `random` how long threads take."""

    def __init__(self, now: float, random: Random) -> None:
        self._now = now
        self._random = random
        super().__init__(_Selector(selectors.DefaultSelector(), self._pass))

    def time(self) -> float:
        return self._now

    def _pass(self, timeout: float | None) -> None:
        if timeout is None:
            raise Standstill("nothing is left to happen")
        self._now += timeout

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """The work of a thread, in one later turn of this loop."""
        del executor
        done: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # a thread's boundary: whatever it raises is its answer
                done.set_exception(error)
            else:
                done.set_result(result)

        self.call_later(self._random.uniform(0, _THREAD_S), work, context=contextvars.copy_context())
        return done


class VirtualClock(Clock):
    """The time of a loop, and a wall that agrees with it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return _EPOCH_MS + round(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()


# The journal's writer without thread or process: each commit is one turn of the loop, some time after it was asked
# for, or happens between two reads of a reader.
#
# Between the commit and telling of it lies time too, so that a crash can fall between them; and a trap makes one fall
# right before or right after the commit of a record of one kind.


_COMMIT_S: Final = 0.01
_TELL_S: Final = 0.002


class Trap(msgspec.Struct, frozen=True):
    """Where the host dies: at the n-th commit with such a record, before it is made or after."""

    kind: str
    times: int
    after: bool


class SteppedWriter:
    """An `EntryWriter` driven by timers. `crash` ends it as a process ends."""

    def __init__(self, writer: Writer, dice: Random, trap: Trap | None = None, died: Callable[[], None] | None = None):
        self._writer = writer
        self._dice = dice
        self._trap = trap
        self._died = died
        self._left = trap.times if trap is not None else 0
        self._queue = EntryQueue()
        self._untold: deque[tuple[list[CommitOutcome], WriterNumbers]] = deque()
        self._asked = False
        self._crashed = False

    async def open(self, tell: WriterListener) -> None:
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
        """Nothing is written and no waiter is notified any more."""
        self._crashed = True

    def interleave(self) -> None:
        """A reader's thread lost the processor: the writer commits the waiting entries, if any."""
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
        outcomes = self._writer.turn(batch)
        if trap is not None:
            self._die()
            return
        numbers = msgspec.structs.replace(self._writer.numbers)
        self._untold.append((outcomes, numbers))
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
        """Report the oldest commit: outcomes are reported in the order of their entries."""
        if not self._crashed:
            self._tell(*self._untold.popleft())

    async def close(self) -> None:
        await asyncio.sleep(0)
