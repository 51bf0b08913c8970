"""`GET /events`: what happened, and what became of it."""

import asyncio
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import NotFound
from bollard.host.events.acceptance import read_rejection
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.examples import EVENT_EXAMPLE, page_example
from bollard.host.http.openapi.schemas import ANY, NUMBER, TEXT, TIME, choice, fields, maybe, named
from bollard.host.http.operations import PAGE, Answer, page_of
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.log.records import data_of
from bollard.host.store.rows import EventRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_LIST: Final = "events.list"
_ID_CHARACTERS: Final = 64
_SHOWN: Final[JsonObject] = {
    "event_id": TEXT,
    "source": TEXT,
    "id": TEXT,
    "type": TEXT,
    "run_id": maybe(TEXT),
    "dispatch": choice("run", "pending", "steering", "dropped"),
    "bot_id": maybe(TEXT),
    "conversation_id": maybe(TEXT),
    "thread_id": maybe(TEXT),
    "actor_type": maybe(TEXT),
    "actor_id": maybe(TEXT),
    "actor_name": maybe(TEXT),
    "subject_type": maybe(TEXT),
    "subject_id": maybe(TEXT),
    "summary": maybe(TEXT),
    "event_time": maybe(TIME),
    "created_at": TIME,
    "seq": NUMBER,
}
_KNOWN: Final = frozenset({"text", "contents", "data", "raw", "source_event_type", "trigger"})
"""What the record of an event adds to its row."""


_REASON: Final = fields(code=TEXT, message=TEXT, hint=TEXT)


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
        summary="Events, the newest first.",
        right="events.read",
        query=PAGE,
        answers={
            200: Answer(
                summary="A page of events.",
                schema=page_of(named("Event", fields(**_SHOWN))),
                example=page_example(EVENT_EXAMPLE),
            )
        },
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
        summary="One event with what it carried, and why it led to no run if it led to none.",
        right="events.read",
        answers={
            200: Answer(
                summary="The event.",
                schema=fields({"reason": _REASON, "content": ANY}, **_SHOWN),
                example={**EVENT_EXAMPLE, "content": {"trigger": "api", "text": "Hello"}},
            )
        },
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
        """An event is for who may see the run that it has."""
        sees = [row.event_id for row in rows if await self._audience.sees_run(caller, row.run_id)]
        return frozenset(sees)

    def _event(self, row: EventRow) -> JsonObject:
        shown, reason = _shown(row), read_rejection(self._store, row)
        record = next(iter(self._store.records(row.record_id - 1, 1)), None)
        if record is not None and record.data is not None:
            shown["content"] = {name: value for name, value in data_of(record).items() if name in _KNOWN}
        return shown if reason is None else {**shown, "reason": reason.to_wire()}


def _shown(row: EventRow) -> JsonObject:
    return {
        "event_id": row.event_id,
        "source": row.source,
        "id": row.source_id,
        "type": row.type,
        "run_id": row.run_id,
        "dispatch": row.dispatch,
        "bot_id": row.bot,
        "conversation_id": row.conversation,
        "thread_id": row.thread,
        "actor_type": row.actor_type,
        "actor_id": row.actor_id,
        "actor_name": row.actor_name,
        "subject_type": row.subject_type,
        "subject_id": row.subject_id,
        "summary": row.summary,
        "event_time": None if row.event_ms is None else row.event_ms / 1000,
        "created_at": row.created_ms / 1000,
        "seq": row.record_id,
    }
