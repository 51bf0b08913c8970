"""F26: a stream that is cut anywhere and resumed gives every reader the whole ledger, once and in order."""

import asyncio
import contextlib
import os
import random
import socket
import struct
from typing import Any

import pytest
from tests.simulation.history import History

BROKEN = (OSError, EOFError)
STEP = int(os.environ.get("CHAOS_CUT_STEP", "23"))
"""Bytes between two cuts; 1 cuts at every byte."""


class ChaosProxy:
    """A proxy between a client and a host: it delays the response, cuts it after a number of bytes, or stalls."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self.cut_after: int | None = None
        self.reset = False
        """Whether a cut is an RST instead of an end."""
        self.delay_s = 0.0
        self.piece = 65536
        self.cuts = 0
        self._tasks: set[Any] = set()
        """The loop itself holds them only weakly."""

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        with contextlib.closing(writer):
            host_reader, host_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
            upward = asyncio.create_task(self._pump(reader, host_writer))
            try:
                with contextlib.suppress(OSError):
                    await self._downward(host_reader, writer)
            finally:
                upward.cancel()
                host_writer.close()

    @staticmethod
    async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(piece)

    async def _downward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.cut_after
        while piece := await reader.read(self.piece):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(piece if left is None else piece[:left])
            await writer.drain()
            if left is not None:
                left -= len(piece)
                if left <= 0:
                    self.cuts += 1
                    if self.reset:
                        linger = struct.pack("ii", 1, 0)
                        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                        writer.transport.abort()
                    return


@pytest.fixture
async def make_proxy():
    """A proxy before a host, and a client that speaks through it."""
    made = []

    async def make(host):
        proxy = ChaosProxy(host.port)
        port = await proxy.start()
        made.append(proxy)
        return proxy, host.client_at(port)

    yield make
    for proxy in made:
        await proxy.stop()


async def _read_through(client, view, tries):
    """Read a run to its end over as many connections as it takes."""
    for _ in range(tries):
        try:
            await client.watch(view)
        except BROKEN:
            continue
        if view.ended:
            return
    raise AssertionError(f"not at the end after {tries} connections: {view.place}")


async def test_a_stream_cut_at_any_byte_resumes_without_a_hole_or_a_duplicate(make_host, make_proxy, scripted):
    host = make_host(scripted)
    await host.start()
    await host.ready("scripted")
    event = {"source": "t", "id": "1", "type": "message.received", "agent": "scripted", "data": {"deltas": 4}}
    run_id = (await host.client.post("/api/v1/events", event))["run_id"]
    history = History()
    await host.client.watch(history.view(run_id))
    proxy, client = await make_proxy(host)
    whole = 400 + sum(len(record.json) + 60 for record in history.views[0].records)
    async with asyncio.timeout(300):
        for number, cut in enumerate(range(1, whole, STEP)):
            proxy.cut_after, proxy.reset = cut, number % 2 == 0
            view = history.view(run_id)
            try:
                await client.watch(view)
            except BROKEN:
                proxy.cut_after = None
                await _read_through(client, view, 2)
    assert proxy.cuts > 20
    await host.kill()
    store = host.open_store()
    assert history.disagreements(store) == []
    store.close()


@pytest.mark.smoke
async def test_repeatedly_cut_readers_of_a_live_run_get_all_records(make_host, make_proxy, scripted, seed):
    host = make_host(scripted)
    await host.start()
    await host.ready("scripted")
    dice, history = random.Random(seed), History()
    event = {"source": "t", "id": "1", "type": "message.received", "agent": "scripted", "text": "go"}
    event["data"] = {"deltas": 400, "pause_ms": 10, "state": True}
    run_id = (await host.client.post("/api/v1/events", event))["run_id"]

    async def unlucky():
        proxy, client = await make_proxy(host)
        view = history.view(run_id)
        while not view.ended:
            proxy.cut_after, proxy.reset = dice.randrange(600, 30_000), dice.random() < 0.5
            proxy.delay_s, proxy.piece = dice.choice([0, 0, 0.001]), dice.choice([256, 4096])
            try:
                await client.watch(view)
            except BROKEN:
                continue

    async with asyncio.timeout(120):
        await asyncio.gather(*(unlucky() for _ in range(6)))
    await host.kill()
    store = host.open_store()
    assert history.disagreements(store) == []
    store.close()


@pytest.mark.smoke
async def test_a_stalled_reader_is_cut_with_a_gap_and_delays_no_other_reader(make_host, scripted):
    host = make_host(scripted)
    await host.start()
    await host.ready("scripted")
    history = History()
    event = {"source": "t", "id": "1", "type": "message.received", "agent": "scripted"}
    event["data"] = {"deltas": 30_000}
    run_id = (await host.client.post("/api/v1/events", event))["run_id"]
    async with host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as stalled:
        await host.client.watch(history.view(run_id))  # another reads it all meanwhile
        view = history.view(run_id)
        async for record in stalled.events():
            view.see(record)
    async with asyncio.timeout(60):
        while not view.ended:
            await host.client.watch(view)
    await host.kill()
    store = host.open_store()
    assert history.disagreements(store) == []
    store.close()
