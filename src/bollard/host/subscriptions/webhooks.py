"""Delivers events to subscriptions: at least once, each under one `webhook-id`, in any order.

The commit that stores the position in the log also stores an undelivered event for each subscription that selects it,
so a restart continues where the host stopped. The content of an event is read from the log when it is sent.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

import structlog
from msgspec.structs import replace

from bollard.host.agents.saved_proxy import Logins, OwnProxy
from bollard.host.background import Background
from bollard.host.channels.channel import Delivered, DeliveryUnknown, NotDelivered, SendOutcome
from bollard.host.channels.signed_post import SignedPost
from bollard.host.channels.signing import secret_bytes
from bollard.host.clock import Clock
from bollard.host.delivery.retry import wait_before
from bollard.host.egress.client import EgressClient
from bollard.host.errors import HostError, NotFound
from bollard.host.feed.event_reader import EventReader
from bollard.host.feed.feed_event import FeedEvent, Selection, all_of
from bollard.host.limits import (
    DELIVERY_RETRY_AFTER_S,
    FEED_RETRY_S,
    SUBSCRIPTION_AT_ONCE,
    SUBSCRIPTION_OPEN,
    WEBHOOKS_AT_ONCE,
)
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.log.saved_resources import Saved
from bollard.host.store.rows import KeptChange
from bollard.host.store.store import Store
from bollard.host.subscriptions.deliveries import Deliveries, Place
from bollard.host.subscriptions.delivery_rows import WebhookDelivery
from bollard.host.subscriptions.subscription import Subscription
from bollard.host.subscriptions.subscription_repository import SubscriptionRepository
from bollard.protocol import JsonObject

_log = structlog.get_logger("bollard.subscriptions")
_TEST: Final = "subscription.test"


def webhook_body(kind: str, time_ms: int, data: JsonObject) -> JsonObject:
    """The body of a webhook: type, timestamp and data, as Standard Webhooks recommends."""
    timestamp = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return {"type": kind, "timestamp": timestamp.replace("+00:00", "Z"), "data": data}


class Webhooks:
    """Sends the events of every workspace. Implements `Consumer`."""

    name = "subscriptions"

    def __init__(
        self,
        repository: SubscriptionRepository,
        *,
        journal: Journal,
        store: Store,
        clock: Clock,
        egress: EgressClient,
        logins: Logins | None = None,
        is_open: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`logins` has the logins of proxies. `is_open` says whether a workspace is open."""
        self._repository = repository
        self._journal = journal
        self._store = store
        self._clock = clock
        self._egress = egress
        self._logins = logins
        self._is_open = is_open
        self._reader = EventReader(store)
        self._deliveries = Deliveries()
        self._coming: dict[str, list[WebhookDelivery]] = {}
        """Deliveries by workspace that are being stored."""
        self._posts: dict[Place, tuple[Subscription, SignedPost]] = {}
        self._slots: dict[Place, asyncio.Semaphore] = {}
        self._sending = asyncio.Semaphore(WEBHOOKS_AT_ONCE)
        self._background = Background()

    async def load(self) -> None:
        """Continue the deliveries of an earlier incarnation."""
        for workspace, delivery in await self._deliveries.load(self._store):
            self._start(workspace, delivery)

    async def close(self) -> None:
        """Undelivered events stay on disk for the next start."""
        await self._background.close()

    def deliveries(self, workspace: str, subscription_id: str) -> list[WebhookDelivery]:
        """The undelivered events and the last deliveries of a subscription, newest first."""
        return self._deliveries.of((workspace, subscription_id))

    def forget(self, workspace: str, subscription_id: str) -> None:
        """The subscription was deleted. Its undelivered events end at their next attempt."""
        place = (workspace, subscription_id)
        self._deliveries.forget(place)
        self._posts.pop(place, None)
        self._slots.pop(place, None)

    async def test(self, saved: Saved[Subscription]) -> SendOutcome:
        """Send one test event now. It is not repeated."""
        data: JsonObject = {"subscription_id": saved.id, "workspace": saved.workspace}
        body = webhook_body(_TEST, self._clock.now_ms(), data)
        return await self._send(saved, f"test_{secrets.token_hex(8)}", body)

    # --- new events ---

    def selection(self, workspace: str) -> Selection | None:
        wanted = [saved.value.selection for saved in self._repository.enabled(workspace)]
        return all_of(wanted) if wanted and self._is_open(workspace) else None

    async def take(self, workspace: str, events: Sequence[FeedEvent]) -> Sequence[KeptChange]:
        now_ms = self._clock.now_ms()
        coming = self._coming[workspace] = [
            WebhookDelivery.of(saved.id, event, now_ms)
            for event in events
            for saved in self._repository.enabled(workspace)
            if saved.value.selection.matches(event)
        ]
        return [each.put(workspace) for each in coming]

    def taken(self, workspace: str) -> None:
        for delivery in self._coming.pop(workspace, ()):
            self._start(workspace, delivery)

    # --- one delivery ---

    def _start(self, workspace: str, delivery: WebhookDelivery) -> None:
        has_room = self._deliveries.add(workspace, delivery)
        self._background.begin(self._deliver(workspace, delivery, has_room=has_room))

    async def _deliver(self, workspace: str, delivery: WebhookDelivery, *, has_room: bool) -> None:
        if not has_room:
            await self._end(workspace, delivery, "failed", f"{SUBSCRIPTION_OPEN} events are waiting already")
            return
        place = (workspace, delivery.subscription_id)
        following: WebhookDelivery | None = delivery
        while following is not None:
            early_s = (following.due_ms - self._clock.now_ms()) / 1000
            if early_s > 0:
                await asyncio.sleep(min(early_s, DELIVERY_RETRY_AFTER_S))  # the clock may have been set back
            slots = self._slots.setdefault(place, asyncio.Semaphore(SUBSCRIPTION_AT_ONCE))
            try:
                async with slots, self._sending:
                    following = await self._attempt(workspace, following)
            except Exception:  # noqa: BLE001 -- a fault in one delivery must not lose it
                _log.exception("a webhook could not be sent", event_id=delivery.event_id)
                await asyncio.sleep(FEED_RETRY_S)

    async def _attempt(self, workspace: str, delivery: WebhookDelivery) -> WebhookDelivery | None:
        """Send once. Returns the delivery with its next time, or `None` when it has ended."""
        saved = self._repository.find(workspace, delivery.subscription_id)
        if saved is None or not saved.value.enabled or not saved.value.secret or not self._is_open(workspace):
            return await self._end(workspace, delivery, "failed", "the subscription is switched off or deleted")
        event = await asyncio.to_thread(self._reader.at, workspace, delivery.position)
        if event is None:
            return await self._end(workspace, delivery, "failed", "the content of the event was deleted")
        outcome = await self._send(saved, delivery.event_id, webhook_body(event.type, event.time_ms, event.to_wire()))
        kill_point("webhook.after_send")
        delivery = replace(delivery, attempts=delivery.attempts + 1)
        match outcome:
            case Delivered():
                return await self._end(workspace, delivery, "sent")
            case NotDelivered(reason, retryable=False, gone=gone):
                return await self._end(workspace, delivery, "failed", reason, gone=gone)
            case NotDelivered(reason, retry_after_s=retry_after_s):
                return await self._defer(workspace, delivery, reason, retry_after_s)
            case DeliveryUnknown(reason):  # a repeat is safe: the receiver knows the webhook-id
                return await self._defer(workspace, delivery, reason, None)

    async def _send(self, saved: Saved[Subscription], message_id: str, body: JsonObject) -> SendOutcome:
        reply = await self._post(saved).send(message_id, body)
        return reply if isinstance(reply, NotDelivered | DeliveryUnknown) else Delivered()

    def _post(self, saved: Saved[Subscription]) -> SignedPost:
        """The sender of a subscription, made again when it was saved."""
        place, value = (saved.workspace, saved.id), saved.value
        known = self._posts.get(place)
        if known is None or known[0] is not value:
            proxy = OwnProxy(value, self._logins, saved.workspace, f"subscription:{saved.id}")
            key = secret_bytes(value.secret or "")
            known = value, SignedPost(value.url, key, clock=self._clock, egress=self._egress, proxy=proxy)
            self._posts[place] = known
        return known[1]

    # --- outcomes ---

    async def _defer(
        self, workspace: str, delivery: WebhookDelivery, reason: str, retry_after_s: float | None
    ) -> WebhookDelivery | None:
        wait_s = wait_before(delivery.attempts, retry_after_s)
        if wait_s is None:
            reason = f"{reason}; gave up after {delivery.attempts} attempts"
            return await self._end(workspace, delivery, "failed", reason)
        now_ms = self._clock.now_ms()
        delivery = replace(delivery, reason=reason, updated_ms=now_ms, due_ms=now_ms + round(wait_s * 1000))
        entry = self._deliveries.defer(workspace, delivery)
        await self._until_done(lambda: self._journal.commit(entry))
        return delivery

    async def _end(
        self,
        workspace: str,
        delivery: WebhookDelivery,
        status: Literal["sent", "failed"],
        reason: str | None = None,
        *,
        gone: bool = False,
    ) -> None:
        subscription_id = delivery.subscription_id
        ended = replace(delivery, status=status, reason=reason, updated_ms=self._clock.now_ms())
        exists = self._repository.find(workspace, subscription_id) is not None
        entry, off = self._deliveries.end(workspace, ended, exists=exists, gone=gone)
        await self._until_done(lambda: self._journal.commit(entry))
        if off:
            _log.warning("a subscription is switched off", subscription=subscription_id, problem=reason)
            await self._until_done(lambda: self._repository.switch_off(workspace, subscription_id, reason or ""))

    async def _until_done(self, step: Callable[[], Awaitable[object]]) -> None:
        """Retry until the store takes it, because an outcome cannot be undone. A deleted subscription needs nothing."""
        while True:
            try:
                await step()
            except NotFound:
                return
            except HostError as error:
                _log.warning("the outcome of a webhook could not be recorded yet", problem=error.message)
                await asyncio.sleep(FEED_RETRY_S)
            else:
                return
