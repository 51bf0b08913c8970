"""The state of a receiver: its last deliveries, and when it counts as dead. Pure."""

from msgspec.structs import replace

from bollard.host.limits import SUBSCRIPTION_FAILING_S, SUBSCRIPTION_OPEN, SUBSCRIPTION_RECENT
from bollard.host.subscriptions.deliveries import Deliveries
from bollard.host.subscriptions.delivery_rows import Receiver, WebhookDelivery

LIMIT_MS = SUBSCRIPTION_FAILING_S * 1000
PLACE = ("default", "alerts")


def delivery(position: int = 1, status: str = "waiting", at_ms: int = 0) -> WebhookDelivery:
    return WebhookDelivery(
        subscription_id="alerts",
        position=position,
        event_id=f"e-{position}",
        type="t",
        created_ms=at_ms,
        updated_ms=at_ms,
        status=status,  # type: ignore[arg-type]
    )


def test_a_receiver_is_dead_after_days_in_which_every_event_failed() -> None:
    failing = Receiver().after(delivery(1, "failed", 1000)).after(delivery(2, "failed", 5000))
    assert failing.failing_since_ms == 1000
    assert not failing.is_dead(1000 + LIMIT_MS - 1)
    assert failing.is_dead(1000 + LIMIT_MS)
    assert not failing.after(delivery(3, "sent", 6000)).is_dead(1000 + LIMIT_MS)


def test_a_receiver_keeps_its_last_deliveries() -> None:
    receiver = Receiver()
    for position in range(SUBSCRIPTION_RECENT + 5):
        receiver = receiver.after(delivery(position, "sent"))
    assert len(receiver.recent) == SUBSCRIPTION_RECENT
    assert receiver.recent[0].position == SUBSCRIPTION_RECENT + 4


def test_the_end_that_switches_a_subscription_off_begins_its_count_anew() -> None:
    deliveries = Deliveries()
    for at_ms, off in ((0, False), (LIMIT_MS - 1, False), (LIMIT_MS, True), (LIMIT_MS + 1, False)):
        deliveries.add("default", delivery(at_ms + 1))
        entry, is_off = deliveries.end("default", delivery(at_ms + 1, "failed", at_ms), exists=True, gone=False)
        assert is_off is off, at_ms
        assert [record.type for record in entry.records] == ["webhook.failed"]
    assert [each.status for each in deliveries.of(PLACE)] == ["failed"] * 4


def test_one_subscription_has_a_bounded_number_of_undelivered_events() -> None:
    deliveries = Deliveries()
    rooms = [deliveries.add("default", delivery(position)) for position in range(SUBSCRIPTION_OPEN + 1)]
    assert rooms == [True] * SUBSCRIPTION_OPEN + [False]
    assert deliveries.add("other", delivery(1))


def test_a_deferred_delivery_shows_its_next_time_and_an_ended_one_is_shown_once() -> None:
    deliveries = Deliveries()
    deliveries.add("default", delivery())
    deliveries.defer("default", replace(delivery(), attempts=1, due_ms=9, reason="busy"))
    assert [(each.status, each.attempts, each.due_ms) for each in deliveries.of(PLACE)] == [("waiting", 1, 9)]
    deliveries.end("default", delivery(1, "sent"), exists=True, gone=False)
    assert [each.status for each in deliveries.of(PLACE)] == ["sent"]
    deliveries.forget(PLACE)
    assert deliveries.of(PLACE) == []
