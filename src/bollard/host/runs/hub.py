"""Shows live records to readers. Each reader has a bounded buffer; one that falls behind is cut with a cursor.

The hub keeps nothing: what a reader missed it reads from the log. Publishing never waits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from bollard.host.limits import READERS_BYTES, SUBSCRIBER_BYTES, SUBSCRIBER_FRAMES
from bollard.host.log.records import NewRecord
from bollard.host.store.delta_spans import split_by_time
from bollard.host.store.rows import DeltaRow, RecordRow

# The bytes that wait for readers under one ceiling: in the hub for those of live runs, and in connections for all.
#
# It counts, and tells the server when there are too many. The server cuts the connection that has taken nothing for
# longest, which frees what waits for it in the hub too; its reader resumes behind the last record that it got.


class ReaderMemory:
    """Used on the loop's thread only."""

    __slots__ = ("held", "limit", "overflow")

    def __init__(self, limit: int = READERS_BYTES) -> None:
        self.held = 0
        self.limit = limit
        self.overflow: Callable[[], None] = lambda: None
        """Called when more is held than the ceiling allows."""

    @property
    def is_full(self) -> bool:
        return self.held > self.limit

    def add(self, size: int) -> None:
        self.held += size
        if self.is_full:
            self.overflow()

    def free(self, size: int) -> None:
        self.held -= size


class StreamRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as a stream carries it: where it stands, and the whole record as JSON."""

    epoch: int
    seq: int
    type: str
    json: bytes


class Subscription:
    """One reader of one run."""

    def __init__(self, hub: "Hub", run_id: str) -> None:
        self._hub = hub
        self._run_id = run_id
        self._records: deque[StreamRecord] = deque()
        self._bytes = 0
        """In the buffer; counted in the hub's memory too."""
        self._came: asyncio.Future[None] | None = None
        self.behind = False
        """Whether the buffer overflowed: what is in it is still good, then the reader must resume from the log."""
        self.ended = False
        self.closing = False
        """Whether the host stops, and the run goes on without it."""

    @property
    def over(self) -> bool:
        """Whether nothing will come any more."""
        return self.behind or self.ended or self.closing

    def offer(self, records: Sequence[StreamRecord]) -> None:
        """Called by the hub."""
        if self.over:
            return
        before = self._bytes
        for record in records:
            size = len(record.json)
            if len(self._records) >= SUBSCRIBER_FRAMES or self._bytes + size > SUBSCRIBER_BYTES:
                self.behind = True
                self._hub.cut += 1
                break
            self._bytes += size
            self._records.append(record)
        self._hub.memory.add(self._bytes - before)
        self._wake()

    def close_soon(self) -> None:
        """The host stops: what is in the buffer is still good, then the reader must resume elsewhere, or later."""
        self.closing = True
        self._wake()

    def end(self) -> None:
        """No more will come: the run is over."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    async def take(self, idle_s: float) -> list[StreamRecord]:
        """Everything that is ready; empty when nothing came for `idle_s`, or nothing will come any more."""
        if not self._records and not self.over:
            loop = asyncio.get_running_loop()
            self._came = loop.create_future()
            timer = loop.call_later(idle_s, self._wake)
            try:
                await self._came
            finally:
                timer.cancel()
        records = list(self._records)
        self._empty()
        return records

    def _empty(self) -> None:
        self._hub.memory.free(self._bytes)
        self._bytes = 0
        self._records.clear()

    def close(self) -> None:
        self._empty()
        self._hub.leave(self._run_id, self)


class Hub:
    """Who reads which run."""

    def __init__(self, memory: ReaderMemory | None = None) -> None:
        self.memory = memory or ReaderMemory()
        self._readers: dict[str, dict[Subscription, None]] = {}
        """In the order they came, so that the same history is the same twice."""
        self.cut = 0
        """Readers that fell behind."""
        self._closing = False

    @property
    def readers(self) -> int:
        return sum(len(found) for found in self._readers.values())

    def subscribe(self, run_id: str) -> Subscription:
        subscription = Subscription(self, run_id)
        subscription.closing = self._closing
        self._readers.setdefault(run_id, {})[subscription] = None
        return subscription

    def leave(self, run_id: str, subscription: Subscription) -> None:
        readers = self._readers.get(run_id)
        if readers is not None:
            readers.pop(subscription, None)
            if not readers:
                del self._readers[run_id]

    def publish(self, run_id: str, records: Sequence[StreamRecord]) -> None:
        for subscription in self._readers.get(run_id, ()):
            subscription.offer(records)

    def end(self, run_id: str) -> None:
        for subscription in self._readers.pop(run_id, ()):
            subscription.end()

    def close(self) -> None:
        """The host stops: whoever still reads, or comes now, is told to resume."""
        self._closing = True
        for readers in self._readers.values():
            for subscription in readers:
                subscription.close_soon()


# Records as streams carry them: the JSON of an `AgentRunRecord`, written once for all readers. A hot path.


_encode: Final = msgspec.json.Encoder().encode


def _json(
    run_id: str, seq: int, epoch: int, kind: str, data: bytes, observed: bool, created_ms: int, source_seq: int | None
) -> bytes:
    source = b"" if source_seq is None else b',"source_seq":%d' % source_seq
    return (
        b'{"run_id":%b,"seq":%d,"epoch":%d%b,"type":%b,"data":%b,"observed":%b,"created_at":%d.%03d,'
        b'"artifact_refs":[],"metadata":{}}'
    ) % (
        _encode(run_id),
        seq,
        epoch,
        source,
        _encode(kind),
        data,
        b"true" if observed else b"false",
        created_ms // 1000,
        created_ms % 1000,
    )


def stream_record(record: NewRecord) -> StreamRecord:
    """A record of a run that is on disk, or about to be."""
    run_id, seq, epoch = record.run_id or "", record.seq or 0, record.epoch or 0
    body = _json(run_id, seq, epoch, record.type, record.data, record.observed, record.created_ms, record.source_seq)
    return StreamRecord(epoch, seq, record.type, body)


def stream_record_from_row(row: RecordRow) -> StreamRecord:
    """The same, read back: the bytes are the same as when it was live."""
    run_id, seq, epoch = row.run_id or "", row.seq or 0, row.epoch or 0
    if row.data is None:
        body = _json(run_id, seq, epoch, row.type, b"{}", row.observed, row.created_ms, row.source_seq)
        body = body.replace(b'"metadata":{}', b'"metadata":{"data_dropped":true}')
    else:
        body = _json(run_id, seq, epoch, row.type, row.data, row.observed, row.created_ms, row.source_seq)
    return StreamRecord(epoch, seq, row.type, body)


def delta_records(run_id: str, epoch: int, created_ms: int, deltas: Iterable[tuple[int, bytes]]) -> list[StreamRecord]:
    """Deltas that came together. They carry no number of their own but `seq`, live and replayed alike."""
    head = b'{"run_id":%b,"seq":' % _encode(run_id)
    tail = b',"observed":false,"created_at":%d.%03d,"artifact_refs":[],"metadata":{}}' % (
        created_ms // 1000,
        created_ms % 1000,
    )
    middle = b',"epoch":%d,"type":"message.delta","data":' % epoch
    return [
        StreamRecord(epoch, seq, "message.delta", b"%b%d%b%b%b" % (head, seq, middle, payload, tail))
        for seq, payload in deltas
    ]


def delta_records_from_row(row: DeltaRow, after_seq: int, limit_bytes: int | None = None) -> list[StreamRecord]:
    """The deltas of a stored row behind `after_seq`; none behind the one with which they reach `limit_bytes`."""
    return [
        record
        for created_ms, deltas in split_by_time(row, after_seq, limit_bytes)
        for record in delta_records(row.run_id, row.epoch, created_ms, deltas)
    ]


def gap_record(run_id: str, epoch: int, first: int, last: int | None, reason: str) -> StreamRecord:
    """What a reader is told instead of records it cannot get. Exists only in streams."""
    body = _encode({"run_id": run_id, "type": "gap", "data": {"first": first, "last": last, "reason": reason}})
    return StreamRecord(epoch, last or first, "gap", body)
