"""`/channels`: save channels, receive their events, and list their deliveries.

An event of a channel is authenticated by its signature: the program behind a channel has no API token.
"""

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.registry import CHANNEL, ChannelRepository
from bollard.host.channels.signing import SignatureClaim, read_seal, secret_bytes
from bollard.host.clock import Clock
from bollard.host.errors import HostError, Unauthenticated
from bollard.host.events.acceptance import Accepted
from bollard.host.events.channel_intake import ChannelIntake
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.events.channel_controls import CONTROL_ANSWER, ChannelControls
from bollard.host.http.events.cloudevents import CLOUD_EVENT
from bollard.host.http.events.incoming import ChannelEvent, Sender, caller_name, check_signed, format_of, read_one
from bollard.host.http.events.payloads import Payloads
from bollard.host.http.events.reception import EventReception, single_answer
from bollard.host.http.guard import Rates, Unlimited
from bollard.host.http.openapi.schemas import ACCEPTED, TEXT, choice, maybe
from bollard.host.http.operations import PAGE, Answer, HeaderField, QueryField
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.request_log import traceparent_of
from bollard.host.http.resources.declaration import answer_body, operation
from bollard.host.http.resources.events import EVENT_ANSWERS
from bollard.host.http.resources.runs import EVENT_ERRORS
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes, shown_as
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.log.saved_resources import Saved
from bollard.host.store.rows import OutboxRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_DELIVERIES: Final = "channels.deliveries"
_BODY: Final[JsonObject] = {"url": "https://chat.example.org/hook", "abilities": {"dedupe": "native"}}
_CHANNEL: Final = SavedResource(
    kind=CHANNEL,
    path="/api/v1/channels",
    id="channel_id",
    names=("Channel", "Channels"),
    right="channels",
    body=SavedChannel,
    body_example=_BODY,
    shown=shown_as("Channel", SavedChannel, {"channel_id": "room", **_BODY}, secret=TEXT),
    created={"secret": "whsec_…"},
    summaries={"delete": "Delete a channel. Messages that wait for it fail."},
    descriptions={
        "save": "A program that sends events and takes replies. Without `url` it only sends events. Without `secret` "
        "the host makes one; the answer shows a new secret once."
    },
)
_DELIVERY: Final = answer_body(
    "Delivery",
    {
        "delivery_id": "dlv_01",
        "channel_id": "room",
        "target": "support-7",
        "run_id": "run_01",
        "event_id": "evt_01",
        "preview": False,
        "status": "sent",
        "attempts": 1,
        "messages": ["m-1"],
        "reason": None,
        "created_at": 1794735485.1,
        "updated_at": 1794735485.3,
    },
    status=choice("queued", "started", "shown", "sent", "failed", "unknown"),
    reason=maybe(TEXT),
)
_KNOWN_OR_CONTROLLED: Final = Answer(
    summary="A repeated event with its first outcome, or the outcome of a click.",
    schema={"anyOf": [ACCEPTED, CONTROL_ANSWER]},
    example={"outcome": "granted", "toast": "Allowed."},
)
_SIGNATURE: Final = (
    HeaderField(name="webhook-id", summary="The message, the same for every try.", example="msg_1", required=True),
    HeaderField(name="webhook-timestamp", summary="Seconds of the epoch.", example="1794735484", required=True),
    HeaderField(
        name="webhook-signature",
        summary="`v1,` and the base64 of the HMAC-SHA256 of id, timestamp and body, with a dot between them.",
        example="v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        required=True,
    ),
)


class Channels(SavedRoutes[SavedChannel]):
    """Channels, their events and their deliveries."""

    resource = _CHANNEL

    def __init__(
        self,
        *,
        repository: ChannelRepository,
        intake: ChannelIntake,
        taking: EventReception,
        payloads: Payloads,
        store: Store,
        pages: Pages,
        clock: Clock,
        audience: Audience,
        controls: ChannelControls,
        rates: Rates | None = None,
        strangers: Rates | None = None,
    ) -> None:
        """`rates` limit channels, `strangers` limit addresses that send invalid signatures."""
        self._rates = rates or Unlimited()
        self._strangers = strangers or Unlimited()
        self._audience = audience
        self._controls = controls
        super().__init__(repository, pages)
        self._repository: ChannelRepository = repository
        self._intake = intake
        self._taking = taking
        self._payloads = payloads
        self._store = store
        self._clock = clock

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[SavedChannel], JsonObject]:
        saved, secret = await self._repository.save(body, caller.workspace, resource_id, by=caller.name, edited=edited)
        return saved, {} if secret is None else {"secret": secret}

    # --- events ---

    @operation(
        "POST /api/v1/channels/{channel_id}/events",
        name="postChannelEvent",
        summary="Send an event through a channel, signed as in Standard Webhooks.",
        description="Needs no token: the secret of the channel signs `webhook-id`, `webhook-timestamp` and the body. "
        "The source of the event is the channel, and the bindings choose the agent. `interaction.submitted` and "
        "`run.stop_requested` start no run: the answer has the outcome, and a `toast` for the person.",
        open=True,
        body=ChannelEvent,
        body_example={"type": "message.received", "text": "hello", "conversation": "room-1"},
        body_media=("application/json", *CLOUD_EVENT),
        other_bodies=CLOUD_EVENT,
        headers=_SIGNATURE,
        repeat="own",
        answers={**EVENT_ANSWERS, 200: _KNOWN_OR_CONTROLLED},
        errors=(*EVENT_ERRORS, "unauthenticated", "unsupported_media_type"),
    )
    async def receive(self, request: Request) -> Response:
        """The signature identifies the workspace: a channel of this name there has the secret."""
        seal = read_seal(request.headers, self._clock.now_ms() / 1000)
        if not isinstance(seal, SignatureClaim):
            raise self._stranger(request, seal)
        form = format_of(request.headers)
        check_signed(form)
        channel_id: str = request.path_params["channel_id"]
        digests = [
            (saved, seal.begin(secret_bytes(saved.value.secret)))
            for saved in self._repository.named(channel_id)
            if saved.value.secret
        ]
        if not digests:
            raise self._stranger(request, "forged")  # before any part of the body is stored

        def seen(piece: bytes) -> None:
            for _, digest in digests:
                digest.update(piece)

        async with self._payloads.received(request, seen, channel_id, again=True) as payload:
            saved = next((saved for saved, digest in digests if seal.fits(digest)), None)
            if saved is None or not saved.value.enabled:
                raise self._stranger(request, "forged")
            refused = self._rates.take(f"{saved.workspace}/channel:{saved.id}")
            if refused is not None:
                raise refused
            sender = Sender(
                workspace=saved.workspace,
                caller=caller_name(saved.id),
                message_id=seal.message_id,
                traceparent=traceparent_of(request),
                channel=saved.value,
            )
            incoming = await read_one(form, request.headers, payload, self._payloads, sender)
            if self._controls.handles(incoming.event):
                return JsonAnswer(await self._controls.apply(incoming.event, saved.value))
            admitted = await self._intake.admit(saved.value, incoming.event)
            if isinstance(admitted, Accepted):
                return single_answer(admitted)
            placed = msgspec.structs.replace(incoming, event=admitted.event, agent=admitted.agent)
            return single_answer(await self._taking.take(placed, payload))

    def _stranger(self, request: Request, fault: str) -> HostError:
        """The error of a request without a valid signature; after many of them, a rate limit."""
        client = request.client
        return self._strangers.take("" if client is None else client.host) or _unsigned(fault)

    # --- deliveries ---

    @operation(
        "GET /api/v1/deliveries",
        name="listDeliveries",
        summary="List messages to channels, sent and waiting, newest first.",
        right="channels.read",
        query=(*PAGE, QueryField(name="channel", summary="Only of this channel.", most=64, example="room")),
        answers={200: _DELIVERY.page("deliveries")},
    )
    async def deliveries(self, request: Request) -> Response:
        before, workspace = self._pages.numbered(request, _DELIVERIES), caller_of(request).workspace
        channel, limit = request.query_params.get("channel"), page_limit(request)
        rows = await asyncio.to_thread(self._store.outbox, workspace, channel, before, limit + 1)
        caller, seen = caller_of(request), {""}  # messages of the host itself belong to no run
        for run_id in {row.run_id for row in rows if row.run_id}:
            if await self._audience.sees_run(caller, run_id):
                seen.add(run_id)
        return self._pages.of_rows(
            request, _DELIVERIES, rows, _delivery, lambda row: row.record_id, lambda row: row.run_id in seen
        )


def _unsigned(fault: str) -> Unauthenticated:
    hints = {
        "missing": "sign the request: webhook-id, webhook-timestamp and webhook-signature",
        "malformed": "send the three headers in the format of Standard Webhooks",
        "late": "the time in webhook-timestamp is too far from now: look at the clock, and sign again",
        "forged": "no channel of this name has the secret that signed it; look at both",
    }
    return Unauthenticated("this needs the signature of a channel", reason=f"signature_{fault}", hint=hints[fault])


def _delivery(row: OutboxRow) -> JsonObject:
    return _DELIVERY.of(row, channel_id=row.channel, messages=msgspec.json.decode(row.messages))
