"""Rooms: the conversations of a channel as the channel names them, and which conversation of the host each has now.

A room begins a new conversation on request, or after a time without messages. The earlier conversation stays readable
under its own id: the name of the room, and a number from the second conversation on (`Room.conversation`). A room
without a new conversation and without a chosen agent is not stored.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

import msgspec

from bollard.host.channels.channel import SavedChannel
from bollard.host.clock import Clock
from bollard.host.limits import ROOMS_IN_MEMORY
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.runs.event import NewEvent
from bollard.host.store.queries import TranscriptQuery
from bollard.host.store.rows import KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.wire import encode

_KIND: Final = "room"
_NUMBERED: Final = re.compile(r"#[0-9]+\Z")
_Key = tuple[str, str]
"""Workspace and the digest of channel, bot and conversation."""


class Room(msgspec.Struct, frozen=True, omit_defaults=True):
    """The present of one room."""

    number: int = 1
    """Which conversation of the room this is."""
    agent: str | None = None
    """The agent that people chose for the room."""

    def conversation(self, name: str) -> str:
        """The id of the present conversation of the room with this name. No other room has the same: a name that looks
        like such an id has its number from the first conversation on."""
        return name if self.number == 1 and _NUMBERED.search(name) is None else f"{name}#{self.number}"

    def chosen(self, channel: SavedChannel) -> str | None:
        """The chosen agent, while the channel lists it."""
        return self.agent if self.agent in channel.agents else None


@dataclass(slots=True)
class _Known:
    room: Room
    last_ms: int | None = None
    """When the last message came, since the start of the host."""


class Rooms:
    """The rooms of every channel."""

    def __init__(self, journal: Journal, store: Store, clock: Clock) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._known: OrderedDict[_Key, _Known] = OrderedDict()
        self._changing = asyncio.Lock()

    async def enter(self, channel: SavedChannel, event: NewEvent) -> tuple[NewEvent, str | None]:
        """The event in the present conversation of its room, and the chosen agent. A message after the idle time of the
        channel begins a new conversation."""
        name = event.scope.conversation
        if name is None:
            return event, None
        async with self._changing:
            key = _key(event)
            known = await self._find(key)
            placed = _placed(event, known.room.conversation(name))
            if event.is_spoken:
                if channel.idle_s is not None and await self._is_idle(known, placed, channel.idle_s):
                    known.room = await self._save(key, _renewed(known.room))
                    placed = _placed(event, known.room.conversation(name))
                known.last_ms = self._clock.now_ms()
            return placed, known.room.chosen(channel)

    async def placed(self, event: NewEvent) -> NewEvent:
        """The event in the present conversation of its room."""
        name = event.scope.conversation
        return event if name is None else _placed(event, (await self.room(event)).conversation(name))

    async def room(self, event: NewEvent) -> Room:
        """The room of an event."""
        async with self._changing:
            return (await self._find(_key(event))).room

    async def renew(self, event: NewEvent) -> Room:
        """Begin a new conversation in the room of this event."""
        return await self._change(event, _renewed)

    async def choose(self, event: NewEvent, agent_id: str | None) -> Room:
        """Choose the agent of the room; `None` leaves the choice to the bindings."""
        return await self._change(event, lambda room: msgspec.structs.replace(room, agent=agent_id))

    async def _change(self, event: NewEvent, change: Callable[[Room], Room]) -> Room:
        async with self._changing:
            known = await self._find(_key(event))
            known.room = await self._save(_key(event), change(known.room))
            return known.room

    async def _find(self, key: _Key) -> _Known:
        known = self._known.pop(key, None)
        if known is None:
            row = await asyncio.to_thread(self._store.kept, _KIND, *key)
            known = _Known(Room() if row is None else msgspec.json.decode(row.body, type=Room))
        self._known[key] = known
        if len(self._known) > ROOMS_IN_MEMORY:
            self._known.popitem(last=False)
        return known

    async def _save(self, key: _Key, room: Room) -> Room:
        workspace, room_id = key
        row = KeptRow(
            kind=_KIND,
            workspace=workspace,
            id=room_id,
            body=msgspec.json.encode(room),
            expires_ms=None,
            updated_ms=self._clock.now_ms(),
        )
        await self._journal.commit(Entry(keeps=[PutKept(row)]))
        return room

    async def _is_idle(self, known: _Known, event: NewEvent, idle_s: float) -> bool:
        """Whether the last message of the conversation, of a person or of an agent, is older."""
        since_ms = self._clock.now_ms() - round(idle_s * 1000)
        if known.last_ms is not None and known.last_ms > since_ms:
            return False
        scope = event.scope
        query = TranscriptQuery(
            workspace=scope.workspace,
            bot=scope.bot,
            conversation=scope.conversation or "",
            thread=scope.thread,
            limit=1,
        )
        rows = await asyncio.to_thread(self._store.transcript, query)
        last = max((*(row.created_ms for row in rows), known.last_ms or 0))
        return 0 < last <= since_ms


def _renewed(room: Room) -> Room:
    return msgspec.structs.replace(room, number=room.number + 1)


def _key(event: NewEvent) -> _Key:
    identity = encode([event.source, event.scope.bot, event.room])
    return event.scope.workspace, sha256(identity).hexdigest()


def _placed(event: NewEvent, conversation: str) -> NewEvent:
    if conversation == event.scope.conversation:
        return event
    scope = msgspec.structs.replace(event.scope, conversation=conversation)
    facts = msgspec.structs.replace(event.facts, room=event.room)
    return replace(event, scope=scope, facts=facts, known=True)
