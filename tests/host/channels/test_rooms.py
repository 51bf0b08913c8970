"""Rooms: a message after the idle time begins a new conversation, and the present of a room survives a restart."""

from collections.abc import Callable
from typing import Any

from tests.doubles.manual_clock import ManualClock

from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.rooms import Rooms
from bollard.host.events.acceptance import EventDeduplication, EventRejection
from bollard.host.log.journal import Journal
from bollard.host.runs.event import NewEvent
from bollard.host.scope import Scope
from bollard.host.store.store import Store

CHANNEL = SavedChannel(channel_id="room", idle_s=3600.0)


def message(number: int, conversation: str = "c", kind: str = "message.received") -> NewEvent:
    scope = Scope(workspace="default", conversation=conversation, actor_type="room", actor_id="ann")
    return NewEvent(source="room", source_id=str(number), event_type=kind, scope=scope, text="hello")


class House:
    """Rooms over a real store. A message that enters is on disk, as the intake would store it."""

    def __init__(self, store: Store, journal: Journal, clock: ManualClock) -> None:
        self.rooms = Rooms(journal, store, clock)
        self.number = 0
        self._told = EventDeduplication(journal, store, clock, maker_of_ids())

    async def says(self, **more: Any) -> str | None:
        self.number += 1
        event, _ = await self.rooms.enter(CHANNEL, message(self.number, **more))
        await self._told.drop(event, EventRejection(code="test", message="stored"))
        return event.scope.conversation


def maker_of_ids() -> Any:
    class Maker:
        made = 0

        def new_id(self) -> str:
            self.made += 1
            return str(self.made)

    return Maker()


async def test_a_message_after_the_idle_time_begins_a_new_conversation(
    sqlite_store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    house = House(sqlite_store, open_journal(sqlite_store), clock)
    assert await house.says() == "c"
    clock.advance(3599)
    assert await house.says() == "c"
    clock.advance(3601)
    assert await house.says(kind="member.joined") == "c"  # only a message begins one
    assert await house.says() == "c#2"
    assert await house.says(conversation="other") == "other"


async def test_no_room_gets_the_conversation_of_another_one(
    sqlite_store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    rooms = Rooms(open_journal(sqlite_store), sqlite_store, clock)
    names = ["c", "c#1", "c#2", "c#2#1", "c#x", "#7"]
    seen: list[str | None] = []
    for number in range(3):
        for name in names:
            entered, _ = await rooms.enter(CHANNEL, message(number, name))
            assert entered.room == name
            seen.append(entered.scope.conversation)
            await rooms.renew(message(number, name))
    assert seen[:6] == ["c", "c#1#1", "c#2#1", "c#2#1#1", "c#x", "#7#1"]
    assert len(set(seen)) == len(seen)


async def test_the_present_conversation_and_the_chosen_agent_survive_a_restart(
    sqlite_store: Store, open_journal: Callable[..., Journal], clock: ManualClock
) -> None:
    journal = open_journal(sqlite_store)
    rooms = Rooms(journal, sqlite_store, clock)
    await rooms.renew(message(1))
    await rooms.choose(message(1), "second")
    listed = CHANNEL.model_copy(update={"agents": ("second",)})
    again = Rooms(journal, sqlite_store, clock)
    entered, agent = await again.enter(listed, message(2))
    assert (entered.scope.conversation, entered.room, agent) == ("c#2", "c", "second")
    assert (await again.enter(CHANNEL, message(3)))[1] is None, "the channel does not list it any more"
    assert NewEvent.from_record(entered.record("evt_1", None), "default")[1] == entered
