"""The fate of an event, on every store: its run, the run that claims it, and the pending ones."""

import pytest

from bollard.host.errors import Conflict
from bollard.host.store.rows import PatchEvent, PutEvent

T0 = 1_700_000_000_000


def test_a_patch_changes_the_named_columns_of_one_event(store, make, apply):
    apply(store, *(PutEvent(make.event(number, dispatch="pending", bot="b")) for number in (1, 2)))
    fields = {"dispatch": "steering", "run_id": "r", "steering": "queued", "steering_ms": T0}
    apply(store, PatchEvent("w", "e1", fields))
    assert store.event("w", "e1") == make.event(1, bot="b", **fields)
    assert store.event("w", "e2") == make.event(2, bot="b", dispatch="pending")
    with store.write() as transaction:
        assert transaction.find_event("w", "web", "s1") == store.event("w", "e1")


def test_an_event_is_patched_in_its_own_commit(store, make, apply):
    changes = [
        PatchEvent("w", "e1", {"dispatch": "run", "run_id": "r"}),
        PatchEvent("w", "e1", {"steering": "dropped"}),
    ]
    apply(store, PutEvent(make.event(1, dispatch="pending")), *changes)
    assert store.event("w", "e1") == make.event(1, dispatch="run", run_id="r", steering="dropped")


def test_a_patch_of_an_absent_event_changes_nothing(store, make, apply):
    apply(store, PutEvent(make.event(1)), PatchEvent("other", "e1", {"dispatch": "dropped"}))
    assert store.events("w", None, 10) == [make.event(1)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_patch_of_an_event_with_an_unknown_column_is_refused(request, kind, make, apply):
    store = request.getfixturevalue(f"{kind}_store")
    apply(store, PutEvent(make.event(1)))
    with pytest.raises(ValueError, match="no such field"):
        apply(store, PatchEvent("w", "e1", {"dispatch = 'pending' --": 1}))
    assert store.event("w", "e1") == make.event(1)


def test_one_commit_stores_an_event_once(store, make, apply):
    with pytest.raises(Conflict):
        apply(store, PutEvent(make.event(1)), PutEvent(make.event(2, event_id="e1")))
    assert store.events("w", None, 10) == []


def test_events_of_one_conversation_and_thread_are_listed_newest_first(store, make, apply):
    here = {"bot": "b", "conversation": "room", "thread": "t"}
    elsewhere = [{"bot": None}, {"conversation": "other"}, {"conversation": None}, {"thread": None}, {"workspace": "v"}]
    own = [make.event(number, **here) for number in (1, 2, 3)]
    others = [make.event(10 + number, **{**here, **other}) for number, other in enumerate(elsewhere)]
    apply(store, *(PutEvent(event) for event in [*own, *others]))
    apply(store, PatchEvent("w", "e2", {"dispatch": "dropped"}))

    def found(before, limit, thread="t"):
        return [event.record_id for event in store.events_in("w", "b", "room", thread, before, limit)]

    assert found(None, 10) == [3, 2, 1]
    assert found(None, 2) == [3, 2]
    assert found(3, 10) == [2, 1]
    assert found(1, 10) == []
    assert found(None, 10, None) == [13]
    assert store.events_in("w", "b", "room", "t", None, 1) == [own[2]]


def test_pending_events_of_all_workspaces_are_in_arrival_order(store, make, apply):
    waits = {"dispatch": "pending"}
    apply(store, PutEvent(make.event(7, **waits)), PutEvent(make.event(3, **waits, workspace="other")))
    apply(store, PutEvent(make.event(4)), PutEvent(make.event(5, dispatch="dropped")), PutEvent(make.event(6, **waits)))
    assert [event.record_id for event in store.pending_events(0, 10)] == [3, 6, 7]
    assert [event.record_id for event in store.pending_events(3, 1)] == [6]
    apply(store, PatchEvent("w", "e6", {"dispatch": "run", "run_id": "r"}))
    apply(store, PatchEvent("w", "e4", {"dispatch": "pending", "run_id": None}))
    assert [event.record_id for event in store.pending_events(0, 10)] == [3, 4, 7]


def test_a_transaction_reads_the_dispatch_of_an_event(store, make, apply):
    apply(store, PutEvent(make.event(1, dispatch="pending")))
    with store.write() as transaction:
        assert transaction.event_dispatch("w", "e1") == "pending"
        transaction.apply([PatchEvent("w", "e1", {"dispatch": "run"})])
        assert transaction.event_dispatch("w", "e1") == "run"
        assert transaction.event_dispatch("other", "e1") is None
