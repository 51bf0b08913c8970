"""`History`: the transcript of the conversation, page by page, as messages for a model.

Pages are read backward from the newest, as many as requested. The run's own message is left out, because it is the
input. A tool call comes with its result or not at all, because providers refuse anything else.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from bollard.protocol import ContentElement, Message, TextContent
from bollard.sdk.agent.media import history_content, reads_documents
from bollard.sdk.agent.tokens import count_message
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

PAGE_ITEMS: Final = 100
"""Messages of one page, the maximum of the protocol."""
NAME_CHARACTERS: Final = 60

_CONTENTS: Final[TypeAdapter[tuple[ContentElement, ...]]] = TypeAdapter(tuple[ContentElement, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptMessage:
    """One message of the transcript, with its position."""

    seq: int
    message: Message
    event_id: str = ""
    tokens: int = 0


@dataclass(slots=True)
class _People:
    """The actors of the events that were read."""

    by_event: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """By event id: the id of the person, and the name to show."""
    before: str | None = None
    oldest_seq: int | None = None
    ended: bool = False

    @property
    def several(self) -> bool:
        return len({person for person, _ in self.by_event.values()}) > 1


class History:
    """The transcript of one conversation, as one run reads it."""

    def __init__(self, ctx: RunContext[Any], *, vision: bool) -> None:
        self._ctx = ctx
        self._vision = vision
        self._ids = reads_documents(ctx)
        self._people = _People()
        self.own_seq: int | None = None
        """The position of the run's own message, once it was read. Nothing from there on may be summarised: later
        messages may be waiting for runs of their own."""
        self._before: str | None = None
        access = ctx.access
        self.ended = not (access.available_apis.history_page and access.conversation_id and access.has_history_before)
        """Whether the oldest message was read."""
        if ctx.actor is not None and ctx.actor.actor_id:
            person = (ctx.actor.actor_id, _shown_name(ctx.actor.actor_name, ctx.actor.actor_id))
            self._people.by_event[ctx.event.event_id] = person

    @property
    def several_people(self) -> bool:
        """Whether the pages so far have messages of several people."""
        return self._people.several

    def name_of(self, event_id: str) -> str | None:
        """The name of the actor of an event, if it is known."""
        known = self._people.by_event.get(event_id)
        return None if known is None else known[1]

    async def older(self) -> list[TranscriptMessage]:
        """The next older page, oldest message first. Empty if there is none; then `ended` is true."""
        if self.ended:
            return []
        first = self._before is None
        page, _ = await asyncio.gather(self._page("backward", self._before), self._load_people(needed=first))
        if page is None:
            self.ended = True
            return []
        items, more = page
        self._before, self.ended = more, more is None
        if self._people.several and items:
            while not self._people.ended and (self._people.oldest_seq or 0) > items[0].seq:
                await self._load_people(needed=True)
        return items

    async def from_start(self, after: str | None) -> tuple[list[TranscriptMessage], str | None]:
        """A page forward, from the oldest message on, and the cursor of the next page."""
        page = await self._page("forward", after)
        return ([], None) if page is None else page

    async def _page(
        self, direction: Literal["backward", "forward"], cursor: str | None
    ) -> tuple[list[TranscriptMessage], str | None] | None:
        ends = {"before": cursor} if direction == "backward" else {"after": cursor}
        try:
            page = await self._ctx.api.history.page(
                limit=PAGE_ITEMS, direction=direction, include_artifacts=True, **ends
            )
        except AgentAPIException as error:
            self._ctx.log("the history could not be read", "warning", code=error.code)
            return None
        found: list[TranscriptMessage] = []
        for item in page.items:
            if item.event_id == self._ctx.event.event_id and item.role == "user":
                self.own_seq = item.seq
                continue
            message = self._read(item)
            if message is not None:
                found.append(message)
        return found, page.next_cursor if page.has_more else None

    def _read(self, item: Any) -> TranscriptMessage | None:
        """A transcript item as a message; `None` if it has no content for a model."""
        if item.item_type != "message" or item.seq is None or item.role not in ("user", "assistant", "tool"):
            return None
        if item.role == "user" and self.own_seq is not None and item.seq > self.own_seq:
            return None  # later than the message of this run, and answered by a run of its own
        message = _message_of(item)
        if message is None:
            return None
        content = history_content(message.content, item.artifact_refs, vision=self._vision, ids=self._ids)
        if item.metadata.get("shortened") is True and isinstance(content, str):
            content += " …"
        if not content and not message.tool_calls:
            return None
        bare = Message(
            role=message.role, content=content, tool_calls=message.tool_calls, tool_call_id=message.tool_call_id
        )
        return TranscriptMessage(seq=item.seq, message=bare, event_id=item.event_id, tokens=count_message(bare))

    async def _load_people(self, *, needed: bool) -> None:
        """Read the actors of the next older events."""
        people = self._people
        if not needed or people.ended or not self._ctx.access.available_apis.event_page:
            people.ended = people.ended or needed
            return
        try:
            page = await self._ctx.api.events.page(before=people.before, limit=PAGE_ITEMS)
        except AgentAPIException as error:
            self._ctx.log("the authors of earlier messages could not be read", "warning", code=error.code)
            people.ended = True
            return
        for event in page.items:
            if event.actor_id:
                person = (event.actor_id, _shown_name(event.actor_name, event.actor_id))
                people.by_event.setdefault(event.event_id, person)
            if event.seq is not None:
                people.oldest_seq = min(people.oldest_seq or event.seq, event.seq)
        people.before, people.ended = page.next_cursor, page.next_cursor is None

    def with_names(self, transcript: Iterable[TranscriptMessage]) -> list[TranscriptMessage]:
        """The messages with the names of their authors, if there are several people."""
        if not self._people.several:
            return list(transcript)
        found: list[TranscriptMessage] = []
        for each in transcript:
            name = self.name_of(each.event_id) if each.message.role == "user" else None
            message = each.message if name is None else with_name(each.message, name)
            found.append(replace(each, message=message, tokens=count_message(message)))
        return found


def with_name(message: Message, name: str) -> Message:
    """The message with the name of its author in its text: providers restrict the field `name`."""
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{name}: {content}"})
    return message.model_copy(update={"content": (TextContent(text=f"{name}:"), *content)})


def pair_calls(transcript: Sequence[TranscriptMessage]) -> list[TranscriptMessage]:
    """The messages with each tool result right behind its call, and no call or result alone. Messages of people in
    between come after the results."""
    found: list[TranscriptMessage] = []
    for at, each in enumerate(transcript):
        if each.message.role == "tool":
            continue  # it is added behind its call, or has none
        calls = each.message.tool_calls or ()
        answers = _answers(transcript, at, [call.id for call in calls])
        if answers is not None:
            found += [each, *answers]
        elif each.message.content:
            found.append(replace(each, message=each.message.model_copy(update={"tool_calls": None})))
    return found


def _answers(transcript: Sequence[TranscriptMessage], at: int, calls: Sequence[str]) -> list[TranscriptMessage] | None:
    """The results of the calls of one message, in their order; `None` if one is missing. Results without ids are in the
    order of the calls."""
    later: list[TranscriptMessage] = []
    for each in transcript[at + 1 :] if calls else ():
        if each.message.role == "assistant":
            break
        if each.message.role == "tool":
            later.append(each)
    if later and all(each.message.tool_call_id is None for each in later):
        if len(later) != len(calls):
            return None
        return [
            replace(each, message=each.message.model_copy(update={"tool_call_id": call}))
            for call, each in zip(calls, later, strict=True)
        ]
    known = {each.message.tool_call_id: each for each in reversed(later)}
    return [known[call] for call in calls] if all(call in known for call in calls) else None


def text_of(message: Message) -> str:
    """The text of a message."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(str(getattr(part, "text", "")) for part in message.content if getattr(part, "text", ""))


def _message_of(item: Any) -> Message | None:
    """The message of an item, from its JSON or its text."""
    kept = item.content_json
    try:
        if isinstance(kept, dict):
            return Message.model_validate({**kept, "role": item.role})
        if isinstance(kept, list):
            contents = _CONTENTS.validate_python(kept)
            text = "".join(getattr(part, "text", "") for part in contents)
            if item.content and item.content.strip() != text.strip():
                contents = (TextContent(text=item.content), *contents)
            return Message(role=item.role, content=contents)
    except ValidationError:
        pass  # written by another runner in another shape; its text is used
    return None if item.content is None else Message(role=item.role, content=item.content)


def _shown_name(name: str | None, person: str) -> str:
    return " ".join((name or person).replace(":", " ").split())[:NAME_CHARACTERS] or "somebody"
