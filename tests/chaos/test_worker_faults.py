"""F04 to F08, F11: a plugin that crashes, hangs, floods or talks nonsense costs its own runs and nothing else."""

import asyncio
import contextlib

import psutil
import pytest
from tests.chaos.patience import PATIENCE_S

RUNS_A_SECOND = 10


@pytest.fixture
async def host(make_host, scripted, plugin_path):
    """A host with a bad plugin beside a good one."""
    host = make_host(scripted, plugin_path("faulty"))
    await host.start()
    await host.ready("scripted", "faulty")
    return host


def _end(records):
    assert records[-1]["type"] == "run.ended", records[-1]
    return records[-1]["data"]


async def _good_run(host):
    """A run beside the bad one, from its event to its end."""
    records = await host.client.run("scripted", {"deltas": 40})
    assert _end(records)["status"] == "completed", records[-1]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))


async def _start_bad(host, **data):
    """A bad run that stays active: its id, after its first delta."""
    body = {"agent": "faulty", "input": {"text": "go"}, "data": data}
    async with host.client.request("POST", "/api/v1/runs", body, {"accept": "text/event-stream"}) as answer:
        async for record in answer.events():
            if record.type == "message.delta":
                return answer.headers["bollard-run-id"]
    raise AssertionError("the run ended before its first delta")


async def _ended(host, run_id):
    """Read a run to its end."""
    async with (
        host.awaiting("the end of the run"),
        host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as answer,
    ):
        async for record in answer.events():
            last = record
    assert last.type == "run.ended"
    return (await host.client.get(f"/api/v1/runs/{run_id}"))["status"]


@pytest.mark.requirement("P08-19")
@pytest.mark.parametrize("fault", ["segfault", "exit"])
@pytest.mark.smoke
async def test_a_dying_worker_ends_its_runs_and_is_replaced(host, fault):
    async with host.awaiting("the end of the crashed run and of its neighbour"):
        records, _ = await asyncio.gather(host.client.run("faulty", {"fault": fault}), _good_run(host))
    assert _end(records)["code"] == "runner.crashed"
    again = await host.client.run("faulty", {"fault": "none"})
    assert _end(again)["status"] == "completed", "a new worker took the next run"


async def test_five_crashes_quarantine_a_plugin_with_a_reason_and_leave_the_others_alone(host):
    for _ in range(5):
        await host.client.run("faulty", {"fault": "exit"})
    found = await host.until_plugin("faulty", "quarantined")
    assert "5 crashes" in found["problem"]
    refused = await host.client.run("faulty", {"fault": "silent"})
    assert _end(refused)["code"] == "host.overloaded"
    assert "5 crashes" in _end(refused)["error"]
    await _good_run(host)


async def test_plugins_that_fail_to_import_delay_neither_the_host_nor_other_plugins(make_host, scripted, plugin_path):
    host = make_host(plugin_path("hangs"), plugin_path("quits"), scripted)
    await host.start()
    await host.ready("scripted")
    await _good_run(host)
    assert (await host.plugin("hangs"))["status"] in ("starting", "restarting"), "nobody waits for it"
    found = await host.until_plugin("quits", "quarantined")
    assert "could not start" in found["problem"]


@pytest.mark.requirement("P08-14", "P08-15", "P11-55")
async def test_a_run_that_ignores_its_cancel_is_abandoned_and_its_neighbours_continue(host, plugin_path):
    deaf = await _start_bad(host, fault="ignores_cancel")
    asleep = await _start_bad(host, fault="sleep")
    worker = host.worker(plugin_path("faulty"))
    await host.client.post(f"/api/v1/runs/{deaf}/cancel", {})
    assert await _ended(host, deaf) == "cancelled"
    await _good_run(host)
    assert (await host.client.get(f"/api/v1/runs/{asleep}"))["status"] == "running", "its worker is not empty yet"
    fresh = await host.client.run("faulty", {"fault": "none"})
    assert _end(fresh)["status"] == "completed", "a new worker takes what comes"
    await host.client.post(f"/api/v1/runs/{asleep}/cancel", {})
    assert await _ended(host, asleep) == "cancelled"
    await _gone(worker)


@pytest.mark.requirement("P11-53", "P08-15")
async def test_a_worker_with_a_blocked_loop_is_killed_and_its_runs_end(host, plugin_path):
    neighbour = await _start_bad(host, fault="sleep")
    busy = await _start_bad(host, fault="busy")
    worker = host.worker(plugin_path("faulty"))
    await host.client.post(f"/api/v1/runs/{busy}/cancel", {})
    await _good_run(host)
    assert await _ended(host, busy) == "cancelled"
    assert await _ended(host, neighbour) == "failed"
    assert (await host.client.get(f"/api/v1/runs/{neighbour}"))["status_reason"] == "runner.crashed"
    await _gone(worker)


@pytest.mark.requirement("P08-19", "P11-53")
async def test_unread_runs_of_a_stopped_worker_continue_on_its_replacement(host, plugin_path):
    reading = await _start_bad(host, fault="sleep")
    worker = host.worker(plugin_path("faulty"))
    worker.suspend()
    runs = await _begin_some(host, RUNS_A_SECOND * 8)
    async with host.awaiting("the end of every run"):
        ended = await asyncio.gather(*runs)
    assert [_end(records)["status"] for records in ended] == ["completed"] * len(runs)
    for records in ended:
        assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
        assert [record["type"] for record in records].count("run.started") == 1
    assert await _ended(host, reading) == "failed"
    assert (await host.client.get(f"/api/v1/runs/{reading}"))["status_reason"] == "runner.crashed"
    await _gone(worker)


@pytest.mark.full
@pytest.mark.requirement("P08-19", "P11-53")
async def test_a_run_that_blocks_its_worker_ends_with_it_and_unread_runs_continue(host, plugin_path, tmp_path):
    worker, mark = host.worker(plugin_path("faulty")), tmp_path / "mark"
    mute = asyncio.create_task(host.client.run("faulty", {"fault": "mute", "mark": str(mark)}))
    async with host.awaiting("the run that blocks its worker"):
        while not mark.exists():  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.01)
    runs = await _begin_some(host, RUNS_A_SECOND * 8)
    async with host.awaiting("the end of every run"):
        ended = await asyncio.gather(*runs)
        assert _end(await mute)["code"] == "runner.crashed", "it was read, and is not tried again"
    assert [_end(records)["status"] for records in ended] == ["completed"] * len(runs)
    await _gone(worker)


async def _begin_some(host, number):
    """Runs that begin one after the other, some each second."""
    begun = []
    for _ in range(number):
        begun.append(asyncio.create_task(host.client.run("faulty", {"fault": "none"})))
        await asyncio.sleep(1 / RUNS_A_SECOND)  # the load, and no waiting for anything
    return begun


async def _gone(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        await asyncio.to_thread(process.wait, PATIENCE_S)


async def test_an_oversized_result_fails_its_run_and_is_never_truncated(host):
    records = await host.client.run("faulty", {"fault": "giant"})
    assert _end(records)["status"] == "failed"
    assert not [record for record in records if record["type"] == "message.completed"]
    await _good_run(host)


@pytest.mark.requirement("P05-28")
async def test_silence_is_a_failure_for_a_message_and_not_for_another_event(host):
    records = await host.client.run("faulty", {"fault": "silent"})
    assert _end(records)["code"] == "runner.no_output"
    event = {"source": "t", "id": "1", "type": "schedule.triggered", "agent": "faulty", "data": {"fault": "silent"}}
    run_id = (await host.client.post("/api/v1/events", event))["run_id"]
    assert await _ended(host, run_id) == "completed"


@pytest.mark.requirement("P11-46")
async def test_many_large_reads_and_results_of_a_worker_are_no_fault(host, plugin_path):
    worker = host.worker(plugin_path("faulty"))
    async with host.awaiting("the end of runs that read and say much"):
        reads, *said = await asyncio.gather(
            host.client.run("faulty", {"fault": "reads"}),
            *(host.client.run("faulty", {"fault": "large"}) for _ in range(20)),
        )
    assert _end(reads)["status"] == "completed", reads[-1]
    (message,) = [record["data"]["message"] for record in reads if record["type"] == "message.completed"]
    assert message["content"] == "30 read"
    assert [_end(records)["status"] for records in said] == ["completed"] * 20
    assert host.worker(plugin_path("faulty")) == worker, "it is the same one"


@pytest.mark.requirement("P11-55")
async def test_code_after_the_terminal_result_is_cancelled_or_costs_its_worker(host, plugin_path):
    worker = host.worker(plugin_path("faulty"))
    records = await host.client.run("faulty", {"fault": "lingers"})
    assert _end(records)["status"] == "completed"
    async with host.awaiting("the worker to have no run"):
        while await _runs_of_faulty(host):  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)
    assert worker.is_running()
    records = await host.client.run("faulty", {"fault": "lingers_deaf"})
    assert _end(records)["status"] == "completed"
    await _gone(worker)
    again = await host.client.run("faulty", {"fault": "none"})
    assert _end(again)["status"] == "completed", "a new worker takes what comes"


async def test_endless_output_of_a_program_delays_no_other_run(host):
    records = await host.client.run("faulty", {"fault": "yes"})
    assert _end(records)["status"] == "completed"
    async with host.awaiting("a word of how much was dropped"):
        while not any("lines were dropped" in line for line in await _log_of_faulty(host)):
            await _good_run(host)
    again = await host.client.run("faulty", {"fault": "none"})
    assert _end(again)["status"] == "completed", "nor its own worker"


async def _runs_of_faulty(host):
    return sum(each["runs"] for each in (await host.client.get("/api/v1/plugins/local/faulty"))["processes"])


async def _log_of_faulty(host):
    return [line["text"] for line in (await host.client.get("/api/v1/plugins/local/faulty/logs?limit=500"))["items"]]
