"""F01: the process that writes the log is killed. The host stops by itself, and every acknowledgement stays true."""

import asyncio
import contextlib
import json

import psutil
import pytest
from tests.chaos.patience import PATIENCE_S
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

BROKEN = (OSError, EOFError)


@pytest.fixture
def make_up(up_class, scripted, tmp_path):
    return lambda: up_class(tmp_path / "data", scripted, journal="process")


async def _kill_later(process, seconds):
    """Kill it at an instant that the seed chose."""
    await asyncio.sleep(seconds)
    process.kill()


async def _storm(chaos, clients):
    """Several clients until the host is gone, or reports that it cannot write."""
    tasks = [asyncio.create_task(chaos.busy()) for _ in range(clients)]
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(outcome, BROKEN) or "storage_unavailable" in str(outcome), repr(outcome)


@pytest.mark.smoke
async def test_a_host_with_a_killed_journal_stops_and_loses_no_acknowledged_record(make_up, make_chaos, rounds):
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


async def _last_of_stream(host, path, opened):
    """The last record of a stream, after the record that the reader saw before."""
    seen, told = 0, {}
    async with host.client.request("GET", f"{path}/stream") as answer:
        async for record in answer.events():
            if record.type == "message.delta":
                opened.set()
            seen, told = (seen, json.loads(record.json)) if record.type == "gap" else (record.seq, {})
    assert told["data"]["first"] == seen + 1
    return told["type"], told["data"]["reason"]


async def _last_of_socket(host, path, opened):
    """The same of a WebSocket, and the code that it is closed with."""
    headers = {"authorization": f"Bearer {(host.data / 'token').read_text()}"}
    told = {}
    async with connect(f"ws://127.0.0.1:{host.port}{path}/socket", additional_headers=headers) as connection:
        with contextlib.suppress(ConnectionClosed):
            async for text in connection:
                told = json.loads(text)
                if told["event"] == "message.delta":
                    opened.set()
    return told["event"], told["data"]["data"]["reason"], connection.close_code


async def test_readers_get_a_gap_when_the_journal_of_their_host_is_killed(make_up):
    host = make_up()
    await host.start()
    try:
        await host.ready("scripted")
        plan = {"agent": "scripted", "input": {"text": "hello"}, "data": {"deltas": 8, "pause_ms": 600_000}}
        path = f"/api/v1/runs/{(await host.client.post('/api/v1/runs', plan))['run_id']}"
        opened = [asyncio.Event(), asyncio.Event()]
        readers = [_last_of_stream(host, path, opened[0]), _last_of_socket(host, path, opened[1])]
        async with asyncio.timeout(PATIENCE_S):
            tasks = [asyncio.create_task(reader) for reader in readers]
            await asyncio.gather(*(event.wait() for event in opened))
            host.journal().kill()
            assert await asyncio.gather(*tasks) == [("gap", "closing"), ("gap", "closing", 1013)]
        assert await host.died() > 0
    finally:
        await host.kill()


async def test_a_journal_ends_with_its_host(make_up):
    host = make_up()
    await host.start()
    try:
        journal = host.journal()
    finally:
        await host.kill()
    await asyncio.to_thread(psutil.wait_procs, [journal], timeout=PATIENCE_S)
    assert not journal.is_running() or journal.status() == psutil.STATUS_ZOMBIE
