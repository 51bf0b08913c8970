"""F12: a real disk is full while runs stream. New work is refused, reads continue, and the host heals by itself."""

import asyncio
import contextlib
import shutil
from pathlib import Path

import pytest

MIB = 1 << 20
"""Time from the moment there is space again to the moment something new is taken, on a machine that is busy too."""
RUNS = 20
ENDLESS = {"deltas": 1_000_000, "pause_ms": 100}
"""Slow enough that on a busy machine they do not fill the smaller disk by themselves, for good."""


class SmallDisk:
    """A separate tmpfs, visible to processes started `inside` and, by another path, from here."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self._size = size

    async def mount(self) -> None:
        script = 'mount -t tmpfs -o size="$1" tmpfs "$2" && echo mounted && exec sleep infinity'
        self._holder = await asyncio.create_subprocess_exec(
            *("unshare", "-Urm", "sh", "-c", script, "sh", str(self._size), str(self.folder)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if await self._holder.stdout.readline() != b"mounted\n":
            why = (await self._holder.stderr.read()).decode().strip()
            pytest.skip(f"a tmpfs in a user namespace is missing: {why}")

    @property
    def inside(self) -> list[str]:
        return ["nsenter", "--preserve-credentials", "-U", "-m", "-t", str(self._holder.pid)]

    @property
    def seen_at(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/root{self.folder}")

    def fill(self) -> None:
        """Take all the space that is left."""
        with (self.seen_at / "filler").open("ab", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(4096))

    def free(self) -> None:
        (self.seen_at / "filler").unlink()

    async def unmount(self) -> None:
        self._holder.kill()
        await self._holder.wait()


@pytest.fixture(params=[8, 24])
async def disk(request, tmp_path):
    """8 MiB have no room for the host's whole reserve, 24 MiB have."""
    for tool in ("unshare", "nsenter"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing: it gives the host a small disk of its own")
    folder = tmp_path / "small"
    folder.mkdir()
    disk = SmallDisk(folder, request.param * MIB)
    await disk.mount()
    yield disk
    await disk.unmount()


async def _answer(host, method, path, body=None):
    async with host.awaiting("an answer"), host.client.request(method, path, body) as answer:
        return answer.status, await answer.json()


async def _until_refused(chaos):
    """Send events until one is refused; returns the answer. Accepted ones count as acknowledged."""
    async with chaos.host.awaiting("an event to be refused"):
        while True:
            body = {"source": "chaos", "id": f"late{len(chaos.history.accepted)}", "type": "message.received"}
            status, found = await _answer(chaos.host, "POST", "/api/v1/events", {**body, "agent": "scripted"})
            if status not in (200, 202):
                return status, found["error"]
            chaos.history.acknowledged("chaos", body["id"], found["run_id"])
            chaos.events[body["id"]] = {}


async def _until_taken(chaos):
    """Send one event again and again until it is taken; its run."""
    async with chaos.host.awaiting("an event to be taken again"):
        while True:
            with contextlib.suppress(AssertionError):
                return await chaos.deliver("after")
            await asyncio.sleep(0.1)


async def test_a_full_disk_refuses_new_work_serves_reads_and_heals_by_itself(
    disk, make_host, make_chaos, scripted, repeats, tmp_path
):
    host = make_host(scripted, inside=disk.inside, seen_at=disk.seen_at, data=disk.folder)
    chaos = make_chaos(host)
    await host.start()
    await host.ready("scripted")
    for number in range(repeats):
        await _fill_and_free(disk, chaos, f"{number}.")
    await host.kill()
    host.data = Path(shutil.copytree(disk.seen_at, tmp_path / "kept"))  # SQLite cannot open files behind /proc
    assert not (found := chaos.problems()), "\n".join(found[:10])


async def _fill_and_free(disk, chaos, prefix):
    host = chaos.host
    chaos.events.clear()
    for number in range(RUNS):
        chaos.events[f"{prefix}{number}"] = ENDLESS
    views = [chaos.history.view(await chaos.deliver(event_id)) for event_id in list(chaos.events)]
    readers = [asyncio.create_task(host.client.watch(view)) for view in views]
    async with host.awaiting("the first records of every run"):
        while not all(len(view.records) > 10 for view in views):  # noqa: ASYNC110 -- what readers were shown
            await asyncio.sleep(0.01)
    disk.fill()
    status, error = await _until_refused(chaos)
    assert (status, error["code"], error["retryable"]) == (507, "storage_full", True)
    assert error["hint"]
    await _until_nothing_can_be_written(disk, host)
    await _answers_while_full(host, views)
    disk.free()
    chaos.events["after"] = {"deltas": 3}
    after = chaos.history.view(await _until_taken(chaos))
    await host.client.watch(after)
    assert b'"completed"' in after.records[-1].json
    async with host.awaiting("the host to be ready again"):
        while not (await host.health())["ready"]:  # noqa: ASYNC110 -- another process
            await asyncio.sleep(0.05)
    for view in views:  # one that had nothing to write meanwhile goes on
        await _answer(host, "POST", f"/api/v1/runs/{view.run_id}/cancel", {})
    async with host.awaiting("the end of every run"):
        await asyncio.gather(*readers)
    assert all(view.ended for view in views)
    assert all(b'"host.lost"' in view.records[-1].json or b'"cancelled"' in view.records[-1].json for view in views)


async def _until_nothing_can_be_written(disk, host):
    """The host gives its reserve to active runs; that space is taken too. The space of a failed commit may be reserved
    again, and the host is ready for a moment: that space is taken as well."""
    before = (health := await host.health())["journal"]["failures"]
    async with host.awaiting("a commit that fails, and a host that is not ready"):
        while health["journal"]["failures"] == before or health["ready"]:
            disk.fill()
            health = await host.health()
    assert [reason["code"] for reason in health["reasons"]] == ["disk_full"]


async def _answers_while_full(host, views):
    async with host.client.request("GET", "/healthz") as answer:
        assert answer.status == 200
    assert len((await host.client.get("/api/v1/runs?limit=50"))["items"]) >= RUNS
    for view in views[:3]:
        assert (await host.client.get(f"/api/v1/runs/{view.run_id}"))["run_id"] == view.run_id
        assert (await host.client.get(f"/api/v1/runs/{view.run_id}/records"))["items"]
        status, found = await _answer(host, "POST", f"/api/v1/runs/{view.run_id}/cancel", {})
        assert status in (202, 409), found
