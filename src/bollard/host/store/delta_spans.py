"""How deltas share a row: payloads end to end, and for each its sequence number and length. Pure.

A span is two little-endian uint32: the distance of its seq from the row's first, and the length of its payload.

A row that others were merged into keeps the time of each. Then its spans begin with a pair that no first span can be,
`0xFFFFFFFF` and the number of times, and with the times: how many deltas (uint32) came at which millisecond (uint64).
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from bollard.host.store.rows import DeltaRow

__all__ = ["MERGED_BYTES", "UNMERGED_BYTES", "Extent", "merge", "pack", "pieces", "split", "split_by_time", "unpack"]

MERGED_BYTES: Final = 4 << 20
"""A row that others were merged into: so much of a run is in memory at once when it ends."""
UNMERGED_BYTES: Final = 256 << 10
"""A row that is large enough as it is: to write it again would gain nothing."""

_NO_EPOCH: Final = -1
_MARK: Final = 0xFFFF_FFFF
_PAIR: Final = struct.Struct("<II")
_TIME: Final = struct.Struct("<IQ")


def pack(seqs_and_lengths: Iterable[tuple[int, int]]) -> bytes:
    """The spans of deltas in order that came together; their first seq is the row's `first_seq`."""
    flat: list[int] = []
    first: int | None = None
    for seq, length in seqs_and_lengths:
        if first is None:
            first = seq
        flat.append(seq - first)
        flat.append(length)
    return struct.pack(f"<{len(flat)}I", *flat)


def unpack(first_seq: int, spans: bytes) -> list[tuple[int, int]]:
    """The (seq, length) of each delta."""
    pairs = memoryview(spans)[_times_end(spans) :]
    return [(first_seq + offset, length) for offset, length in _PAIR.iter_unpack(pairs)]


def split(row: DeltaRow, after_seq: int) -> list[tuple[int, bytes]]:
    """The deltas of a row that come after `after_seq`, each with its payload."""
    found: list[tuple[int, bytes]] = []
    start = 0
    for seq, length in unpack(row.first_seq, row.spans):
        if seq > after_seq:
            found.append((seq, row.body[start : start + length]))
        start += length
    return found


def split_by_time(row: DeltaRow, after_seq: int) -> list[tuple[int, list[tuple[int, bytes]]]]:
    """The same, those that came together with the millisecond at which they came."""
    deltas = iter(split(row, -1))
    groups = [(at_ms, list(islice(deltas, count))) for count, at_ms in _times(row)]
    kept = [(at_ms, [delta for delta in group if delta[0] > after_seq]) for at_ms, group in groups]
    return [(at_ms, group) for at_ms, group in kept if group]


Extent = tuple[int, int, int]
"""Of a stored row: its epoch, its first seq, and the bytes of its spans and payloads."""


def pieces(rows: Iterable[Extent]) -> list[tuple[int, int]]:
    """Which neighbours, in order, become one row each: the first seqs of the first and the last of them."""
    found: list[list[Extent]] = []
    room, epoch = 0, _NO_EPOCH
    for row in rows:
        row_epoch, _, size = row
        size += _TIME.size  # a merged row says when each of them came
        if size >= UNMERGED_BYTES:
            epoch = _NO_EPOCH  # nothing is merged across it
            continue
        if row_epoch != epoch or size > room:
            found.append([])
            room, epoch = MERGED_BYTES - _PAIR.size, row_epoch
        found[-1].append(row)
        room -= size
    return [(piece[0][1], piece[-1][1]) for piece in found if len(piece) > 1]


def merge(rows: Sequence[DeltaRow]) -> DeltaRow:
    """One row that answers for all: rows of one run and epoch, in any order."""
    ordered = sorted(rows, key=lambda row: row.first_seq)
    first = ordered[0]
    if any(row.run_id != first.run_id or row.epoch != first.epoch for row in ordered):
        raise ValueError("only deltas of one run and epoch become one row")
    created_ms = max(row.created_ms for row in ordered)
    spans = pack(span for row in ordered for span in unpack(row.first_seq, row.spans))
    return DeltaRow(
        run_id=first.run_id,
        epoch=first.epoch,
        first_seq=first.first_seq,
        last_seq=ordered[-1].last_seq,
        created_ms=created_ms,
        spans=_packed_times([time for row in ordered for time in _times(row)], created_ms) + spans,
        body=b"".join(row.body for row in ordered),
    )


def _times(row: DeltaRow) -> list[tuple[int, int]]:
    """How many deltas of a row came at which time, in order."""
    end = _times_end(row.spans)
    if not end:
        return [(len(row.spans) // _PAIR.size, row.created_ms)]
    return list(_TIME.iter_unpack(memoryview(row.spans)[_PAIR.size : end]))


def _times_end(spans: bytes) -> int:
    """Where the pairs begin."""
    if len(spans) < _PAIR.size:
        return 0
    mark, count = _PAIR.unpack_from(spans)
    return _PAIR.size + count * _TIME.size if mark == _MARK else 0


def _packed_times(times: Sequence[tuple[int, int]], created_ms: int) -> bytes:
    """The beginning of a merged row's spans; nothing where the row's own time says it all."""
    joined: list[tuple[int, int]] = []
    for count, at_ms in times:
        if joined and joined[-1][1] == at_ms:
            joined[-1] = (joined[-1][0] + count, at_ms)
        else:
            joined.append((count, at_ms))
    if all(at_ms == created_ms for _, at_ms in joined):
        return b""
    return _PAIR.pack(_MARK, len(joined)) + b"".join(_TIME.pack(*time) for time in joined)
