"""F01: the process that writes the log is killed. The host stops by itself, and what was acknowledged stays true."""

import asyncio

import psutil
import pytest
from tests.chaos.patience import PATIENCE_S

BROKEN = (OSError, EOFError)


@pytest.fixture
def make_up(up_class, scripted, tmp_path):
    return lambda: up_class(tmp_path / "data", scripted, journal="process")


async def _kill_later(process, seconds):
    """Kill it at an instant that the seed chose."""
    await asyncio.sleep(seconds)
    process.kill()


async def _storm(chaos, clients):
    """Several clients until the host is gone, or says that it cannot write."""
    tasks = [asyncio.create_task(chaos.busy()) for _ in range(clients)]
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, BROKEN) or "storage_unavailable" in str(outcome), repr(outcome)


async def test_a_host_whose_journal_is_killed_stops_and_loses_nothing_it_acknowledged(make_up, make_chaos, rounds):
    host = make_up()
    chaos = make_chaos(host)
    try:
        for _ in range(max(1, rounds // 2)):
            await host.start()
            await host.ready("scripted")
            nemesis = asyncio.create_task(_kill_later(host.journal(), chaos.random.uniform(0.02, 0.8)))
            await _storm(chaos, clients=6)
            await nemesis
            assert await host.died() > 0, "it ends by itself, and not as if all were well"
        await host.start()
        await host.ready("scripted")
        await chaos.settle()
        assert len(chaos.history.accepted) >= rounds
    finally:
        await host.kill()
    assert not (found := chaos.problems()), "\n".join(found[:10])


async def test_a_journal_does_not_outlive_its_host(make_up):
    host = make_up()
    await host.start()
    try:
        journal = host.journal()
    finally:
        await host.kill()
    await asyncio.to_thread(psutil.wait_procs, [journal], timeout=PATIENCE_S)
    assert not journal.is_running() or journal.status() == psutil.STATUS_ZOMBIE
