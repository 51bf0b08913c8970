"""The journal's writer as a thread of this process. It commits whenever it is idle; what queued up meanwhile shares
the next commit."""

import asyncio
import threading
from collections.abc import Sequence

import msgspec

from bollard.host.limits import JOURNAL_LINGER_S
from bollard.host.log.entries import Entry
from bollard.host.log.entry_queue import EntryQueue
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Tell
from bollard.host.log.writer import Fate, Writer

__all__ = ["WriterThread"]


class WriterThread:
    """A `Desk` in the same process."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._queue = EntryQueue()
        self._changed = threading.Condition()
        self._hurried = False
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="bollard-journal", daemon=True)

    async def open(self, tell: Tell) -> None:
        self._loop = asyncio.get_running_loop()
        self._tell = tell
        self._writer.open()
        self._thread.start()

    def put(self, entry: Entry) -> None:
        with self._changed:
            was_idle = not len(self._queue)
            self._queue.put(entry)
            if was_idle or entry.urgent:
                self._changed.notify()

    def hurry(self) -> None:
        with self._changed:
            self._hurried = True
            self._changed.notify()

    def remember(self, facts: RunFacts) -> None:
        self._writer.remember(facts)

    async def close(self) -> None:
        with self._changed:
            self._closing = True
            self._writer.hasten()
            self._changed.notify()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        while True:
            batch, closing = self._take()
            if closing and not batch:
                self._writer.finish()
                self._report([])
                return
            self._report(self._writer.turn(batch))

    def _report(self, fates: Sequence[Fate]) -> None:
        heads = self._writer.signed_heads()
        if fates or heads:
            self._loop.call_soon_threadsafe(self._tell, fates, msgspec.structs.replace(self._writer.numbers), heads)

    def _take(self) -> tuple[list[Entry], bool]:
        """The next batch, and whether the journal closes. Waits for company only when nobody waits for the batch."""
        with self._changed:
            if not len(self._queue) and not self._closing:
                self._changed.wait(self._writer.rest_s)
            if self._queue.patient and not self._hurried and not self._closing:
                self._changed.wait(JOURNAL_LINGER_S)
            self._hurried = False
            return self._queue.collect(), self._closing
