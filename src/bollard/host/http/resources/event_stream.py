"""`/events/stream`: the events of a workspace as they come, for dashboards and for programs of other platforms."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp

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
_QUERY: Final = (
    QueryField(name="after", summary="The id of the last received event, `1.seq`.", most=16, example="1.140"),
    QueryField(
        name="types", summary="Only these types, separated by commas.", most=_NAMES, example="run.completed,run.failed"
    ),
    QueryField(name="agent", summary="Only events of runs of this agent.", most=64, example="parrot"),
    QueryField(name="conversation", summary="Only events of this conversation.", example="support-7"),
    QueryField(name="source", summary="Only events of this source.", example="ci"),
)


class EventStreamRoutes(DeclaredResource):
    """Streams events to callers that may see them."""

    tag = "events"

    def __init__(self, streams: EventStreams, store: Store, audience: Audience) -> None:
        self._streams = streams
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
        headers=(
            HeaderField(
                name="Last-Event-ID", summary="The last received id; the stream continues after it.", example="1.140"
            ),
        ),
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
        caller, query = caller_of(request), request.query_params
        last = request.headers.get("last-event-id") or query.get("after")
        after = parse_place(last).seq if last else None
        types = [name for name in query.get("types", "").split(",") if name]
        selection = Selection(
            types=frozenset(types) or None,
            agents=_one(query.get("agent")),
            conversations=_one(query.get("conversation")),
            sources=_one(query.get("source")),
        )
        batches = self._streams.read(caller.workspace, after, selection, self._sees(caller))
        return EventStream(batches, last_type=None, last_word=lambda seen: gap((seen or after or 0) + 1, None, REVOKED))

    def _sees(self, caller: Caller) -> Callable[[FeedEvent], Awaitable[bool]]:
        async def sees(event: FeedEvent) -> bool:
            if not caller.may(event.right):
                return False
            if event.run_id is not None or event.right != "events.read":
                return await self._audience.sees_run(caller, event.run_id)
            row = await asyncio.to_thread(self._store.event, caller.workspace, event.id)
            return row is not None and await self._audience.sees_event(caller, row)

        return sees


def _one(value: str | None) -> frozenset[str] | None:
    return None if value is None else frozenset({value})
