"""The journal process: reads entries from the host, writes them, and answers. `python -m` starts it; the host does.

It never outlives its host: what the host had not been told of is then as if it had never been asked for.
"""

import ctypes
import fcntl
import gc
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Final

from bollard.host.clock import SystemClock
from bollard.host.errors import HostError, StorageUnavailable
from bollard.host.limits import JOURNAL_LINGER_S, JOURNAL_LOCK_S
from bollard.host.log.entry_queue import EntryQueue
from bollard.host.log.kill_points import HOST_PID_VARIABLE
from bollard.host.log.writer import Fate, Writer
from bollard.host.log.writer_frames import (
    Begin,
    Close,
    Closed,
    Frames,
    FromHost,
    FromWriter,
    Opened,
    Recall,
    Refused,
    Sign,
    Signature,
    Work,
    Written,
    decode_from_host,
    failure_of,
    framed,
)
from bollard.host.store.blobs import BlobStore
from bollard.host.store.opening import choose_store
from bollard.host.store.reserve import ReserveFile
from bollard.trust import BadSignature

__all__ = ["main"]

_READ_BYTES: Final = 1 << 16
"""Small enough that the memory for it is not mapped anew for each read."""
_PR_SET_PDEATHSIG: Final = 1
_LOCK_POLL_S: Final = 0.01


class _HostGone(BaseException):
    """The other end of the socket is closed. Nobody survives that, not even who survives every `Exception`."""


class _Line:
    """The socket to the host, with what has arrived on it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._frames = Frames()
        self._held: list[FromHost] = []
        """What arrived while something else was awaited."""
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def hear(self, timeout_s: float | None) -> list[FromHost]:
        """What arrived, within the time. Raises `_HostGone`."""
        if self._held:
            held, self._held = self._held, []
            return held
        return self._receive(timeout_s)

    def _receive(self, timeout_s: float | None) -> list[FromHost]:
        if not self._poll.poll(None if timeout_s is None else timeout_s * 1000):
            return []
        try:
            data = self._connection.recv(_READ_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            raise _HostGone
        return [decode_from_host(body) for body in self._frames.feed(data)]

    def begin(self) -> Begin:
        """What the host says first."""
        match self.hear(None):
            case [Begin() as begin]:
                return begin
            case _:
                raise _HostGone

    def say(self, message: FromWriter) -> None:
        try:
            self._connection.sendall(framed(message))
        except OSError:
            raise _HostGone from None

    def signature_of(self, text: bytes) -> bytes:
        """As the host signs it, which it does between two turns of its loop. Raises `_HostGone`."""
        self.say(Sign(text))
        while True:
            for message in (arrived := self._receive(None)):
                if isinstance(message, Signature):
                    self._held += [other for other in arrived if other is not message]
                    return message.signature
            self._held += arrived


class _HostKey:
    """The host's key, whose secret stays with the host."""

    def __init__(self, line: _Line, key_id: str) -> None:
        self._line = line
        self.key_id = key_id

    @property
    def verify_key(self) -> "_HostKey":
        return self

    def sign(self, text: bytes) -> bytes:
        return self._line.signature_of(text)

    def verify(self, text: bytes, signature: bytes) -> None:
        """Ed25519 signs the same text always the same way. Raises `BadSignature`."""
        if self.sign(text) != signature:
            raise BadSignature(f"the signature is not of key {self.key_id}")


class _Desk:
    """The writer, and what waits for it."""

    def __init__(self, line: _Line, writer: Writer) -> None:
        self._line = line
        self._writer = writer
        self._queue = EntryQueue()
        self._hurried = False
        self._closing = False

    def work(self) -> None:
        """Until the host says that it closes."""
        writer, queue = self._writer, self._queue
        while True:
            self._take(0.0 if len(queue) or self._closing else writer.rest_s)
            self._linger()
            batch = queue.collect()
            if self._closing and not batch:
                writer.finish()
                self._tell([])
                self._line.say(Closed())
                return
            self._tell(writer.turn(batch))
            if writer.taken:
                return  # the host finds the line closed without a word, and stops

    def _tell(self, fates: list[Fate]) -> None:
        heads = self._writer.signed_heads()
        if fates or heads:
            told = [failure_of(fate) if isinstance(fate, HostError) else fate for fate in fates]
            self._line.say(Written(told, self._writer.numbers, heads))

    def _linger(self) -> None:
        """Wait for company only when nobody waits for what is there."""
        until = time.monotonic() + JOURNAL_LINGER_S
        while self._queue.patient and not self._hurried and not self._closing:
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            self._take(left_s)
        self._hurried = False

    def _take(self, timeout_s: float) -> None:
        for message in self._line.hear(timeout_s):
            match message:
                case Work(entries, hurried):
                    for entry in entries:
                        self._queue.put(entry)
                    self._hurried = self._hurried or hurried
                case Recall(facts):
                    self._writer.remember(facts)
                case Close():
                    self._closing = True
                    self._writer.hasten()
                case Begin() | Signature():
                    raise AssertionError("a journal begins once, and gets no signature that it waits for no more")


def _opened(begin: Begin, line: _Line) -> Writer:
    data, clock = Path(begin.data), SystemClock()
    _lock(data)
    store = choose_store(begin.database, data, clock, alone=True)
    store.open()
    writer = Writer(
        store,
        BlobStore(data / "blobs"),
        clock,
        incarnation=begin.incarnation,
        key=_HostKey(line, begin.key_id),
        reserve=ReserveFile(data / "reserve"),
        broken_log=begin.broken_log,
    )
    writer.open()
    return writer


def _lock(data: Path) -> None:
    """One journal for a data directory: that of a host which was just killed may need a moment to be gone."""
    descriptor = os.open(data / "journal.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + JOURNAL_LOCK_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                message = "another journal writes to this data directory"
                raise StorageUnavailable(message, hint="stop the other host, or use another directory") from None
            time.sleep(_LOCK_POLL_S)
        else:
            return  # the descriptor stays open as long as the process lives


def _die_with(host_pid: int) -> None:
    """The kernel ends this process with its host, where it can; elsewhere the closed socket does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host_pid:
        raise _HostGone


def main(descriptor: int) -> int:
    """Serve one host on this socket; 0 after an orderly end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the host decides when to stop, and says so
    try:
        _die_with(int(os.environ[HOST_PID_VARIABLE]))
        with socket.socket(fileno=descriptor) as connection:
            line = _Line(connection)
            try:
                writer = _opened(line.begin(), line)
            except HostError as error:
                line.say(Refused(failure_of(error)))
                return 1
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 20, 100)
            line.say(Opened())
            _Desk(line, writer).work()
    except _HostGone:
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
