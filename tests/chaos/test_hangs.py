"""F05: a runner that hangs, in five ways. Its deadline ends its run; other plugins do not notice."""

import asyncio
import contextlib
import shutil
import time

import psutil
import pytest
from tests.chaos.patience import PATIENCE_S

from bollard.protocol.limits import CANCEL_GRACE_S

DEADLINE_S = 1.0
HEEDS = ["sleep"]
"""Hangs that end when they are cancelled."""
DEAF = ["ignores_cancel", "ignores_sigterm"]
"""Hangs that go on, while their worker still answers: it is ended when it is empty."""
STUCK = ["busy", "blocked"]
"""Hangs that take their worker with them: it is killed."""
HANGS = [*HEEDS, *DEAF, *STUCK]


@pytest.fixture
async def plugins(plugin_path, tmp_path):
    """One plugin for each way to hang, so that each has its own worker."""
    (tmp_path / "plugins").mkdir()
    names = {fault: tmp_path / "plugins" / f"{fault.replace('_', '-')}.py" for fault in HANGS}
    for path in names.values():
        shutil.copy(plugin_path("faulty"), path)
    return names


async def _good_runs(host, hanging):
    """Runs of another plugin, one after the other, for as long as some run hangs; how many there were."""
    done = 0
    while not all(task.done() for task in hanging):
        records = await host.client.run("scripted", {"deltas": 40, "pause_ms": 1})
        assert records[-1]["data"]["status"] == "completed", records[-1]
        done += 1
    return done


async def _hang(host, agent, fault):
    """One run from its event to its end: its records, and how long it took."""
    begun = time.monotonic()
    records = await host.client.run(agent, {"fault": fault})
    return records, time.monotonic() - begun


@pytest.mark.requirement("P12-03")
async def test_a_hanging_run_ends_at_its_deadline_and_other_plugins_are_unaffected(
    make_host, scripted, plugins, repeats
):
    agents = {fault: path.stem for fault, path in plugins.items()}
    host = make_host(scripted, *plugins.values(), deadline_s=dict.fromkeys(agents.values(), DEADLINE_S))
    await host.start()
    await host.ready("scripted", *agents.values())
    for _ in range(min(repeats, 4)):  # the fifth killed worker in a minute would be a plugin's last
        workers = {fault: host.worker(path) for fault, path in plugins.items()}
        hanging = {fault: asyncio.create_task(_hang(host, agents[fault], fault)) for fault in HANGS}
        assert await _good_runs(host, hanging.values()) > 1
        for fault, task in hanging.items():
            records, seconds = await task
            assert (records[-1]["type"], records[-1]["data"]["status"]) == ("run.ended", "timeout"), fault
            assert records[-1]["data"]["code"] == "runner.timeout", fault
            grace_s = 0 if fault in HEEDS else CANCEL_GRACE_S
            assert seconds >= DEADLINE_S + grace_s, fault
        for fault in (*DEAF, *STUCK):
            await _gone(workers[fault])
        assert all(workers[fault].is_running() for fault in HEEDS), "a worker that heeds its cancellation goes on"
        for fault in HANGS:
            fresh = await host.client.run(agents[fault], {"fault": "none"})
            assert fresh[-1]["data"]["status"] == "completed", f"{fault}: a worker takes the next run"


async def _gone(worker):
    with contextlib.suppress(psutil.NoSuchProcess):
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.to_thread(worker.wait, PATIENCE_S)
