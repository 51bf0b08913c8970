"""Records as streams carry them: the JSON of an `AgentRunRecord`, written once for all readers. A hot path."""

from collections.abc import Iterable
from typing import Final

import msgspec

from bollard.host.log.records import NewRecord
from bollard.host.runs.hub import StreamRecord
from bollard.host.store.delta_spans import split_by_time
from bollard.host.store.rows import DeltaRow, RecordRow

__all__ = ["delta_records", "gap_record", "stream_record", "stream_record_from_row"]

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


def delta_records_from_row(row: DeltaRow, after_seq: int) -> list[StreamRecord]:
    """The deltas of a stored row behind `after_seq`."""
    return [
        record
        for created_ms, deltas in split_by_time(row, after_seq)
        for record in delta_records(row.run_id, row.epoch, created_ms, deltas)
    ]


def gap_record(run_id: str, epoch: int, first: int, last: int | None, reason: str) -> StreamRecord:
    """What a reader is told instead of records it cannot get. Exists only in streams."""
    body = _encode({"run_id": run_id, "type": "gap", "data": {"first": first, "last": last, "reason": reason}})
    return StreamRecord(epoch, last or first, "gap", body)
