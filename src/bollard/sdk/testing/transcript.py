"""History and events of the in-memory host: pages with opaque cursors, and search. Items of a page are oldest first."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from bollard import protocol
from bollard.protocol import JsonObject, JsonValue, Shape, limits
from bollard.sdk.errors import api_failure
from bollard.sdk.testing.models import overlap
from bollard.sdk.testing.occasion import WORKSPACE_ID

HistoryEntry = str | tuple[str, str] | protocol.Message | protocol.TranscriptItem
"""A text of the user; `(role, text)`; a message; or a whole item."""

T = TypeVar("T", protocol.TranscriptItem, protocol.AgentEventRecord)


def text_of(content: str | Sequence[Any] | None) -> str:
    """The text of a message's content."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(getattr(element, "text", "") for element in content)


def cursor_at(api: str, position: int) -> str:
    """An opaque cursor, good for one API only."""
    mark = hashlib.sha256(f"{api}:{position}".encode()).hexdigest()[:12]
    return f"{position}.{mark}"


def position_of(api: str, field: str, cursor: str) -> int:
    """Return the position of a cursor. Raises `invalid_argument` if it is not a cursor of this API."""
    number = cursor.partition(".")[0]
    if not number.isdecimal() or cursor_at(api, int(number)) != cursor:
        raise api_failure("invalid_argument", f"{field}: is no cursor of {api}", {"field": field})
    return int(number)


def _fit_page(items: Sequence[T], *, newest: bool) -> list[T]:
    """Return as many items as fit into a page, from the newest or the oldest end."""
    kept: list[T] = []
    size = 0
    for item in reversed(items) if newest else items:
        size += _size(item)
        if kept and size > limits.PAGE_BYTES:
            break
        kept.append(item)
    return kept[::-1] if newest else kept


def _size(item: Shape) -> int:
    return len(item.model_dump_json().encode()) + 1


@dataclass(frozen=True, slots=True)
class Origin:
    """The event that a message belongs to. The defaults are those of scripted history."""

    event_type: str = "message.received"
    actor_type: str | None = "user"
    actor_id: str | None = "user-1"


class Transcript:
    """The messages of one conversation."""

    def __init__(self, entries: Iterable[HistoryEntry], conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self.items: list[protocol.TranscriptItem] = []
        self.origins: dict[str, Origin] = {}
        """By event, for messages of runs."""
        for entry in entries:
            self.add(entry)

    def add(self, entry: HistoryEntry) -> None:
        """One more message, at the end."""
        seq = len(self.items) + 1
        given: dict[str, Any] = {"cursor": cursor_at("history.page", seq), "seq": seq}
        if isinstance(entry, protocol.TranscriptItem):
            self.items.append(entry.model_copy(update=given))
            return
        if isinstance(entry, str):
            entry = ("user", entry)
        if isinstance(entry, protocol.Message):
            role, text = entry.role, text_of(entry.content)
            given["content_json"] = entry.to_wire()
            given["artifact_refs"] = entry.artifact_refs or ()
        else:
            role, text = entry
        self.items.append(
            protocol.TranscriptItem(
                transcript_id=f"transcript-{seq}",
                event_id=f"history-event-{seq}",
                conversation_id=self.conversation_id,
                role=role,
                content=text,
                **given,
            )
        )

    def receive(self, message: protocol.AgentRunContext | protocol.SteeringInputItem, at: float | None) -> None:
        """Add the message of a run, as a host does before the run starts, or a message into a run."""
        actor, event, given = message.actor, message.event, message.input
        scripted = any(item.event_id == event.event_id for item in self.items)
        if message.conversation is None or scripted or (given.text is None and not given.contents):
            return
        self.origins[event.event_id] = Origin(
            event.event_type, actor.actor_type if actor else None, actor.actor_id if actor else None
        )
        self._say(event.event_id, "user", given.text, at)

    def answer(self, context: protocol.AgentRunContext, texts: Iterable[str], at: float) -> None:
        """Add the completed messages of a run whose message was added."""
        event_id = context.event.event_id
        if event_id not in self.origins:
            return
        for text in texts:
            self._say(event_id, "assistant", text, at)

    def _say(self, event_id: str, role: str, text: str | None, at: float | None) -> None:
        self.add(
            protocol.TranscriptItem(
                transcript_id=f"transcript-{len(self.items) + 1}",
                event_id=event_id,
                conversation_id=self.conversation_id,
                role=role,
                content=text,
                created_at=at,
            )
        )

    def page(self, request: protocol.HistoryPageQuery) -> protocol.HistoryPage:
        """Items between the cursors, from the newest end, or from the oldest with `forward`."""
        if request.conversation_id not in (None, self.conversation_id):
            raise api_failure("not_found", f"no conversation {request.conversation_id}")
        api = "history.page"
        after = position_of(api, "after", request.after) if request.after is not None else 0
        before = position_of(api, "before", request.before) if request.before is not None else len(self.items) + 1
        between = self.items[after : max(after, before - 1)]
        backward = request.direction == "backward"
        wanted = between[-request.limit :] if backward else between[: request.limit]
        items = _fit_page(wanted, newest=backward)
        if not request.include_artifacts:
            items = [item.model_copy(update={"artifact_refs": ()}) for item in items]
        ends = (items[0].cursor, items[-1].cursor) if items else (None, None)
        has_more = len(items) < len(between)
        return protocol.HistoryPage(
            items=tuple(items),
            next_cursor=(ends[0] if backward else ends[1]) if has_more else None,
            prev_cursor=ends[1] if backward else ends[0],
            has_more=has_more,
        )

    def search(self, request: protocol.HistorySearch) -> protocol.HistorySearchResult:
        """Items that contain every word of the query, newest first."""
        filters = _filters(request)
        if filters.conversation_id not in (None, self.conversation_id):
            raise api_failure("not_found", f"no conversation {filters.conversation_id}")
        found = [
            item
            for item in reversed(self.items)
            if self._matches(item, filters) and overlap(request.query, item.content or "") == 1.0
        ]
        return protocol.HistorySearchResult(items=tuple(found[: request.top_k]), query=request.query)

    def _matches(self, item: protocol.TranscriptItem, filters: protocol.HistoryFilters) -> bool:
        origin = self.origins.get(item.event_id, Origin())
        sender = (origin.actor_type, origin.actor_id) if item.role == "user" else (None, None)
        return (
            filters.role in (None, item.role)
            and (filters.event_types is None or origin.event_type in filters.event_types)
            and filters.actor_type in (None, sender[0])
            and filters.actor_id in (None, sender[1])
            and (filters.before is None or (item.created_at or 0) < filters.before)
            and (filters.after is None or (item.created_at or 0) > filters.after)
        )


def _filters(request: protocol.HistorySearch) -> protocol.HistoryFilters:
    try:
        return protocol.HistoryFilters.from_wire(request.filters or {})
    except ValidationError as error:
        field, problem = protocol.first_problem(error)
        raise api_failure("invalid_argument", f"filters.{field}: {problem}", {"field": f"filters.{field}"}) from error


class Events:
    """The events of one conversation."""

    def __init__(self, events: Iterable[protocol.AgentEventRecord]) -> None:
        self.items: list[protocol.AgentEventRecord] = []
        for event in events:
            self.add(event)

    def add(self, event: protocol.AgentEventRecord) -> None:
        """One more event, at the end."""
        seq = len(self.items) + 1
        self.items.append(event.model_copy(update={"seq": seq, "cursor": cursor_at("events.page", seq)}))

    def add_fact(self, context: protocol.AgentRunContext, event_type: str, at: float, **said: JsonValue) -> None:
        """A fact of a run: the end of a tool call, a step of steering, or a failure. It has names, ids and codes."""
        place = context.conversation or protocol.ConversationContext(workspace_id=WORKSPACE_ID)
        self.add(
            protocol.AgentEventRecord(
                event_id=f"fact_{len(self.items) + 1}",
                event_type=event_type,
                source="bollard:events",
                bot_id=place.bot_id,
                workspace_id=place.workspace_id,
                conversation_id=place.conversation_id,
                thread_id=place.thread_id,
                created_at=at,
                metadata={"run_id": context.run_id, **{name: value for name, value in said.items() if value}},
            )
        )

    def mark(self, event_id: str, mark: JsonObject) -> None:
        """Write how an active run claimed a message."""
        self.items = [
            item.model_copy(update={"metadata": {**item.metadata, "steering": mark}})
            if item.event_id == event_id
            else item
            for item in self.items
        ]

    def get(self, event_id: str, context: protocol.AgentRunContext) -> protocol.AgentEventRecord:
        for event in self._seen(context):
            if event.event_id == event_id:
                return event
        raise api_failure("not_found", f"no event {event_id}")

    def page(self, request: protocol.EventsPage, context: protocol.AgentRunContext) -> protocol.EventPage:
        """The newest events before the cursor."""
        api = "events.page"
        before = position_of(api, "before", request.before) if request.before is not None else len(self.items) + 1
        earlier = [each for each in self._seen(context) if (each.seq or 0) < before]
        items = _fit_page(earlier[-request.limit :], newest=True)
        has_more = len(items) < len(earlier)
        return protocol.EventPage(
            items=tuple(items), next_cursor=items[0].cursor if has_more else None, has_more=has_more
        )

    def _seen(self, context: protocol.AgentRunContext) -> list[protocol.AgentEventRecord]:
        """The events that a run may read. Without a conversation, those are its own event and its own facts."""
        if context.conversation is not None:
            return self.items
        own = (context.event.event_id, context.run_id)
        return [each for each in self.items if each.event_id == own[0] or each.metadata.get("run_id") == own[1]]
