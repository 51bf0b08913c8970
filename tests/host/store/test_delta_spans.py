"""How deltas share a row."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bollard.host.limits import DELTA_FOLD_ROWS, DELTA_ROW_BYTES
from bollard.host.store.delta_spans import DeltaFold, merge, pack, pieces, split, split_by_time, unpack
from bollard.host.store.rows import DeltaRow

payloads = st.lists(st.tuples(st.integers(1, 5), st.binary(max_size=8)), min_size=1, max_size=20)


def row_of(deltas: list[tuple[int, bytes]], epoch: int = 1, at_ms: int | None = None) -> DeltaRow:
    return DeltaRow(
        run_id="r",
        epoch=epoch,
        first_seq=deltas[0][0],
        last_seq=deltas[-1][0],
        created_ms=deltas[0][0] if at_ms is None else at_ms,
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
def test_a_row_returns_any_suffix(steps, after):
    deltas = numbered(steps)
    assert split(row_of(deltas), after) == [delta for delta in deltas if delta[0] > after]


@given(payloads, st.integers(0, 20), st.integers(0, 20))
def test_a_merged_row_answers_like_its_parts(steps, first_cut, second_cut):
    deltas = numbered(steps)
    low, high = sorted((first_cut, second_cut))
    rows = [row_of(part) for part in (deltas[:low], deltas[low:high], deltas[high:]) if part]
    merged = merge(rows[::-1])
    assert split(merged, 0) == deltas
    assert (merged.first_seq, merged.last_seq) == (deltas[0][0], deltas[-1][0])
    assert merged.created_ms == max(row.created_ms for row in rows)


@given(payloads, st.lists(st.integers(0, 20), max_size=5), st.lists(st.integers(0, 2**45), min_size=6), st.data())
def test_a_merged_row_keeps_the_time_of_each_delta(steps, cuts, times, data):
    deltas = numbered(steps)
    ends = [0, *sorted(cuts), len(deltas)]
    parts = [deltas[start:end] for start, end in pairwise(ends)]
    rows = [row_of(part, at_ms=at_ms) for part, at_ms in zip(parts, times, strict=False) if part]
    expected = [(seq, payload, row.created_ms) for row in rows for seq, payload in split(row, 0)]
    halves = data.draw(st.integers(1, len(rows)))
    twice = merge([merge(rows[:halves]), *rows[halves:]])
    after = data.draw(st.integers(0, 110))
    for merged in (merge(rows), twice):
        found = [(seq, payload, at_ms) for at_ms, group in split_by_time(merged, after) for seq, payload in group]
        assert found == [delta for delta in expected if delta[0] > after]
        assert unpack(merged.first_seq, merged.spans) == [(seq, len(payload)) for seq, payload in deltas]


def test_an_unmerged_row_has_one_time():
    row = row_of([(1, b"a"), (2, b"b")], at_ms=9)
    assert split_by_time(row, 0) == [(9, [(1, b"a"), (2, b"b")])]
    assert split_by_time(row, 1) == [(9, [(2, b"b")])]
    assert split_by_time(row, 2) == []


def test_times_are_stored_only_where_they_differ():
    same = merge([row_of([(1, b"a")], at_ms=9), row_of([(2, b"b")], at_ms=9)])
    assert same.spans == pack([(1, 1), (2, 1)])
    other = merge([row_of([(1, b"a")], at_ms=9), row_of([(2, b"b"), (3, b"c")], at_ms=258)])
    times = "ffffffff 02000000 01000000 0900000000000000 02000000 0201000000000000"
    assert other.spans == bytes.fromhex(times) + pack([(1, 1), (2, 1), (3, 1)])


def test_spans_are_pairs_of_little_endian_numbers():
    spans = pack([(7, 1), (9, 258)])
    assert spans == bytes.fromhex("00000000 01000000 02000000 02010000")
    assert unpack(7, spans) == [(7, 1), (9, 258)]
    assert pack([]) == b""


def test_rows_of_different_epochs_are_not_merged():
    with pytest.raises(ValueError, match="one run and epoch"):
        merge([row_of([(1, b"a")]), row_of([(2, b"b")], epoch=2)])


# --- which rows become one ---

sizes = st.lists(st.sampled_from([1, 100, 5000, DELTA_ROW_BYTES // 2, DELTA_ROW_BYTES]), min_size=1, max_size=600)


@given(sizes)
def test_every_step_of_a_fold_is_small_and_leaves_no_small_neighbours(found):
    rows: dict[int, int] = {}
    fold = DeltaFold()

    def merged(piece):
        first, last = piece
        step = [seq for seq in rows if first <= seq <= last]
        assert 1 < len(step) <= DELTA_FOLD_ROWS
        rows[first] = sum(rows.pop(seq) for seq in step)
        assert rows[first] < 2 * DELTA_ROW_BYTES

    for seq, size in enumerate(found):
        rows[seq] = size
        if (piece := fold.add((1, seq, size))) is not None:
            merged(piece)
    if (piece := fold.close()) is not None:
        merged(piece)
    assert fold.close() is None
    small = [rows[seq] < DELTA_ROW_BYTES // 2 for seq in sorted(rows)]
    assert not any(one and two for one, two in pairwise(small)), "no two small rows are neighbours"


def test_rows_of_different_epochs_and_full_rows_stay_separate():
    full = DELTA_ROW_BYTES
    rows = [(1, 1, 9), (1, 2, 9), (2, 3, 9), (2, 4, 9), (2, 5, full), (2, 6, 9), (2, 7, full), (2, 8, 9), (2, 9, 9)]
    assert pieces(rows) == [(1, 2), (3, 4), (8, 9)]
    assert pieces([]) == pieces([(1, 1, 9)]) == []
