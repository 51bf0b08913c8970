"""The deliveries of every subscription in memory, and the entries of the journal that change them."""

import asyncio

from msgspec.structs import replace

from bollard.host.limits import SUBSCRIPTION_OPEN
from bollard.host.log.entries import Entry
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.store import Store
from bollard.host.subscriptions.delivery_rows import (
    OPEN,
    RECEIVER,
    Receiver,
    WebhookDelivery,
    read_delivery,
    read_receiver,
)
from bollard.protocol import JsonObject

Place = tuple[str, str]
"""Workspace and subscription."""


class Deliveries:
    """Undelivered events by position, and the state of each receiver. In memory a change is there before it is on disk:
    after a crash a delivery is repeated."""

    def __init__(self) -> None:
        self._open: dict[Place, dict[int, WebhookDelivery]] = {}
        self._receivers: dict[Place, Receiver] = {}

    async def load(self, store: Store) -> list[tuple[str, WebhookDelivery]]:
        """Read everything. Returns the undelivered events with their workspaces."""
        for row in await asyncio.to_thread(store.all_kept, RECEIVER):
            self._receivers[row.workspace, row.id] = read_receiver(row.body)
        rows = await asyncio.to_thread(store.all_kept, OPEN)
        return [(row.workspace, read_delivery(row.body)) for row in rows]

    def of(self, place: Place) -> list[WebhookDelivery]:
        """The undelivered events and the last deliveries of a subscription, newest first."""
        recent = self._receivers.get(place, Receiver()).recent
        return sorted([*self._open.get(place, {}).values(), *recent], key=lambda each: each.position, reverse=True)

    def add(self, workspace: str, delivery: WebhookDelivery) -> bool:
        """Add an undelivered event. Returns whether there is room for it."""
        waiting = self._open.setdefault((workspace, delivery.subscription_id), {})
        waiting[delivery.position] = delivery
        return len(waiting) <= SUBSCRIPTION_OPEN

    def defer(self, workspace: str, delivery: WebhookDelivery) -> Entry:
        """Store the next time of an undelivered event."""
        self._open[workspace, delivery.subscription_id][delivery.position] = delivery
        return Entry(keeps=[delivery.put(workspace)])

    def end(self, workspace: str, ended: WebhookDelivery, *, exists: bool, gone: bool) -> tuple[Entry, bool]:
        """Store the end of a delivery. Also returns whether the subscription is switched off. `exists`: the
        subscription was not deleted. `gone`: the receiver wants no more events."""
        place, now_ms = (workspace, ended.subscription_id), ended.updated_ms
        data: JsonObject = {
            "subscription_id": ended.subscription_id,
            "webhook_id": ended.event_id,
            "type": ended.type,
            "attempts": ended.attempts,
        }
        if ended.reason is not None:
            data["reason"] = ended.reason
        record = NewRecord(
            workspace=workspace,
            type="webhook.sent" if ended.status == "sent" else "webhook.failed",
            data=encode_data(data),
            created_ms=now_ms,
        )
        keeps, off = [ended.drop(workspace)], False
        self._close(place, ended.position)
        if exists:
            receiver = self._receivers.get(place, Receiver()).after(ended)
            if off := gone or receiver.is_dead(now_ms):
                receiver = replace(receiver, failing_since_ms=None)  # it begins anew when it is switched on
            self._receivers[place] = receiver
            keeps.append(receiver.put(workspace, ended.subscription_id, now_ms))
        return Entry(records=[record], keeps=keeps, size=len(record.data)), off

    def forget(self, place: Place) -> None:
        """The subscription was deleted."""
        self._receivers.pop(place, None)

    def _close(self, place: Place, position: int) -> None:
        waiting = self._open.get(place, {})
        waiting.pop(position, None)
        if not waiting:
            self._open.pop(place, None)
