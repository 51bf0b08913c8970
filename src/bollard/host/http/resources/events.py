"""`/events` and `/bindings/resolve`: something happened, and what would become of it."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.admission import Admission, Interrupt, Queue, Reject, Start, Steer
from bollard.host.agents.routing import Locale, RoutingStep, sentence
from bollard.host.channels.registry import ChannelRepository
from bollard.host.errors import Forbidden, HostError
from bollard.host.events.acceptance import Accepted, Preview
from bollard.host.events.intake import Intake
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import granted_operations
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of, speaker
from bollard.host.http.bodies import PostEvent, ResolveEvent, parsed
from bollard.host.http.events.cloudevents import CLOUD_BATCH, CLOUD_EVENT
from bollard.host.http.events.incoming import (
    MEDIA_TYPES,
    IncomingEvent,
    Sender,
    format_of,
    read_batch,
    read_one,
    through_channel,
)
from bollard.host.http.events.payloads import Payload, Payloads
from bollard.host.http.events.reception import EventReception, batch_answer, single_answer
from bollard.host.http.idempotency import key_of
from bollard.host.http.openapi.examples import ACCEPTED_EXAMPLE, RESOLVED_EXAMPLE
from bollard.host.http.openapi.schemas import ACCEPTED, ANY, TEXT, array_of, fields, maybe
from bollard.host.http.operations import Answer, HeaderField
from bollard.host.http.request_log import traceparent_of
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.http.resources.runs import EVENT_ERRORS
from bollard.host.identity.caller import Caller
from bollard.host.limits import REQUESTS_PER_MINUTE
from bollard.protocol import JsonObject

# What would become of an event, as the API tells it. Pure.


def preview_body(preview: Preview, locale: Locale) -> JsonObject:
    found = preview.resolution
    return {
        "binding": found.binding_id,
        "agent": None if found.agent is None else found.agent.agent_id,
        "steps": [_step(step, locale) for step in found.steps],
        "decision": None if preview.decision is None else _decision(preview.decision),
        "refused": None if preview.refused is None else _refused(preview.refused),
        "grant": None if preview.grant is None else _summary(preview.grant),
    }


def _step(step: RoutingStep, locale: Locale) -> JsonObject:
    said: JsonObject = {"key": step.key, "text": sentence(step.key, step.fields, locale)}
    return {"binding": step.fields["binding"], **said} if "binding" in step.fields else said


def _decision(decision: Admission) -> JsonObject:
    match decision:
        case Start():
            return {"kind": "start"}
        case Queue():
            return {"kind": "queue"}
        case Steer(run_id):
            return {"kind": "steer", "run_ids": [run_id]}
        case Interrupt(run_ids):
            return {"kind": "interrupt", "run_ids": [*run_ids]}
        case Reject(sentence=said):
            return {"kind": "reject", "message": said}


def _refused(refused: HostError) -> JsonObject:
    body: JsonObject = {
        "code": refused.code,
        "message": refused.message,
        "hint": refused.hint,
        "details": refused.details,
    }
    wait_s = refused.details.get("retry_after_s")
    return body if wait_s is None else {**body, "retry_after_s": wait_s}


def _summary(grant: Grant) -> JsonObject:
    """What the run could do, by name."""
    rights = grant.access.rights
    return {
        "operations": [*sorted(granted_operations(grant))],
        "resources": {kind: [*sorted(held)] for kind, held in sorted(rights.resources.items())},
        "conversations": [*sorted(rights.conversations)],
        "state": [*sorted(grant.state_keys)],
        "steerable": grant.steerable,
        "deadline_s": grant.limits.deadline_s,
    }


_NOBODY: Final[JsonObject] = {
    "event_id": "evt_02",
    "run_id": None,
    "first": True,
    "reason": {
        "code": "no_binding",
        "message": "no binding takes this event",
        "hint": "`bollard resolve` says why, binding by binding",
    },
}
_BATCH: Final = fields({"error": ANY}, items=array_of(ANY))
EVENT_ANSWERS: Final = {
    202: Answer(
        summary="The event is on disk, with its run or the reason why it has none. Of a batch: each by itself.",
        schema={"anyOf": [ACCEPTED, _BATCH]},
        example=_NOBODY,
    ),
    200: Answer(summary="The event was known; this is its first outcome.", schema=ACCEPTED, example=ACCEPTED_EXAMPLE),
}
_SHAKEN: Final = "Whether a sender of webhooks may send here, as CloudEvents asks before it does."


class Events(DeclaredResource):
    """Events from outside."""

    tag = "events"

    def __init__(
        self, *, intake: Intake, taking: EventReception, payloads: Payloads, channels: ChannelRepository, rows: RunRows
    ) -> None:
        self._intake = intake
        self._rows = rows
        self._taking = taking
        self._payloads = payloads
        self._channels = channels

    @operation(
        "POST /api/v1/events",
        name="postEvent",
        summary="Something happened: natively, or as a CloudEvent, or as a batch of them.",
        description="Answered when the event is on disk, with the run that it led to or the reason why it led "
        "to none. `source` and `id` are its identity: the same again gets its first outcome. `id` may be left "
        "out where `Idempotency-Key` says it. A CloudEvent may also come in the binary form, with its "
        "attributes in headers `ce-…` and its data as the body.",
        right="events.post",
        body=PostEvent,
        body_example={"source": "ci", "id": "build-77", "type": "build.failed", "data": {"branch": "main"}},
        body_media=MEDIA_TYPES,
        other_bodies={**CLOUD_EVENT, **CLOUD_BATCH},
        repeat="own",
        answers=EVENT_ANSWERS,
        errors=(*EVENT_ERRORS, "unsupported_media_type", "idempotency_mismatch"),
    )
    async def post(self, request: Request) -> Response:
        """Without an agent the bindings say whose it is."""
        caller, form = caller_of(request), format_of(request.headers)
        sender = Sender(
            workspace=caller.workspace,
            caller=caller.name,
            message_id=key_of(request),
            traceparent=traceparent_of(request),
        )
        async with self._payloads.received(request, again=True) as payload:
            if form.kind == "batch":
                batch = await read_batch(payload, self._payloads, sender)
                outcomes = await self._taking.take_all(batch, lambda incoming: self._take(incoming, payload, caller))
                return batch_answer(batch, outcomes)
            incoming = await read_one(form, request.headers, payload, self._payloads, sender)
            keyed = sender.message_id is not None and form.kind == "native"
            return single_answer(await self._take(incoming, payload, caller, keyed=keyed))

    async def _take(
        self, incoming: IncomingEvent, payload: Payload, caller: Caller, *, keyed: bool = False
    ) -> Accepted:
        source, scope = incoming.event.source, incoming.event.scope
        if self._channels.find(caller.workspace, source) is not None:
            raise Forbidden(
                f"events of channel {source} come through the channel",
                reason="source_is_channel",
                channel=source,
                hint=f"send it to /api/v1/channels/{source}/events, or name another source",
            )
        if scope.actor is not None:
            speaker(caller, scope.actor)
            await self._rows.check_entering(caller, scope)
        return await self._taking.take(incoming, payload, keyed=keyed)

    @operation(
        "OPTIONS /api/v1/events",
        name="askToPostEvents",
        summary=_SHAKEN,
        right="events.post",
        headers=(HeaderField(name="WebHook-Request-Origin", summary="Who would send.", example="events.example.org"),),
        answers={
            204: Answer(
                summary="It may.",
                headers={
                    "Allow": "What is possible here.",
                    "WebHook-Allowed-Origin": "The origin that asked.",
                    "WebHook-Allowed-Rate": "Requests a minute.",
                },
            )
        },
    )
    async def handshake(self, request: Request) -> Response:
        """Who may post events may announce it. The rate is the one that every identity has."""
        headers = {"allow": "GET, HEAD, OPTIONS, POST"}
        origin = request.headers.get("webhook-request-origin")
        if origin is not None:
            headers |= {"webhook-allowed-origin": origin, "webhook-allowed-rate": str(REQUESTS_PER_MINUTE)}
        return Response(status_code=204, headers=headers)

    @operation(
        "POST /api/v1/bindings/resolve",
        name="resolveEvent",
        summary="What would become of an event, and why. Nothing is written.",
        tag="bindings",
        description="The body is that of an event; everything in it may be left out. Where `source` is a"
        " channel it is an event that the channel brings.",
        right="bindings.read",
        body=ResolveEvent,
        body_example={"source": "ci", "type": "build.failed"},
        answers={
            200: Answer(
                summary="What would happen.",
                schema=fields(
                    binding=maybe(TEXT),
                    agent=maybe(TEXT),
                    steps=array_of(fields({"binding": TEXT}, key=TEXT, text=TEXT)),
                    decision=maybe(ANY),
                    refused=maybe(ANY),
                    grant=maybe(ANY),
                ),
                example=RESOLVED_EXAMPLE,
            )
        },
    )
    async def resolve(self, request: Request) -> Response:
        """Nothing is written, nothing is counted."""
        body, caller = parsed(ResolveEvent, await read_body(request)), caller_of(request)
        event = body.event(
            body.source,
            body.id,
            body.type,
            body.scope(caller.workspace),
            data=body.data,
            caller=caller.name,
            trigger=body.trigger,
        )
        if (channel := self._channels.find(caller.workspace, body.source)) is not None:
            event = through_channel(event, channel.thing)  # only the channel itself sends events of this source
        preview = self._intake.preview(event, body.agent)
        return JsonAnswer(preview_body(preview, body.locale))
