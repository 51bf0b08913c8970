"""How deltas share a row: payloads end to end, and for each its sequence number and length. Pure.

A span is two little-endian uint32: the distance of its seq from the row's first, and the length of its payload.
"""

import struct
from collections.abc import Iterable, Sequence

from bollard.host.store.rows import DeltaRow

__all__ = ["merge", "pack", "split", "unpack"]


def pack(seqs_and_lengths: Iterable[tuple[int, int]]) -> bytes:
    """The spans of deltas in order; their first seq is the row's `first_seq`."""
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
    return [(first_seq + offset, length) for offset, length in struct.iter_unpack("<II", spans)]


def split(row: DeltaRow, after_seq: int) -> list[tuple[int, bytes]]:
    """The deltas of a row that come after `after_seq`, each with its payload."""
    found: list[tuple[int, bytes]] = []
    start = 0
    for seq, length in unpack(row.first_seq, row.spans):
        if seq > after_seq:
            found.append((seq, row.body[start : start + length]))
        start += length
    return found


def merge(rows: Sequence[DeltaRow]) -> DeltaRow:
    """One row that answers for all: rows of one run and epoch, in any order."""
    ordered = sorted(rows, key=lambda row: row.first_seq)
    first = ordered[0]
    if any(row.run_id != first.run_id or row.epoch != first.epoch for row in ordered):
        raise ValueError("only deltas of one run and epoch become one row")
    return DeltaRow(
        run_id=first.run_id,
        epoch=first.epoch,
        first_seq=first.first_seq,
        last_seq=ordered[-1].last_seq,
        created_ms=max(row.created_ms for row in ordered),
        spans=pack(span for row in ordered for span in unpack(row.first_seq, row.spans)),
        body=b"".join(row.body for row in ordered),
    )
