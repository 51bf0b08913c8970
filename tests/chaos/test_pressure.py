"""F06, F14, R07: a runner that floods or a disk that is slow makes others wait; memory and queues stay small."""

import asyncio
import contextlib
import time

import psutil
import pytest
from tests.chaos.http_client import fell_behind

from bollard.protocol.limits import WINDOW_RESULTS

MIB = 1 << 20
GROWTH = 50 * MIB
"""Memory that a flood may cost the host."""
SLOW_MS = 500


def _memory(host) -> int:
    """The memory of the host without the workers: its process, and its journal process if it has one."""
    own = psutil.Process(host.pid)
    parts = [child for child in own.children() if "bollard.runtime" not in child.cmdline()]
    return sum(part.memory_info().rss for part in (own, *parts))


class Gauge:
    """The growth of a host and its queues during an observation."""

    def __init__(self, host) -> None:
        self._host = host
        self._before = _memory(host)
        self.growth = 0
        self.waiting = 0

    def queued_little(self, runs: int) -> bool:
        """Whether the journal queue held no more than the starts, results and ends of this many concurrent runs."""
        return self.waiting <= 2 * (runs + 1)

    async def look(self) -> None:
        while True:
            self.growth = max(self.growth, _memory(self._host) - self._before)
            health = await self._host.health()
            self.waiting = max(self.waiting, health["journal"]["waiting"])
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def gauged(host):
    gauge = Gauge(host)
    looking = asyncio.create_task(gauge.look())
    yield gauge
    looking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await looking


def _end(records):
    assert records[-1]["type"] == "run.ended", records[-1]
    return records[-1]["data"]


async def _good_run(host):
    records = await host.client.run("scripted", {"deltas": 40})
    assert _end(records)["status"] == "completed", records[-1]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))


class Flood:
    """A run that floods until it is cancelled, and a reader that counts."""

    def __init__(self, host, **data) -> None:
        self._host = host
        self._data = data
        self._begun = asyncio.Event()
        self.run_id = ""
        self.types: list[str] = []
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        """Count the records. A slow reader resumes at its position."""
        body = {"agent": "faulty", "input": {"text": "go"}, "data": self._data}
        async with self._host.client.request("POST", "/api/v1/runs", body, {"accept": "text/event-stream"}) as answer:
            self.run_id = answer.headers["bollard-run-id"]
            place = await self._count(answer)
        while place is not None:
            path, headers = f"/api/v1/runs/{self.run_id}/stream", {"last-event-id": place}
            async with self._host.client.request("GET", path, headers=headers) as answer:
                place = await self._count(answer, place)

    async def _count(self, answer, place=None):
        """Where to resume if the reader fell behind."""
        async for record in answer.events():
            if fell_behind(record):
                return place
            place = f"{record.epoch}.{record.seq}"
            self.types.append(record.type)
            if record.type == "message.delta":
                self._begun.set()
        return None

    async def begun(self) -> None:
        async with self._host.awaiting("the first of the flood"):
            await self._begun.wait()

    @property
    def deltas(self) -> int:
        return self.types.count("message.delta")

    async def cancel(self) -> str:
        """Stop it; the status it ended with."""
        await self._host.client.post(f"/api/v1/runs/{self.run_id}/cancel", {})
        async with self._host.awaiting("the end of the flood"):
            await self._reader
            while (found := await self._host.client.get(f"/api/v1/runs/{self.run_id}"))["finished_at"] is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return found["status"]


@pytest.fixture
async def host(make_host, scripted, plugin_path):
    host = make_host(scripted, plugin_path("faulty"))
    await host.start()
    await host.ready("scripted", "faulty")
    await _good_run(host)  # one-time loading is not growth
    return host


@pytest.mark.parametrize("fault", ["deltas", "logs", "calls"])
async def test_a_flood_is_limited_and_other_runs_continue(host, fault):
    async with gauged(host) as gauge:
        flood = asyncio.create_task(host.client.run("faulty", {"fault": fault}))
        for _ in range(3):
            await _good_run(host)
        records = await flood
    assert not [record for record in records if record["type"] == "result.rejected"], "credit stopped it in time"
    assert gauge.growth < GROWTH
    assert gauge.queued_little(runs=2)
    if fault == "deltas":
        assert sum(record["type"] == "message.delta" for record in records) == 20_000, records[-1]
    if fault == "calls":
        answer = next(record for record in records if record["type"] == "message.completed")
        assert answer["data"]["message"]["content"].endswith("answered")


@pytest.mark.parametrize("fault", ["endless_deltas", "endless_logs", "endless_calls"])
async def test_an_endless_flood_costs_the_host_little_and_ends_on_cancel(host, plugin_path, fault, repeats):
    floods = [Flood(host, fault=fault, size=200) for _ in range(4)]
    async with gauged(host) as gauge:
        await asyncio.gather(*(flood.begun() for flood in floods))
        for _ in range(10 * repeats):
            await _good_run(host)
        worker = host.worker(plugin_path("faulty")).memory_info().rss
    assert await asyncio.gather(*(flood.cancel() for flood in floods)) == ["cancelled"] * 4
    assert gauge.growth < GROWTH, f"{gauge.growth / MIB:.0f} MiB"
    assert gauge.queued_little(runs=5)
    assert worker < 200 * MIB, "nor does what waits pile up in the worker"


async def test_the_end_of_a_flood_costs_the_host_no_more_than_the_flood(host):
    async with gauged(host) as gauge:
        flood = Flood(host, fault="endless_deltas", size=10_000)
        async with host.awaiting("10 000 deltas"):
            while flood.deltas < 10_000:  # noqa: ASYNC110 -- what a reader was shown: 100 MB
                await asyncio.sleep(0.05)
        await flood.cancel()
        await _good_run(host)
    assert gauge.growth < GROWTH, f"{gauge.growth / MIB:.0f} MiB"


class SlowDisk:
    """A host whose flushes take longer while this is switched on."""

    def __init__(self, host, switch) -> None:
        self.host = host
        self._switch = switch

    def slow(self) -> None:
        self._switch.write_text(str(SLOW_MS))

    def quick(self) -> None:
        self._switch.unlink()

    async def crowd(self, runs: int) -> int:
        """So many runs at once, each to its end; the commits that it took."""
        before = (await self.host.health())["journal"]
        await asyncio.gather(*(_good_run(self.host) for _ in range(runs)))
        after = (await self.host.health())["journal"]
        assert after["failures"] == before["failures"]
        return after["commits"] - before["commits"]


@pytest.fixture
async def slow_disk(make_host, scripted, plugin_path, disk_shim, tmp_path):
    switch = tmp_path / "slow"
    environment = {"LD_PRELOAD": str(disk_shim), "CHAOS_DISK_ROOT": str(tmp_path), "CHAOS_DISK_SLOW": str(switch)}
    host = make_host(scripted, plugin_path("faulty"), environment=environment)
    await host.start()
    await host.ready("scripted", "faulty")
    await _good_run(host)
    return SlowDisk(host, switch)


async def test_a_slow_disk_makes_larger_commits_and_fails_no_run(slow_disk, repeats):
    slow_disk.slow()
    begun = time.monotonic()
    for _ in range(repeats):
        assert await slow_disk.crowd(20) < 30, "what queued up meanwhile shares a commit: not some for each run"
    assert (time.monotonic() - begun) / repeats > SLOW_MS / 1000, "it is slow"
    slow_disk.quick()
    await slow_disk.crowd(20)


async def test_a_flood_onto_a_slow_disk_is_stopped_at_the_worker(slow_disk, plugin_path):
    host = slow_disk.host
    async with gauged(host) as gauge:
        slow_disk.slow()
        before = (await host.health())["journal"]["commits"]
        flood = Flood(host, fault="endless_deltas", size=1000)
        await flood.begun()
        await asyncio.gather(*(_good_run(host) for _ in range(4)))
        worker = host.worker(plugin_path("faulty")).memory_info().rss
        shown, commits = flood.deltas, (await host.health())["journal"]["commits"] - before
        slow_disk.quick()
        assert await flood.cancel() == "cancelled"
    assert shown <= WINDOW_RESULTS * (commits + 1), "no more than one window for each commit"
    assert gauge.growth < GROWTH, f"{gauge.growth / MIB:.0f} MiB"
    assert gauge.queued_little(runs=5)
    assert worker < 200 * MIB
