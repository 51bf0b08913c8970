"""A record before it is written: its place in the chain and its id come with the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from bollard.host.store.rows import RecordRow

if TYPE_CHECKING:
    from bollard.protocol import JsonValue

__all__ = ["NewRecord", "data_of", "encode_data", "with_version"]

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


def with_version(data: bytes, version: int) -> bytes:
    """The data of a record that writes a state value, with the version that it makes: known in its commit only."""
    return b'%b,"version":%d}' % (data[:-1], version)
