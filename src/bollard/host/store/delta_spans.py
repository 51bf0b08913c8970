"""The format of a delta row: the payloads end to end, and a span for each delta. Pure.

A span is two little-endian uint32: the distance of its seq from the row's first seq, and the length of its payload.

A merged row keeps the times of its parts. Its spans begin with a marker that cannot be a first span, `0xFFFFFFFF` and
the number of times. The times follow: a number of deltas (uint32) and their millisecond (uint64).
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from bollard.host.limits import DELTA_FOLD_ROWS, DELTA_ROW_BYTES
from bollard.host.store.rows import DeltaRow

_MARK: Final = 0xFFFF_FFFF
_PAIR: Final = struct.Struct("<II")
_TIME: Final = struct.Struct("<IQ")


def pack(seqs_and_lengths: Iterable[tuple[int, int]]) -> bytes:
    """The spans of deltas that arrived together, in order. Their first seq is the row's `first_seq`."""
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
    """The deltas of a row after `after_seq`, each with its payload."""
    found: list[tuple[int, bytes]] = []
    start = 0
    for seq, length in unpack(row.first_seq, row.spans):
        if seq > after_seq:
            found.append((seq, row.body[start : start + length]))
        start += length
    return found


def split_by_time(
    row: DeltaRow, after_seq: int, limit_bytes: int | None = None
) -> list[tuple[int, list[tuple[int, bytes]]]]:
    """The deltas of a row after `after_seq`, grouped by the millisecond of their arrival, up to the delta that reaches
    `limit_bytes`."""
    spans = _PAIR.iter_unpack(memoryview(row.spans)[_times_end(row.spans) :])
    found: list[tuple[int, list[tuple[int, bytes]]]] = []
    start = size = 0
    for count, at_ms in _times(row):
        group: list[tuple[int, bytes]] = []
        for offset, length in islice(spans, count):
            if row.first_seq + offset > after_seq:
                group.append((row.first_seq + offset, row.body[start : start + length]))
                size += length
                if limit_bytes is not None and size >= limit_bytes:
                    return [*found, (at_ms, group)]
            start += length
        if group:
            found.append((at_ms, group))
    return found


Extent = tuple[int, int, int]
"""The epoch of a row, its first seq, and the bytes of its spans and payloads."""
Piece = tuple[int, int]
"""Adjacent rows to merge: the first seqs of the first and of the last row."""


def extent_of(row: DeltaRow) -> Extent:
    return row.epoch, row.first_seq, len(row.spans) + len(row.body)


class DeltaFold:
    """Decides which small delta rows of a run are merged while the rows are written.

    A piece is due when its rows fill a row, or when it has many rows. So each merge is bounded, and only the newest
    rows of a run are left to merge.
    """

    def __init__(self) -> None:
        self._epoch = self._first = self._last = self._rows = self._bytes = 0

    def add(self, row: Extent) -> Piece | None:
        """Add the next row of the run. Returns a piece that is due now."""
        epoch, first, size = row
        size += _TIME.size  # a merged row holds the time of each part
        if size >= DELTA_ROW_BYTES:  # a full row ends the piece before it
            return self.close()
        due = self.close() if epoch != self._epoch else None
        if not self._rows:
            self._epoch, self._first = epoch, first
        self._last = first
        self._rows += 1
        self._bytes += size
        if self._bytes >= DELTA_ROW_BYTES:
            return self.close()
        if self._rows >= DELTA_FOLD_ROWS:
            self._rows = 1  # the piece continues with the merged row
            return self._first, self._last
        return due

    def close(self) -> Piece | None:
        """The unfinished piece, if it has more than one row."""
        piece = (self._first, self._last) if self._rows > 1 else None
        self._rows = self._bytes = 0
        return piece


def pieces(rows: Iterable[Extent]) -> list[Piece]:
    """All pieces of these rows of a run, given in order."""
    fold = DeltaFold()
    found = [fold.add(row) for row in rows]
    return [piece for piece in (*found, fold.close()) if piece is not None]


def merge(rows: Sequence[DeltaRow]) -> DeltaRow:
    """Merge rows of one run and epoch, given in any order."""
    ordered = sorted(rows, key=lambda row: row.first_seq)
    first = ordered[0]
    if any(row.run_id != first.run_id or row.epoch != first.epoch for row in ordered):
        raise ValueError("only rows of one run and epoch can be merged")
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


def first_time(created_ms: int, spans: bytes) -> int:
    """The time of arrival of the first delta of a row."""
    return int(_TIME.unpack_from(spans, _PAIR.size)[1]) if _times_end(spans) else created_ms


def _times(row: DeltaRow) -> list[tuple[int, int]]:
    """The number of deltas for each time of arrival, in order."""
    end = _times_end(row.spans)
    if not end:
        return [(len(row.spans) // _PAIR.size, row.created_ms)]
    return list(_TIME.iter_unpack(memoryview(row.spans)[_PAIR.size : end]))


def _times_end(spans: bytes) -> int:
    """The offset of the first span."""
    if len(spans) < _PAIR.size:
        return 0
    mark, count = _PAIR.unpack_from(spans)
    return _PAIR.size + count * _TIME.size if mark == _MARK else 0


def _packed_times(times: Sequence[tuple[int, int]], created_ms: int) -> bytes:
    """The marker and the times of a merged row. Empty if every delta has the time of the row."""
    joined: list[tuple[int, int]] = []
    for count, at_ms in times:
        if joined and joined[-1][1] == at_ms:
            joined[-1] = (joined[-1][0] + count, at_ms)
        else:
            joined.append((count, at_ms))
    if all(at_ms == created_ms for _, at_ms in joined):
        return b""
    return _PAIR.pack(_MARK, len(joined)) + b"".join(_TIME.pack(*time) for time in joined)
