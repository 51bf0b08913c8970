"""The turn in a conversation: queue, interrupt, reject and parallel, from the sender to the worker."""

import asyncio
from typing import Any

import pytest
from tests.doubles.memory_store import MemoryStore
from tests.simulation.invariants import conversation_problems

from bollard.host.errors import BudgetExceeded, Conflict, StorageUnavailable
from bollard.host.store.store import Store


@pytest.mark.requirement("P09-08")
async def test_queued_messages_run_one_after_another_in_arrival_order(store: Store, rooms: Any) -> None:
    room = await rooms(store, "queue")
    run = await room.begin()
    accepted = await asyncio.gather(*(room.say(f"message {number}", f"actor{number % 3}") for number in range(6)))
    assert [room.stage.row(each.run_id).status for each in accepted] == ["queued"] * 6
    await room.answer(run)
    assert await room.answer_all(after=1) == [f"message {number}" for number in range(6)]
    assert conversation_problems(store, {"parrot": "queue"}) == []
    room.check()


async def test_a_message_that_is_not_written_leaves_its_place_to_the_next(store: Store, rooms: Any) -> None:
    room = await rooms(store, "queue")
    run = await room.begin()
    room.turnstile.broken = True
    with pytest.raises(StorageUnavailable):
        await room.say("lost")
    room.turnstile.broken = False
    await room.say("kept")
    await room.answer(run)
    assert await room.answer_all(after=1) == ["kept"]


async def test_a_run_whose_turn_precedes_its_commit_starts_after_the_commit(store: Store, rooms: Any) -> None:
    room = await rooms(store, "queue")
    run = await room.begin()
    room.turnstile.lock()
    await room.last_word(run)
    room.worker.end.finish_run(run)
    await room.until(lambda: room.stage.dispatcher.live[run.run_id].ending)
    saying = room.saying("next")
    room.turnstile.unlock()
    await saying
    assert await room.answer_all(after=1) == ["next"]
    assert conversation_problems(store, {"parrot": "queue"}) == []


async def test_runs_that_wait_in_their_conversation_are_not_concurrent_runs_of_their_agent(
    store: Store, rooms: Any
) -> None:
    room = await rooms(store, "queue")
    room.agent("queue", runs_at_once=3)
    run = await room.begin()
    waiting = [await room.say(f"waits {number}") for number in range(4)]
    assert await room.stage.dispatcher.cancel(waiting.pop().run_id, "cancelled")

    beside = [await room.run_of(await room.say(there, conversation=there)) for there in ("hall", "porch")]
    with pytest.raises(BudgetExceeded, match="has 3 active runs; its limit is 3"):
        await room.say("one too many", conversation="yard")
    behind = await room.say("behind the others")

    await room.answer(run)  # the first that waits takes its place, so there is still none
    assert (await room.run_of(waiting[0])).run_id == waiting[0].run_id
    with pytest.raises(BudgetExceeded):
        await room.say("one too many", conversation="yard")
    await room.answer(beside[0])
    assert (await room.run_of(await room.say("now", conversation="yard"))).run_id
    assert room.stage.row(behind.run_id).status == "queued"


async def test_parallel_runs_of_one_conversation_count_as_concurrent_runs(store: Store, rooms: Any) -> None:
    room = await rooms(store, "parallel")
    room.agent("parallel", runs_at_once=2)
    first = await room.begin("one")
    await room.begin("two")
    with pytest.raises(BudgetExceeded):
        await room.say("three")
    await room.answer(first)
    await room.begin("three")


async def test_a_cancelled_queued_run_lets_the_next_one_start(store: Store, rooms: Any) -> None:
    room = await rooms(store, "queue")
    run = await room.begin()
    first, second = await room.say("stopped"), await room.say("goes on")
    assert await room.stage.dispatcher.cancel(first.run_id, "cancelled")
    assert room.stage.row(first.run_id).status == "cancelled"
    await room.answer(run)
    assert (await room.run_of(second)).run_id == second.run_id
    assert await room.answer_all(after=1) == ["goes on"]


async def test_a_queued_run_whose_cancel_fails_still_starts(store: Store, rooms: Any) -> None:
    room = await rooms(store, "queue")
    run = await room.begin()
    waits = await room.say("not stopped")
    await room.last_word(run)
    await room.until(lambda: "run.completed" in room.stage.types(run.run_id) and not room.stage.journal.waiting)
    room.turnstile.lock()
    room.worker.end.finish_run(run)
    await room.turnstile.arrival()  # the end of the first run is being written
    stopping = asyncio.create_task(room.stage.dispatcher.cancel(waits.run_id, "cancelled"))
    await room.until(lambda: room.stage.journal.waiting == 2)  # behind it the end of the second
    room.turnstile.let()
    await room.turnstile.arrival()
    await room.until(lambda: run.run_id not in room.stage.dispatcher.live)  # now it is the second one's turn
    room.turnstile.broken = True
    room.turnstile.unlock()
    with pytest.raises(StorageUnavailable):
        await stopping
    room.turnstile.broken = False
    assert (await room.run_of(waits)).run_id == waits.run_id
    assert await room.answer_all(after=1) == ["not stopped"]


async def test_a_run_cancelled_during_its_claim_is_cancelled(store: Store, rooms: Any) -> None:
    room = await rooms(store, "queue", runs_at_once=1)
    run = await room.begin()
    waits = await room.say("elsewhere", conversation="hall")  # its turn is now, and there is no room for it
    live = room.stage.dispatcher.live[run.run_id]
    live.done.add_done_callback(lambda _: room.turnstile.lock())
    await room.answer(run)
    await room.turnstile.arrival()  # it is being claimed
    stopping = asyncio.create_task(room.stage.dispatcher.cancel(waits.run_id, "cancelled"))
    await asyncio.sleep(0)
    room.turnstile.unlock()
    assert await stopping
    await room.stage.ended(waits.run_id)
    assert room.stage.row(waits.run_id).status == "cancelled"


# --- interrupt ---


@pytest.mark.requirement("P09-08")
async def test_a_newer_message_interrupts_the_run_and_starts_when_it_has_ended(store: Store, rooms: Any) -> None:
    room = await rooms(store, "interrupt")
    run = await room.begin()
    newer = await room.say("stop, do this")
    await room.worker.until(lambda: room.worker.cancels)
    assert room.worker.cancels == [(run.run_id, "cancelled")]
    assert room.stage.row(newer.run_id).status == "queued"
    await room.give_up(run)
    assert await room.answer_all(after=1) == ["stop, do this"]
    assert room.stage.row(run.run_id).status == "cancelled"
    assert conversation_problems(store, {"parrot": "interrupt"}) == []


async def test_a_message_interrupts_even_if_its_sender_disconnects(store: Store, rooms: Any) -> None:
    room = await rooms(store, "interrupt")
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("stop, do this")
    await room.turnstile.arrival()
    saying.cancel()
    await asyncio.gather(saying, return_exceptions=True)
    room.turnstile.unlock()
    await room.worker.until(lambda: room.worker.cancels)
    assert room.worker.cancels == [(run.run_id, "cancelled")]
    await room.give_up(run)
    assert await room.answer_all(after=1) == ["stop, do this"]


async def test_an_unwritten_message_interrupts_no_run(store: Store, rooms: Any) -> None:
    room = await rooms(store, "interrupt")
    run = await room.begin()
    room.turnstile.broken = True
    with pytest.raises(StorageUnavailable):
        await room.say("stop, do this")
    room.turnstile.broken = False
    await room.answer(run)
    assert room.worker.cancels == []
    assert room.stage.row(run.run_id).status == "completed"


# --- reject, parallel ---


@pytest.mark.requirement("P09-08")
async def test_a_rejecting_busy_agent_writes_no_event_and_recognises_duplicates(store: Store, rooms: Any) -> None:
    room = await rooms(store, "reject")
    event = room.event("begin")
    accepted = await room.accept(event)
    run = await room.run_of(accepted)
    before = len(store.events("default", None, 100))
    with pytest.raises(Conflict) as refused:
        await room.say("busy?")
    assert refused.value.hint
    assert len(store.events("default", None, 100)) == before
    assert (await room.accept(event)).run_id == accepted.run_id, "the same event again is no new message"
    await room.answer(run)
    assert (await room.say("free now")).first


@pytest.mark.requirement("P09-08")
async def test_parallel_runs_of_one_conversation_start_at_once(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store, "parallel")
    accepted = [await room.say(str(number)) for number in range(4)]
    assert not any(each.steered for each in accepted)
    await room.worker.until(lambda: len(room.worker.runs) == 4)


async def test_a_changed_agent_keeps_the_order_of_its_waiting_runs(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store, "queue")
    run = await room.begin()
    await room.say("first")
    room.agent("steer")
    await room.say("second")
    await room.answer(run)
    assert await room.answer_all(after=1) == ["first", "second"]
    room.check()
