"""The dispatcher: each event gets one run, and each run gets a worker or ends."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.doubles.memory_store import MemoryStore
from tests.notifier import PATIENCE_S
from tests.replacement import replace

from bollard.host.agents.agent import AgentRegistry
from bollard.host.errors import Draining, NotFound, Overloaded, StorageUnavailable, WorkerUnavailable
from bollard.host.log.entries import Entry
from bollard.host.runs.stream import StreamPosition
from bollard.host.store.store import Store
from bollard.wire import WorkerRun

Stages = Callable[..., Awaitable[Any]]


async def parrot(worker: Any, run: WorkerRun) -> None:
    text = run.request["context"]["input"]["text"]
    await run.emit("message.completed", {"message": {"role": "assistant", "content": text}})
    await worker.complete(run)


# --- accepting ---


async def test_an_event_starts_a_run_that_ends(store: Store, stages: Stages) -> None:
    stage = await stages(store, parrot)
    accepted = await stage.intake.accept(stage.event("hello"), "parrot")
    assert accepted.first
    stream = await stage.read(accepted.run_id)
    assert stream[-1].type == "run.ended"
    row = stage.row(accepted.run_id)
    assert (row.status, row.event_id, row.agent_id, row.epoch) == ("completed", accepted.event_id, "parrot", 1)
    event = store.event("default", accepted.event_id)
    assert event is not None
    assert event.run_id == accepted.run_id


async def test_a_redelivered_event_gets_its_first_run(store: Store, stages: Stages) -> None:
    stage = await stages(store, parrot)
    event = stage.event("hello")
    first = await stage.intake.accept(event, "parrot")
    await stage.ended(first.run_id)
    again = await stage.intake.accept(event, "parrot")
    assert (again.first, again.run_id, again.event_id) == (False, first.run_id, first.event_id)
    stage.agents.put(replace(stage.agents.get("parrot"), workspace="other"))
    elsewhere = replace(event, scope=replace(event.scope, workspace="other"))
    other = await stage.intake.accept(elsewhere, "parrot")
    assert other.first
    await stage.read(other.run_id)
    assert len(stage.pool.slots[0].worker.runs) == 2


async def test_a_redelivered_event_of_a_removed_agent_gets_its_first_run(store: Store, stages: Stages) -> None:
    stage = await stages(store, parrot)
    stage.agents.save(replace(stage.agents.get("parrot"), agent_id="kept"))
    event = stage.event("hello")
    first = await stage.intake.accept(event, "kept")
    await stage.ended(first.run_id)
    stage.agents.remove("kept")
    again = await stage.intake.accept(event, "kept")
    assert (again.first, again.run_id) == (False, first.run_id)
    with pytest.raises(NotFound):
        await stage.intake.accept(stage.event("new"), "kept")


@pytest.mark.requirement("P12-01")
async def test_a_burst_of_one_event_starts_one_run(store: Store, stages: Stages) -> None:
    stage = await stages(store, parrot)
    event = stage.event("hello")
    outcomes = await asyncio.gather(*(stage.intake.accept(event, "parrot") for _ in range(20)))
    assert sum(outcome.first for outcome in outcomes) == 1
    assert len({outcome.run_id for outcome in outcomes}) == 1
    await stage.read(outcomes[0].run_id)
    assert len(stage.pool.slots[0].worker.runs) == 1


async def test_an_unknown_agent_is_refused_and_no_record_is_written(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    with pytest.raises(NotFound) as refusal:
        await stage.intake.accept(stage.event(), "nobody")
    assert refusal.value.hint
    assert memory_store.records(0, 10) == []


async def test_a_closing_host_accepts_no_events(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, parrot)
    await stage.dispatcher.close(0)
    with pytest.raises(Draining) as refusal:
        await stage.say()
    assert refusal.value.retryable
    assert memory_store.records(0, 10) == []
    stage.dispatcher.drain(on=False)  # it does not come back
    with pytest.raises(Draining):
        await stage.say()


async def test_an_unwritten_event_is_refused_and_accepted_on_retry(gate: Any, stages: Stages) -> None:
    stage = await stages(gate.store, parrot)
    event = stage.event("hello")
    gate.broken = RuntimeError("a bug")
    with pytest.raises(StorageUnavailable):
        await stage.intake.accept(event, "parrot")
    gate.broken = None
    again = await stage.intake.accept(event, "parrot")
    assert again.first
    assert (await stage.read(again.run_id))[-1].type == "run.ended"


# --- waiting for room ---


async def test_a_run_that_waits_for_a_user_takes_no_slot(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, runs_at_once=1)
    worker = stage.pool.slots[0].worker
    parked = [await stage.say("first")]
    await worker.until(lambda: len(worker.runs) == 1)
    second = await stage.say("second")
    assert stage.dispatcher.backlog.size == 1
    stage.dispatcher.live[parked[0]].note("run.waiting", {"approval_id": "apr_1"})
    stage.dispatcher.check_idle()
    await worker.until(lambda: len(worker.runs) == 2)
    stage.dispatcher.live[second].note("run.waiting", {"approval_id": "apr_2"})
    third = await stage.say("third")
    assert stage.dispatcher.backlog.size == 1, "as many again, and no more"
    for run in worker.runs:
        await worker.complete(run, message={"role": "assistant", "content": "done"})
    await worker.until(lambda: len(worker.runs) == 3)
    assert worker.runs[2].run_id == third
    await worker.complete(worker.runs[2], message={"role": "assistant", "content": "done"})


async def test_runs_beyond_the_limit_wait_and_keep_their_order(store: Store, stages: Stages) -> None:
    stage = await stages(store, runs_at_once=2)
    worker = stage.pool.slots[0].worker
    runs = [await stage.say(str(number)) for number in range(6)]
    await worker.until(lambda: len(worker.runs) == 2)
    assert stage.dispatcher.backlog.size == 4
    assert [stage.row(run_id).status for run_id in runs[2:]] == ["queued"] * 4
    readers = [asyncio.create_task(stage.read(run_id)) for run_id in runs]
    for done in range(6):
        await worker.until(lambda done=done: len(worker.runs) > done)
        await parrot(worker, worker.runs[done])
    streams = await asyncio.gather(*readers)
    claimed = [row.run_id for row in store.records(0, 1000) if row.type == "run.claimed"]
    assert claimed == runs[2:]
    for stream in streams:
        assert [record.seq for record in stream] == list(range(1, len(stream) + 1))
    assert "run.claimed" in [record.type for record in streams[5]]
    assert [stage.row(run_id).status for run_id in runs] == ["completed"] * 6


async def test_a_full_queue_refuses_and_accepts_again_once_it_has_space(
    memory_store: MemoryStore, stages: Stages
) -> None:
    stage = await stages(memory_store, runs_at_once=1, queued_runs=2)
    worker = stage.pool.slots[0].worker
    runs = [await stage.say() for _ in range(3)]
    with pytest.raises(Overloaded) as refusal:
        await stage.say()
    assert refusal.value.details["limit"] == 2
    await worker.until(lambda: worker.runs)
    await parrot(worker, worker.runs[0])
    await worker.until(lambda: len(worker.runs) == 2)
    assert await stage.say()
    assert stage.row(runs[0]).status == "completed"


async def test_a_waiting_run_is_cancelled_without_a_worker(store: Store, stages: Stages) -> None:
    stage = await stages(store, runs_at_once=1)
    worker = stage.pool.slots[0].worker
    first, second, third = [await stage.say() for _ in range(3)]
    reader = asyncio.create_task(stage.read(second))
    assert await stage.dispatcher.cancel(second, "cancelled")
    stream = await reader
    assert [record.type for record in stream] == ["run.created", "grant.issued", "run.cancelled", "run.ended"]
    assert (stage.row(second).status, stage.row(second).reason) == ("cancelled", "cancelled")
    await worker.until(lambda: worker.runs)
    await parrot(worker, worker.runs[0])
    await worker.until(lambda: len(worker.runs) == 2)
    assert [run.run_id for run in worker.runs] == [first, third]


async def test_an_unknown_run_cannot_be_cancelled(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    assert not await stage.dispatcher.cancel("run_x", "cancelled")


async def test_a_refused_claim_is_retried(gate: Any, stages: Stages) -> None:
    stage = await stages(gate.store, runs_at_once=1)
    worker = stage.pool.slots[0].worker
    first, second = [await stage.say() for _ in range(2)]
    await worker.until(lambda: worker.runs)
    claims = 0

    def refuse_claims(call: str) -> None:
        nonlocal claims
        if call == "write.take_lease" and not claims:
            claims += 1
            raise RuntimeError("a bug")

    gate.plan.on_call = refuse_claims
    await parrot(worker, worker.runs[0])
    await stage.read(first)
    async with asyncio.timeout(PATIENCE_S):
        while not claims:  # the dispatcher claims the second run after the first one has left its slot
            await stage.journal.commit(Entry())
    stage.dispatcher.check_idle()
    await worker.until(lambda: len(worker.runs) == 2)
    await parrot(worker, worker.runs[1])
    assert (await stage.read(second))[-1].type == "run.ended"


# --- finding a worker ---


async def test_a_run_without_a_plugin_ends_at_once(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    stage.agent(plugin="gone")
    run_id = await stage.say()
    await stage.read(run_id)
    assert (stage.row(run_id).status, stage.row(run_id).reason) == ("failed", "host.overloaded")


async def test_a_run_waits_for_a_worker_that_is_starting(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, workers=0)
    run_id = await stage.say()
    assert stage.row(run_id).status == "dispatching"
    await stage.pool.add(parrot)
    assert (await stage.read(run_id))[-1].type == "run.ended"
    assert stage.row(run_id).status == "completed"


async def test_a_run_whose_plugin_fails_to_start_fails_with_the_reason(
    memory_store: MemoryStore, stages: Stages
) -> None:
    stage = await stages(memory_store, workers=0)
    run_id = await stage.say()
    stage.pool.unavailable = WorkerUnavailable("5 crashes within 60 s", reason="test", hint="look")
    stage.pool.ready.set()
    await stage.read(run_id)
    assert stage.row(run_id).reason == "host.overloaded"
    assert stage.data(run_id, "run.ended")[0]["error"] == "5 crashes within 60 s"


async def test_a_run_cancelled_while_it_waits_for_a_worker_never_starts(
    memory_store: MemoryStore, stages: Stages
) -> None:
    stage = await stages(memory_store, workers=0)
    run_id = await stage.say()
    assert await stage.dispatcher.cancel(run_id, "cancelled")
    await stage.read(run_id)
    slot = await stage.pool.add(parrot)
    await asyncio.sleep(0)
    assert slot.worker.runs == []
    assert stage.row(run_id).status == "cancelled"


async def test_runs_are_assigned_to_the_worker_with_the_fewest(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, workers=3)
    for _ in range(9):
        await stage.say()
    workers = [slot.worker for slot in stage.pool.slots]
    for worker in workers:
        await worker.until(lambda worker=worker: len(worker.runs) == 3)


@pytest.mark.requirement("P08-19")
async def test_the_runs_of_a_lost_worker_end_and_others_continue(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, workers=2)
    runs = [await stage.say() for _ in range(4)]
    one, two = (slot.worker for slot in stage.pool.slots)
    await one.until(lambda: len(one.runs) == 2)
    await two.until(lambda: len(two.runs) == 2)
    lost = {run.run_id for run in one.runs}
    one.end.close("a crash")
    for run_id in lost:
        await stage.read(run_id)
        assert stage.row(run_id).reason == "runner.crashed"
    for run in list(two.runs):
        await parrot(two, run)
        await stage.ended(run.run_id)
    assert {stage.row(run_id).status for run_id in runs if run_id not in lost} == {"completed"}


async def test_closing_ends_active_runs_as_lost(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store)
    worker = stage.pool.slots[0].worker
    run_id = await stage.say()
    await worker.until(lambda: worker.runs)
    closing = asyncio.create_task(stage.dispatcher.close(0))
    await worker.until(lambda: worker.cancels)
    assert worker.cancels == [(run_id, "host.lost")]
    await worker.runs[0].emit("run.failed", {"code": "host.lost", "error": "stopped"})
    worker.end.finish_run(worker.runs[0])
    await closing
    assert (stage.row(run_id).status, stage.row(run_id).reason) == ("failed", "host.lost")


async def test_a_duplicate_event_gets_its_first_outcome_from_a_full_host(
    memory_store: MemoryStore, stages: Stages
) -> None:
    stage = await stages(memory_store, runs_at_once=1, queued_runs=1)
    event = stage.event()
    first = await stage.intake.accept(event, "parrot")
    await stage.say()
    with pytest.raises(Overloaded):
        await stage.say()
    again = await stage.intake.accept(event, "parrot")
    assert (again.first, again.run_id, again.event_id) == (False, first.run_id, first.event_id)


async def test_an_unknown_agent_is_awaited_only_while_a_plugin_may_provide_it() -> None:
    book = AgentRegistry()
    hope = [True]
    waiting = asyncio.ensure_future(book.wait_for("nobody", 60, hopeful=lambda: hope[0]))
    await asyncio.sleep(0)
    assert not waiting.done()
    hope.clear()
    hope.append(False)
    book.stir()
    assert await waiting is None


@pytest.mark.parametrize(("place", "first"), [(StreamPosition(1, 9_999), None), (StreamPosition(7, 2), 1)])
async def test_an_unknown_stream_position_is_answered_with_one_gap(
    memory_store: MemoryStore, stages: Stages, place: StreamPosition, first: int | None
) -> None:
    stage = await stages(memory_store, parrot)
    run_id = await stage.say()
    whole = await stage.read(run_id)
    gap, *rest = await stage.read(run_id, place)
    said = msgspec.json.decode(gap.json)["data"]
    assert (gap.type, said["reason"], said["first"]) == ("gap", "unknown", first or whole[-1].seq + 1)
    assert rest == ([] if first is None else whole)


async def test_a_run_that_waits_for_a_worker_gets_the_new_version(memory_store: MemoryStore, stages: Stages) -> None:
    stage = await stages(memory_store, workers=0)
    run_id = await stage.say("hello")
    old, new = stage.pool, type(stage.pool)()
    await new.add(parrot)
    stage.pools["default", "parrot"] = new
    old.unavailable = WorkerUnavailable("the pool is retired", reason="test", hint="another one is there")
    old.ready.set()
    await stage.ended(run_id)
    assert (len(old.slots), len(new.slots[0].worker.runs)) == (0, 1)
