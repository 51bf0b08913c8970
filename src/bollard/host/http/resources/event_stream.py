"""`/events/stream` and `/changes/stream`: the events and changes of a workspace as they come, for dashboards and other
platforms."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp

from bollard.host.feed.change_reader import CHANGES, ChangeSelection, right_of
from bollard.host.feed.event_stream import EventStreams, gap
from bollard.host.feed.feed_event import FeedEvent, Selection
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.auth.presence import REVOKED
from bollard.host.http.openapi.schemas import SSE, STREAM
from bollard.host.http.operations import Answer, HeaderField, QueryField
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.http.streams.sse import EventStream
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.stream import parse_place
from bollard.host.store.store import Store
from bollard.protocol import JsonObject
from bollard.wire import encode

_NAMES: Final = 2048
EVENT_EXAMPLE: Final[JsonObject] = {
    "id": "run_01-completed",
    "type": "run.completed",
    "source": "bollard:events",
    "time": 1794735486.2,
    "seq": 140,
    "run_id": "run_01",
    "agent_id": "parrot",
    "bot_id": None,
    "conversation_id": "support-7",
    "thread_id": None,
    "actor_type": "user",
    "actor_id": "ann",
    "data": {"run_id": "run_01", "agent_id": "parrot", "event_id": "evt_01", "status": "completed", "answer": "Hello"},
}
_CHANGE_EXAMPLE: Final[JsonObject] = {
    **EVENT_EXAMPLE,
    "id": "140-run_ended",
    "type": "run.ended",
    "data": {"run_id": "run_01", "agent_id": "parrot", "event_id": "evt_01", "status": "completed"},
}
_LAST: Final = HeaderField(
    name="Last-Event-ID", summary="The last received id; the stream continues after it.", example="1.140"
)
_AFTER: Final = QueryField(
    name="after", summary="The id of the last received event, `1.seq`.", most=16, example="1.140"
)
_AGENT: Final = QueryField(name="agent", summary="Only events of runs of this agent.", most=64, example="parrot")
_CONVERSATION: Final = QueryField(name="conversation", summary="Only events of this conversation.", example="support-7")
_QUERY: Final = (
    _AFTER,
    QueryField(
        name="types", summary="Only these types, separated by commas.", most=_NAMES, example="run.completed,run.failed"
    ),
    _AGENT,
    _CONVERSATION,
    QueryField(name="source", summary="Only events of this source.", example="ci"),
)
_CHANGES_QUERY: Final = (
    _AFTER,
    QueryField(
        name="types",
        summary=f"Only these types, separated by commas: {', '.join(CHANGES)}.",
        most=_NAMES,
        example="run.created,run.ended",
    ),
    _AGENT,
    _CONVERSATION,
)


class EventStreamRoutes(DeclaredResource):
    """Streams events to callers that may see them."""

    tag = "events"

    def __init__(self, streams: EventStreams, changes: EventStreams, store: Store, audience: Audience) -> None:
        self._streams = streams
        self._changes = changes
        self._store = store
        self._audience = audience

    @operation(
        "GET /api/v1/events/stream",
        name="streamEvents",
        summary="Stream events as they come, or those after `Last-Event-ID`.",
        description="Server-sent events: accepted events, and `run.completed`, `run.failed`, `approval.requested`, "
        "`artifact.created` and `channel.status_changed` of the host. The caller gets the events that it may see. An "
        "event `gap` stands for events that cannot be sent.",
        right="events.read",
        ticket=True,
        query=_QUERY,
        headers=(_LAST,),
        answers={
            200: Answer(
                summary="The events.",
                schema=SSE,
                example=f"id: 1.140\nevent: run.completed\ndata: {encode(EVENT_EXAMPLE).decode()}\n\n",
                media_type=STREAM,
            )
        },
    )
    async def stream(self, request: Request) -> ASGIApp:
        """Reads from the log, so a slow reader misses nothing."""
        caller, after = caller_of(request), _after(request)
        batches = self._streams.read(caller.workspace, after, _selected(request, Selection), self._sees(caller))
        return _endless(batches, after)

    @operation(
        "GET /api/v1/changes/stream",
        name="streamChanges",
        summary="Stream changes of runs, approvals and questions as they come, or those after `Last-Event-ID`.",
        description="Server-sent events for pages that show what is going on: each names the thing that changed and "
        "its new status, without its content. The caller gets the changes of the runs that it may see; changes of "
        "approvals also need the right to read those. An event `gap` stands for changes that cannot be sent.",
        right="runs.read",
        ticket=True,
        query=_CHANGES_QUERY,
        headers=(_LAST,),
        answers={
            200: Answer(
                summary="The changes.",
                schema=SSE,
                example=f"id: 1.140\nevent: run.ended\ndata: {encode(_CHANGE_EXAMPLE).decode()}\n\n",
                media_type=STREAM,
            )
        },
    )
    async def changes(self, request: Request) -> ASGIApp:
        caller, after = caller_of(request), _after(request)
        batches = self._changes.read(
            caller.workspace, after, _selected(request, ChangeSelection), self._sees_change(caller)
        )
        return _endless(batches, after)

    def _sees_change(self, caller: Caller) -> Callable[[FeedEvent], Awaitable[bool]]:
        async def sees(change: FeedEvent) -> bool:
            return caller.may(right_of(change)) and await self._audience.sees_run(caller, change.run_id)

        return sees

    def _sees(self, caller: Caller) -> Callable[[FeedEvent], Awaitable[bool]]:
        async def sees(event: FeedEvent) -> bool:
            if not caller.may(event.right):
                return False
            if event.run_id is not None or event.right != "events.read":
                return await self._audience.sees_run(caller, event.run_id)
            row = await asyncio.to_thread(self._store.event, caller.workspace, event.id)
            return row is not None and await self._audience.sees_event(caller, row)

        return sees


def _endless(batches: AsyncGenerator[list[StreamRecord]], after: int | None) -> EventStream:
    """The head waits for the first batch: an event that the reader causes after the head is in the stream."""
    return EventStream(
        batches, held=True, last_type=None, last_word=lambda seen: gap((seen or after or 0) + 1, None, REVOKED)
    )


S = TypeVar("S", bound=Selection)


def _after(request: Request) -> int | None:
    last = request.headers.get("last-event-id") or request.query_params.get("after")
    return parse_place(last).seq if last else None


def _selected(request: Request, kind: type[S]) -> S:
    query = request.query_params
    return kind(
        types=frozenset(name for name in query.get("types", "").split(",") if name) or None,
        agents=_one(query.get("agent")),
        conversations=_one(query.get("conversation")),
        sources=_one(query.get("source")),
    )


def _one(value: str | None) -> frozenset[str] | None:
    return None if value is None else frozenset({value})
