"""F01 for schedules: the host is killed around a tick. The tick has one run after the next start."""

import asyncio
import contextlib
import signal
from datetime import UTC, datetime, timedelta

import pytest
from tests.chaos.http_client import BROKEN

from bollard.host.schedules.tick import source_of

TICKS = 4
POINTS = ("schedules.before_tick:2", "schedules.after_tick:2", "dispatcher.after_accept:2", "journal.after_commit:9")


async def save(host, name, **body):
    async with host.client.request("PUT", f"/api/v1/schedules/{name}", {"agent_id": "scripted", **body}) as answer:
        assert answer.status == 201, await answer.json()


async def until_fired(host, names):
    async with host.awaiting("every schedule to fire"):
        for name in names:
            while "last" not in (await host.client.get(f"/api/v1/schedules/{name}")):  # noqa: ASYNC110 -- another process
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("point", [pytest.param(POINTS[0], marks=pytest.mark.smoke), *POINTS[1:]])
async def test_a_host_that_is_killed_around_a_tick_fires_it_once(make_host, plugin_path, point):
    host = make_host(plugin_path("scripted"))
    await host.start(point)
    await host.ready("scripted")
    names = [f"tick-{number}" for number in range(TICKS)]
    at = (datetime.now(UTC) + timedelta(seconds=3)).isoformat(timespec="seconds")
    for name in names:
        await save(host, name, at=at, text="hello")
    with contextlib.suppress(*BROKEN):
        await until_fired(host, names)
        while True:  # ticks that shared a commit left the host alive: further runs commit too
            await host.client.run("scripted", {})
    assert await host.died() == -signal.SIGKILL
    await host.start()
    await until_fired(host, names)
    await host.end(signal.SIGTERM)
    store = host.open_store()
    try:
        rows = store.events("default", None, 1000)
        for name in names:
            ticks = [row for row in rows if row.source == source_of(name)]
            assert [(row.source_id, row.run_id is not None) for row in ticks] == [
                (at.replace("+00:00", ".000Z"), True)
            ], name
    finally:
        store.close()
