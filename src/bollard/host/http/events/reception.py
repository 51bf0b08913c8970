"""Accepts events: stores the payload, passes the event to the intake and builds the response."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec
from starlette.responses import Response

from bollard.host.clock import Clock
from bollard.host.errors import HostError, InvalidRequest
from bollard.host.events.acceptance import Accepted, EventRejection
from bollard.host.events.intake import Intake
from bollard.host.http.answers import JsonAnswer, error_answer, error_body
from bollard.host.http.downloads import is_media_type
from bollard.host.http.errors import UnsupportedMedia
from bollard.host.http.events.event_data import LargeData
from bollard.host.http.events.file_handles import lazy_file
from bollard.host.http.events.incoming import BatchItem, IncomingEvent
from bollard.host.http.events.message_inputs import MessageInputs
from bollard.host.http.events.payloads import Payload, Payloads
from bollard.host.http.idempotency import refuse_other
from bollard.host.http.resources.run_rows import accepted_body
from bollard.host.limits import EVENTS_AT_ONCE
from bollard.host.runs.event import API_SOURCE, OWN_EVENTS, OWN_SOURCE, RUN_SOURCE, NewEvent, RawPayload, is_own_source
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

Take = Callable[[IncomingEvent], Awaitable[Accepted]]


class EventReception:
    """Stores payloads and passes events to the intake."""

    def __init__(
        self,
        *,
        intake: Intake,
        payloads: Payloads,
        store: Store,
        clock: Clock,
        terms: ArtifactTerms,
        inputs: MessageInputs,
    ) -> None:
        self._inputs = inputs
        self._intake = intake
        self._store = store
        self._payloads = payloads
        self._clock = clock
        self._terms = terms

    async def take(self, incoming: IncomingEvent, payload: Payload, *, keyed: bool = False) -> Accepted:
        """Accept an event. It is durable when this returns, with its run or the reason why it has none. Raises
        `HostError`, and then nothing was stored.

        `keyed`: the id is an `Idempotency-Key`, which must not be reused for another event.
        """
        event, large = incoming.event, incoming.large
        _refuse_own(event)
        try:
            event = await self._with_contents(event, incoming)
            if large is not None:
                event = replace(event, raw=await self._store_payload(large, payload), known=True)
        except HostError:
            # A repeat of an accepted event gets the first outcome, also when the disk is full or a file is gone.
            known = None if keyed and large is None else await self._intake.deduplication.find(event)
            if known is None:
                raise
            return known
        if incoming.expires_ms is not None and incoming.expires_ms <= self._clock.now_ms():
            reason = EventRejection(
                code="expired", message="the event had expired when it arrived", hint="send it sooner"
            )
            return await self._intake.deduplication.drop(event, reason)
        accepted = await self._intake.accept(event, incoming.agent, keep=True)
        if keyed and large is None:
            await refuse_other(self._store, accepted, event, incoming.agent)
        return accepted

    async def _with_contents(self, event: NewEvent, incoming: IncomingEvent) -> NewEvent:
        """The event with its contents: files become artifacts of its conversation."""
        if not (incoming.message.contents or incoming.message.attachments or incoming.handles):
            return event
        by, scope = event.caller or "", event.scope
        kept = [lazy_file(each, event, by) for each in incoming.handles]
        room = None if event.room == scope.conversation else msgspec.structs.replace(scope, conversation=event.room)
        taken = await self._inputs.take(incoming.message, scope, by, event.key, within="", kept=kept, room=room)
        return replace(event, contents=taken.contents, attachments=taken.attachments, files=taken.files)

    async def _store_payload(self, content: LargeData, payload: Payload) -> RawPayload:
        """Store the payload, or refuse the event: a run must never get a part of an event."""
        if not self._terms.mime_types.admits(_media_type(content)):
            raise UnsupportedMedia(
                "the event needs an artifact, and the settings do not allow artifacts of its media type",
                reason="artifact_type",
                hint="send small JSON data, or add the type to the setting artifact_mime_types",
                field="datacontenttype",
            )
        raw = await self._payloads.keep(payload if content.body is None else content.body, content.mime_type)
        return msgspec.structs.replace(raw, expires_ms=self._terms.expires_ms(self._clock.now_ms()))

    async def take_all(self, items: Sequence[BatchItem], take: Take) -> list[Accepted | HostError]:
        """Accept each event on its own: an error affects only its event. Events of one conversation keep their
        order."""
        outcomes: list[Accepted | HostError | None] = [None] * len(items)
        lanes: dict[object, list[tuple[int, IncomingEvent]]] = {}
        for index, item in enumerate(items):
            if isinstance(item.event, HostError):
                outcomes[index] = item.event
            else:
                lanes.setdefault(item.event.event.scope.conversation or index, []).append((index, item.event))
        room = asyncio.Semaphore(EVENTS_AT_ONCE)

        async def run_lane(lane: list[tuple[int, IncomingEvent]]) -> None:
            async with room:
                for index, incoming in lane:
                    try:
                        outcomes[index] = await take(incoming)
                    except HostError as error:
                        outcomes[index] = error

        await asyncio.gather(*(run_lane(lane) for lane in lanes.values()))
        return [outcome for outcome in outcomes if outcome is not None]


def _media_type(content: LargeData) -> str:
    """The media type of the content; bytes if the sender's is invalid."""
    return content.mime_type if is_media_type(content.mime_type) else "application/octet-stream"


def _refuse_own(event: NewEvent) -> None:
    """Refuse sources and types that only the host itself may use."""
    if is_own_source(event.source):
        raise InvalidRequest(
            "this source is reserved for the host",
            reason="reserved_source",
            hint=f"use a source that is not {API_SOURCE} and does not start with {OWN_SOURCE}, {RUN_SOURCE} or "
            f"{API_SOURCE}/",
            field="source",
            api=API_SOURCE,
            own=OWN_SOURCE,
            run=RUN_SOURCE,
        )
    if event.event_type in OWN_EVENTS:
        raise InvalidRequest(
            "this event type is reserved for the host",
            reason="reserved_type",
            hint=f"use another type than {', '.join(sorted(OWN_EVENTS))}",
            field="type",
            types=", ".join(sorted(OWN_EVENTS)),
        )


def single_answer(accepted: Accepted) -> Response:
    return JsonAnswer(accepted_body(accepted), status_code=202 if accepted.first else 200)


def batch_answer(batch: Sequence[BatchItem], outcomes: Sequence[Accepted | HostError]) -> Response:
    """The outcome of each event. If one is retryable, so is the batch: accepted events are recognised in the repeat."""
    items: list[JsonObject] = []
    for item, outcome in zip(batch, outcomes, strict=True):
        body: JsonObject = {"error": error_body(outcome)} if isinstance(outcome, HostError) else accepted_body(outcome)
        items.append({**item.identity, **body})
    refused = [outcome for outcome in outcomes if isinstance(outcome, HostError)]
    retryable = next((error for error in refused if error.retryable), None)
    if retryable is None and (not refused or len(refused) < len(outcomes)):
        return JsonAnswer({"items": [*items]}, status_code=202)
    worst = retryable or refused[0]
    answer = error_answer(worst)
    headers = {name: value for name, value in answer.headers.items() if name not in ("content-length", "content-type")}
    body = {"error": error_body(worst), "items": [*items]}
    return JsonAnswer(body, status_code=answer.status_code, headers=headers)
