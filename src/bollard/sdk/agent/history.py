"""What was said before, page by page, as messages for a model.

Pages are pulled backward from the newest, and only as many as somebody wants. The run's own message is left out: it is
the input. Tool calls and their answers come in pairs or not at all, because providers refuse anything else.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from bollard.protocol import ContentElement, Message, TextContent
from bollard.sdk.agent.media import remembered_content
from bollard.sdk.agent.tokens import count_message
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

PAGE_ITEMS: Final = 100
"""Messages of one page: what the protocol allows."""
NAME_CHARACTERS: Final = 60

_CONTENTS: Final[TypeAdapter[tuple[ContentElement, ...]]] = TypeAdapter(tuple[ContentElement, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of the transcript."""

    seq: int
    message: Message
    event_id: str = ""
    tokens: int = 0


@dataclass(slots=True)
class _People:
    """Who caused which event, as far as anybody asked."""

    by_event: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Event id: the person's id, and the name to show."""
    before: str | None = None
    oldest_seq: int | None = None
    ended: bool = False

    @property
    def several(self) -> bool:
        return len({person for person, _ in self.by_event.values()}) > 1


class History:
    """The transcript of one run's conversation. Made for one run."""

    def __init__(self, ctx: RunContext[Any], *, vision: bool) -> None:
        self._ctx = ctx
        self._vision = vision
        self._people = _People()
        self.own_seq: int | None = None
        """Where the run's own message stands, as far as was read. Nothing from there on may be summarised: what follows
        may be waiting for its own run."""
        self._before: str | None = None
        access = ctx.access
        self.ended = not (access.available_apis.history_page and access.conversation_id and access.has_history_before)
        """Whether the beginning was reached."""
        if ctx.actor is not None and ctx.actor.actor_id:
            person = (ctx.actor.actor_id, _shown_name(ctx.actor.actor_name, ctx.actor.actor_id))
            self._people.by_event[ctx.event.event_id] = person

    @property
    def several_people(self) -> bool:
        """Whether more than one person spoke, as far as was read."""
        return self._people.several

    def name_of(self, event_id: str) -> str | None:
        """Who caused an event."""
        known = self._people.by_event.get(event_id)
        return None if known is None else known[1]

    async def older(self) -> list[Said]:
        """The next page backward, oldest first. Empty, with `ended`, when there is none."""
        if self.ended:
            return []
        first = self._before is None
        page, _ = await asyncio.gather(self._page("backward", self._before), self._meet(needed=first))
        if page is None:
            self.ended = True
            return []
        items, more = page
        self._before, self.ended = more, more is None
        if self._people.several and items:
            while not self._people.ended and (self._people.oldest_seq or 0) > items[0].seq:
                await self._meet(needed=True)
        return items

    async def from_start(self, after: str | None) -> tuple[list[Said], str | None]:
        """A page forward, from the oldest message on, and the cursor of the one behind it."""
        page = await self._page("forward", after)
        return ([], None) if page is None else page

    async def _page(
        self, direction: Literal["backward", "forward"], cursor: str | None
    ) -> tuple[list[Said], str | None] | None:
        ends = {"before": cursor} if direction == "backward" else {"after": cursor}
        try:
            page = await self._ctx.api.history.page(
                limit=PAGE_ITEMS, direction=direction, include_artifacts=True, **ends
            )
        except AgentAPIException as error:
            self._ctx.log("the history could not be read", "warning", code=error.code)
            return None
        found: list[Said] = []
        for item in page.items:
            if item.event_id == self._ctx.event.event_id and item.role == "user":
                self.own_seq = item.seq
                continue
            said = self._said(item)
            if said is not None:
                found.append(said)
        return found, page.next_cursor if page.has_more else None

    def _said(self, item: Any) -> Said | None:
        """An item as a message; nothing where there is nothing in it for a model."""
        if item.item_type != "message" or item.seq is None or item.role not in ("user", "assistant", "tool"):
            return None
        if item.role == "user" and self.own_seq is not None and item.seq > self.own_seq:
            return None  # said after the message of this run, and answered by a run of its own
        message = _message_of(item)
        if message is None:
            return None
        content = remembered_content(message.content, item.artifact_refs, vision=self._vision)
        if item.metadata.get("shortened") is True and isinstance(content, str):
            content += " …"
        if not content and not message.tool_calls:
            return None
        bare = Message(
            role=message.role, content=content, tool_calls=message.tool_calls, tool_call_id=message.tool_call_id
        )
        return Said(seq=item.seq, message=bare, event_id=item.event_id, tokens=count_message(bare))

    async def _meet(self, *, needed: bool) -> None:
        """Learn who caused the next older events."""
        people = self._people
        if not needed or people.ended or not self._ctx.access.available_apis.event_page:
            people.ended = people.ended or needed
            return
        try:
            page = await self._ctx.api.events.page(before=people.before, limit=PAGE_ITEMS)
        except AgentAPIException as error:
            self._ctx.log("it is not known who said what", "warning", code=error.code)
            people.ended = True
            return
        for event in page.items:
            if event.actor_id:
                person = (event.actor_id, _shown_name(event.actor_name, event.actor_id))
                people.by_event.setdefault(event.event_id, person)
            if event.seq is not None:
                people.oldest_seq = min(people.oldest_seq or event.seq, event.seq)
        people.before, people.ended = page.next_cursor, page.next_cursor is None

    def named(self, said: Iterable[Said]) -> list[Said]:
        """With who spoke, where several people did."""
        if not self._people.several:
            return list(said)
        found: list[Said] = []
        for each in said:
            name = self.name_of(each.event_id) if each.message.role == "user" else None
            message = each.message if name is None else with_name(each.message, name)
            found.append(replace(each, message=message, tokens=count_message(message)))
        return found


def with_name(message: Message, name: str) -> Message:
    """A message that says who wrote it. It is text: providers take names of few letters only."""
    content = message.content
    if isinstance(content, str):
        return message.model_copy(update={"content": f"{name}: {content}"})
    return message.model_copy(update={"content": (TextContent(text=f"{name}:"), *content)})


def paired(said: Sequence[Said]) -> list[Said]:
    """The same messages with every tool call answered right behind it, and no answer without its call. People may have
    spoken in between: their words come after."""
    found: list[Said] = []
    for at, each in enumerate(said):
        if each.message.role == "tool":
            continue  # it stands behind its call, or has none
        calls = each.message.tool_calls or ()
        answers = _answers(said, at, [call.id for call in calls])
        if answers is not None:
            found += [each, *answers]
        elif each.message.content:
            found.append(replace(each, message=each.message.model_copy(update={"tool_calls": None})))
    return found


def _answers(said: Sequence[Said], at: int, calls: Sequence[str]) -> list[Said] | None:
    """What came of the calls of one message, in their order; nothing where one of them has no answer. A transcript may
    have lost the ids of answers: those stand in the order of the calls."""
    later: list[Said] = []
    for each in said[at + 1 :] if calls else ():
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
    """The words of a message."""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(str(getattr(part, "text", "")) for part in message.content if getattr(part, "text", ""))


def _message_of(item: Any) -> Message | None:
    """A whole message, the contents of one, or text."""
    kept = item.content_json
    try:
        if isinstance(kept, dict):
            return Message.model_validate({**kept, "role": item.role})
        if isinstance(kept, list):
            contents = _CONTENTS.validate_python(kept)
            said = "".join(getattr(part, "text", "") for part in contents)
            if item.content and item.content.strip() != said.strip():
                contents = (TextContent(text=item.content), *contents)
            return Message(role=item.role, content=contents)
    except ValidationError:
        pass  # another runner may have kept what this one does not know; its text is still there
    return None if item.content is None else Message(role=item.role, content=item.content)


def _shown_name(name: str | None, person: str) -> str:
    return " ".join((name or person).replace(":", " ").split())[:NAME_CHARACTERS] or "somebody"
