"""From a draft to an answer: its payload is kept, the event is given to the intake, and the sender is told."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace
from starlette.responses import Response

from bollard.host.clock import Clock
from bollard.host.errors import HostError, InvalidRequest
from bollard.host.events.acceptance import Accepted, EventRejection
from bollard.host.events.intake import Intake
from bollard.host.http.answers import JsonAnswer, error_answer, error_body
from bollard.host.http.downloads import is_media_type
from bollard.host.http.errors import UnsupportedMedia
from bollard.host.http.events.drafts import Draft, Json, Raw
from bollard.host.http.events.payloads import Payload, Payloads
from bollard.host.http.idempotency import refuse_other
from bollard.host.http.resources.run_rows import accepted_body
from bollard.host.limits import EVENTS_AT_ONCE
from bollard.host.runs.event import (
    API_SOURCE,
    OWN_EVENTS,
    OWN_SOURCE,
    RUN_SOURCE,
    RawPayload,
    ReplyRoute,
    is_own_source,
)
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, TriggerSource

Take = Callable[[Draft], Awaitable[Accepted]]


class EventReception:
    """One per host."""

    def __init__(self, intake: Intake, payloads: Payloads, store: Store, clock: Clock, terms: ArtifactTerms) -> None:
        self._intake = intake
        self._store = store
        self._payloads = payloads
        self._clock = clock
        self._terms = terms

    async def take(
        self,
        draft: Draft,
        payload: Payload,
        workspace: str,
        *,
        caller: str,
        trigger: TriggerSource = "webhook",
        surface: str = "api",
        reply: ReplyRoute | None = None,
        keyed: bool = False,
    ) -> Accepted:
        """On disk with its run, or with the reason why it has none. Raises `HostError`: then nothing happened.

        `keyed`: its id is an `Idempotency-Key`, which must not come again with another event.
        """
        _refuse_own(draft)
        content, raw, data = draft.content, None, JsonObject()
        if isinstance(content, Json):
            data = content.data
        elif isinstance(content, Raw):
            bare = draft.event({}, None)  # what is wrong with the event is said before its payload is kept
            try:
                raw, data = await self._kept(content, payload), content.summary
            except HostError:
                # It may have been taken when there was space for it: then its sender is told so, and not of the disk.
                if (known := await self._intake.known.find(bare, workspace)) is not None:
                    return known
                raise
        event = draft.event(data, raw, trigger=trigger, surface=surface, reply=reply, caller=caller)
        if draft.expires_ms is not None and draft.expires_ms <= self._clock.now_ms():
            reason = EventRejection(code="expired", message="the event had expired when it came", hint="send it sooner")
            return await self._intake.known.drop(event, workspace, reason)
        accepted = await self._intake.accept(event, workspace, draft.agent, keep=True)
        if keyed and raw is None:
            await refuse_other(self._store, workspace, accepted, event, draft.agent)
        return accepted

    async def _kept(self, content: Raw, payload: Payload) -> RawPayload:
        """Refused as a whole where it cannot be kept: a run must not take a part of an event for all of it."""
        if not self._terms.mime_types.admits(_media_type(content)):
            raise UnsupportedMedia(
                "the event is too large for data or no JSON, and artifacts of its media type are not taken",
                hint="send small JSON, or let artifact_mime_types of the settings name the type",
                field="datacontenttype",
            )
        raw = await self._payloads.keep(payload if content.body is None else content.body, content.mime_type)
        return replace(raw, expires_ms=self._terms.expires_ms(self._clock.now_ms()))

    async def take_all(self, drafts: Sequence[Draft | HostError], take: Take) -> list[Accepted | HostError]:
        """Each by itself, so that one that is refused costs the others nothing. Those of one conversation in order."""
        outcomes: list[Accepted | HostError | None] = [None] * len(drafts)
        lanes: dict[object, list[tuple[int, Draft]]] = {}
        for index, draft in enumerate(drafts):
            if isinstance(draft, HostError):
                outcomes[index] = draft
            else:
                lanes.setdefault(draft.conversation or index, []).append((index, draft))
        room = asyncio.Semaphore(EVENTS_AT_ONCE)

        async def one_lane(lane: list[tuple[int, Draft]]) -> None:
            async with room:
                for index, draft in lane:
                    try:
                        outcomes[index] = await take(draft)
                    except HostError as error:
                        outcomes[index] = error

        await asyncio.gather(*(one_lane(lane) for lane in lanes.values()))
        return [outcome for outcome in outcomes if outcome is not None]


def _media_type(content: Raw) -> str:
    """As far as it is one: what a sender says of its body may be no media type, and is bytes then."""
    return content.mime_type if is_media_type(content.mime_type) else "application/octet-stream"


def _refuse_own(draft: Draft) -> None:
    """What only the host itself can know is not believed of anybody else."""
    if is_own_source(draft.source):
        raise InvalidRequest(
            "events of this source are the host's own",
            hint=f"name a source that is not {API_SOURCE} and does not start with {OWN_SOURCE}, {RUN_SOURCE} or "
            f"{API_SOURCE}/",
            field="source",
        )
    if draft.event_type in OWN_EVENTS:
        raise InvalidRequest(
            "only the host itself raises this event",
            hint=f"use another type than {', '.join(sorted(OWN_EVENTS))}",
            field="type",
        )


def single_answer(accepted: Accepted) -> Response:
    return JsonAnswer(accepted_body(accepted), status_code=202 if accepted.first else 200)


def batch_answer(drafts: Sequence[Draft | HostError], outcomes: Sequence[Accepted | HostError]) -> Response:
    """What became of each event. Where one may be tried again, the batch should be: what was taken is known then."""
    items: list[JsonObject] = []
    for draft, outcome in zip(drafts, outcomes, strict=True):
        named: JsonObject = {} if isinstance(draft, HostError) else {"source": draft.source, "id": draft.source_id}
        body: JsonObject = {"error": error_body(outcome)} if isinstance(outcome, HostError) else accepted_body(outcome)
        items.append({**named, **body})
    refused = [outcome for outcome in outcomes if isinstance(outcome, HostError)]
    again = next((error for error in refused if error.retryable), None)
    if again is None and (not refused or len(refused) < len(outcomes)):
        return JsonAnswer({"items": [*items]}, status_code=202)
    worst = again or refused[0]
    answer = error_answer(worst)
    headers = {name: value for name, value in answer.headers.items() if name not in ("content-length", "content-type")}
    body = {"error": error_body(worst), "items": [*items]}
    return JsonAnswer(body, status_code=answer.status_code, headers=headers)
