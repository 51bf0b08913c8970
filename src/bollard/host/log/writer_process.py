"""The journal's writer as a process of its own, from the host's side: the interpreter lock is not shared with it.

It fails closed. When that process is gone, everything that waits is refused, so is everything new, and the host is
told to stop: what was not confirmed may or may not be on disk, and the next start reads what is.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from bollard.host.errors import HostError, StorageUnavailable
from bollard.host.limits import JOURNAL_START_S, JOURNAL_STOP_S
from bollard.host.log.entries import Entry
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Tell
from bollard.host.log.kill_points import HOST_PID_VARIABLE
from bollard.host.log.numbers import Numbers
from bollard.host.log.writer_frames import (
    Begin,
    Close,
    Closed,
    Failure,
    Frames,
    FromWriter,
    Opened,
    Recall,
    Refused,
    Sign,
    Signature,
    Work,
    Written,
    decode_from_writer,
    framed,
)
from bollard.trust import HeadSigner

__all__ = ["WriterProcess"]

_MODULE: Final = "bollard.host.log.journal_process"
_READ_BYTES: Final = 1 << 16
_NOT_FOR_IT: Final = (signal.SIGINT, signal.SIGTERM)
_AHEAD: Final = 2
"""Sends that the writer may not have answered: one that it commits, one that waits for it. More would only wake it."""


@contextlib.contextmanager
def _no_signals() -> Generator[None]:
    """A process that is started meanwhile is born deaf: until it has loaded, a Ctrl-C or a service manager's signal to
    all of ours would end it, and the host would take that for a loss. Those to the host wait until afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_IT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WriterProcess:
    """A `Desk` in another process. `spawn` may be called long before `open`, so that it starts beside the host."""

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
        self._process: subprocess.Popen[bytes] | None = None
        self._frames = Frames()
        self._entries: list[Entry] = []
        self._hurried = False
        self._flush_asked = False
        self._unsent = bytearray()
        self._sent: deque[int] = deque()
        """Entries of each send that is not wholly answered."""
        self._open_entries = 0
        self._gone = False
        self._numbers = Numbers()

    def spawn(self) -> None:
        """Start the process; it waits for `open`."""
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        environment = {**os.environ, HOST_PID_VARIABLE: str(os.getpid())}
        with theirs, _no_signals():
            self._process = subprocess.Popen(  # noqa: S603 -- our own module
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def open(self, tell: Tell) -> None:
        if self._process is None:
            self.spawn()
        self._loop = asyncio.get_running_loop()
        self._tell = tell
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._socket.fileno(), self._readable)
        self._send(framed(self._begin))
        try:
            async with asyncio.timeout(JOURNAL_START_S):
                await self._opened
        except TimeoutError:
            self._end()
            raise StorageUnavailable(
                "the journal did not start in time", hint="is the machine very busy, or its disk very slow?"
            ) from None

    def put(self, entry: Entry) -> None:
        self._open_entries += 1
        if self._gone:
            self._loop.call_soon(self._refuse_all)
            return
        self._entries.append(entry)
        if self._sent:
            self._ask_flush()
        else:
            self._flush()  # it is idle: the sooner it begins, the sooner somebody is told

    def hurry(self) -> None:
        self._hurried = True
        self._ask_flush()

    def remember(self, facts: RunFacts) -> None:
        self._flush()
        self._send(framed(Recall(facts)))

    async def close(self) -> None:
        if self._process is None:
            return
        if not self._gone:
            self._flush()
            self._send(framed(Close()))
            await asyncio.wait([self._closed])
        self._end()
        try:
            await asyncio.to_thread(self._process.wait, JOURNAL_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    # --- sending ---

    def _ask_flush(self) -> None:
        """Everything of one turn of the loop leaves in one send."""
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
            self._send(framed(Work(entries, hurried)))

    def _answered(self, count: int) -> None:
        """So many entries are decided: what was held back for them can go."""
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

    def _send(self, data: bytes) -> None:
        if self._gone:
            return
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._vanished()
            return
        if sent < len(data):
            self._unsent += data[sent:]
            self._loop.add_writer(self._socket.fileno(), self._writable)

    def _writable(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            self._vanished()
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    # --- hearing ---

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._vanished()
            return
        for body in self._frames.feed(data):
            self._hear(decode_from_writer(body))

    def _hear(self, message: FromWriter) -> None:
        match message:
            case Written(fates, numbers, heads):
                self._numbers = numbers
                self._answered(len(fates))
                self._tell([fate.error() if isinstance(fate, Failure) else fate for fate in fates], numbers, heads)
            case Sign(text):
                self._send(framed(Signature(self._key.sign(text))))
            case Opened():
                self._opened.set_result(None)
            case Refused(failure):
                self._end()
                self._opened.set_exception(failure.error())
            case Closed():
                self._end()
                self._closed.set_result(None)

    def _vanished(self) -> None:
        if self._gone:
            return
        self._end()
        if not self._opened.done():
            self._opened.set_exception(_gone_error())
        elif not self._closed.done():
            self._closed.set_result(None)
            self._refuse_all()
            self._lost()

    def _refuse_all(self) -> None:
        refused: list[HostError] = [_gone_error() for _ in range(self._open_entries)]
        self._open_entries = 0
        self._tell(refused, self._numbers)

    def _end(self) -> None:
        if not self._gone:
            self._gone = True
            self._loop.remove_reader(self._socket.fileno())
            if self._unsent:
                self._loop.remove_writer(self._socket.fileno())
            self._socket.close()


def _gone_error() -> StorageUnavailable:
    return StorageUnavailable("the journal process is gone", hint="the host stops; start it again", outcome="unknown")
