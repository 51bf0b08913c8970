"""The log's rows on every store: records, deltas, heads, and what retention leaves of them."""

import msgspec
import pytest

from bollard.host.errors import Conflict
from bollard.host.store.delta_spans import MERGED_BYTES, UNMERGED_BYTES, split, split_by_time
from bollard.host.store.rows import PutRun, RecordRow
from bollard.host.store.sql_writes import EXTENTS_AT_ONCE
from bollard.trust import ChainedRecord, Header, verify_chain

T0 = 1_700_000_000_000


def chained(row: RecordRow) -> ChainedRecord:
    header = Header(*(getattr(row, name) for name in Header.__struct_fields__))
    return ChainedRecord(header, row.data, row.hash)


def test_a_record_comes_back_as_it_was_written(store, make):
    row = make.record(1, run_id="r", seq=1, epoch=3, source_seq=9, observed=False, data=b'{"a":"\xc3\xa9\\u0000"}')
    with store.write() as transaction:
        transaction.add_records([row])
    assert store.records(0, 10) == [row]
    assert store.records_of_run("r", 0, 10) == [row]
    assert store.chain("w", "c", 0, 10) == [row]
    assert store.records(0, 10)[0].observed is False


def test_records_are_paged_by_id_by_run_and_by_chain(store, make):
    rows = make.records(1, 5, "r1") + make.records(6, 5, "r2")
    with store.write() as transaction:
        transaction.add_records(rows)
    assert [row.id for row in store.records(3, 4)] == [4, 5, 6, 7]
    assert [row.seq for row in store.records_of_run("r2", 2, 2)] == [3, 4]
    assert [row.position for row in store.chain("w", "c", 8, 10)] == [9, 10]
    assert store.records(10, 5) == store.records_of_run("r3", 0, 5) == store.chain("w", "other", 0, 5) == []


def test_ids_only_grow_even_when_reserved_twice_or_rolled_back(store, make):
    with store.write() as transaction:
        first = transaction.next_record_ids(3)
        second = transaction.next_record_ids(2)
        transaction.add_records(make.records(first, 3, "r1") + make.records(second, 2, "r2"))
    with pytest.raises(ZeroDivisionError), store.write() as transaction:
        transaction.next_record_ids(5 // 0)
    with store.write() as transaction:
        third = transaction.next_record_ids(1)
    assert first + 3 <= second
    assert second + 2 <= third


def test_a_run_has_each_seq_once_and_a_chain_each_position(store, make):
    row = make.record(1, run_id="r", seq=1, epoch=1)
    with store.write() as transaction:
        transaction.add_records([row])
    same_seq = make.record(2, run_id="r", seq=1, epoch=1)
    same_position = msgspec.structs.replace(make.record(3), position=row.position)
    for twin in (same_seq, same_position, msgspec.structs.replace(make.record(4), id=1)):
        with pytest.raises(Conflict), store.write() as transaction:
            transaction.add_records([twin])
    assert store.records(0, 10) == [row]


def test_records_outside_runs_do_not_get_in_each_others_way(store, make):
    with store.write() as transaction:
        transaction.add_records([make.record(1), make.record(2)])
    assert len(store.records(0, 10)) == 2


def test_a_chain_read_from_the_store_verifies(store, make):
    with store.write() as transaction:
        transaction.add_records(make.records(1, 20, "r"))
    report = verify_chain("w", "c", map(chained, store.chain("w", "c", 0, 100)))
    assert (report.records, report.fault) == (20, None)


def test_retention_forgets_data_and_the_chain_still_verifies(store, make):
    old = [make.record(1, data=b'{"secret":1}'), make.record(2, type="run.ended", data=b'{"kept":1}')]
    new = [make.record(3, created_ms=T0 + 1000, data=b'{"new":1}')]
    with store.write() as transaction:
        transaction.add_records([*old, *new])
    with store.write() as transaction:
        assert transaction.drop_data(["message.completed"], T0 + 500, 10) == 1
        assert transaction.drop_data(["message.completed"], T0 + 500, 10) == 0
    rows = store.chain("w", "c", 0, 10)
    assert [row.data for row in rows] == [None, b'{"kept":1}', b'{"new":1}']
    assert [row.data_sha256 for row in rows] == [row.data_sha256 for row in [*old, *new]]
    report = verify_chain("w", "c", map(chained, rows))
    assert (report.records, report.data_dropped, report.fault) == (3, 1, None)
    assert store.records(0, 1)[0].data is None


def test_retention_forgets_the_oldest_first_and_no_more_than_asked(store, make):
    with store.write() as transaction:
        transaction.add_records([make.record(record_id, data=b"{}") for record_id in range(1, 8)])
    with store.write() as transaction:
        assert transaction.drop_data(["message.completed"], T0 + 1000, 3) == 3
    assert [row.id for row in store.records(0, 10) if row.data is None] == [1, 2, 3]


def test_deltas_answer_any_suffix_before_and_after_they_are_merged(store, make):
    rows = [make.deltas("r", 1, [b"a", b"", b"ccc"]), make.deltas("r", 5, [b"dd"]), make.deltas("r", 9, [b"e", b"f"])]
    with store.write() as transaction:
        transaction.add_deltas([*rows, make.deltas("other", 1, [b"x"])])
    whole = [(1, b"a"), (2, b""), (3, b"ccc"), (5, b"dd"), (9, b"e"), (10, b"f")]

    def suffixes():
        return [
            [delta for row in store.deltas_of_run("r", after) for delta in split(row, after)] for after in range(-1, 12)
        ]

    expected = [[delta for delta in whole if delta[0] > after] for after in range(-1, 12)]
    assert suffixes() == expected
    assert len(store.deltas_of_run("r", 5)) == 1
    with store.write() as transaction:
        transaction.merge_deltas("r")
    assert len(store.deltas_of_run("r", 0)) == 1
    assert suffixes() == expected
    assert len(store.deltas_of_run("other", 0)) == 1


def test_no_merged_row_is_larger_than_its_limit_and_large_ones_stay_as_they_are(store, make):
    small, large = UNMERGED_BYTES // 2, UNMERGED_BYTES
    rows = [make.deltas("r", 1 + number, [bytes([number]) * small], at=number) for number in range(40)]
    rows += [make.deltas("r", 50, [b"x" * large]), make.deltas("r", 51, [b""]), make.deltas("r", 52, [b"y"])]
    with store.write() as transaction:
        transaction.add_deltas(rows)

    def told(rows):
        return [(at_ms, delta) for row in rows for at_ms, group in split_by_time(row, 0) for delta in group]

    with store.write() as transaction:
        transaction.merge_deltas("r")
    merged = store.deltas_of_run("r", 0)
    assert told(merged) == told(rows)
    assert max(len(row.body) + len(row.spans) for row in merged) <= MERGED_BYTES
    assert [len(row.body) for row in merged] == [31 * small, 9 * small, large, 1]
    with store.write() as transaction:
        transaction.merge_deltas("r")
    assert store.deltas_of_run("r", 0) == merged


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_run_of_very_many_rows_is_merged_some_at_a_time(request, make, kind):
    store = request.getfixturevalue(f"{kind}_store")
    with store.write() as transaction:
        transaction.add_deltas([make.deltas("r", number, [b"a"]) for number in range(1, EXTENTS_AT_ONCE + 11)])
        transaction.merge_deltas("r")
    found = [(row.first_seq, row.last_seq, len(row.body)) for row in store.deltas_of_run("r", 0)]
    assert found == [(1, EXTENTS_AT_ONCE, EXTENTS_AT_ONCE), (EXTENTS_AT_ONCE + 1, EXTENTS_AT_ONCE + 10, 10)]


def test_deltas_of_different_epochs_stay_apart_when_they_are_merged(store, make):
    with store.write() as transaction:
        transaction.add_deltas([make.deltas("r", 1, [b"a"]), make.deltas("r", 2, [b"b"])])
        transaction.add_deltas([make.deltas("r", 3, [b"c"], epoch=2)])
        transaction.merge_deltas("r")
        transaction.merge_deltas("nobody")
    assert [(row.epoch, row.body) for row in store.deltas_of_run("r", 0)] == [(1, b"ab"), (2, b"c")]


def test_deltas_of_ended_runs_go_when_their_newest_is_old(store, make, apply):
    apply(store, *(PutRun(make.run(run, status=status)) for run, status in (("done", "failed"), ("on", "running"))))
    apply(store, PutRun(make.run("late", status="completed")))
    with store.write() as transaction:
        transaction.add_deltas([make.deltas("done", 1, [b"a"]), make.deltas("done", 2, [b"b"], at=10)])
        transaction.add_deltas([make.deltas("on", 1, [b"c"]), make.deltas("late", 1, [b"d"])])
        transaction.add_deltas([make.deltas("late", 2, [b"e"], at=900)])
    with store.write() as transaction:
        assert transaction.drop_deltas(T0 + 500, 1) == 1
        assert transaction.drop_deltas(T0 + 500, 10) == 1
        assert transaction.drop_deltas(T0 + 500, 10) == 0
    assert [len(store.deltas_of_run(run, 0)) for run in ("done", "on", "late")] == [0, 1, 2]


def test_the_newest_seq_of_a_run_counts_records_and_deltas_up_to_an_epoch(store, make):
    with store.write() as transaction:
        transaction.add_records([make.record(1, run_id="r", seq=1), make.record(2, run_id="r", seq=4, epoch=1)])
        transaction.add_records([make.record(3, run_id="r", seq=7, epoch=2), make.record(4, run_id="other", seq=99)])
        transaction.add_deltas([make.deltas("r", 5, [b"a", b"b"]), make.deltas("r", 8, [b"c"], epoch=2)])
    assert store.last_seq("r") == 8
    assert [store.last_seq("r", epoch) for epoch in (0, 1, 2, 3)] == [1, 6, 8, 8]
    assert store.last_seq("nobody") == store.last_seq("nobody", 1) == 0


def test_the_same_deltas_twice_are_refused(store, make):
    with store.write() as transaction:
        transaction.add_deltas([make.deltas("r", 1, [b"a"])])
    with pytest.raises(Conflict), store.write() as transaction:
        transaction.add_deltas([make.deltas("r", 1, [b"b"])])
    assert store.deltas_of_run("r", 0)[0].body == b"a"


def test_heads_come_back_by_chain_and_position_of_their_workspace_alone(store, make):
    heads = [make.head(2), make.head(1), make.head(1, chain="b"), make.head(1, workspace="other")]
    with store.write() as transaction:
        for head in heads:
            transaction.add_head(head)
    assert store.heads("w") == [heads[2], heads[1], heads[0]]
