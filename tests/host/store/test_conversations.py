"""The list of conversations on every store: a thread is a separate one, the newest message determines its position."""

from tests.host.store.conftest import T0

from bollard.host.store.rows import PutTranscript


def names(rows):
    return [(row.bot, row.conversation, row.thread) for row in rows]


def test_conversations_are_ordered_by_their_newest_message(store, make, apply):
    apply(store, *(PutTranscript(make.said(seq, "x", conversation=f"c{seq}")) for seq in (1, 2, 3)))
    apply(store, PutTranscript(make.said(4, "x", conversation="c1")))
    rows = store.conversations("w", None, 10)
    assert names(rows) == [(None, "c1", None), (None, "c3", None), (None, "c2", None)]
    assert [(row.last_seq, row.last_ms) for row in rows] == [(4, T0 + 4), (3, T0 + 3), (2, T0 + 2)]


def test_bots_threads_and_workspaces_have_separate_conversations(store, make, apply):
    apply(
        store,
        PutTranscript(make.said(1, "x")),
        PutTranscript(make.said(2, "x", thread="t")),
        PutTranscript(make.said(3, "x", bot="b")),
        PutTranscript(make.said(4, "x", workspace="other")),
        PutTranscript(make.said(5, "x", conversation=None)),
    )
    assert names(store.conversations("w", None, 10)) == [("b", "room", None), (None, "room", "t"), (None, "room", None)]
    assert names(store.conversations("other", None, 10)) == [(None, "room", None)]
    assert store.conversations("nobody", None, 10) == []


def test_a_page_continues_after_the_last_one(store, make, apply):
    apply(store, *(PutTranscript(make.said(seq, "x", conversation=f"c{seq}")) for seq in range(1, 8)))
    first = store.conversations("w", None, 3)
    second = store.conversations("w", first[-1].last_seq, 3)
    assert [row.conversation for row in (*first, *second)] == ["c7", "c6", "c5", "c4", "c3", "c2"]


def test_a_repeated_message_changes_nothing(store, make, apply):
    said = make.said(5, "x")
    apply(store, PutTranscript(said), PutTranscript(make.said(6, "y")))
    before = store.conversations("w", None, 10)
    apply(store, PutTranscript(said))
    assert store.conversations("w", None, 10) == before


def test_dropped_messages_are_in_no_list(store, make, apply):
    with store.write() as transaction:
        transaction.next_record_ids(4)
        transaction.add_records([make.record(seq, type="message.completed") for seq in (1, 2, 3, 4)])
    apply(
        store,
        PutTranscript(make.said(1, "old", conversation="gone")),
        PutTranscript(make.said(2, "old")),
        PutTranscript(make.said(3, "newer", thread="t")),
        PutTranscript(make.said(4, "newest")),
    )
    with store.write() as transaction:
        assert transaction.drop_data(["message.completed"], T0 + 3, 10) == 2
    assert names(store.conversations("w", None, 10)) == [(None, "room", None), (None, "room", "t")]
    with store.write() as transaction:
        assert transaction.drop_data(["message.completed"], T0 + 10, 10) == 2
    assert store.conversations("w", None, 10) == []


def test_the_newest_remaining_message_dates_the_conversation(store, make, apply):
    with store.write() as transaction:
        transaction.next_record_ids(2)
        transaction.add_records([make.record(1, type="message.completed"), make.record(2, type="event.received")])
    apply(store, PutTranscript(make.said(1, "answer")), PutTranscript(make.said(2, "question")))
    with store.write() as transaction:
        assert transaction.drop_data(["event.received"], T0 + 10, 10) == 1
    assert [row.last_seq for row in store.conversations("w", None, 10)] == [1]
