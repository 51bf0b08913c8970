"""The journal process: reads entries from the host, writes them, and reports the results. The host starts it.

It never outlives its host. Entries that were not confirmed by then may or may not be on disk.
"""

import fcntl
import gc
import os
import time
from pathlib import Path
from typing import Final

from bollard.helper.host_link import HostGone, HostLink, deny_inspection, host_socket, live_with_host
from bollard.host.clock import SystemClock
from bollard.host.errors import HostError, StorageUnavailable
from bollard.host.limits import JOURNAL_LINGER_S, JOURNAL_LOCK_S
from bollard.host.log.entries import CommitOutcome, EntryQueue
from bollard.host.log.writer import Writer
from bollard.host.log.writer_frames import (
    Begin,
    Close,
    Closed,
    FromHost,
    Opened,
    Recall,
    Refused,
    Sign,
    Signature,
    Work,
    Written,
    decode_from_host,
    encode_frame,
    failure_of,
)
from bollard.host.store.blobs import BlobStore
from bollard.host.store.reserve import ReserveFile
from bollard.host.store.selection import choose_store
from bollard.trust import BadSignature

_Link = HostLink[FromHost]
_LOCK_POLL_S: Final = 0.01


class _HostKey:
    """The host's signing key by proxy: the secret stays in the host's process."""

    def __init__(self, link: _Link, key_id: str) -> None:
        self._link = link
        self.key_id = key_id

    @property
    def verify_key(self) -> "_HostKey":
        return self

    def sign(self, text: bytes) -> bytes:
        """Let the host sign the text. Raises `HostGone`."""
        self._link.say(encode_frame(Sign(text)))
        return self._link.expect(Signature).signature

    def verify(self, text: bytes, signature: bytes) -> None:
        """Verify by signing again: Ed25519 signatures are deterministic. Raises `BadSignature`."""
        if self.sign(text) != signature:
            raise BadSignature(f"the signature is not of key {self.key_id}")


class _WriterLoop:
    """Feeds the writer from the host's messages."""

    def __init__(self, link: _Link, writer: Writer) -> None:
        self._link = link
        self._writer = writer
        self._queue = EntryQueue()
        self._hurried = False
        self._closing = False

    def work(self) -> None:
        """Write entries until the host sends `Close`."""
        writer, queue = self._writer, self._queue
        while True:
            self._take(0.0 if len(queue) or self._closing else writer.rest_s)
            self._linger()
            batch = queue.collect()
            if self._closing and not batch:
                writer.finish()
                self._tell([])
                self._link.say(encode_frame(Closed()))
                return
            self._tell(writer.turn(batch))
            if writer.taken:
                return  # the link closes without `Closed`, so the host stops

    def _tell(self, outcomes: list[CommitOutcome]) -> None:
        heads = self._writer.signed_heads()
        if outcomes or heads:
            results = [failure_of(outcome) if isinstance(outcome, HostError) else outcome for outcome in outcomes]
            self._link.say(encode_frame(Written(results, self._writer.numbers, heads)))

    def _linger(self) -> None:
        """Wait for further entries, unless a caller waits for the queued ones."""
        until = time.monotonic() + JOURNAL_LINGER_S
        while self._queue.patient and not self._hurried and not self._closing:
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            self._take(left_s)
        self._hurried = False

    def _take(self, timeout_s: float) -> None:
        for message in self._link.hear(timeout_s):
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


def _opened(begin: Begin, link: _Link) -> Writer:
    data, clock = Path(begin.data), SystemClock()
    _lock(data)
    store = choose_store(begin.database, data, clock, alone=True)
    store.open()
    writer = Writer(
        store,
        BlobStore(data / "blobs"),
        clock,
        incarnation=begin.incarnation,
        key=_HostKey(link, begin.key_id),
        reserve=ReserveFile(data / "reserve"),
        broken_log=begin.broken_log,
    )
    writer.open()
    return writer


def _lock(data: Path) -> None:
    """Allow one journal per data directory. The journal of a host that was just killed may need a moment to end."""
    descriptor = os.open(data / "journal.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + JOURNAL_LOCK_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                message = "another journal writes to this data directory"
                hint = "stop the other host, or use another directory"
                raise StorageUnavailable(message, reason="journal_locked", hint=hint) from None
            time.sleep(_LOCK_POLL_S)
        else:
            return  # the descriptor stays open as long as the process lives


def main() -> int:
    """Serve one host. Returns the exit code."""
    deny_inspection()
    try:
        with host_socket() as connection:
            live_with_host()
            link = _Link(connection, decode_from_host)
            try:
                writer = _opened(link.expect(Begin), link)
            except HostError as error:
                link.say(encode_frame(Refused(failure_of(error))))
                return 1
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 20, 100)
            link.say(encode_frame(Opened()))
            _WriterLoop(link, writer).work()
    except HostGone:
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
