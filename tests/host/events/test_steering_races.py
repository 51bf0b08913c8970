"""Claim and end of a run are ordered by the same log: at every interleaving a message is in exactly one run."""

import asyncio
from typing import Any

import pytest
from tests.doubles.memory_store import MemoryStore

from bollard.host.errors import StorageUnavailable
from bollard.host.store.queries import Lease
from bollard.host.store.store import Store
from bollard.wire import ChannelClosed


@pytest.mark.requirement("P09-05")
async def test_a_run_that_ends_in_an_earlier_commit_than_the_event_is_not_steered(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    await room.last_word(run)
    room.worker.end.finish_run(run)
    await room.until(lambda: room.stage.dispatcher.live[run.run_id].ending)
    saying = room.saying("just too late")
    room.turnstile.unlock()
    accepted = await saying
    assert not accepted.steered
    assert await room.answer_all(after=1) == ["just too late"]
    assert room.steering(run.run_id) == []
    room.check()


@pytest.mark.requirement("P09-05")
async def test_a_run_with_a_terminal_result_during_the_write_of_the_event_is_not_steered(
    store: Store, rooms: Any
) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("while it is written")
    await room.turnstile.arrival()
    await room.last_word(run)
    room.turnstile.unlock()
    accepted = await saying
    assert not accepted.steered
    assert room.steering(run.run_id) == []
    room.worker.end.finish_run(run)
    assert await room.answer_all(after=1) == ["while it is written"]
    room.check()


@pytest.mark.requirement("P09-05", "P09-04")
async def test_a_run_that_ends_during_the_write_of_the_claim_returns_the_message(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("while it is claimed")
    await room.turnstile.arrival()
    room.turnstile.let()  # the event is on disk
    await room.turnstile.arrival()  # and its claim waits
    await room.last_word(run)
    room.worker.end.finish_run(run)
    await room.until(lambda: room.stage.dispatcher.live[run.run_id].ending)
    room.turnstile.unlock()
    accepted = await saying
    assert (accepted.steered, accepted.run_id) == (True, run.run_id), "the answer agrees with the log"
    assert await room.answer_all(after=1) == ["while it is claimed"]
    assert [kind for kind, _ in room.steering(run.run_id)] == ["steering.queued", "steering.dropped"]
    room.check()


async def test_a_message_pulled_while_the_run_ends_is_answered_once(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    await room.say("pull me")
    room.turnstile.lock()
    pulling = asyncio.create_task(room.pull(run))
    await room.turnstile.arrival()
    await room.last_word(run)
    room.turnstile.unlock()
    with pytest.raises(ChannelClosed):  # it has said its last word: nothing that it reads now is answered there
        await pulling
    room.worker.end.finish_run(run)
    assert await room.answer_all(after=1) == ["pull me"]
    room.check()


# --- stopped ---


async def test_a_message_for_a_run_that_is_being_stopped_gets_its_own_run(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    assert await room.stage.dispatcher.cancel(run.run_id, "cancelled")
    accepted = await room.say("and now this")
    assert not accepted.steered
    await room.give_up(run)
    assert await room.answer_all(after=1) == ["and now this"]
    room.check()


async def test_a_run_stopped_during_the_write_of_the_event_is_not_steered(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("on its way")
    await room.turnstile.arrival()
    assert await room.stage.dispatcher.cancel(run.run_id, "cancelled")
    room.turnstile.unlock()
    assert not (await saying).steered
    await room.give_up(run)
    assert await room.answer_all(after=1) == ["on its way"]
    room.check()


@pytest.mark.requirement("P09-04")
@pytest.mark.parametrize("pulled", [False, True])
async def test_stopping_a_run_drops_its_messages_with_a_record(store: Store, rooms: Any, pulled: bool) -> None:
    room = await rooms(store)
    run = await room.begin()
    accepted = await room.say("never mind")
    if pulled:
        assert await room.pull(run) == ["never mind"]
    assert await room.stage.dispatcher.cancel(run.run_id, "cancelled")
    await room.give_up(run)
    await room.stage.ended(run.run_id)
    kind, dropped = room.steering(run.run_id)[-1]
    assert (kind, dropped["event_id"]) == ("steering.dropped", accepted.event_id)
    assert (dropped["reason"], dropped["redispatch"]) == ("cancelled", False)
    assert (room.row(accepted).dispatch, room.row(accepted).steering) == ("dropped", "dropped")
    assert not room.store.unfinished_runs("", 1)
    assert len(room.worker.runs) == 1
    room.check()


@pytest.mark.requirement("P09-04")
@pytest.mark.parametrize("reason", ["revoked", "runner.timeout", "host.lost"])
async def test_a_run_that_ends_for_any_other_reason_returns_its_messages(
    memory_store: MemoryStore, rooms: Any, reason: str
) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    await room.say("still wanted")
    assert await room.pull(run) == ["still wanted"]
    assert await room.stage.dispatcher.cancel(run.run_id, reason)
    await room.give_up(run, reason)
    assert await room.answer_all(after=1) == ["still wanted"]
    assert room.steering(run.run_id)[-1][1]["reason"] == reason
    room.check()


async def test_a_dying_worker_returns_the_messages_of_its_runs(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    await room.begin()
    await room.say("still wanted")
    slot = room.stage.pool.slots[0]
    slot.draining = True
    fresh = await room.stage.pool.add()
    slot.end.close("the worker died")
    room.worker = fresh.worker
    assert await room.answer_all() == ["still wanted"]
    room.check()


# --- fenced ---


async def test_a_run_that_another_host_owns_is_not_steered(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("to whom")
    await room.turnstile.arrival()
    with store.write() as transaction:
        assert transaction.take_lease(run.run_id, Lease(owner="another", epoch=2, until_ms=1 << 50))
    room.turnstile.unlock()
    accepted = await saying
    assert not accepted.steered
    second = await room.nth_run(2)
    assert second.request["context"]["input"]["text"] == "to whom"
    await room.answer(second)
    row = room.row(accepted)
    assert (row.dispatch, row.run_id) == ("run", second.run_id)
    assert room.steering(run.run_id) == [], "the old owner wrote nothing"


# --- a store that refuses ---


async def test_an_unwritten_message_is_refused_and_accepted_on_retry(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    event = room.event("hold on")
    room.turnstile.broken = True
    with pytest.raises(StorageUnavailable):
        await room.accept(event)
    room.turnstile.broken = False
    assert await room.pull(run) == []
    again = await room.accept(event)
    assert (again.first, again.steered) == (True, True)
    assert await room.pull(run) == ["hold on"]
    await room.answer(run)
    room.check()


async def test_an_unwritten_claim_is_written_later_or_the_message_gets_its_own_run(
    store: Store, rooms: Any, loop_time: Any
) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("hold on")
    await room.turnstile.arrival()
    room.turnstile.let()
    await room.turnstile.arrival()
    room.turnstile.broken = True
    room.turnstile.unlock()
    await room.worker.until(lambda: room.worker.cancels)
    assert room.worker.cancels == [(run.run_id, "host.lost")], "a run that cannot be written is stopped"
    room.turnstile.broken = False
    await room.give_up(run, "host.lost")
    loop_time.advance(2.0)
    await saying
    assert await room.answer_all(after=1) == ["hold on"]
    room.check()


async def test_a_message_on_disk_gets_its_run_despite_an_earlier_refusal_of_the_store(
    store: Store, rooms: Any, loop_time: Any
) -> None:
    room = await rooms(store)
    run = await room.begin()
    event = room.event("hold on")
    room.turnstile.lock()
    saying = asyncio.create_task(room.accept(event))
    await room.turnstile.arrival()
    await room.last_word(run)  # so that it cannot steer and needs a run of its own
    room.turnstile.let()
    await room.turnstile.arrival()
    room.turnstile.broken = True
    room.turnstile.unlock()
    accepted = await saying
    room.turnstile.broken = False
    assert accepted.run_id is None, "it waits on disk, and its sender knows its id"
    room.worker.end.finish_run(run)
    loop_time.advance(2.0)
    assert await room.answer_all(after=1) == ["hold on"]
    assert (await room.accept(event)).run_id == room.worker.runs[1].run_id
    room.check()


async def test_returned_messages_are_dispatched_once_the_store_accepts_writes_again(
    store: Store, rooms: Any, loop_time: Any
) -> None:
    room = await rooms(store)
    run = await room.begin()
    await room.say("given back")
    live = room.stage.dispatcher.live[run.run_id]
    live.done.add_done_callback(lambda _: setattr(room.turnstile, "broken", True))  # as soon as its end is on disk
    await room.answer(run)
    await room.until(lambda: room.turnstile.refused)
    room.turnstile.broken = False
    loop_time.advance(2.0)
    assert await room.answer_all(after=1) == ["given back"]
    room.check()


# --- others who speak meanwhile ---


async def test_no_run_starts_before_a_message_in_flight_to_the_disk(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    steering = room.saying("ann first")
    await room.turnstile.arrival()
    await room.last_word(run)  # what ann said will need a run of its own
    others = [room.saying("bob second", "bob"), room.saying("cid third", "cid")]
    await asyncio.sleep(0)
    room.turnstile.unlock()
    room.worker.end.finish_run(run)
    assert not (await steering).steered
    await asyncio.gather(*others)
    assert await room.answer_all(after=1) == ["ann first", "bob second", "cid third"]
    room.check()


async def test_a_sender_that_disconnects_does_not_lose_its_message(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("gone already")
    await room.turnstile.arrival()
    saying.cancel()
    await asyncio.gather(saying, return_exceptions=True)
    room.turnstile.unlock()
    await room.until(lambda: room.steering(run.run_id))
    assert await room.pull(run) == ["gone already"]
    await room.answer(run)
    room.check()
