"""A cancel is on disk before it is confirmed: a host that crashes afterwards does not start the run again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bollard.host.runs.control import RunControl
from bollard.wire import WorkerRun

Stages = Callable[..., Awaitable[Any]]


async def some_turns() -> None:
    """Let everything that is ready in the loop happen."""
    for _ in range(30):
        await asyncio.sleep(0)


@pytest.fixture
async def stage(gate: Any, stages: Stages) -> AsyncIterator[Any]:
    yield await stages(gate.store)
    gate.lift()  # before the stage ends: its last entries wait there


async def started(stage: Any) -> tuple[Any, WorkerRun, str]:
    """A run that its worker has begun and that does nothing by itself, and all of which is on disk."""
    worker = stage.pool.slots[0].worker
    run_id = await stage.say()
    await worker.until(lambda: worker.runs)
    await stage.dispatcher.live[run_id].written()
    return worker, worker.runs[-1], run_id


async def test_a_stop_reaches_the_runner_at_once_and_returns_after_its_commit(stage: Any, gate: Any) -> None:
    worker, _, run_id = await started(stage)
    gate.shut()
    stopping = asyncio.create_task(stage.dispatcher.stop(run_id))
    await gate.arrival()
    await worker.until(lambda: worker.cancels)
    await some_turns()
    assert not stopping.done()
    gate.lift()
    assert await stopping
    assert stage.row(run_id).cancel_requested_ms is not None


async def test_a_run_whose_end_is_being_written_cannot_be_stopped(stage: Any, gate: Any) -> None:
    worker, run, run_id = await started(stage)
    gate.shut()
    await run.emit("message.completed", {"message": {"role": "assistant", "content": "done"}})
    await worker.complete(run)
    await gate.arrival()
    await worker.until(lambda: stage.dispatcher.live[run_id].ending)
    stopping = asyncio.create_task(stage.dispatcher.stop(run_id))
    await some_turns()
    assert not stopping.done()
    gate.lift()
    assert not await stopping
    assert stage.row(run_id).status == "completed"


async def test_a_stop_returns_in_time_if_the_store_hangs(stage: Any, gate: Any, loop_time: Any) -> None:
    worker, _, run_id = await started(stage)
    gate.shut()
    stopping = asyncio.create_task(stage.dispatcher.stop(run_id))
    await loop_time.until(stopping.done, 0.5)
    assert stopping.result()
    assert worker.cancels == [(run_id, "cancelled")]


async def test_a_full_revocation_returns_after_the_stop_is_on_disk(stage: Any, gate: Any) -> None:
    _, _, run_id = await started(stage)
    control = RunControl(gate.store, stage.dispatcher.live)
    gate.shut()
    revoking = asyncio.create_task(control.revoke(run_id, everything=True, by="operator"))
    await gate.arrival()  # the revocation
    gate.lift()
    gate.shut()
    await gate.arrival()  # the stop
    await some_turns()
    assert not revoking.done()
    gate.lift()
    await revoking
    assert stage.row(run_id).cancel_requested_ms is not None
