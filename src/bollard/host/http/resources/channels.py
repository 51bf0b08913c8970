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
from bollard.host.channels.signing import secret_bytes
from bollard.host.events.acceptance import Accepted
from bollard.host.events.channel_intake import ChannelIntake
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.auth.channel_signatures import SIGNATURE, ChannelSignatures
from bollard.host.http.events.channel_controls import CONTROL_ANSWER, ChannelControls
from bollard.host.http.events.cloudevents import CLOUD_EVENT
from bollard.host.http.events.incoming import ChannelEvent, Sender, caller_name, check_signed, format_of, read_one
from bollard.host.http.events.payloads import Payloads
from bollard.host.http.events.reception import EventReception, single_answer
from bollard.host.http.openapi.schemas import ACCEPTED, TEXT, choice, maybe
from bollard.host.http.operations import PAGE, Answer, QueryField
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.request_log import traceparent_of
from bollard.host.http.resources.declaration import answer_body, operation
from bollard.host.http.resources.events import EVENT_ANSWERS
from bollard.host.http.resources.runs import EVENT_ERRORS
from bollard.host.http.resources.saved_routes import SavedResource, SecretRoutes, shown_as
from bollard.host.identity.audience import Audience
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


class Channels(SecretRoutes[SavedChannel]):
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
        audience: Audience,
        controls: ChannelControls,
        signatures: ChannelSignatures,
    ) -> None:
        self._signatures = signatures
        self._audience = audience
        self._controls = controls
        super().__init__(repository, pages)
        self._intake = intake
        self._taking = taking
        self._payloads = payloads
        self._store = store

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
        headers=SIGNATURE,
        repeat="own",
        answers={**EVENT_ANSWERS, 200: _KNOWN_OR_CONTROLLED},
        errors=(*EVENT_ERRORS, "unauthenticated", "unsupported_media_type"),
    )
    async def receive(self, request: Request) -> Response:
        """The signature identifies the workspace: a channel of this name there has the secret."""
        seal = self._signatures.claim(request)
        form = format_of(request.headers)
        check_signed(form)
        channel_id: str = request.path_params["channel_id"]
        digests = [
            (saved, seal.begin(secret_bytes(saved.value.secret or ""))) for saved in self._signatures.named(channel_id)
        ]
        if not digests:
            raise self._signatures.stranger(request, "forged")  # before any part of the body is stored

        def seen(piece: bytes) -> None:
            for _, digest in digests:
                digest.update(piece)

        async with self._payloads.received(request, seen, channel_id, again=True) as payload:
            signer = next((saved for saved, digest in digests if seal.fits(digest)), None)
            saved = self._signatures.admitted(request, signer)
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
            admitted = await self._intake.admit(saved.value, incoming.spoken)
            if isinstance(admitted, Accepted):
                return single_answer(admitted)
            placed = incoming.admitted(admitted.event, admitted.agent)
            return single_answer(await self._taking.take(placed, payload))

    # --- deliveries ---

    @operation(
        "GET /api/v1/deliveries",
        name="listDeliveries",
        summary="List messages to channels, sent and waiting, newest first.",
        right="channels.read",
        query=(
            *PAGE,
            QueryField(name="channel", summary="Only of this channel.", most=64, example="room"),
            QueryField(name="run", summary="Only of this run.", most=64, example="run_01"),
        ),
        answers={200: _DELIVERY.page("deliveries")},
    )
    async def deliveries(self, request: Request) -> Response:
        before, workspace = self._pages.numbered(request, _DELIVERIES), caller_of(request).workspace
        asked, limit = request.query_params, page_limit(request)
        rows = await asyncio.to_thread(
            self._store.outbox, workspace, asked.get("channel"), before, limit + 1, asked.get("run")
        )
        caller, seen = caller_of(request), {""}  # messages of the host itself belong to no run
        for run_id in {row.run_id for row in rows if row.run_id}:
            if await self._audience.sees_run(caller, run_id):
                seen.add(run_id)
        return self._pages.of_rows(
            request, _DELIVERIES, rows, _delivery, lambda row: row.record_id, lambda row: row.run_id in seen
        )


def _delivery(row: OutboxRow) -> JsonObject:
    return _DELIVERY.of(row, channel_id=row.channel, messages=msgspec.json.decode(row.messages))
