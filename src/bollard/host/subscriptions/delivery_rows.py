"""Deliveries of events to subscriptions, and the state of each receiver, as rows beside the log. Pure.

An undelivered event has a row until it is delivered or has failed. The state of a receiver has its last deliveries.
"""

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from bollard.host.feed.feed_event import FeedEvent
from bollard.host.limits import SUBSCRIPTION_FAILING_S, SUBSCRIPTION_RECENT
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept

OPEN: Final = "webhook_open"
"""The kind of row of an undelivered event."""
RECEIVER: Final = "webhook_receiver"
"""The kind of row with the state of a receiver."""


class WebhookDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event for one subscription."""

    subscription_id: str
    position: int
    event_id: str
    """The `webhook-id`: the same for every attempt."""
    type: str
    created_ms: int
    updated_ms: int
    status: Literal["waiting", "sent", "failed"] = "waiting"
    attempts: int = 0
    due_ms: int = 0
    """The earliest time of the next attempt."""
    reason: str | None = None

    @classmethod
    def of(cls, subscription_id: str, event: FeedEvent, now_ms: int) -> "WebhookDelivery":
        return cls(
            subscription_id=subscription_id,
            position=event.position,
            event_id=event.id,
            type=event.type,
            created_ms=now_ms,
            updated_ms=now_ms,
        )

    def put(self, workspace: str) -> KeptChange:
        return PutKept(_row(OPEN, workspace, self._row_id, self, self.updated_ms))

    def drop(self, workspace: str) -> KeptChange:
        return DropKept(OPEN, workspace, self._row_id)

    @property
    def _row_id(self) -> str:
        return f"{self.subscription_id}/{self.position}"


class Receiver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last deliveries to a receiver, newest first, and since when it fails."""

    failing_since_ms: int | None = None
    recent: tuple[WebhookDelivery, ...] = ()

    def after(self, ended: WebhookDelivery) -> "Receiver":
        """The state after a delivery has ended."""
        recent = (ended, *self.recent)[:SUBSCRIPTION_RECENT]
        if ended.status == "sent":
            return Receiver(recent=recent)
        since_ms = ended.updated_ms if self.failing_since_ms is None else self.failing_since_ms
        return replace(self, failing_since_ms=since_ms, recent=recent)

    def is_dead(self, now_ms: int) -> bool:
        """Whether no event arrived for so long that the subscription is switched off."""
        since_ms = self.failing_since_ms
        return since_ms is not None and now_ms - since_ms >= SUBSCRIPTION_FAILING_S * 1000

    def put(self, workspace: str, subscription_id: str, now_ms: int) -> KeptChange:
        return PutKept(_row(RECEIVER, workspace, subscription_id, self, now_ms))


read_delivery: Final = msgspec.json.Decoder(WebhookDelivery).decode
read_receiver: Final = msgspec.json.Decoder(Receiver).decode


def _row(kind: str, workspace: str, row_id: str, value: msgspec.Struct, now_ms: int) -> KeptRow:
    body = msgspec.json.encode(value)
    return KeptRow(kind=kind, workspace=workspace, id=row_id, body=body, expires_ms=None, updated_ms=now_ms)
