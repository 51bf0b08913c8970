"""Shares of the queue: one conversation, one caller or one agent cannot fill it for all others."""

import asyncio
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.errors import Overloaded
from bollard.host.limits import QUEUED_RUNS, QUEUED_RUNS_OF_AGENT, QUEUED_RUNS_OF_CALLER, QUEUED_RUNS_OF_CONVERSATION
from bollard.host.runs.backlog import QueueLimits
from bollard.host.store.store import Store

LIMITS = QueueLimits(conversation=2, caller=3, agent=4)


async def _refused(room: Any, **fields: Any) -> Overloaded:
    event = room.event("hello", **fields)
    preview = room.stage.intake.preview(event, "parrot")
    with pytest.raises(Overloaded) as refusal:
        await room.accept(event)
    said = (refusal.value.code, refusal.value.message, refusal.value.hint, refusal.value.details)
    assert preview.refused is not None
    assert (preview.refused.code, preview.refused.message, preview.refused.hint, preview.refused.details) == said
    return refusal.value


async def test_a_busy_conversation_fills_only_its_own_share(store: Store, rooms: Any) -> None:
    room = await rooms(store, "queue", queue=LIMITS)
    begun = await room.begin()  # no run waits yet
    for _ in range(2):
        await room.say("more")
    refusal = await _refused(room)
    assert refusal.details == {
        "reason": "conversation_share_full",
        "share": "conversation",
        "limit": 2,
        "retry_after_s": 5.0,
    }
    assert "conversation" in refusal.message
    assert refusal.hint
    elsewhere = await room.say("hello", conversation="elsewhere")
    assert elsewhere.run_id in room.stage.dispatcher.live
    await room.answer(begun)
    await room.until(lambda: room.stage.dispatcher.backlog.size == 1)
    assert (await room.say("more")).run_id, "its share has room again"


async def test_each_caller_and_each_agent_has_its_own_share(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store, "queue", queue=LIMITS, runs_at_once=1)
    room.stage.agent(agent_id="other", runner_id="plugin:acme/parrot/other")
    await room.begin()
    for number in range(3):
        await room.say("hello", conversation=f"c{number}", caller="key:1")
    refusal = await _refused(room, conversation="new", caller="key:1")
    assert (refusal.details["share"], refusal.details["limit"]) == ("caller", 3)
    await room.say("hello", conversation="new", caller="key:2")
    refusal = await _refused(room, conversation="newer", caller="key:3")
    assert (refusal.details["share"], refusal.details["limit"]) == ("agent", 4)
    other = await room.stage.intake.accept(room.event("hi", conversation="newer", caller="key:3"), "other")
    assert other.run_id is not None
    assert room.stage.dispatcher.backlog.shares.largest() == {"conversation": 1, "caller": 3, "agent": 4}


async def test_messages_being_written_count(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store, "queue", queue=LIMITS)
    await room.begin()
    room.turnstile.lock()
    saying = [room.saying("at once") for _ in range(6)]
    await room.turnstile.arrival()
    room.turnstile.unlock()
    outcomes = await asyncio.gather(*saying, return_exceptions=True)
    assert sum(isinstance(outcome, Overloaded) for outcome in outcomes) == 4
    assert room.stage.dispatcher.backlog.size == 2


async def test_a_cancelled_or_unwritten_run_frees_its_share(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store, "queue", queue=LIMITS)
    await room.begin()
    room.turnstile.broken = True
    for _ in range(3):
        with pytest.raises(Exception, match="refused on purpose"):
            await room.say("lost")
    room.turnstile.broken = False
    waiting = [await room.say("kept") for _ in range(2)]
    await _refused(room)
    for accepted in waiting:
        assert await room.stage.dispatcher.cancel(accepted.run_id, "cancelled")
    assert room.stage.dispatcher.backlog.shares.largest() == {"conversation": 0, "caller": 0, "agent": 0}


async def test_shares_survive_a_restart(store: Store, rooms: Any, clock: ManualClock) -> None:
    first = await rooms(store, "queue", queue=LIMITS)
    await first.begin()
    for _ in range(2):
        await first.say("before", caller="key:1")
    await first.say("first of its own", caller="key:1", conversation="elsewhere")
    await first.say("waits", caller="key:1", conversation="elsewhere")
    counts = first.stage.dispatcher.backlog.shares.largest()
    assert counts == {"conversation": 2, "caller": 3, "agent": 3}
    await first.die()
    room = await rooms(store, "queue", incarnation="i2", queue=LIMITS, runs_at_once=0)
    await room.stage.core.startup_recovery.run()
    await room.until(lambda: room.stage.dispatcher.backlog.size >= 3)
    assert room.stage.dispatcher.backlog.shares.largest() == counts
    assert (await _refused(room, caller="key:2")).details["share"] == "conversation"
    assert (await _refused(room, caller="key:1", conversation="new")).details["share"] == "caller"


async def test_threads_share_the_place_of_their_conversation(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store, "queue", queue=LIMITS)
    for thread in ("t1", "t2"):
        await room.say("hello", thread=thread)
        await room.say("more", thread=thread)
    refusal = await _refused(room, thread="t1")
    assert (refusal.details["share"], refusal.details["limit"]) == ("conversation", 2)
    assert (await room.say("hello", thread="t3")).run_id in room.stage.dispatcher.live, "a free thread waits for nobody"


def test_no_share_can_fill_the_next_larger_share() -> None:
    assert QUEUED_RUNS_OF_CONVERSATION < QUEUED_RUNS_OF_CALLER < QUEUED_RUNS_OF_AGENT < QUEUED_RUNS
