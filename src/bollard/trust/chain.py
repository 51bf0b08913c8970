"""The hash chain over the log, and its verifier. Pure.

There is one chain for each workspace and writer incarnation. A link covers the header of a record and the digest of
its data, so that the chain still verifies after retention dropped data.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

_encode: Final = msgspec.json.Encoder().encode
_VERSION: Final = b"bollard-chain-1\0"


class Header(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The fields that a link covers, in this order. Times are epoch milliseconds."""

    workspace: str
    chain: str
    position: int
    run_id: str | None
    seq: int | None
    epoch: int | None
    source_seq: int | None
    type: str
    observed: bool
    created_ms: int
    data_sha256: str


class ChainedRecord(msgspec.Struct, frozen=True, gc=False):
    """A stored record. `data` is absent if retention dropped it."""

    header: Header
    data: bytes | None
    hash: str


FaultKind = Literal["edited", "data_edited", "missing", "order", "foreign", "head_mismatch", "truncated"]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """The first fault in a chain and its position."""

    kind: FaultKind
    chain: str
    position: int
    detail: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification. Without a fault, all records up to `position` are unchanged."""

    chain: str
    position: int
    hash: str
    records: int
    data_dropped: int
    fault: Fault | None = None


@dataclass(slots=True)
class _Progress:
    position: int
    hash: str
    records: int = 0
    dropped: int = 0
    wanted: dict[int, str] = field(default_factory=dict[int, str])


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def genesis(workspace: str, chain: str) -> str:
    """Return the hash before the first record."""
    return hashlib.sha256(_VERSION + _encode((workspace, chain))).hexdigest()


def link(previous: str, header: Header) -> str:
    """Return the hash of a record: over the previous hash and the header."""
    return hashlib.sha256(previous.encode() + _encode(header)).hexdigest()


def verify_chain(
    workspace: str,
    chain: str,
    records: Iterable[ChainedRecord],
    *,
    after_position: int = 0,
    after_hash: str | None = None,
    heads: Mapping[int, str] | None = None,
) -> Report:
    """Verify records in order. `heads` are witnessed hashes by position; each must match, none may lie beyond the end.

    `after_position` and `after_hash` name a trusted record to start after.
    """
    progress = _Progress(
        position=after_position,
        hash=after_hash or genesis(workspace, chain),
        wanted={position: hash_ for position, hash_ in (heads or {}).items() if position > after_position},
    )
    for record in records:
        fault = _check(workspace, chain, record, progress)
        if fault is not None:
            return _report(chain, progress, fault)
    beyond = max(progress.wanted, default=0)
    if beyond > progress.position:
        detail = f"a signed head names position {beyond}, the chain ends at {progress.position}"
        return _report(chain, progress, Fault(kind="truncated", chain=chain, position=beyond, detail=detail))
    return _report(chain, progress, None)


def _report(chain: str, progress: _Progress, fault: Fault | None) -> Report:
    return Report(
        chain=chain,
        position=progress.position,
        hash=progress.hash,
        records=progress.records,
        data_dropped=progress.dropped,
        fault=fault,
    )


def _check(workspace: str, chain: str, record: ChainedRecord, progress: _Progress) -> Fault | None:
    header, expected = record.header, progress.position + 1

    def fault(kind: FaultKind, detail: str) -> Fault:
        return Fault(kind=kind, chain=chain, position=expected, detail=detail)

    if header.position != expected:
        if header.position > expected:
            return fault("missing", f"record {expected} is missing, {header.position} follows")
        return fault("order", f"record {header.position} stands where {expected} should")
    if header.workspace != workspace or header.chain != chain:
        return fault("foreign", "the record belongs to another chain")
    computed = link(progress.hash, header)
    if computed != record.hash:
        return fault("edited", "the record's header or hash was changed")
    if record.data is None:
        progress.dropped += 1
    elif sha256_of(record.data) != header.data_sha256:
        return fault("data_edited", "the record's data was changed")
    witnessed = progress.wanted.pop(expected, None)
    if witnessed is not None and witnessed != computed:
        return fault("head_mismatch", "a signed head names another hash")
    progress.position, progress.hash = expected, computed
    progress.records += 1
    return None
