"""The log's rows on every store: records, deltas, heads, and the effect of retention."""

import msgspec
import pytest

from bollard.host.errors import Conflict
from bollard.host.store.delta_spans import split, split_by_time
from bollard.host.store.queries import RecordQuery, TranscriptQuery
from bollard.host.store.rows import PutArtifact, PutEvent, PutOutbox, PutRun, PutTranscript, RecordRow
from bollard.trust import ChainedRecord, Header, verify_chain

T0 = 1_700_000_000_000


def chained(row: RecordRow) -> ChainedRecord:
    header = Header(*(getattr(row, name) for name in Header.__struct_fields__))
    return ChainedRecord(header, row.data, row.hash)


def test_a_record_reads_back_the_same(store, make):
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


def test_ids_only_grow_after_reservations_and_rollbacks(store, make):
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


def test_skipped_ids_are_never_given_and_skipping_back_changes_nothing(store, make):
    with store.write() as transaction:
        transaction.expect_records(3)
        transaction.skip_record_ids(7000)
        first = transaction.next_record_ids(2)
        transaction.skip_record_ids(5)
        second = transaction.next_record_ids(1)
        transaction.add_records(make.records(first, 2, "r1") + make.records(second, 1, "r2"))
    with store.write() as transaction:
        third = transaction.next_record_ids(1)
    assert 7000 < first < first + 2 <= second < third


@pytest.mark.parametrize("expected", [0, 1, 4, 5, 9])
def test_ids_grow_with_any_expectation(store, make, expected):
    with store.write() as transaction:
        transaction.expect_records(expected)
        first, second = transaction.next_record_ids(4), transaction.next_record_ids(1)
        transaction.add_records(make.records(first, 4, "r1") + make.records(second, 1, "r2"))
    with store.write() as transaction:
        third = transaction.next_record_ids(2)
    assert first + 4 <= second < third


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


def test_records_outside_runs_do_not_collide(store, make):
    with store.write() as transaction:
        transaction.add_records([make.record(1), make.record(2)])
    assert len(store.records(0, 10)) == 2


def test_a_chain_read_from_the_store_verifies(store, make):
    with store.write() as transaction:
        transaction.add_records(make.records(1, 20, "r"))
    report = verify_chain("w", "c", map(chained, store.chain("w", "c", 0, 100)))
    assert (report.records, report.fault) == (20, None)


def test_retention_drops_data_and_the_chain_still_verifies(store, make):
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


def test_retention_drops_the_oldest_first_up_to_its_limit(store, make):
    with store.write() as transaction:
        transaction.add_records([make.record(record_id, data=b"{}") for record_id in range(1, 8)])
    with store.write() as transaction:
        assert transaction.drop_data(["message.completed"], T0 + 1000, 3) == 3
    assert [row.id for row in store.records(0, 10) if row.data is None] == [1, 2, 3]


def test_deltas_answer_any_suffix_before_and_after_a_merge(store, make):
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
        transaction.merge_deltas("r", 1, 9)
    assert len(store.deltas_of_run("r", 0)) == 1
    assert suffixes() == expected
    assert len(store.deltas_of_run("other", 0)) == 1


def test_only_the_rows_of_the_range_are_merged_and_keep_their_times(store, make):
    rows = [make.deltas("r", 1 + 2 * number, [b"a", b"b"], at=number) for number in range(6)]
    with store.write() as transaction:
        transaction.add_deltas(rows)

    def told(rows):
        return [(at_ms, delta) for row in rows for at_ms, group in split_by_time(row, 0) for delta in group]

    with store.write() as transaction:
        transaction.merge_deltas("r", 3, 7)
    merged = store.deltas_of_run("r", 0)
    assert [(row.first_seq, row.last_seq) for row in merged] == [(1, 2), (3, 8), (9, 10), (11, 12)]
    assert told(merged) == told(rows)
    with store.write() as transaction:  # once more, and where there is nothing to merge
        transaction.merge_deltas("r", 3, 7)
        transaction.merge_deltas("r", 100, 200)
        transaction.merge_deltas("nobody", 1, 2)
    assert store.deltas_of_run("r", 0) == merged
    with store.write() as transaction:  # merged rows are merged again with later ones
        transaction.merge_deltas("r", 3, 11)
    assert [(row.first_seq, row.last_seq) for row in store.deltas_of_run("r", 0)] == [(1, 2), (3, 12)]
    assert told(store.deltas_of_run("r", 0)) == told(rows)


def test_deltas_of_ended_runs_are_dropped_by_the_age_of_the_newest(store, make, apply):
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


def test_a_page_of_deltas_ends_with_the_row_that_fills_it(store, make):
    rows = [make.deltas("r", first, [bytes([first]) * 100]) for first in (1, 4, 5, 9)]  # each with 8 bytes of spans
    with store.write() as transaction:
        transaction.add_deltas([*rows, make.deltas("other", 2, [b"x"])])

    def page(after, limit, limit_bytes):
        return [row.first_seq for row in store.deltas_page("r", after, limit, limit_bytes)]

    assert page(0, 10, 1) == [1], "one at least"
    assert page(0, 10, 108) == [1]
    assert page(0, 10, 109) == [1, 4]
    assert page(0, 2, 10_000) == [1, 4]
    assert page(0, 10, 10_000) == [1, 4, 5, 9]
    assert page(4, 10, 10_000) == [5, 9]
    assert page(9, 10, 10_000) == []
    assert store.deltas_page("r", 0, 10, 10_000) == rows


def test_a_page_of_records_ends_with_the_record_that_fills_it(store, make):
    with store.write() as transaction:
        transaction.add_records(
            [make.record(seq, run_id="r", seq=seq, epoch=1, data=b"x" * 100) for seq in (1, 2, 3, 4)]
            + [make.record(5, run_id="r", seq=5, epoch=1, data=b""), make.record(6, run_id="other", seq=1, epoch=1)]
        )

    def page(after, limit, *limit_bytes):
        return [row.seq for row in store.records_of_run("r", after, limit, *limit_bytes)]

    assert page(0, 10, 1) == page(0, 10, 100) == [1]
    assert page(0, 10, 101) == [1, 2]
    assert page(2, 10, 200) == [3, 4]
    assert page(2, 10, 201) == [3, 4, 5], "one without data takes no room"
    assert page(0, 2, 10_000) == [1, 2]
    assert page(0, 10) == [1, 2, 3, 4, 5]
    assert page(5, 10) == []


def test_retention_drops_no_data_of_active_runs_and_pending_events(store, make, apply):
    apply(store, PutRun(make.run("done", status="failed")), PutRun(make.run("on", status="running")))
    events = {1: {"run_id": "done"}, 2: {"run_id": "on"}, 3: {"dispatch": "pending"}, 4: {"dispatch": "dropped"}}
    with store.write() as transaction:
        transaction.add_records([make.record(number, type="event.received", data=b"{}") for number in events])
        transaction.add_records(
            [
                make.record(5, run_id="done", seq=1, epoch=1, data=b"{}"),
                make.record(6, run_id="on", seq=1, epoch=1, data=b"{}"),
            ]
        )
    apply(store, *(PutEvent(make.event(number, **more)) for number, more in events.items()))
    apply(store, *(PutTranscript(make.said(number, "words")) for number in (1, 2, 3, 5, 6)))
    with store.write() as transaction:
        assert transaction.drop_data(["event.received", "message.completed"], T0 + 1000, 10) == 3
    assert [row.id for row in store.records(0, 10) if row.data is None] == [1, 4, 5]
    assert [row.record_id for row in store.events("w", None, 10)] == [3, 2]
    said = store.transcript(TranscriptQuery(workspace="w", bot=None, conversation="room", thread=None, limit=10))
    assert [row.seq for row in said] == [6, 3, 2]
    with store.write() as transaction:
        assert transaction.find_event("w", "web", "s1") is None


def test_retention_drops_deliveries_and_raw_payloads_and_spares_open_deliveries(store, make, apply):
    states = {1: "sent", 2: "queued", 3: "started", 4: "shown", 5: "failed"}
    with store.write() as transaction:
        transaction.add_records([make.record(number, data=b"{}") for number in states])
        transaction.add_records([make.record(6, type="event.received", data=b"{}")])
    apply(
        store, *(PutOutbox(make.outbox(f"d{number}", record_id=number, status=how)) for number, how in states.items())
    )
    raw = [make.artifact("raw", source="event", name="e6"), make.artifact("other", source="event", name="e7")]
    apply(store, PutEvent(make.event(6)), *map(PutArtifact, [*raw, make.artifact("file", name="e6")]))
    with store.write() as transaction:
        assert transaction.drop_data(["event.received", "message.completed"], T0 + 1000, 10) == 3
    assert [row.id for row in store.records(0, 10) if row.data is None] == [1, 5, 6]
    assert [row.delivery_id for row in store.outbox("w", None, None, 10)] == ["d4", "d3", "d2"]
    assert store.artifact("w", "raw") is None
    assert store.artifact("w", "other") == raw[1]
    assert store.artifact("w", "file") is not None, "what a run called so is not what the sender sent"


def test_the_newest_seq_of_a_run_counts_records_and_deltas_up_to_an_epoch(store, make):
    with store.write() as transaction:
        transaction.add_records([make.record(1, run_id="r", seq=1), make.record(2, run_id="r", seq=4, epoch=1)])
        transaction.add_records([make.record(3, run_id="r", seq=7, epoch=2), make.record(4, run_id="other", seq=99)])
        transaction.add_deltas([make.deltas("r", 5, [b"a", b"b"]), make.deltas("r", 8, [b"c"], epoch=2)])
    assert store.last_seq("r") == 8
    assert [store.last_seq("r", epoch) for epoch in (0, 1, 2, 3)] == [1, 6, 8, 8]
    assert store.last_seq("nobody") == store.last_seq("nobody", 1) == 0


def test_duplicate_deltas_are_refused(store, make):
    with store.write() as transaction:
        transaction.add_deltas([make.deltas("r", 1, [b"a"])])
    with pytest.raises(Conflict), store.write() as transaction:
        transaction.add_deltas([make.deltas("r", 1, [b"b"])])
    assert store.deltas_of_run("r", 0)[0].body == b"a"


def test_heads_are_ordered_by_chain_and_position_in_their_workspace(store, make):
    heads = [make.head(2), make.head(1), make.head(1, chain="b"), make.head(1, workspace="other")]
    with store.write() as transaction:
        for head in heads:
            transaction.add_head(head)
    assert store.heads("w") == [heads[2], heads[1], heads[0]]


def test_records_are_found_by_type_run_and_range(store, make):
    rows = [
        make.record(1, type="run.created", run_id="r1", seq=1),
        make.record(2, type="login.failed"),
        make.record(3, type="run.ended", run_id="r1", seq=2),
        make.record(4, workspace="other", type="login.failed"),
        make.record(5, type="api.called", run_id="r2", seq=1),
    ]
    with store.write() as transaction:
        transaction.add_records(rows)

    def ids(**more):
        query = {"workspace": "w", "above": 0, "below": 100, "limit": 10, **more}
        return [row.id for row in store.records_among(RecordQuery(**query))]

    assert store.last_record() == 5
    assert ids() == [5, 3, 2, 1]
    assert ids(forward=True, limit=2) == [1, 2]
    assert ids(above=1, below=5) == [3, 2]
    assert ids(types=frozenset({"login.failed", "run.ended"})) == [3, 2]
    assert ids(but_types=frozenset({"login.failed", "run.ended"})) == [5, 1]
    assert ids(run_id="r1") == [3, 1]
    assert ids(since_ms=T0 + 2, until_ms=T0 + 5) == [3, 2]


def test_the_newest_head_of_each_chain_is_found_by_its_signing_time(store, make):
    heads = [(1, "w", "c", 0), (5, "w", "c", 10), (9, "w", "c", 30), (2, "w", "d", 20), (3, "x", "c", 15)]
    with store.write() as transaction:
        for position, workspace, chain, at in heads:
            row = make.head(position, workspace=workspace, chain=chain)
            transaction.add_head(msgspec.structs.replace(row, created_ms=T0 + at))

    def found(workspace, by, limit=10):
        rows = store.newest_heads(workspace, T0 + by, limit)
        return [(row.workspace, row.chain, row.position) for row in rows]

    assert found(None, 100) == [("w", "c", 9), ("w", "d", 2), ("x", "c", 3)]
    assert found("w", 25) == [("w", "d", 2), ("w", "c", 5)]
    assert found(None, 100, 1) == [("w", "c", 9)]
    assert found("nowhere", 100) == []


def test_heads_with_later_records_are_found_across_workspaces_and_chains(store, make):
    def head(position, at=0, key="k", **place):
        return msgspec.structs.replace(make.head(position, **place), created_ms=T0 + at, key_id=key)

    places = [("w", "c", 3), ("w", "d", 2), ("w", "e", 2), ("x", "c", 2), ("y", "a", 2), ("y", "b", 1), ("z", "c", 1)]
    rows = [(workspace, chain) for workspace, chain, count in places for _ in range(count)]
    signed = [
        head(1, chain="c"),
        head(2, 5, chain="c"),  # one record behind its newest head
        head(2, chain="d"),  # its end is signed
        head(1, 9, chain="e"),
        head(1, key="other", workspace="x"),  # another key's
        head(1, 7, workspace="y", chain="a"),
        head(1, workspace="y", chain="b"),
    ]  # the chain of `z` is unsigned
    assert store.lagging_heads("k", 10) == []
    with store.write() as transaction:
        transaction.add_records(
            [make.record(number, workspace=each[0], chain=each[1]) for number, each in enumerate(rows, start=1)]
        )
        for row in signed:
            transaction.add_head(row)
    assert store.lagging_heads("k", 10) == [signed[3], signed[5], signed[1]]
    assert store.lagging_heads("k", 1) == [signed[3]]
    assert store.lagging_heads("other", 10) == [signed[4]]
