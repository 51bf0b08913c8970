"""F04: a worker exceeds its memory. The kernel ends it; only its runs fail, with a reason."""

import asyncio
import contextlib
import resource
from pathlib import Path

import psutil
import pytest
from tests.chaos.patience import PATIENCE_S

MIB = 1 << 20
ROOM = 64 * MIB
"""The memory that the worker may take beyond its present size."""
CGROUP = Path("/sys/fs/cgroup/memory")


class MemoryGroup:
    """A control group of the kernel: it kills a process that exceeds the limit."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hold(self, worker: psutil.Process) -> None:
        (self._path / "memory.limit_in_bytes").write_text(str(ROOM))
        (self._path / "cgroup.procs").write_text(str(worker.pid))

    def killed(self) -> int:
        control = dict(line.split() for line in (self._path / "memory.oom_control").read_text().splitlines())
        return int(control["oom_kill"])


@pytest.fixture
async def memory_group(tmp_path):
    path = CGROUP / f"bollard-{tmp_path.parent.name}-{tmp_path.name}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"a writable control group for memory is missing: {error.strerror}")
    yield MemoryGroup(path)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with contextlib.suppress(OSError):  # busy until the last process in it is gone
                path.rmdir()
                return
            await asyncio.sleep(0.05)


@pytest.fixture
async def host(make_host, scripted, plugin_path):
    host = make_host(scripted, plugin_path("faulty"))
    await host.start()
    await host.ready("scripted", "faulty")
    return host


async def _ends_with_its_runs(host, worker):
    """Two runs on the worker and one beside it, while one of the two takes all the memory there is."""
    beside = asyncio.create_task(host.client.run("scripted", {"deltas": 600, "pause_ms": 20}))
    neighbour = asyncio.create_task(host.client.run("faulty", {"fault": "sleep"}))
    async with host.awaiting("two live runs"):
        while (await host.health())["runs"]["live"] < 2:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.01)
    hungry = asyncio.create_task(host.client.run("faulty", {"fault": "memory"}))
    async with host.awaiting("the worker to be killed"):
        await asyncio.to_thread(worker.wait)
    assert not beside.done()
    async with host.awaiting("the end of both runs"):
        both = await asyncio.gather(hungry, neighbour)
    for ended in both:
        assert ended[-1]["data"]["code"] == "runner.crashed"
        assert [record["seq"] for record in ended] == list(range(1, len(ended) + 1))
    again = await host.client.run("faulty", {"fault": "none"})
    assert again[-1]["data"]["status"] == "completed", "a new worker took the next run"
    records = await beside
    assert records[-1]["data"]["status"] == "completed"
    assert sum(record["type"] == "message.delta" for record in records) == 600


async def test_a_worker_killed_by_the_kernel_for_its_memory_ends_only_its_runs(
    host, memory_group, plugin_path, repeats
):
    for number in range(min(repeats, 4)):  # the fifth crash in a minute would be its last
        worker = host.worker(plugin_path("faulty"))
        memory_group.hold(worker)
        await _ends_with_its_runs(host, worker)
        assert memory_group.killed() == number + 1


async def test_a_worker_that_reaches_its_memory_limit_in_native_code_ends_only_its_runs(host, plugin_path):
    worker = host.worker(plugin_path("faulty"))
    limit, _ = resource.prlimit(worker.pid, resource.RLIMIT_DATA)
    assert limit != resource.RLIM_INFINITY, "every worker has a limit of its own"
    lower = worker.memory_info().data + ROOM  # the same limit, met sooner
    resource.prlimit(worker.pid, resource.RLIMIT_DATA, (lower, lower))
    await _ends_with_its_runs(host, worker)
