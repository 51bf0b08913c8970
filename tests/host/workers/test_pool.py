"""A pool of real worker processes: start, supervision, replacement, quarantine and shutdown."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
import structlog

from bollard.host.errors import WorkerUnavailable
from bollard.host.limits import WORKER_CRASH_WINDOW_S, WORKER_CRASHES
from bollard.host.workers.pool import PluginPool
from bollard.wire.limits import HEARTBEAT_SILENT_S, HEARTBEAT_TIMEOUT_S

pytestmark = pytest.mark.full


READY_S = 60.0


async def test_a_worker_starts_is_discovered_and_runs(pools: Any) -> None:
    pool = pools.open()
    assert pool.status == "starting"
    assert pool.pick() is None
    slot = await pool.wait_ready(READY_S)
    assert pool.status == "ready"
    assert pools.catalogues == [("parrot", ["plugin:local/parrot/default"])]
    sink = pools.run(slot, "hello")
    assert slot.runs == 1
    assert (await sink.over()).how == "answered"
    assert (sink.text, sink.results, slot.runs) == ("hello", ["run.completed"], 0)


@pytest.mark.requirement("P08-19", "P11-54")
async def test_a_crash_ends_its_runs_at_once_and_the_worker_is_replaced(pools: Any, gone: Any) -> None:
    pool = pools.open(workers=2)
    one = await pool.wait_ready(READY_S)
    hanging = pools.run(one, "hang")
    two = await second(pool, one)
    other = pools.run(two, "hang")
    pid = one.pid
    started = time.monotonic()
    pools.run(one, "die")
    end = await hanging.over()
    assert time.monotonic() - started < HEARTBEAT_SILENT_S, "nobody had to ask whether it is there"
    assert end.how == "lost"
    assert not other.end.done()
    gone(pid)
    three = await second(pool, two)
    assert three.pid not in (pid, two.pid)
    assert (await pools.run(three, "again").spoke()) == "again"


async def second(pool: PluginPool, but: Any) -> Any:
    """A ready worker other than `but`, found by the catalogue that comes with each."""
    async with asyncio.timeout(READY_S):
        while True:
            slot = await pool.wait_ready(READY_S)
            if slot is not but and slot.runs == 0:
                return slot
            pool._ready.clear()
            await pool._ready.wait()


@pytest.mark.requirement("P11-53")
async def test_a_stopped_worker_is_killed_when_silent_and_names_its_unread_runs(pools: Any, gone: Any) -> None:
    pool = pools.open()
    slot = await pool.wait_ready(READY_S)
    begun = pools.run(slot, "spawn")
    await begun.spoke()
    started = time.monotonic()
    os.kill(slot.pid, signal.SIGSTOP)
    unread = [pools.run(slot, "hello") for _ in range(50)]
    fresh = await second(pool, slot)
    assert time.monotonic() - started < HEARTBEAT_TIMEOUT_S, "nobody waited for a process that cannot answer"
    gone(slot.pid)
    assert [(end.how, end.unread) for end in (await begun.over(),)] == [("lost", None)]
    assert {(end.how, end.unread) for end in [await sink.over() for sink in unread]} == {("lost", "certain")}
    assert str(pool.last_failure) == "the worker's process is stopped"
    assert (pool.crashes, pool.recent_crashes) == (1, 1)
    assert (await pools.run(fresh, "again").spoke()) == "again"


async def test_a_silent_worker_gets_no_new_runs_until_it_answers(pools: Any) -> None:
    pool = pools.open()
    slot = await pool.wait_ready(READY_S)
    slot.fall_silent()
    assert (pool.pick(), pool.status, [view.status for view in pool.views]) == (None, "restarting", ["silent"])
    assert await pool.wait_ready(0) is slot, "a worker that is silent is waited for"
    assert (pool.pick(), pool.status, [view.status for view in pool.views]) == (slot, "ready", ["ready"])
    assert pool.crashes == 0


@pytest.mark.full
@pytest.mark.requirement("P11-53")
async def test_a_blocked_worker_is_killed_after_twenty_seconds_with_its_read_runs_only(pools: Any, gone: Any) -> None:
    pool = pools.open()
    slot = await pool.wait_ready(READY_S)
    blocking = pools.run(slot, "block")  # before it has said a word
    async with asyncio.timeout(READY_S):
        while "blocking" not in slot.stderr_tail:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.01)
    unread = [pools.run(slot, "hello") for _ in range(50)]
    started = time.monotonic()
    fresh = await second(pool, slot)
    assert time.monotonic() - started >= HEARTBEAT_TIMEOUT_S - HEARTBEAT_SILENT_S
    gone(slot.pid)
    assert (await blocking.over()).unread is None, "it was read, and must not block the next worker too"
    assert {(await sink.over()).unread for sink in unread} == {"certain"}
    assert "blocked" in str(pool.last_failure)
    assert (await pools.run(fresh, "again").spoke()) == "again"


async def test_runs_are_spread_over_the_workers(pools: Any) -> None:
    pool = pools.open(workers=2)
    one = await pool.wait_ready(READY_S)
    pools.run(one, "hang")
    two = await second(pool, one)
    for _ in range(3):
        pools.run(pool.pick(), "hang")
    assert (one.runs, two.runs) == (2, 2)
    assert len(pool.pids) == 2


@pytest.mark.smoke
async def test_five_crashes_quarantine_a_plugin_until_a_pardon(pools: Any) -> None:
    pool = pools.open()
    for _ in range(WORKER_CRASHES):
        slot = await pool.wait_ready(READY_S)
        await pools.run(slot, "die").over()
        await asyncio.sleep(0)
    assert pool.status == "quarantined"
    assert pool.problem is not None
    with pytest.raises(WorkerUnavailable) as refusal:
        await pool.wait_ready(READY_S)
    assert "crashes" in refusal.value.message
    assert refusal.value.hint
    assert pool.pids == []
    pool.restart()
    slot = await pool.wait_ready(READY_S)
    assert (await pools.run(slot, "forgiven").spoke()) == "forgiven"


async def test_a_quarantine_drains_every_worker_and_a_pardon_restarts_them(pools: Any, gone: Any) -> None:
    pool = pools.open(workers=2)
    one = await pool.wait_ready(READY_S)
    survivor = pools.run(one, "hang")
    for _ in range(WORKER_CRASHES):
        slot = await second(pool, one)
        await pools.run(slot, "die").over()
        await asyncio.sleep(0)
    assert pool.status == "quarantined"
    assert pool.pick() is None, "also of the worker that is left"
    assert [view.status for view in pool.views] == ["draining"]
    assert not survivor.end.done(), "what it runs may end"
    pools.clock.advance(2 * WORKER_CRASH_WINDOW_S)
    os.kill(one.pid, signal.SIGKILL)
    await survivor.over()
    gone(one.pid)
    pool.start()
    await asyncio.gather(*pool._tasks)
    assert (pool.status, pool.pids) == ("quarantined", []), "time is no pardon, and nothing starts without one"
    pool.restart()
    fresh = await pool.wait_ready(READY_S)
    pools.run(fresh, "hang")
    await second(pool, fresh)
    assert len(pool.pids) == 2


async def test_a_pending_restart_is_dropped_by_a_quarantine(pools: Any) -> None:
    pool = pools.open(workers=2, restart_s=0.1)
    one = await pool.wait_ready(READY_S)
    hanging = pools.run(one, "hang")
    for _ in range(WORKER_CRASHES - 1):
        slot = await second(pool, one)
        await pools.run(slot, "die").over()
        await asyncio.sleep(0)
    assert pool.status == "ready"
    await pools.run(one, "die").over()  # the fifth, while the fourth waits to be started again
    await hanging.over()
    assert pool.status == "quarantined"
    await asyncio.gather(*pool._tasks)
    assert pool.pids == []


@pytest.mark.requirement("P11-46")
async def test_endless_output_of_a_program_is_limited_and_delays_no_run(pools: Any) -> None:
    pool = pools.open()
    slot = await pool.wait_ready(READY_S)
    with structlog.testing.capture_logs() as logged:
        await pools.run(slot, "yes").spoke()
        async with asyncio.timeout(READY_S):
            while not any("lines were dropped" in line["event"] for line in logged):
                assert await pools.run(slot, "hello").spoke() == "hello"
    assert len([line for line in logged if line["event"] == "y"]) < 50_000


async def test_a_plugin_that_cannot_be_imported_is_quarantined_with_its_error(pools: Any) -> None:
    pool = pools.open("broken", "raise RuntimeError('no such luck')")
    with pytest.raises(WorkerUnavailable) as refusal:
        await pool.wait_ready(READY_S)
    assert "no such luck" in refusal.value.message
    assert pool.status == "quarantined"
    assert pools.catalogues == []


@pytest.mark.smoke
async def test_a_key_printed_by_a_plugin_is_shown_nowhere(pools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the reason of a failed start, which every caller gets, nor in the host's own log."""
    monkeypatch.setenv("PARROT_KEY", "sk-very-secret")
    code = """
        import os
        os.write(2, f"refused: {os.environ['PARROT_KEY']}\\x1b]0;title\\x07\\n".encode())
        os._exit(3)
    """
    pool = pools.open_folder("chatty", code, env=["PARROT_KEY"])
    with structlog.testing.capture_logs() as logged, pytest.raises(WorkerUnavailable) as refusal:
        await pool.wait_ready(READY_S)
    assert "refused: ***" in refusal.value.message
    assert any("refused" in line["event"] for line in logged)
    assert "sk-very-secret" not in f"{refusal.value.message} {pool.problem} {logged}"
    assert "title" not in refusal.value.message, "nor does it drive the terminal of who reads it"


async def test_a_failed_start_counts_as_one_crash(pools: Any) -> None:
    tries = pools.folder / "tries"
    code = f"""
        with open({str(tries)!r}, "a") as file:
            file.write("x")
        raise RuntimeError("no such luck")
    """
    pool = pools.open("broken", code)
    with pytest.raises(WorkerUnavailable):
        await pool.wait_ready(READY_S)
    await pool.stop(0)
    assert tries.read_text() == "x" * WORKER_CRASHES


async def test_a_plugin_that_hangs_in_its_import_is_ended_at_the_time_limit(pools: Any, gone: Any) -> None:
    pids = pools.folder / "pids"
    code = f"""
        import os, time
        with open({str(pids)!r}, "a") as file:
            file.write(f"{{os.getpid()}}\\n")
        time.sleep(600)
    """
    pool = pools.open("sleepy", code, start_s=1.0)
    with pytest.raises(WorkerUnavailable, match="it could not start: the worker did not answer within 1 s"):
        await pool.wait_ready(READY_S)
    assert pool.status == "quarantined"
    for pid in pids.read_text().split():
        gone(int(pid))


async def test_a_bad_plugin_does_not_delay_a_good_one(pools: Any) -> None:
    bad = pools.open("sleepy", "import time; time.sleep(600)", start_s=60.0)
    good = pools.open()
    slot = await good.wait_ready(READY_S)
    assert (await pools.run(slot, "hello").spoke()) == "hello"
    assert bad.status == "starting"


@pytest.mark.requirement("P02-17")
async def test_a_failed_discovery_keeps_the_last_good_catalogue(pools: Any) -> None:
    pool = pools.open()
    slot = await pool.wait_ready(READY_S)
    known = pool.catalogue
    assert known is not None
    pools.write("parrot", "raise RuntimeError('a bad edit')")
    await pools.run(slot, "die").over()
    with pytest.raises(WorkerUnavailable):
        await pool.wait_ready(READY_S)
    assert pool.catalogue is known
    assert len(pools.catalogues) == 1


async def test_a_worker_sees_the_allow_list_and_the_variables_of_its_manifest(
    pools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PARROT_KEY", "HOST_SECRET", "BOLLARD_DATABASE"):
        monkeypatch.setenv(name, "here")
    pool = pools.open_folder(env=["PARROT_KEY", "PARROT_HAT", "BOLLARD_DATABASE"])
    slot = await pool.wait_ready(READY_S)
    seen = {
        name: await pools.run(slot, f"env {name}").spoke()
        for name in ("PARROT_KEY", "PARROT_HAT", "HOST_SECRET", "BOLLARD_DATABASE", "PATH")
    }
    assert seen == {
        "PARROT_KEY": "here",
        "PARROT_HAT": "absent",
        "HOST_SECRET": "absent",
        "BOLLARD_DATABASE": "absent",
        "PATH": os.environ["PATH"],
    }


async def test_a_plugin_of_one_file_gets_only_the_allow_list(pools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARROT_KEY", "here")
    slot = await pools.open().wait_ready(READY_S)
    assert await pools.run(slot, "env PARROT_KEY").spoke() == "absent"
    assert await pools.run(slot, "env PATH").spoke() == os.environ["PATH"]


@pytest.mark.requirement("P11-55")
async def test_a_drained_worker_gets_no_runs_is_replaced_and_ends_once_empty(
    pools: Any, gone: Callable[[int], None]
) -> None:
    pool = pools.open()
    slot = await pool.wait_ready(READY_S)
    busy = pools.run(slot, "hang")
    pool.drain(slot, "run_x")
    assert pool.pick() is None
    fresh = await pool.wait_ready(READY_S)
    assert fresh is not slot
    assert not busy.end.done()
    run = slot._active["run_1"]
    run.cancel("cancelled")
    await busy.over()
    await asyncio.to_thread(gone, slot.pid)


@pytest.mark.parametrize("busy", ["hang", "spawn", "stubborn", "block"])
async def test_a_stopped_pool_leaves_no_process(pools: Any, gone: Any, busy: str) -> None:
    pool = pools.open()
    slot = await pool.wait_ready(READY_S)
    sink = pools.run(slot, busy)
    tree = [slot.pid]
    if busy == "spawn":
        tree.append(int(await sink.spoke()))
    else:
        assert await asyncio.to_thread(psutil.pid_exists, slot.pid)
    await pool.stop(0)
    assert pool.status == "stopped"
    for pid in tree:
        gone(pid)
    with pytest.raises(WorkerUnavailable):
        await pool.wait_ready(READY_S)


async def test_children_of_a_crashed_worker_end_with_it(pools: Any, gone: Any) -> None:
    pool = pools.open()
    slot = await pool.wait_ready(READY_S)
    child = int(await pools.run(slot, "spawn").spoke())
    os.kill(slot.pid, signal.SIGKILL)
    fresh = await second(pool, slot)
    assert fresh.pid != slot.pid
    gone(child)


async def test_a_pool_stopped_during_its_start_leaves_no_process(pools: Any) -> None:
    before = set(psutil.Process().children(recursive=True))
    pool = pools.open(workers=2)
    await asyncio.sleep(0)
    await pool.stop(0)
    left = set(psutil.Process().children(recursive=True)) - before
    _, alive = psutil.wait_procs(left, timeout=120)
    assert alive == []
