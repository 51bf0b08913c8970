"""Early start: the output of a runner is published after the commit of its run, and dropped if the commit fails."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ConcurrencyPolicy, StatePolicy
from bollard.host.errors import StorageUnavailable
from bollard.host.runs import dispatcher
from bollard.protocol import limits
from bollard.wire import RemoteError, WorkerRun, decode

Stages = Callable[..., Awaitable[Any]]
STATELESS = AgentPolicy(
    access=AccessPolicy(permissions={"artifacts": ("write",)}),
    state=StatePolicy(enabled=False),
    concurrency=ConcurrencyPolicy(mode="parallel"),
)


async def speak(worker: Any, run: WorkerRun) -> None:
    for word in ("one ", "two"):
        await run.emit("message.delta", {"chunk": {"role": "assistant", "content": word}})
    await worker.complete(run)


def accepting(stage: Any, *, fresh: bool = True, **more: Any) -> asyncio.Task[Any]:
    event = stage.event(**{"conversation": None, **more})
    return asyncio.create_task(stage.intake.accept(event, "parrot", fresh=fresh))


@pytest.fixture
async def stage(gate: Any, stages: Stages) -> Any:
    """A host whose disk waits, with a runner that speaks at once and an agent that keeps no state."""
    stage = await stages(gate.store, speak)
    stage.agent(policy=STATELESS)
    gate.shut()
    return stage


async def test_a_runner_starts_before_the_commit_of_its_run_and_its_results_follow_it(stage: Any, gate: Any) -> None:
    worker = stage.pool.slots[0].worker
    task = accepting(stage)
    await gate.arrival()
    await worker.until(lambda: worker.runs)
    await asyncio.gather(*worker.tasks)
    assert not task.done()
    assert stage.store.records(0, 10) == []
    assert stage.dispatcher.live == {}
    gate.lift()
    accepted = await task
    kinds = [record.type for record in await stage.read(accepted.run_id)]
    assert kinds[:3] == ["run.created", "grant.issued", "run.started"]
    assert kinds[-1] == "run.ended"
    assert kinds.count("message.delta") == 2
    seqs = [record.seq for record in stage.records(accepted.run_id)]
    assert seqs == sorted(set(seqs))
    assert stage.row(accepted.run_id).status == "completed"
    assert len(worker.runs) == 1


async def test_calls_before_the_commit_of_the_run_are_in_its_log(gate: Any, stages: Stages) -> None:
    refused: list[str] = []

    async def ask(worker: Any, run: WorkerRun) -> None:
        try:
            await run.call("host.info", {})
        except RemoteError as error:
            refused.append(error.api_error.code)
            worker.notify()

    async def crowd(worker: Any, run: WorkerRun) -> None:
        await asyncio.gather(*(ask(worker, run) for _ in range(limits.CALLS_IN_FLIGHT + 9)))
        await worker.complete(run)

    stage = await stages(gate.store, crowd)
    stage.agent(policy=STATELESS)
    gate.shut()
    worker = stage.pool.slots[0].worker
    task = accepting(stage)
    await gate.arrival()
    await worker.until(lambda: len(refused) == 9)
    gate.lift()
    accepted = await task
    await stage.read(accepted.run_id)
    denied = [decode(record.data) for record in stage.records(accepted.run_id) if record.type == "api.denied"]
    assert denied == [{"action": "host.info", "outcome": "rate_limited"}, {"outcome": "rate_limited", "count": 9}]


async def test_an_uncommitted_run_is_stopped_and_leaves_no_record(stage: Any, gate: Any) -> None:
    worker = stage.pool.slots[0].worker
    worker.behave = None
    task = accepting(stage)
    await gate.arrival()
    await worker.until(lambda: worker.runs)
    await worker.runs[0].emit("message.delta", {"chunk": {"role": "assistant", "content": "never"}})
    gate.broken = RuntimeError("a bug")
    gate.lift()
    with pytest.raises(StorageUnavailable):
        await task
    await worker.until(lambda: worker.cancels)
    assert worker.cancels == [(worker.runs[0].run_id, "host.lost")]
    assert stage.store.records(0, 10) == []
    assert stage.dispatcher.live == {}
    await worker.runs[0].emit("message.delta", {"chunk": {"role": "assistant", "content": "late"}})
    worker.end.finish_run(worker.runs[0])
    gate.broken = None
    worker.behave = speak
    accepted = await accepting(stage)
    assert (await stage.read(accepted.run_id))[-1].type == "run.ended"


async def test_a_worker_that_ignores_a_stop_is_replaced(stage: Any, gate: Any, loop_time: Any) -> None:
    worker = stage.pool.slots[0].worker
    worker.behave = None
    task = accepting(stage)
    await gate.arrival()
    await worker.until(lambda: worker.runs)
    gate.broken = RuntimeError("a bug")
    gate.lift()
    with pytest.raises(StorageUnavailable):
        await task
    await worker.until(lambda: worker.cancels)
    assert stage.pool.drained == []
    loop_time.advance(limits.CANCEL_GRACE_S + 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stage.pool.drained == [stage.pool.slots[0]]


async def test_a_worker_that_dies_early_fails_the_committed_run(stage: Any, gate: Any) -> None:
    worker = stage.pool.slots[0].worker
    worker.behave = None
    task = accepting(stage)
    await gate.arrival()
    await worker.until(lambda: worker.runs)
    worker.transport.close("gone")
    gate.lift()
    accepted = await task
    assert (await stage.read(accepted.run_id))[-1].type == "run.ended"
    row = stage.row(accepted.run_id)
    assert (row.status, row.reason) == ("failed", "runner.crashed")


@pytest.mark.parametrize(
    ("fresh", "more"),
    [(False, {}), (True, {"conversation": "room"})],
    ids=["an event that may have come before", "a run that needs the store"],
)
async def test_other_runs_start_after_the_commit(stage: Any, gate: Any, fresh: bool, more: dict[str, Any]) -> None:
    worker = stage.pool.slots[0].worker
    task = accepting(stage, fresh=fresh, **more)
    await gate.arrival()
    assert worker.runs == []
    gate.lift()
    await stage.read((await task).run_id)
    assert len(worker.runs) == 1


async def test_only_a_limited_number_of_runs_start_early(
    stage: Any, gate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "EARLY_AMONG", 2)
    worker = stage.pool.slots[0].worker
    tasks = [accepting(stage) for _ in range(4)]
    await gate.arrival()
    await worker.until(lambda: len(worker.runs) == 2)
    await asyncio.gather(*worker.tasks)
    assert len(worker.runs) == 2
    gate.lift()
    for accepted in await asyncio.gather(*tasks):
        await stage.read(accepted.run_id)
        assert stage.row(accepted.run_id).status == "completed"
    assert len(worker.runs) == 4
