"""A host that cannot stop in order, because it has no memory or storage does not answer, exits by force: it releases
its data within its deadline, and the next start continues with it."""

import asyncio
import os
import resource
import signal
import time

import psutil
import pytest

from bollard.cli.limits import STOP_DEADLINE_S
from bollard.host.log.records import data_of

GRACE_S = 0.5
SLACK_S = 20.0
"""For a busy machine."""


@pytest.fixture
async def host(up_class, scripted, tmp_path):
    host = up_class(tmp_path / "data", scripted, journal="process", grace_s=str(GRACE_S))
    await host.start()
    await host.ready("scripted")
    yield host
    await host.clear()


def _exhaust_memory(pid):
    """No allocation of some size succeeds any more, and no thread can be started."""
    used = psutil.Process(pid).memory_info().vms
    resource.prlimit(pid, resource.RLIMIT_AS, (used, used))


async def _ends_in_time(host, begun):
    code = await host.died()
    assert time.monotonic() - begun < 2 * GRACE_S + STOP_DEADLINE_S + SLACK_S
    return code


async def _starts_again(host):
    await host.start()
    await host.ready("scripted")
    records = await host.client.run("scripted", {"deltas": 1})
    assert records[-1]["data"]["status"] == "completed"
    await host.end(signal.SIGTERM)


@pytest.mark.full
async def test_a_host_without_memory_ends_after_sigterm_and_starts_again(host):
    long = asyncio.create_task(host.client.run("scripted", {"deltas": 4000, "pause_ms": 50}))
    async with host.awaiting("a live run"):
        while not (await host.health())["runs"]["live"]:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.01)
    _exhaust_memory(host.pid)
    begun = time.monotonic()
    os.kill(host.pid, signal.SIGTERM)
    await _ends_in_time(host, begun)
    await asyncio.gather(long, return_exceptions=True)
    await _starts_again(host)


@pytest.mark.full
async def test_a_host_without_memory_that_loses_its_journal_exits_and_starts_again(host):
    _exhaust_memory(host.pid)
    begun = time.monotonic()
    host.journal().kill()
    await _ends_in_time(host, begun)
    await _starts_again(host)


@pytest.mark.full
async def test_a_host_starts_no_thread_for_a_request(host):
    """A loop that starts one without memory may wait for it for ever."""
    threads = psutil.Process(host.pid).num_threads()
    await asyncio.gather(*(host.client.get("/api/v1/runs") for _ in range(100)))
    assert psutil.Process(host.pid).num_threads() == threads


@pytest.mark.full
async def test_a_host_with_a_frozen_journal_exits_by_force_after_sigterm_and_starts_again(host):
    journal = host.journal()
    journal.suspend()
    begun = time.monotonic()
    os.kill(host.pid, signal.SIGTERM)
    assert await _ends_in_time(host, begun) == -signal.SIGALRM
    await asyncio.to_thread(psutil.wait_procs, [journal], timeout=SLACK_S)
    assert not journal.is_running()
    await _starts_again(host)


@pytest.mark.full
async def test_runs_that_exceed_the_grace_are_cancelled_and_end_with_host_lost(up_class, plugin_path, tmp_path):
    host = up_class(tmp_path / "data", plugin_path("faulty"), grace_s=str(GRACE_S))
    await host.start()
    await host.ready("faulty")
    body = {"agent": "faulty", "input": {"text": "go"}}
    runs = [
        (await host.client.post("/api/v1/runs", {**body, "data": {"fault": fault}}))["run_id"]
        for fault in ("sleep", "ignores_cancel")
    ]
    async with host.awaiting("both runs to begin"):
        for run_id in runs:
            while (await host.client.get(f"/api/v1/runs/{run_id}"))["status"] != "running":  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.01)
    await host.end(signal.SIGTERM)
    store = host.open_store()
    try:
        for run_id in runs:
            records = {record.type: data_of(record) for record in store.records_of_run(run_id, 0, 100)}
            assert records["run.cancelled"] == {"reason": "host.lost"}
            assert (records["run.ended"]["status"], records["run.ended"]["code"]) == ("failed", "host.lost")
    finally:
        store.close()
