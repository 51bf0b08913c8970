"""`/events` and `/bindings/resolve`: accept events, list them, and preview how an event would be routed."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.admission import Admission, Interrupt, Queue, Reject, Start, Steer
from bollard.host.agents.routing import Resolution, RoutingStep, sentence
from bollard.host.channels.registry import ChannelRepository
from bollard.host.channels.rules import RuleStep
from bollard.host.errors import Forbidden, HostError, NotFound
from bollard.host.events.acceptance import Accepted, Preview, read_rejection
from bollard.host.events.channel_intake import ChannelIntake
from bollard.host.events.intake import Intake
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import granted_operations
from bollard.host.hooks.hook import Hook, hook_of_source
from bollard.host.hooks.registry import HookRepository
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of, speaker
from bollard.host.http.bodies import PostEvent, ResolveEvent, parsed
from bollard.host.http.events.cloudevents import CLOUD_BATCH, CLOUD_EVENT
from bollard.host.http.events.hook_requests import through_hook
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
from bollard.host.http.openapi.schemas import ACCEPTED, ANY, TEXT, TIME, array_of, choice, fields, maybe
from bollard.host.http.operations import PAGE, Answer, HeaderField
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.request_log import traceparent_of
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.http.resources.runs import EVENT_ERRORS
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.limits import REQUESTS_PER_MINUTE
from bollard.host.log.records import data_of
from bollard.host.store.rows import EventRow
from bollard.host.store.store import Store
from bollard.host.texts import Locale
from bollard.protocol import JsonObject, JsonValue

# The preview of an event's routing, as the API shows it. Pure.


def preview_body(preview: Preview, locale: Locale, rules: Sequence[RuleStep] = ()) -> JsonObject:
    """`rules` are the steps of the channel of the event, which come before the bindings."""
    found = preview.resolution
    of_channel: list[JsonValue] = [{"key": step.key, "text": step.sentence(locale)} for step in rules]
    return {
        "binding": found.binding_id,
        "agent": None if found.agent is None else found.agent.agent_id,
        "steps": [*of_channel, *(step_body(step, locale) for step in found.steps)],
        "decision": None if preview.decision is None else _decision(preview.decision),
        "refused": None if preview.refused is None else _refused(preview.refused),
        "grant": None if preview.grant is None else _summary(preview.grant),
    }


def step_body(step: RoutingStep, locale: Locale) -> JsonObject:
    """One step of an explanation."""
    body: JsonObject = {"key": step.key, "text": sentence(step.key, step.fields, locale)}
    return {"binding": step.fields["binding"], **body} if "binding" in step.fields else body


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
    """The permissions of the run, by name."""
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
        "message": "no binding matches this event",
        "hint": "`bollard resolve` says why, binding by binding",
    },
}
_BATCH: Final = fields({"error": ANY}, items=array_of(ANY))
EVENT_ANSWERS: Final = {
    202: Answer(
        summary="The event is on disk, with its run or the reason why it has none. For a batch: one result per event.",
        schema={"anyOf": [ACCEPTED, _BATCH]},
        example=_NOBODY,
    ),
    200: Answer(summary="A repeated event, with its first outcome.", schema=ACCEPTED, example=ACCEPTED_EXAMPLE),
}
_SHAKEN: Final = "Whether a sender of webhooks may send here, as CloudEvents asks before it does."


class Events(DeclaredResource):
    """Events from outside."""

    tag = "events"

    def __init__(
        self,
        *,
        intake: Intake,
        channel_intake: ChannelIntake,
        taking: EventReception,
        payloads: Payloads,
        channels: ChannelRepository,
        hooks: HookRepository,
        rows: RunRows,
    ) -> None:
        self._intake = intake
        self._channel_intake = channel_intake
        self._rows = rows
        self._taking = taking
        self._payloads = payloads
        self._channels = channels
        self._hooks = hooks

    @operation(
        "POST /api/v1/events",
        name="postEvent",
        summary="Post an event, a CloudEvent, or a batch of CloudEvents.",
        description="The answer is sent when the event is on disk. It has the run of the event, or the reason why "
        "there is none. `source` and `id` identify the event: a repeated event gets its first outcome. The header "
        "`Idempotency-Key` can replace `id`. A CloudEvent may also have the binary form, with its "
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
        """Without an agent, the bindings choose one."""
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
        if (hook := self._hook_of(caller, source)) is not None:
            raise Forbidden(
                f"events of the webhook route {hook.hook_id} come through the route",
                reason="source_is_hook",
                hook=hook.hook_id,
                hint=f"send it to /hooks/{hook.hook_id}, or name another source",
            )
        if scope.actor is not None:
            speaker(caller, scope.actor)
            await self._rows.check_entering(caller, scope)
        return await self._taking.take(incoming, payload, keyed=keyed)

    def _hook_of(self, caller: Caller, source: str) -> Hook | None:
        """The webhook route that sends events of this source."""
        route = hook_of_source(source)
        saved = None if route is None else self._hooks.find(caller.workspace, route)
        return None if saved is None else saved.value

    @operation(
        "OPTIONS /api/v1/events",
        name="askToPostEvents",
        summary=_SHAKEN,
        right="events.post",
        headers=(
            HeaderField(
                name="WebHook-Request-Origin", summary="The actor that would send.", example="events.example.org"
            ),
        ),
        answers={
            204: Answer(
                summary="The sender may post events.",
                headers={
                    "Allow": "The allowed methods.",
                    "WebHook-Allowed-Origin": "The requesting origin.",
                    "WebHook-Allowed-Rate": "Requests a minute.",
                },
            )
        },
    )
    async def handshake(self, request: Request) -> Response:
        """Callers with the right to post events may announce one. The rate of the identity applies."""
        headers = {"allow": "GET, HEAD, OPTIONS, POST"}
        origin = request.headers.get("webhook-request-origin")
        if origin is not None:
            headers |= {"webhook-allowed-origin": origin, "webhook-allowed-rate": str(REQUESTS_PER_MINUTE)}
        return Response(status_code=204, headers=headers)

    @operation(
        "POST /api/v1/bindings/resolve",
        name="resolveEvent",
        summary="Preview how an event would be routed, and why. Nothing is written.",
        tag="bindings",
        description="The body is an event whose fields are all optional. If `source` is a channel, the preview treats "
        "it as an event of that channel.",
        right="bindings.read",
        body=ResolveEvent,
        body_example={"source": "ci", "type": "build.failed"},
        answers={
            200: Answer(
                summary="The routing.",
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
        """Writes and counts nothing."""
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
        steps: Sequence[RuleStep] = ()
        agent = body.agent
        if (channel := self._channels.find(caller.workspace, body.source)) is not None:
            # Only the channel itself sends events of this source, and only its bindings choose the agent.
            event = through_channel(replace(event, facts=body.facts), channel.value)
            decision, admitted = await self._channel_intake.explain(channel.value, event)
            steps = decision.steps
            if not decision.answered:
                return JsonAnswer(preview_body(Preview(resolution=Resolution()), body.locale, steps))
            event, agent = admitted.event, agent or admitted.agent
        if (hook := self._hook_of(caller, body.source)) is not None:
            event, agent = through_hook(event, hook), agent or hook.agent
        preview = self._intake.preview(event, agent)
        return JsonAnswer(preview_body(preview, body.locale, steps))


_LIST: Final = "events.list"
_ID_CHARACTERS: Final = 64
_LISTED: Final = answer_body(
    "Event",
    {
        "event_id": "evt_01",
        "source": "api",
        "id": "1a1dfd4b3f92382b11756dba817",
        "type": "message.received",
        "run_id": "run_01",
        "dispatch": "run",
        "bot_id": None,
        "conversation_id": "support-7",
        "thread_id": None,
        "actor_type": "user",
        "actor_id": "ann",
        "actor_name": None,
        "subject_type": None,
        "subject_id": None,
        "summary": "Hello",
        "event_time": None,
        "created_at": 1794735484.944,
        "seq": 131,
    },
    dispatch=choice("run", "pending", "steering", "dropped"),
    event_time=maybe(TIME),
    **dict.fromkeys(
        (
            "run_id",
            "bot_id",
            "conversation_id",
            "thread_id",
            "actor_type",
            "actor_id",
            "actor_name",
            "subject_type",
            "subject_id",
            "summary",
        ),
        maybe(TEXT),
    ),
)
_SHOWN: Final = _LISTED.extended(
    "",
    {"content": {"trigger": "api", "text": "Hello"}},
    {"reason": fields(code=TEXT, message=TEXT, hint=TEXT), "content": ANY},
)
_KNOWN: Final = frozenset({"text", "contents", "data", "raw", "source_event_type", "trigger"})
"""The fields of an event that come from its record, not from its row."""


class EventList(DeclaredResource):
    """Reads events for people and programs."""

    tag = "events"

    def __init__(self, store: Store, pages: Pages, audience: Audience) -> None:
        self._store = store
        self._audience = audience
        self._pages = pages

    @operation(
        "GET /api/v1/events",
        name="listEvents",
        summary="List events, newest first.",
        right="events.read",
        query=PAGE,
        answers={200: _LISTED.page("events")},
    )
    async def list(self, request: Request) -> Response:
        before, workspace = self._pages.numbered(request, _LIST), caller_of(request).workspace
        rows = await asyncio.to_thread(self._store.events, workspace, before, page_limit(request) + 1)
        seen = await self._seen(caller_of(request), rows)
        return self._pages.of_rows(
            request, _LIST, rows, _shown, lambda row: row.record_id, lambda row: row.event_id in seen
        )

    @operation(
        "GET /api/v1/events/{event_id}",
        name="getEvent",
        summary="Show one event with its payload, and the reason if it has no run.",
        right="events.read",
        answers={200: _SHOWN.answer("The event.")},
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        event_id: str = request.path_params["event_id"]
        caller = caller_of(request)
        row = None
        if len(event_id) <= _ID_CHARACTERS:
            row = await asyncio.to_thread(self._store.event, caller.workspace, event_id)
        if row is None or row.event_id not in await self._seen(caller, [row]):
            raise NotFound("there is no such event", reason="no_event", hint="`bollard events list` lists the newest")
        return JsonAnswer(await asyncio.to_thread(self._event, row))

    async def _seen(self, caller: Caller, rows: Sequence[EventRow]) -> frozenset[str]:
        sees = [row.event_id for row in rows if await self._audience.sees_event(caller, row)]
        return frozenset(sees)

    def _event(self, row: EventRow) -> JsonObject:
        shown, reason = _shown(row), read_rejection(self._store, row)
        record = next(iter(self._store.records(row.record_id - 1, 1)), None)
        if record is not None and record.data is not None:
            shown["content"] = {name: value for name, value in data_of(record).items() if name in _KNOWN}
        return shown if reason is None else {**shown, "reason": reason.to_wire()}


def _shown(row: EventRow) -> JsonObject:
    return _LISTED.of(
        row,
        id=row.source_id,
        bot_id=row.bot,
        conversation_id=row.conversation,
        thread_id=row.thread,
        event_time=None if row.event_ms is None else row.event_ms / 1000,
        seq=row.record_id,
    )
