"""`/subscriptions`: save outgoing webhooks, test them, and list their deliveries."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.channels.channel import Delivered
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.schemas import FLAG, TEXT, choice, fields, maybe
from bollard.host.http.operations import PAGE, Answer
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.resources.declaration import answer_body, operation
from bollard.host.http.resources.saved_routes import SavedResource, SecretRoutes, shown_as
from bollard.host.subscriptions.delivery_rows import WebhookDelivery
from bollard.host.subscriptions.subscription import Subscription
from bollard.host.subscriptions.subscription_repository import SUBSCRIPTION, SubscriptionRepository
from bollard.host.subscriptions.webhooks import Webhooks
from bollard.protocol import JsonObject

_BODY: Final[JsonObject] = {"url": "https://example.org/hook", "types": ["run.failed"]}
_SUBSCRIPTION: Final = SavedResource(
    kind=SUBSCRIPTION,
    path="/api/v1/subscriptions",
    id="subscription_id",
    names=("Subscription", "Subscriptions"),
    right="subscriptions",
    body=Subscription,
    body_example=_BODY,
    shown=shown_as("Subscription", Subscription, {"subscription_id": "alerts", **_BODY}, secret=TEXT),
    created={"secret": "whsec_…"},
    summaries={"delete": "Delete a subscription. Its undelivered events are dropped."},
    descriptions={
        "save": "The host sends each selected event to `url`, signed as in Standard Webhooks, at least once. Without "
        "`secret` the host makes one; the answer shows a new secret once."
    },
)
_DELIVERY: Final = answer_body(
    "WebhookDelivery",
    {
        "webhook_id": "run_01-failed",
        "type": "run.failed",
        "status": "sent",
        "attempts": 1,
        "reason": None,
        "created_at": 1794735486.2,
        "updated_at": 1794735486.3,
    },
    status=choice("waiting", "sent", "failed"),
    reason=maybe(TEXT),
)


class Subscriptions(SecretRoutes[Subscription]):
    """Outgoing webhooks and their deliveries."""

    resource = _SUBSCRIPTION

    def __init__(self, repository: SubscriptionRepository, webhooks: Webhooks, pages: Pages) -> None:
        super().__init__(repository, pages)
        self._webhooks = webhooks

    @operation(
        "POST /api/v1/subscriptions/{subscription_id}/test",
        name="testSubscription",
        summary="Send one event of type `subscription.test` now.",
        description="The event is sent once, also by a subscription that is switched off.",
        right="subscriptions.write",
        answers={
            200: Answer(
                summary="Whether the receiver accepted it.",
                schema=fields(delivered=FLAG, reason=maybe(TEXT)),
                example={"delivered": True, "reason": None},
            )
        },
        errors=("not_found",),
    )
    async def test(self, request: Request) -> Response:
        saved = self._repository.get(caller_of(request).workspace, self._id(request))
        outcome = await self._webhooks.test(saved)
        if isinstance(outcome, Delivered):
            return JsonAnswer({"delivered": True, "reason": None})
        return JsonAnswer({"delivered": False, "reason": outcome.reason})

    @operation(
        "GET /api/v1/subscriptions/{subscription_id}/deliveries",
        name="listWebhookDeliveries",
        summary="List the undelivered events and the last deliveries of a subscription, newest first.",
        right="subscriptions.read",
        query=PAGE,
        answers={200: _DELIVERY.page("deliveries")},
        errors=("not_found",),
    )
    async def deliveries(self, request: Request) -> Response:
        saved = self._repository.get(caller_of(request).workspace, self._id(request))
        purpose = f"subscriptions.deliveries/{saved.id}"
        before = self._pages.numbered(request, purpose)
        rows = [
            each
            for each in self._webhooks.deliveries(saved.workspace, saved.id)
            if before is None or each.position < before
        ]
        return self._pages.of_rows(
            request, purpose, rows[: page_limit(request) + 1], _delivery, lambda each: each.position
        )


def _delivery(delivery: WebhookDelivery) -> JsonObject:
    return _DELIVERY.of(delivery, webhook_id=delivery.event_id)
