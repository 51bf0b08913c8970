"""The two entry writers of a journal: a separate process, or a thread of the host."""

import asyncio
import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bollard.helper.process import HelperEnded, HelperProcess
from bollard.host.clock import Clock
from bollard.host.errors import HostError, StorageUnavailable
from bollard.host.limits import JOURNAL_LINGER_S, JOURNAL_START_S, JOURNAL_STOP_S
from bollard.host.log.entries import CommitOutcome, Entry, EntryQueue
from bollard.host.log.journal import WriterListener, WriterNumbers
from bollard.host.log.records import RunFacts
from bollard.host.log.writer import Writer
from bollard.host.log.writer_frames import (
    Begin,
    Close,
    Closed,
    Failure,
    FromWriter,
    Opened,
    Recall,
    Refused,
    Sign,
    Signature,
    Work,
    Written,
    decode_from_writer,
    encode_frame,
)
from bollard.host.settings import Settings
from bollard.host.store.blobs import BlobStore
from bollard.host.store.reserve import ReserveFile
from bollard.host.store.store import Store
from bollard.trust import HeadSigner

_MODULE: Final = "bollard.host.log.journal_process"
_OPENING, _CLOSING = 0, 1
"""Ids of the two requests that have a response."""
_AHEAD: Final = 2
"""Unanswered sends: one that the writer commits, and one that waits for it. More would only wake it."""


class WriterProcess:
    """An `EntryWriter` in a separate process, which does not share the interpreter lock of the host. Call `spawn`
    early, so that the process starts while the host does.

    It fails closed. If the process ends, all waiting and new entries are refused, and the host stops: unconfirmed
    entries may or may not be on disk, and the next start reads which are.
    """

    def __init__(
        self,
        *,
        database: str,
        data: Path,
        incarnation: str,
        key: HeadSigner,
        lost: Callable[[], None],
        broken_log: str = "",
    ) -> None:
        self._begin = Begin(database, str(data), incarnation, key.verify_key.key_id, broken_log)
        self._key = key
        self._lost = lost
        self._helper: HelperProcess[FromWriter] | None = None
        self._entries: list[Entry] = []
        self._hurried = False
        self._flush_asked = False
        self._sent: deque[int] = deque()
        """The number of unanswered entries of each send."""
        self._open_entries = 0
        self._is_open = False
        self._numbers = WriterNumbers()

    def spawn(self) -> HelperProcess[FromWriter]:
        """Start the process; it waits for `open`."""
        self._loop = asyncio.get_running_loop()
        self._helper = HelperProcess(
            _MODULE,
            environment=os.environ,
            decode=decode_from_writer,
            heard=self._hear,
            lost=self._vanished,
            own_session=False,  # ADR 0101: Linux schedules sessions apart, and each commit would take longer
        )
        self._send = self._helper.send
        return self._helper

    @property
    def pid(self) -> int | None:
        return None if self._helper is None else self._helper.pid

    async def open(self, tell: WriterListener) -> None:
        helper = self._helper or self.spawn()
        self._tell = tell
        try:
            async with asyncio.timeout(JOURNAL_START_S):
                response = await helper.request(_OPENING, encode_frame(self._begin))
        except TimeoutError:
            await helper.stop(JOURNAL_STOP_S)
            raise StorageUnavailable(
                "the journal did not start in time",
                reason="journal_start_timeout",
                hint="check the load of the machine and the speed of its disk, then start the host again",
            ) from None
        except HelperEnded:
            raise _gone_error() from None
        if isinstance(response, Refused):
            raise response.failure.error()

    def put(self, entry: Entry) -> None:
        self._open_entries += 1
        if not self._is_open:
            self._loop.call_soon(self._refuse_all)
            return
        self._entries.append(entry)
        if self._sent:
            self._ask_flush()
        else:
            self._flush()  # the writer is idle

    def hurry(self) -> None:
        self._hurried = True
        self._ask_flush()

    def remember(self, facts: RunFacts) -> None:
        self._flush()
        self._send(encode_frame(Recall(facts)))

    async def close(self) -> None:
        if self._helper is None:
            return
        if self._is_open:
            self._flush()
            with contextlib.suppress(HelperEnded):
                await self._helper.request(_CLOSING, encode_frame(Close()))
        await self._helper.stop(JOURNAL_STOP_S)

    # --- sending ---

    def _ask_flush(self) -> None:
        """Send all entries of one iteration of the event loop together."""
        if not self._flush_asked and len(self._sent) < _AHEAD:
            self._flush_asked = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_asked = False
        if self._entries or self._hurried:
            entries, self._entries = self._entries, []
            hurried, self._hurried = self._hurried, False
            if entries:
                self._sent.append(len(entries))
            self._send(encode_frame(Work(entries, hurried)))

    def _answered(self, count: int) -> None:
        """So many entries have results: send the entries that waited for them."""
        self._open_entries -= count
        sent = self._sent
        while count:
            taken = min(count, sent[0])
            count -= taken
            sent[0] -= taken
            if not sent[0]:
                sent.popleft()
        if self._entries or self._hurried:
            self._ask_flush()

    # --- receiving ---

    def _hear(self, helper: HelperProcess[FromWriter], message: FromWriter) -> None:
        match message:
            case Written(outcomes, numbers, heads):
                self._numbers = numbers
                self._answered(len(outcomes))
                self._tell(
                    [outcome.error() if isinstance(outcome, Failure) else outcome for outcome in outcomes],
                    numbers,
                    heads,
                )
            case Sign(text):
                helper.send(encode_frame(Signature(self._key.sign(text))))
            case Opened() | Refused():
                self._is_open = isinstance(message, Opened)
                helper.settle(_OPENING, message)
            case Closed():
                self._is_open = False
                helper.settle(_CLOSING, message)

    def _vanished(self, _helper: HelperProcess[FromWriter]) -> None:
        if self._is_open:
            self._lost()  # first: if memory is short, the rest may fail
            self._is_open = False
            self._refuse_all()

    def _refuse_all(self) -> None:
        refused: list[HostError] = [_gone_error() for _ in range(self._open_entries)]
        self._open_entries = 0
        self._tell(refused, self._numbers)


def _gone_error() -> StorageUnavailable:
    return StorageUnavailable(
        "the journal process has ended",
        reason="journal_process_ended",
        hint="the host stops; start it again",
        outcome="unknown",
    )


class WriterThread:
    """An `EntryWriter` in a thread of the host. It commits when it is idle; entries that arrive during a commit share
    the next one."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._queue = EntryQueue()
        self._changed = threading.Condition()
        self._hurried = False
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="bollard-journal", daemon=True)

    async def open(self, tell: WriterListener) -> None:
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

    def _report(self, outcomes: Sequence[CommitOutcome]) -> None:
        heads = self._writer.signed_heads()
        if outcomes or heads:
            self._loop.call_soon_threadsafe(self._tell, outcomes, msgspec.structs.replace(self._writer.numbers), heads)

    def _take(self) -> tuple[list[Entry], bool]:
        """The next batch, and whether the journal closes. Lingers only if no caller waits for the batch."""
        with self._changed:
            if not len(self._queue) and not self._closing:
                self._changed.wait(self._writer.rest_s)
            if self._queue.patient and not self._hurried and not self._closing:
                self._changed.wait(JOURNAL_LINGER_S)
            self._hurried = False
            return self._queue.collect(), self._closing


def choose_writer(
    settings: Settings,
    *,
    store: Store,
    blobs: BlobStore,
    clock: Clock,
    incarnation: str,
    key: HeadSigner,
    lost: Callable[[], None],
) -> WriterThread | WriterProcess:
    """Create the writer that the settings select. `lost` is called if a writer process ends unexpectedly."""
    if settings.journal == "process":
        return WriterProcess(
            database=settings.database,
            data=settings.data,
            incarnation=incarnation,
            key=key,
            lost=lost,
            broken_log=settings.broken_log,
        )
    writer = Writer(
        store,
        blobs,
        clock,
        incarnation=incarnation,
        key=key,
        reserve=ReserveFile(settings.data / "reserve"),
        broken_log=settings.broken_log,
    )
    return WriterThread(writer)
