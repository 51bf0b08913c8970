"""Runners that abandon a pull at any moment: no message is lost or delivered twice (§9)."""

import asyncio
import contextlib
from typing import Any

import pytest
from tests.doubles.memory_store import MemoryStore

from bollard.host.store.store import Store
from bollard.protocol import JsonObject
from bollard.wire import ChannelClosed, WireError, WorkerRun
from bollard.wire.peer import OutgoingCall

SPARE_TURNS = 3


def open_pull(run: WorkerRun) -> OutgoingCall:
    """A pull that the test abandons on demand."""
    body: JsonObject = {"run_id": run.run_id, "action": "steering.pull", "params": {"mode": "all"}}
    return run._peer.open_call("api/call", body, run._give_up)  # as `call` does it, without waiting


async def leave(pull: OutgoingCall) -> None:
    pull.leave()
    with pytest.raises(ChannelClosed):
        await pull.answer()


async def pass_turns(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


@pytest.mark.requirement("P09-04")
async def test_a_message_arrives_once_despite_abandoned_pulls(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    seen, sent = list[str](), list[str]()
    answered = turns = 0
    while answered < SPARE_TURNS:
        sent.append(f"message {turns}")
        assert (await room.say(sent[-1])).steered
        pulling = asyncio.create_task(room.pull(run))
        await pass_turns(turns)
        answered += pulling.done()
        pulling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            seen += await pulling
        turns += 1
        if len(sent) - len(seen) > 50:  # a run takes 100 that it has not read
            seen += await room.pull(run)
    seen += await room.pull(run)
    assert seen == sent, "each once, in the order they came"
    await room.answer(run)
    assert not room.store.unfinished_runs("", 1)
    room.check()


@pytest.mark.requirement("P09-04")
async def test_a_late_cancel_of_an_answered_pull_queues_the_message_again(store: Store, rooms: Any) -> None:
    """The two cross on the way: a worker that gives a call up does not read its answer any more."""
    room = await rooms(store)
    run = await room.begin()
    texts = ["first", "second"]
    for text in texts:
        await room.say(text)
    left = open_pull(run)
    await room.until(lambda: [kind for kind, _ in room.steering(run.run_id)].count("steering.injected") == 2)
    await leave(left)
    assert await room.pull(run) == texts
    assert await room.pull(run) == []
    await room.answer(run)
    moves = [kind for kind, _ in room.steering(run.run_id)]
    assert moves[-2:] == ["steering.acknowledged"] * 2
    assert moves.count("steering.queued") == 4
    room.check()


@pytest.mark.requirement("P09-04")
async def test_a_message_in_flight_to_an_ending_runner_is_not_acknowledged(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    await room.say("too late")
    room.turnstile.lock()
    pulling = asyncio.create_task(room.pull(run))
    await room.turnstile.arrival()  # it is being written down as pulled
    await run.emit("message.completed", {"message": {"role": "assistant", "content": "done"}})
    await room.worker.complete(run)
    room.turnstile.unlock()
    with pytest.raises(WireError):
        await pulling
    assert await room.answer_all(after=1) == ["too late"]
    room.check()


async def test_a_message_is_in_the_run_or_gets_its_own_run_if_the_runner_ends_during_a_pull(
    memory_store: MemoryStore, rooms: Any
) -> None:
    room = await rooms(memory_store)
    answered, turns = 0, 1
    while answered < SPARE_TURNS:
        runs = len(room.worker.runs)
        run = await room.begin()
        assert (await room.say("and this")).steered
        pulling = asyncio.create_task(room.pull(run))
        await pass_turns(turns)
        answered += pulling.done()
        await room.answer(run)
        seen = list[str]()
        with contextlib.suppress(WireError):
            seen = await pulling
        assert [*seen, *await room.answer_all(after=runs + 1)] == ["and this"]
        turns = turns + 1 if turns < 40 else turns * 2
    room.check()


async def test_a_run_with_a_terminal_result_pulls_no_messages(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    await room.say("and this")
    await room.last_word(run)
    assert await room.pull(run) == []
    room.worker.end.finish_run(run)
    assert await room.answer_all(after=1) == ["and this"]
    room.check()


async def test_messages_of_an_abandoned_pull_count_in_the_queue_again(memory_store: MemoryStore, rooms: Any) -> None:
    """Returned messages count again: otherwise a run would get more than it may hold."""
    room = await rooms(memory_store)
    run = await room.begin()
    for number in range(100):
        assert (await room.say(str(number))).steered
    left = open_pull(run)
    await room.until(lambda: [kind for kind, _ in room.steering(run.run_id)].count("steering.injected") == 100)
    await leave(left)
    await room.until(lambda: [kind for kind, _ in room.steering(run.run_id)].count("steering.queued") == 200)
    assert not (await room.say("one too many")).steered
