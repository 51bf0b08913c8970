"""Messages on their way to channels, in every store: open ones, in order, and the outcome of each."""

import pytest

from bollard.host.store.rows import PatchOutbox, PutOutbox


def ids(rows):
    return [row.delivery_id for row in rows]


def test_open_deliveries_are_read_in_order_page_by_page(store, make, apply):
    rows = [make.outbox(f"d{number}", record_id=number) for number in (3, 1, 2)]
    apply(store, *map(PutOutbox, rows))
    assert ids(store.outbox_open(0, 2)) == ["d1", "d2"]
    assert ids(store.outbox_open(2, 2)) == ["d3"]
    assert store.outbox_open(0, 1) == [rows[1]]


@pytest.mark.parametrize(
    ("status", "waits"),
    [("queued", True), ("started", True), ("shown", True), ("sent", False), ("failed", False), ("unknown", False)],
)
def test_a_finished_delivery_is_not_open(store, make, apply, status, waits):
    apply(store, PutOutbox(make.outbox("d")), PatchOutbox("d", {"status": status, "reason": "why"}))
    assert bool(store.outbox_open(0, 10)) is waits
    (row,) = store.outbox("w", None, None, 10)
    assert (row.status, row.reason, row.preview) == (status, "why", False)


def test_a_list_covers_one_workspace_newest_first(store, make, apply):
    for number, (workspace, channel) in enumerate([("w", "chat"), ("w", "mail"), ("other", "chat"), ("w", "chat")], 1):
        row = make.outbox(f"d{number}", record_id=number, workspace=workspace, channel=channel)
        apply(store, PutOutbox(row))
    assert ids(store.outbox("w", None, None, 10)) == ["d4", "d2", "d1"]
    assert ids(store.outbox("w", "chat", None, 10)) == ["d4", "d1"]
    assert ids(store.outbox("w", "chat", 4, 10)) == ["d1"]
    assert ids(store.outbox("w", None, None, 1)) == ["d4"]
    assert store.outbox("nowhere", None, None, 10) == []


def test_deliveries_of_a_run_are_found_by_its_records(store, make, apply):
    with store.write() as transaction:
        transaction.add_records(make.records(1, 2, "r1") + make.records(3, 1, "r2"))
    rows = [make.outbox(f"d{number}", record_id=number, run_id="r1" if number < 3 else "r2") for number in (1, 2, 3)]
    apply(store, *map(PutOutbox, rows))
    assert ids(store.outbox("w", None, None, 10, "r1")) == ["d2", "d1"]
    assert ids(store.outbox("w", "chat", 2, 10, "r1")) == ["d1"]
    assert store.outbox("w", "other", None, 10, "r1") == []


def test_a_patch_of_an_absent_delivery_changes_nothing(store, make, apply):
    apply(store, PatchOutbox("nothing", {"status": "sent"}))
    assert store.outbox_open(0, 10) == []


def test_a_preview_stays_a_preview(store, make, apply):
    apply(store, PutOutbox(make.outbox("p", preview=True, messages=b'["m1"]', max_message_size=100)))
    (row,) = store.outbox_open(0, 10)
    assert (row.preview, row.messages, row.max_message_size) == (True, b'["m1"]', 100)
