"""A record before it is written: its place in the chain and its id come with the commit."""

from collections.abc import Mapping
from typing import Final

import msgspec

from bollard.host.store.rows import RecordRow
from bollard.protocol import AgentRunRecord, JsonValue

__all__ = ["NewRecord", "data_of", "encode_data", "record_from_row"]

encode_data: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class NewRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """One fact. Records of a run carry its `seq` and `epoch`; others belong to their workspace."""

    workspace: str
    type: str
    data: bytes
    created_ms: int
    observed: bool = True
    run_id: str | None = None
    seq: int | None = None
    epoch: int | None = None
    source_seq: int | None = None


def data_of(row: RecordRow) -> dict[str, JsonValue]:
    """The data of a stored record; empty where retention dropped it."""
    return _decode(row.data) if row.data is not None else {}


def record_from_row(row: RecordRow) -> AgentRunRecord:
    """A record of a run as programs read it."""
    metadata: Mapping[str, JsonValue] = {} if row.data is not None else {"data_dropped": True}
    return AgentRunRecord(
        run_id=row.run_id or "",
        seq=row.seq or 0,
        epoch=row.epoch or 0,
        source_seq=row.source_seq,
        type=row.type,
        data=data_of(row),
        observed=row.observed,
        created_at=row.created_ms / 1000,
        metadata=dict(metadata),
    )
