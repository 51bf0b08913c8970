"""Publishes live records to readers. Each reader has a bounded buffer; one that falls behind resumes from its cursor.

The hub stores nothing: missed records come from the log. Publishing never waits.
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


class ReaderMemory:
    """Counts the bytes buffered for all readers, in the hub and in connections, against one limit. On overflow the
    server closes the connection that has been stalled longest; its reader resumes later. Not thread-safe."""

    __slots__ = ("held", "limit", "overflow")

    def __init__(self, limit: int = READERS_BYTES) -> None:
        self.held = 0
        self.limit = limit
        self.overflow: Callable[[], None] = lambda: None
        """Called when the limit is exceeded."""

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
    """One record of a stream: its position, and the whole record as JSON."""

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
        """Bytes in the buffer, also counted in the hub's memory."""
        self._came: asyncio.Future[None] | None = None
        self.behind = False
        """Whether the buffer overflowed. Its content is valid; after it the reader must resume from the log."""
        self.ended = False
        self.closing = False
        """Whether the host stops before the run has ended."""

    @property
    def over(self) -> bool:
        """Whether no more records will come."""
        return self.behind or self.ended or self.closing

    def offer(self, records: Sequence[StreamRecord]) -> None:
        """Called by the hub."""
        if self.over:
            return
        before, added = self._bytes, sum([len(record.json) for record in records])
        if len(self._records) + len(records) <= SUBSCRIBER_FRAMES and before + added <= SUBSCRIBER_BYTES:
            self._bytes += added
            self._records.extend(records)
        else:
            self._fill(records)
        self._hub.memory.add(self._bytes - before)
        self._wake()

    def _fill(self, records: Sequence[StreamRecord]) -> None:
        """Take the records that fit. The reader is behind from then on."""
        for record in records:
            size = len(record.json)
            if len(self._records) >= SUBSCRIBER_FRAMES or self._bytes + size > SUBSCRIBER_BYTES:
                break
            self._bytes += size
            self._records.append(record)
        self.behind = True
        self._hub.cut += 1

    def close_soon(self) -> None:
        """The host stops. The buffer is valid; after it the reader must resume elsewhere, or later."""
        self.closing = True
        self._wake()

    def end(self) -> None:
        """The run is over."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        if self._came is not None and not self._came.done():
            self._came.set_result(None)

    async def take(self, idle_s: float) -> list[StreamRecord]:
        """The buffered records. Empty after `idle_s` without records, or if no more will come."""
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
    """The readers of each run."""

    def __init__(self, memory: ReaderMemory | None = None) -> None:
        self.memory = memory or ReaderMemory()
        self._readers: dict[str, dict[Subscription, None]] = {}
        """Ordered by arrival, so that a replayed simulation is deterministic."""
        self.cut = 0
        """How many readers fell behind."""
        self._closing = False

    @property
    def readers(self) -> int:
        return sum(len(readers) for readers in self._readers.values())

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
        """The host stops: current and new readers must resume elsewhere."""
        self._closing = True
        for readers in self._readers.values():
            for subscription in readers:
                subscription.close_soon()


# --- stream records: the JSON of an `AgentRunRecord`, encoded once for all readers (a hot path) ---

_encode: Final = msgspec.json.Encoder().encode


def _json(record: NewRecord | RecordRow, data: bytes) -> bytes:
    source = b"" if record.source_seq is None else b',"source_seq":%d' % record.source_seq
    return (
        b'{"run_id":%b,"seq":%d,"epoch":%d%b,"type":%b,"data":%b,"observed":%b,"created_at":%d.%03d,'
        b'"artifact_refs":[],"metadata":{}}'
    ) % (
        _encode(record.run_id or ""),
        record.seq or 0,
        record.epoch or 0,
        source,
        _encode(record.type),
        data,
        b"true" if record.observed else b"false",
        record.created_ms // 1000,
        record.created_ms % 1000,
    )


def stream_records(records: Iterable[NewRecord]) -> list[StreamRecord]:
    """The stream records of new records of runs."""
    return [StreamRecord(new.epoch or 0, new.seq or 0, new.type, _json(new, new.data)) for new in records]


def stream_record_from_row(row: RecordRow) -> StreamRecord:
    """The stream record of a stored row. Byte for byte equal to the live one."""
    body = _json(row, b"{}" if row.data is None else row.data)
    if row.data is None:
        body = body.replace(b'"metadata":{}', b'"metadata":{"data_dropped":true}')
    return StreamRecord(row.epoch or 0, row.seq or 0, row.type, body)


def delta_records(run_id: str, epoch: int, created_ms: int, deltas: Iterable[tuple[int, bytes]]) -> list[StreamRecord]:
    """The stream records of one batch of deltas. They have no `source_seq`, live or replayed."""
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
    """The deltas of a stored row after `after_seq`, up to the one that reaches `limit_bytes`."""
    return [
        record
        for created_ms, deltas in split_by_time(row, after_seq, limit_bytes)
        for record in delta_records(row.run_id, row.epoch, created_ms, deltas)
    ]


def gap_record(run_id: str, epoch: int, first: int, last: int | None, reason: str) -> StreamRecord:
    """Stands for records that a reader cannot get. Exists only in streams."""
    body = _encode({"run_id": run_id, "type": "gap", "data": {"first": first, "last": last, "reason": reason}})
    return StreamRecord(epoch, last or first, "gap", body)
