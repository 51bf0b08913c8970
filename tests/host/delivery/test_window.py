"""The outbox window: a bounded number of messages per channel, in order, none twice."""

from bollard.host.delivery.outbox import OutboxWindow
from bollard.host.store.rows import OutboxRow

MOST = 4


def row(record_id: int, channel: str = "a", *, preview: bool = False) -> OutboxRow:
    return OutboxRow(
        delivery_id=f"d{record_id}",
        workspace="w",
        channel=channel,
        target="t",
        run_id="r",
        event_id="e",
        message_key="",
        preview=preview,
        record_id=record_id,
        max_message_size=None,
        status="queued",
        attempts=0,
        due_ms=0,
        messages=b"[]",
        reason=None,
        created_ms=0,
        updated_ms=0,
    )


def page(window: OutboxWindow, *rows: OutboxRow) -> list[int]:
    """The held rows of a page that is read now."""
    window.turn()
    return [each.record_id for each in rows if each.record_id > window.read_to and window.admits(each)]


def test_a_full_channel_is_skipped_and_resumed_in_order() -> None:
    window = OutboxWindow(MOST)
    rows = [*(row(number) for number in range(1, 7)), row(7, "b"), row(8)]
    assert page(window, *rows) == [1, 2, 3, 4, 7]
    assert window.is_full(("w", "a"))
    assert [window.release(row(number)) for number in (1, 2)] == [False, True]
    assert page(window, *rows[2:]) == [5, 6], "in order: 8 must not come before it has room"
    assert not window.release(row(7, "b"))
    assert [window.release(row(number)) for number in (3, 4)] == [False, True]
    assert page(window, *rows[4:]) == [8]
    assert not window.is_full(("w", "a"))
    for number in (5, 6, 8):
        window.release(row(number))
    assert (len(window), window.holds_any(("w", "a")), window.holds_any(("w", "b"))) == (0, False, False)


def test_a_message_sent_during_a_read_is_not_queued_again() -> None:
    window = OutboxWindow(MOST)
    rows = [*(row(number) for number in range(1, 6)), row(6, "b")]
    assert page(window, *rows) == [1, 2, 3, 4, 6]
    assert [window.release(row(number)) for number in (1, 2)] == [False, True]
    window.turn()
    window.release(row(6, "b"))  # the page that is being read still has it
    assert [each.record_id for each in rows[4:] if window.admits(each)] == [5]


def test_space_that_is_freed_during_a_read_does_not_change_the_order() -> None:
    window = OutboxWindow(MOST)
    assert page(window, *(row(number) for number in range(1, 6))) == [1, 2, 3, 4]
    window.turn()
    assert [window.release(row(number)) for number in (1, 2, 3, 4)] == [False, True, True, True]
    assert [each for each in (row(6), row(7)) if window.admits(each)] == []
    assert page(window, row(5), row(6), row(7)) == [5, 6, 7]


def test_a_preview_is_seen_once() -> None:
    window = OutboxWindow(1)
    rows = [row(1), row(2), row(3, preview=True), row(4)]
    assert page(window, *rows) == [1, 3]
    window.release(row(1))
    assert page(window, *rows) == [2]
