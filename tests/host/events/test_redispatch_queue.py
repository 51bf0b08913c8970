"""Messages that a run did not read while their agent was gone: they wait for the agent in order, or are dropped."""

import asyncio
from typing import Any

import pytest
from tests.doubles.memory_store import MemoryStore

from bollard.host.agents.lanes import lane_of
from bollard.host.events.acceptance import read_rejection
from bollard.host.log.records import data_of
from bollard.host.store.store import Store

RUNNER = "plugin:acme/parrot/default"


async def given_back(room: Any, *texts: str) -> list[Any]:
    """Messages that a run claimed, and gave back when its agent was gone."""
    run = await room.begin()
    accepted = [await room.say(text) for text in texts]
    assert all(each.steered for each in accepted)
    room.stage.agents.withdraw(RUNNER)
    await room.answer(run)
    await room.until(lambda: {room.row(each).dispatch for each in accepted} == {"pending"})
    return accepted


@pytest.mark.requirement("P09-04")
async def test_messages_returned_without_an_agent_are_dispatched_in_order_later(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    await given_back(room, "first", "second")
    room.agent()
    newer = await room.say("newer", "bob")
    assert newer.run_id is not None
    assert await room.answer_all(after=1) == ["first", "second", "newer"]
    room.check()


async def test_messages_wait_for_a_saved_agent_while_its_runner_is_away(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    room.stage.intake.redispatch_queue.patience_s = 0.0
    room.stage.agents.save(room.stage.agents.get("parrot"))
    [accepted] = await given_back(room, "first")
    room.stage.agents.stir()
    lane = lane_of("parrot", room.event("the same place").scope)
    waiting = asyncio.create_task(room.stage.intake.redispatch_queue.settled(lane))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert room.row(accepted).dispatch == "pending"
    room.agent()
    await waiting
    assert await room.answer_all(after=1) == ["first"]
    room.check()


async def test_messages_of_a_removed_agent_are_dropped_with_a_record(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    room.stage.intake.redispatch_queue.patience_s = 0.0
    run = await room.begin()
    event = room.event("first")
    accepted = await room.accept(event)
    room.stage.agents.withdraw(RUNNER)
    await room.answer(run)
    await room.until(lambda: room.row(accepted).dispatch == "dropped")
    [dropped] = [row for row in store.records(0, 100) if row.type == "event.dropped"]
    assert data_of(dropped) == {"event_id": accepted.event_id, "reason": "no_agent", "agent_id": "parrot"}
    reason = read_rejection(store, room.row(accepted))
    assert reason is not None
    assert (reason.code, reason.message) == (
        "not_taken",
        "the event waited for a run of agent 'parrot' and was dropped",
    )
    room.agent()
    again = await room.accept(event)
    assert (again.event_id, again.run_id, again.first) == (accepted.event_id, None, False)
    assert again.reason == reason
