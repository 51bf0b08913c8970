"""A run whose worker ended without reading it continues on another worker, unchanged."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.doubles.memory_store import MemoryStore

from bollard.host.agents.policies import AgentPolicy, ConcurrencyPolicy, StatePolicy
from bollard.host.errors import WorkerUnavailable
from bollard.host.store.store import Store
from bollard.protocol import limits
from bollard.wire import WorkerRun

Stages = Callable[..., Awaitable[Any]]
STATELESS = AgentPolicy(state=StatePolicy(enabled=False), concurrency=ConcurrencyPolicy(mode="parallel"))


async def parrot(worker: Any, run: WorkerRun) -> None:
    text = run.request["context"]["input"]["text"]
    await run.emit("message.delta", {"chunk": {"role": "assistant", "content": text}})
    await worker.complete(run)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 -- turns of the loop, and a thread that reads the store
            await asyncio.sleep(0)


async def end_of(stage: Any, run_id: str) -> dict[str, Any]:
    """The data of `run.ended`, once it is there."""
    await stage.read(run_id)
    (ended,) = stage.data(run_id, "run.ended")
    return ended


class Stopped:
    """A stage whose only worker is stopped: it reads nothing until it is killed."""

    def __init__(self, stage: Any) -> None:
        self.stage = stage
        self.slot = stage.pool.slots[0]
        self.slot.worker.transport.pause_reading()
        self.slot.draining = True

    async def say(self, text: str = "hello", **more: Any) -> str:
        """A run that was given to the stopped worker."""
        self.slot.draining = False
        run_id = await self.stage.say(text, **more)
        live = self.stage.dispatcher.live[run_id]
        await until(lambda: live.worker is not None)
        self.slot.draining = True
        return run_id

    def kill(self) -> None:
        self.stage.pool.slots.remove(self.slot)
        self.slot.worker.transport.close("killed")


async def stopped(store: Store, stages: Stages, **agent: Any) -> Stopped:
    stage = await stages(store, parrot)
    if agent:
        stage.agent(**agent)
    return Stopped(stage)


async def test_an_unread_run_continues_on_another_worker(store: Store, stages: Stages) -> None:
    held = await stopped(store, stages)
    stage = held.stage
    run_ids = [await held.say(f"hello {number}") for number in range(20)]
    other = await stage.pool.add(parrot)
    held.kill()
    for number, run_id in enumerate(run_ids):
        stream = await stage.read(run_id)
        assert (await end_of(stage, run_id))["status"] == "completed"
        assert [record.seq for record in stream] == list(range(1, len(stream) + 1))
        kinds = [record.type for record in stream]
        assert (kinds.count("run.started"), kinds.count("run.ended")) == (1, 1)
        assert stage.data(run_id, "message.completed")[0]["message"]["content"] == f"hello {number}"
        assert stage.row(run_id).epoch == 1
    assert held.slot.worker.runs == []
    assert sorted(run.run_id for run in other.worker.runs) == sorted(run_ids)


async def test_a_run_of_the_last_worker_waits_for_its_replacement(memory_store: MemoryStore, stages: Stages) -> None:
    held = await stopped(memory_store, stages)
    stage = held.stage
    stage.pool.ready.clear()
    run_id = await held.say()
    held.kill()
    await until(lambda: stage.dispatcher.live[run_id].working is None)
    await stage.pool.add(parrot)
    assert (await end_of(stage, run_id))["status"] == "completed"


async def test_without_a_replacement_the_run_ends(memory_store: MemoryStore, stages: Stages) -> None:
    held = await stopped(memory_store, stages)
    run_id = await held.say()
    held.stage.pool.unavailable = WorkerUnavailable("five crashes", reason="test", hint="see its log", plugin="parrot")
    held.kill()
    ended = await end_of(held.stage, run_id)
    assert (ended["code"], ended["error"]) == ("host.overloaded", "five crashes")


async def test_a_run_read_by_its_worker_ends_with_it(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, None)
    slot = stage.pool.slots[0]
    run_id = await stage.say()
    await slot.worker.until(lambda: slot.worker.runs)
    await stage.pool.add(parrot)
    stage.pool.slots.remove(slot)
    slot.worker.transport.close("killed")
    assert (await end_of(stage, run_id))["code"] == "runner.crashed"


async def test_a_run_of_a_lost_remote_line_continues_only_if_its_agent_is_repeatable(
    memory_store: MemoryStore, stages: Stages
) -> None:
    """The line to another machine breaks: the host does not know which frames were read there."""
    held = await stopped(memory_store, stages)
    stage = held.stage
    once = await held.say()
    stage.agent(repeatable=True)
    often = await held.say()
    await stage.pool.add(parrot)
    stage.pool.slots.remove(held.slot)
    held.slot.transport.close("the line broke")
    assert (await end_of(stage, once))["code"] == "runner.crashed"
    assert (await end_of(stage, often))["status"] == "completed"


async def test_a_run_ends_when_its_second_line_breaks_too(memory_store: MemoryStore, stages: Stages) -> None:
    """It may be the run that ends each runtime, before a word of it has come."""
    held = await stopped(memory_store, stages, repeatable=True)
    stage = held.stage
    run_id = await held.say()
    second = await stage.pool.add(None)
    stage.pool.slots.remove(held.slot)
    held.slot.transport.close("the line broke")
    await second.worker.until(lambda: second.worker.runs)
    third = await stage.pool.add(parrot)
    stage.pool.slots.remove(second)
    second.transport.close("the line broke")
    assert (await end_of(stage, run_id))["code"] == "runner.crashed"
    assert third.worker.runs == []


async def test_a_run_with_results_before_the_line_broke_is_not_repeated(
    memory_store: MemoryStore, stages: Stages
) -> None:
    async def begins(worker: Any, run: WorkerRun) -> None:
        await run.emit("message.delta", {"chunk": {"role": "assistant", "content": "so"}})

    stage = await stages(memory_store, begins)
    stage.agent(repeatable=True)
    slot = stage.pool.slots[0]
    run_id = await stage.say()
    live = stage.dispatcher.live[run_id]
    await slot.worker.until(lambda: slot.worker.runs)
    await until(lambda: live.state.spoke)
    await stage.pool.add(parrot)
    stage.pool.slots.remove(slot)
    slot.transport.close("the line broke")
    assert (await end_of(stage, run_id))["code"] == "runner.crashed"


async def test_a_cancel_during_the_reassignment_ends_the_run(memory_store: MemoryStore, stages: Stages) -> None:
    held = await stopped(memory_store, stages)
    stage = held.stage
    stage.pool.ready.clear()
    on_worker, on_none = await held.say(), await held.say()
    await stage.dispatcher.cancel(on_worker, "cancelled")
    held.kill()
    assert (await end_of(stage, on_worker))["code"] == "cancelled"
    await until(lambda: stage.dispatcher.live[on_none].working is None)
    await stage.dispatcher.cancel(on_none, "cancelled")
    assert (await end_of(stage, on_none))["code"] == "cancelled"
    other = await stage.pool.add(parrot)
    third = await stage.say()
    assert (await end_of(stage, third))["status"] == "completed"
    assert [run.run_id for run in other.worker.runs] == [third]


async def test_the_deadline_continues_and_the_other_worker_gets_the_rest(
    memory_store: MemoryStore, stages: Stages, loop_time: Any
) -> None:
    held = await stopped(memory_store, stages)
    stage = held.stage
    run_id, late = await held.say(), await held.say()
    deadline_s = stage.dispatcher.live[run_id].facts.deadline_s
    loop_time.advance(deadline_s / 2)
    other = await stage.pool.add(None)
    held.kill()
    await other.worker.until(lambda: len(other.worker.runs) == 2)
    told = next(run for run in other.worker.runs if run.run_id == run_id).request["context"]["runtime"]
    assert 0 < told["timeout_ms"] <= deadline_s * 1000 / 2
    await other.worker.complete(next(run for run in other.worker.runs if run.run_id == run_id))
    loop_time.advance(deadline_s / 2)
    await other.worker.until(lambda: other.worker.cancels)
    assert other.worker.cancels == [(late, "runner.timeout")]
    loop_time.advance(limits.CANCEL_GRACE_S + 1)
    assert (await end_of(stage, late))["code"] == "runner.timeout"


async def test_an_early_run_on_a_worker_that_read_nothing_continues(gate: Any, stages: Stages) -> None:
    stage = await stages(gate.store, parrot)
    stage.agent(policy=STATELESS)
    held = Stopped(stage)
    held.slot.draining = False
    gate.shut()
    event = stage.event("hello", conversation=None)
    accepting = asyncio.create_task(stage.intake.accept(event, "parrot", fresh=True))
    await gate.arrival()
    assert held.slot.runs == 1
    await stage.pool.add(parrot)
    held.kill()
    gate.lift()
    run_id = (await accepting).run_id
    stream = await stage.read(run_id)
    assert (await end_of(stage, run_id))["status"] == "completed"
    assert [record.type for record in stream].count("run.started") == 1


@pytest.mark.requirement("P09-01")
async def test_a_steering_message_during_the_reassignment_reaches_the_other_worker(
    memory_store: MemoryStore, stages: Stages
) -> None:
    pulled: list[str] = []

    async def steered(worker: Any, run: WorkerRun) -> None:
        answer: Any = await run.call("steering.pull", {"mode": "all"})
        pulled.extend(item["input"]["text"] for item in answer["items"])
        await parrot(worker, run)

    held = await stopped(
        memory_store,
        stages,
        capabilities=frozenset({"steering"}),
        policy=AgentPolicy(concurrency=ConcurrencyPolicy(mode="steer")),
    )
    stage = held.stage
    run_id = await held.say("first", actor_type="user", actor_id="ann")
    event = stage.event("second", actor_type="user", actor_id="ann")
    assert (await stage.intake.accept(event, "parrot")).run_id == run_id
    await stage.pool.add(steered)
    held.kill()
    assert (await end_of(stage, run_id))["status"] == "completed"
    assert pulled == ["second"]
