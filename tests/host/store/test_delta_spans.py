"""How deltas share a row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bollard.host.store.delta_spans import merge, pack, split, unpack
from bollard.host.store.rows import DeltaRow

payloads = st.lists(st.tuples(st.integers(1, 5), st.binary(max_size=8)), min_size=1, max_size=20)


def row_of(deltas: list[tuple[int, bytes]], epoch: int = 1) -> DeltaRow:
    return DeltaRow(
        run_id="r",
        epoch=epoch,
        first_seq=deltas[0][0],
        last_seq=deltas[-1][0],
        created_ms=deltas[0][0],
        spans=pack((seq, len(payload)) for seq, payload in deltas),
        body=b"".join(payload for _, payload in deltas),
    )


def numbered(steps: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    seq, deltas = 0, []
    for step, payload in steps:
        seq += step
        deltas.append((seq, payload))
    return deltas


@given(payloads, st.integers(0, 110))
def test_a_row_gives_back_any_suffix(steps, after):
    deltas = numbered(steps)
    assert split(row_of(deltas), after) == [delta for delta in deltas if delta[0] > after]


@given(payloads, st.integers(0, 20), st.integers(0, 20))
def test_merged_rows_answer_like_the_rows(steps, first_cut, second_cut):
    deltas = numbered(steps)
    low, high = sorted((first_cut, second_cut))
    rows = [row_of(part) for part in (deltas[:low], deltas[low:high], deltas[high:]) if part]
    merged = merge(rows[::-1])
    assert split(merged, 0) == deltas
    assert (merged.first_seq, merged.last_seq) == (deltas[0][0], deltas[-1][0])
    assert merged.created_ms == max(row.created_ms for row in rows)


def test_spans_are_pairs_of_little_endian_numbers():
    spans = pack([(7, 1), (9, 258)])
    assert spans == bytes.fromhex("00000000 01000000 02000000 02010000")
    assert unpack(7, spans) == [(7, 1), (9, 258)]
    assert pack([]) == b""


def test_rows_of_different_epochs_are_not_merged():
    with pytest.raises(ValueError, match="one run and epoch"):
        merge([row_of([(1, b"a")]), row_of([(2, b"b")], epoch=2)])
