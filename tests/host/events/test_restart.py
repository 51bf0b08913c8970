"""After a restart every accepted message is in its run, or gets one run in its turn."""

import asyncio
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.replacement import replace
from tests.simulation.invariants import conversation_problems

from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import AgentPolicy, ConcurrencyPolicy
from bollard.host.errors import BudgetExceeded, StorageUnavailable
from bollard.host.log.entries import Committed, Entry
from bollard.host.log.records import NewRecord, data_of
from bollard.host.store.store import Store

PATIENCE_S = 30.0


async def leave_waiting(room: Any, *texts: str) -> list[str]:
    """Messages that are on disk without a run, as a host leaves them that dies behind `intake.after_event`."""
    events: list[str] = []
    for number, text in enumerate(texts):
        event_id, event = f"evt_left{number}", room.event(text)
        data = event.record(event_id, None, waits_for="parrot")
        record = NewRecord(workspace="default", type="event.received", data=data, created_ms=1_700_000_000_000)
        entry = Entry(records=[record], dedupe=("default", event.source, event.source_id))
        assert await room.stage.journal.commit(entry) == Committed()
        events.append(event_id)
    return events


async def test_messages_without_a_run_get_one_each_in_order_after_a_restart(store: Store, rooms: Any) -> None:
    events = await leave_waiting(await rooms(store, incarnation="dead"), "first", "second", "third")
    room = await rooms(store, incarnation="next")
    await room.stage.core.startup_recovery.run()
    assert await room.answer_all() == ["first", "second", "third"]
    for event_id, run in zip(events, room.worker.runs, strict=True):
        row = store.event("default", event_id)
        assert row is not None
        assert (row.dispatch, row.run_id) == ("run", run.run_id)
    await room.stage.core.startup_recovery.run()
    assert len(room.worker.runs) == 3, "a second look finds nothing"
    room.check()


async def test_a_waiting_message_that_two_hosts_find_gets_one_run(store: Store, rooms: Any) -> None:
    await leave_waiting(await rooms(store, incarnation="dead"), "only once")
    one, other = await rooms(store, incarnation="one"), await rooms(store, incarnation="other")
    await asyncio.gather(one.stage.core.startup_recovery.run(), other.stage.core.startup_recovery.run())
    await one.until(lambda: one.worker.runs or other.worker.runs)
    winner, loser = (one, other) if one.worker.runs else (other, one)
    assert await winner.answer_all() == ["only once"]
    assert not loser.worker.runs
    winner.check()


async def test_messages_of_a_lost_run_get_their_own_runs_after_the_restart(store: Store, rooms: Any) -> None:
    before = await rooms(store, incarnation="dead")
    run = await before.begin()
    await before.say("pulled")
    assert await before.pull(run) == ["pulled"]
    await before.say("not pulled")
    await before.die()
    room = await rooms(store, incarnation="next")
    await room.stage.core.startup_recovery.run()
    assert await room.answer_all() == ["pulled", "not pulled"]
    assert room.stage.row(run.run_id).reason == "host.lost"
    dropped = [data for kind, data in room.steering(run.run_id) if kind == "steering.dropped"]
    assert [(data["reason"], data["redispatch"]) for data in dropped] == [("host.lost", True)] * 2
    room.check()


async def test_waiting_runs_continue_in_arrival_order_after_a_restart(store: Store, rooms: Any) -> None:
    before = await rooms(store, "queue", incarnation="dead")
    await before.begin()
    texts = [f"message {number}" for number in range(6)]  # all within one millisecond: the clock stands
    for text in texts:
        await before.say(text)
    await before.die()
    room = await rooms(store, "queue", incarnation="next")
    await room.stage.core.startup_recovery.run()
    assert await room.answer_all() == texts
    assert conversation_problems(store, {"parrot": "queue"}) == []


async def test_waiting_runs_keep_their_order_if_the_clock_is_set_back_between_two_starts(
    store: Store, rooms: Any, clock: ManualClock
) -> None:
    before = await rooms(store, "queue", incarnation="dead")
    await before.begin()
    for text in ("first", "second", "third"):
        await before.say(text)
    await before.die()
    clock.jump(-3600)
    between = await rooms(store, "queue", incarnation="between")
    await between.stage.core.startup_recovery.run()
    await between.nth_run(1)
    await between.say("fourth")
    await between.die()
    room = await rooms(store, "queue", incarnation="next")
    await room.stage.core.startup_recovery.run()
    assert await room.answer_all() == ["second", "third", "fourth"]


async def test_returned_messages_follow_earlier_ones_after_a_restart_with_a_clock_set_back(
    store: Store, rooms: Any, clock: ManualClock
) -> None:
    before = await rooms(store, incarnation="dead")
    await before.begin()
    for text, actor in (("first", "bob"), ("second", "cleo")):  # only who started a run steers it
        await before.say(text, actor)
    await before.die()
    clock.jump(-3600)
    room = await rooms(store, incarnation="next")
    await room.stage.core.startup_recovery.run()
    run = await room.nth_run(1)
    assert (await room.say("given back", "bob")).run_id == run.run_id
    await room.give_up(run, "runner.error")
    assert await room.answer_all(after=1) == ["second", "given back"]


async def test_waiting_parallel_runs_continue_in_parallel_after_a_restart(
    memory_store: MemoryStore, rooms: Any
) -> None:
    before = await rooms(memory_store, "parallel", incarnation="dead", runs_at_once=1)
    await before.begin()
    for text in ("one", "two", "three"):
        await before.say(text)
    await before.die()
    room = await rooms(memory_store, "parallel", incarnation="next")
    await room.stage.core.startup_recovery.run()
    await room.nth_run(3)
    assert sorted(await room.answer_all()) == ["one", "three", "two"]  # beside each other: none waits for another
    room.check()


async def test_waiting_runs_are_not_concurrent_runs_of_their_agent_after_a_restart(store: Store, rooms: Any) -> None:
    before = await rooms(store, "queue", incarnation="dead")
    await before.begin()
    texts = [f"message {number}" for number in range(4)]
    for text in texts:
        await before.say(text)
    await before.die()
    room = await rooms(store, "queue", incarnation="next")
    room.agent("queue", runs_at_once=2)
    await room.stage.core.startup_recovery.run()
    first = await room.nth_run(1)
    other = await room.run_of(await room.say("elsewhere", conversation="hall"))
    with pytest.raises(BudgetExceeded):
        await room.say("one too many", conversation="yard")
    await room.answer(other)
    await room.answer(first)
    assert await room.answer_all(after=2) == texts[1:]


async def test_a_message_right_after_the_start_overtakes_no_other(store: Store, rooms: Any) -> None:
    before = await rooms(store, "queue", incarnation="dead")
    await before.begin()
    await before.say("waited")
    await before.die()
    room = await rooms(store, "queue", incarnation="next")
    startup_recovery = asyncio.create_task(room.stage.core.startup_recovery.run())
    await asyncio.sleep(0)  # it has begun
    saying = room.saying("new")
    await startup_recovery
    await saying
    assert await room.answer_all() == ["waited", "new"]


async def test_recovery_does_not_touch_runs_accepted_since_the_start(store: Store, rooms: Any) -> None:
    before = await rooms(store, "queue", incarnation="dead", runs_at_once=1)
    await before.begin()
    await before.say("waited", conversation="hall")
    await before.die()
    room = await rooms(store, "queue", incarnation="next", runs_at_once=1)
    run = await room.begin("new")
    behind = await room.say("behind it")
    assert room.stage.row(behind.run_id).status == "queued"
    await room.stage.core.startup_recovery.run()
    await room.answer(run)
    assert sorted(await room.answer_all(after=1)) == ["behind it", "waited"]
    room.check()


async def test_recovery_does_not_claim_a_message_in_flight_to_a_run(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("on its way")
    await room.turnstile.arrival()
    room.turnstile.let()  # the event is on disk
    await room.turnstile.arrival()  # and its claim waits
    startup_recovery = asyncio.create_task(room.stage.core.startup_recovery.run())
    await room.until(lambda: startup_recovery.done() or room.stage.journal.waiting > 1)
    room.turnstile.unlock()
    await startup_recovery
    assert (await saying).steered
    assert await room.pull(run) == ["on its way"]
    await room.answer(run)
    assert await room.answer_all(after=1) == []
    room.check()


async def test_a_queued_run_of_another_workspace_continues_after_a_restart(store: Store, rooms: Any) -> None:
    def save(room: Any) -> Agent:
        policy = AgentPolicy(concurrency=ConcurrencyPolicy(mode="queue"))
        agent = Agent(
            agent_id="elsewhere",
            workspace="second",
            runner_id="plugin:acme/parrot/default",
            runner_name="default",
            plugin="parrot",
            label={"en_US": "Elsewhere"},
            policy=policy,
        )
        room.stage.agents.put(replace(agent, agent_id="parrot"))  # the runner is there too
        room.stage.agents.save(agent)
        return agent

    before = await rooms(store, "queue", incarnation="dead")
    save(before)
    for text in ("lost", "waits"):
        await before.stage.intake.accept(before.event(text, workspace="second"), "elsewhere")
    await before.die()
    room = await rooms(store, "queue", incarnation="next")
    save(room)
    async with asyncio.timeout(120):
        await room.stage.core.startup_recovery.run()
    assert await room.answer_all() == ["waits"]


async def test_a_message_for_a_missing_agent_waits_and_delays_no_other(
    store: Store, rooms: Any, loop_time: Any
) -> None:
    before = await rooms(store, incarnation="dead")
    await leave_waiting(before, "for parrot")
    gone = before.event("for nobody")
    data = gone.record("evt_gone", None, waits_for="gone")
    record = NewRecord(workspace="default", type="event.received", data=data, created_ms=1_700_000_000_000)
    await before.stage.journal.commit(Entry(records=[record]))
    room = await rooms(store, incarnation="next")
    startup_recovery = asyncio.create_task(room.stage.core.startup_recovery.run())
    run = await room.nth_run(1)
    assert run.request["context"]["input"]["text"] == "for parrot"
    await room.until(lambda: room.stage.store.pending_events(0, 10)[-1].event_id == "evt_gone")
    await room.answer(run)
    loop_time.advance(20.0)
    await startup_recovery
    row = store.event("default", "evt_gone")
    assert row is not None
    assert row.dispatch == "pending"
    room.stage.agents.save(named("gone"))
    assert await room.answer_all(after=1) == ["for nobody"]


def named(agent_id: str, **more: Any) -> Agent:
    """A saved agent for the existing runner."""
    return Agent(
        agent_id=agent_id,
        runner_id="plugin:acme/parrot/default",
        runner_name="default",
        plugin="parrot",
        label={"en_US": agent_id},
        policy=AgentPolicy(concurrency=ConcurrencyPolicy(mode="queue")),
        **more,
    )


async def left_behind(room: Any, **more: Any) -> tuple[str, str]:
    """A run that ran and one that waited, as a host leaves them that dies."""
    room.stage.agents.save(named("saved", **more))
    accepted = [await room.stage.intake.accept(room.event(text), "saved") for text in ("ran", "waited")]
    await room.run_of(accepted[0])
    live = room.stage.dispatcher.live[accepted[0].run_id]
    live.flush()
    await room.until(lambda: not live.uncommitted() and live.state.status == "running")
    await room.die()
    return accepted[0].run_id, accepted[1].run_id


async def test_a_waiting_run_continues_whenever_its_agent_returns(store: Store, rooms: Any, loop_time: Any) -> None:
    _, waited = await left_behind(await rooms(store, incarnation="dead"))
    room = await rooms(store, incarnation="next")
    own = room.stage.agents.own("parrot")
    room.stage.agents.withdraw(own.runner_id)
    room.stage.agents.save(named("saved"))
    startup_recovery = asyncio.create_task(room.stage.core.startup_recovery.run())
    await room.stage.core.startup_recovery.lost_are_ended.wait()
    await room.until(lambda: room.stage.dispatcher.backlog.of("default") == [waited])
    loop_time.advance(600.0)
    await asyncio.sleep(0)
    assert room.stage.row(waited).status == "queued"
    room.stage.agents.put(own)
    await startup_recovery
    assert await room.answer_all() == ["waited"]
    assert room.stage.row(waited).status == "completed"


async def test_a_run_that_waits_for_its_agent_after_a_restart_can_be_cancelled(store: Store, rooms: Any) -> None:
    _, waited = await left_behind(await rooms(store, incarnation="dead"))
    room = await rooms(store, incarnation="next")
    own = room.stage.agents.own("parrot")
    room.stage.agents.withdraw(own.runner_id)
    room.stage.agents.save(named("saved"))
    startup_recovery = asyncio.create_task(room.stage.core.startup_recovery.run())
    await room.until(lambda: room.stage.dispatcher.backlog.of("default") == [waited])
    assert await asyncio.gather(*(room.stage.dispatcher.cancel(waited, "cancelled") for _ in range(4))) == [True] * 4
    assert (room.stage.row(waited).status, room.stage.row(waited).reason) == ("cancelled", "cancelled")
    assert [record.type for record in room.stage.records(waited)][-2:] == ["run.cancelled", "run.ended"]
    room.stage.agents.put(own)
    await startup_recovery
    assert await room.answer_all() == []


@pytest.mark.parametrize("comes_back", ["while it is stopped", "later"])
async def test_cancelling_a_run_that_waits_for_its_agent_fails_if_the_store_refuses(
    store: Store, rooms: Any, comes_back: str
) -> None:
    _, waited = await left_behind(await rooms(store, incarnation="dead"))
    room = await rooms(store, incarnation="next")
    own, dispatcher = room.stage.agents.own("parrot"), room.stage.dispatcher
    room.stage.agents.withdraw(own.runner_id)
    room.stage.agents.save(named("saved"))
    startup_recovery = asyncio.create_task(room.stage.core.startup_recovery.run())
    await room.until(lambda: dispatcher.backlog.of("default") == [waited])
    room.turnstile.lock()
    stops = [asyncio.create_task(dispatcher.cancel(waited, "cancelled")) for _ in range(2)]
    await room.turnstile.arrival()
    if comes_back == "while it is stopped":
        room.stage.agents.put(own)
    room.turnstile.broken = True
    room.turnstile.unlock()
    async with asyncio.timeout(PATIENCE_S):
        told = await asyncio.gather(*stops, return_exceptions=True)
    assert [type(each) for each in told] == [StorageUnavailable] * 2
    room.turnstile.broken = False
    assert room.stage.row(waited).status == "queued"
    room.stage.agents.put(own)
    await startup_recovery
    assert await room.answer_all() == ["waited"]
    room.check()


@pytest.mark.full
async def test_a_waiting_run_of_a_deleted_agent_fails_with_host_lost(store: Store, rooms: Any) -> None:
    _, waited = await left_behind(await rooms(store, incarnation="dead"))
    room = await rooms(store, incarnation="next")
    await room.stage.core.startup_recovery.run()
    assert (room.stage.row(waited).status, room.stage.row(waited).reason) == ("failed", "host.lost")


async def test_a_lost_run_of_a_repeatable_agent_is_repeated_once(store: Store, rooms: Any) -> None:
    ran, waited = await left_behind(await rooms(store, incarnation="dead"), repeatable=True)
    event_id = store.run(ran).event_id

    async def begin(incarnation: str) -> Any:
        room = await rooms(store, incarnation=incarnation)
        room.stage.agents.save(named("saved", repeatable=True))
        await room.stage.core.startup_recovery.run()
        return room

    second = await begin("second")
    assert (store.run(ran).status, store.run(ran).reason) == ("failed", "host.lost")
    again = await second.nth_run(1)
    assert again.request["context"]["input"]["text"] == "ran", "it keeps its place in the conversation"
    assert store.event("default", event_id).run_id == again.run_id != ran
    assert store.run(again.run_id).binding_id == store.run(ran).binding_id
    live = second.stage.dispatcher.live[again.run_id]
    live.flush()
    await second.until(lambda: not live.uncommitted() and live.state.status == "running")
    await second.die()

    third = await begin("third")
    assert (store.run(again.run_id).status, store.run(again.run_id).reason) == ("failed", "host.lost")
    assert await third.answer_all() == ["waited"]
    assert store.run(waited).status == "completed"


@pytest.mark.parametrize("repeatable", [True, False])
async def test_a_run_that_exceeds_the_grace_of_a_shutdown_ends_as_after_a_crash(
    store: Store, rooms: Any, repeatable: bool
) -> None:
    before = await rooms(store, incarnation="stopped")
    before.stage.agents.save(named("saved", repeatable=repeatable))
    accepted = await before.stage.intake.accept(before.event("long"), "saved")
    run = await before.run_of(accepted)
    stopping = asyncio.create_task(before.stage.dispatcher.close(0))
    await before.until(lambda: before.stage.dispatcher.live[run.run_id].state.cancel is not None)
    await before.give_up(run, "host.lost")
    await stopping
    records = {row.type: data_of(row) for row in before.stage.records(run.run_id)}
    assert records["run.cancelled"] == {"reason": "host.lost"}
    again = {"redispatch": True} if repeatable else {}
    assert records["run.ended"] == {"status": "failed", "code": "host.lost", "error": "the run was stopped", **again}
    room = await rooms(store, incarnation="next")
    room.stage.agents.save(named("saved", repeatable=repeatable))
    await room.stage.core.startup_recovery.run()
    assert await room.answer_all() == (["long"] if repeatable else [])


async def test_a_stopped_run_is_not_repeated(store: Store, rooms: Any) -> None:
    before = await rooms(store, incarnation="dead")
    before.stage.agents.save(named("saved", repeatable=True))
    accepted = await before.stage.intake.accept(before.event("stopped"), "saved")
    await before.run_of(accepted)
    await before.stage.dispatcher.cancel(accepted.run_id, "cancelled")
    await before.die()
    room = await rooms(store, incarnation="next")
    room.stage.agents.save(named("saved", repeatable=True))
    await room.stage.core.startup_recovery.run()
    assert store.run(accepted.run_id).status == "cancelled"
    assert await room.answer_all() == []


async def test_a_lost_run_ends_despite_a_late_write_of_its_old_owner(memory_store: MemoryStore, rooms: Any) -> None:
    before = await rooms(memory_store, incarnation="old")
    run = await before.begin()
    await before.die()
    room = await rooms(memory_store, incarnation="next")
    room.turnstile.lock()
    startup_recovery = asyncio.create_task(room.stage.core.startup_recovery.run())
    await room.turnstile.arrival()  # the end is decided, and not written yet
    await run.emit("message.completed", {"message": {"role": "assistant", "content": "one more"}})
    await before.until(lambda: "message.completed" in before.stage.types(run.run_id))
    room.turnstile.unlock()
    async with asyncio.timeout(120):
        await startup_recovery
    assert room.stage.types(run.run_id)[-2:] == ["message.completed", "run.ended"]
    assert room.stage.row(run.run_id).reason == "host.lost"
