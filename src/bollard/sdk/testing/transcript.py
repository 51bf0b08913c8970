"""History and events of the in-memory host: pages with opaque cursors, and search. Items of a page are oldest first."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from bollard import protocol
from bollard.protocol import Shape, limits
from bollard.sdk.errors import api_failure
from bollard.sdk.testing.models import overlap

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


class Transcript:
    """The messages of one conversation."""

    def __init__(self, entries: Iterable[HistoryEntry], conversation_id: str) -> None:
        self.conversation_id = conversation_id
        self.items: list[protocol.TranscriptItem] = []
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
            total_count=len(self.items),
        )

    def search(self, request: protocol.HistorySearch) -> protocol.HistorySearchResult:
        """Items that share words with the query, best first."""
        wanted: Mapping[str, Any] = request.filters or {}
        scored = [
            (overlap(request.query, item.content or ""), item)
            for item in self.items
            if all(getattr(item, name, item.metadata.get(name)) == value for name, value in wanted.items())
        ]
        hits = [item for score, item in sorted(scored, key=lambda pair: -pair[0]) if score > 0]
        return protocol.HistorySearchResult(
            items=tuple(hits[: request.top_k]), total_count=len(hits), query=request.query
        )


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

    def get(self, event_id: str) -> protocol.AgentEventRecord:
        for event in self.items:
            if event.event_id == event_id:
                return event
        raise api_failure("not_found", f"no event {event_id}")

    def page(self, request: protocol.EventsPage) -> protocol.EventPage:
        """The newest events before the cursor."""
        api = "events.page"
        before = position_of(api, "before", request.before) if request.before is not None else len(self.items) + 1
        earlier = self.items[: before - 1]
        items = _fit_page(earlier[-request.limit :], newest=True)
        has_more = len(items) < len(earlier)
        return protocol.EventPage(
            items=tuple(items),
            next_cursor=items[0].cursor if has_more else None,
            has_more=has_more,
            total_count=len(self.items),
        )
