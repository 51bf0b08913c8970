"""F46: trickling heads and bodies, readers that do not read and thousands of connections without a request, all at
once, against the product with its own deadlines. A normal client is served within a second."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bollard.host.limits import BODY_WINDOW_S, DRAIN_S, REQUEST_HEAD_S

IDLE = int(os.environ.get("CHAOS_IDLE", "2000"))
"""Connections that ask for nothing; `make chaos` has 20 000, which is more than the host takes."""
LONG = "CHAOS_IDLE" in os.environ
PROCESS_CLIENTS = 5000
"""Connections of one client process."""
HEADS, BODIES, READERS = 100, 30, 10
SERVED_S = REQUEST_HEAD_S - 1
"""A request served later than this may have waited for the end of the slow ones."""
LATE_S = 20.0
"""The tolerance of a deadline while the machine is busy with other tests."""
PART_S = 0.4


@pytest.mark.smoke
async def test_slow_clients_are_cut_and_good_ones_are_served(product: Any) -> None:
    flood = await product.say("flood")
    run_id = flood.one("bollard-run-id")
    with contextlib.ExitStack() as held:
        readers = [held.enter_context(_deaf_reader(product, run_id)) for _ in range(READERS)]
        tasks = [asyncio.create_task(_slow_head(product)) for _ in range(HEADS)]
        tasks += [asyncio.create_task(_slow_body(product)) for _ in range(BODIES)]
        numbers = [min(PROCESS_CLIENTS, IDLE - begun) for begun in range(0, IDLE, PROCESS_CLIENTS)]
        idle = [held.enter_context(_idle(product.port, number)) for number in numbers]
        served = asyncio.create_task(_good_client(product, tasks))
        for process in idle:
            assert (await asyncio.to_thread(process.stdout.readline)).strip() == b"open"
        ended = await asyncio.gather(*tasks)
        times = await served
        for kind, status, seconds in ended:
            limit = REQUEST_HEAD_S if kind == "head" else BODY_WINDOW_S
            if LONG and kind == "head" and not status:
                continue  # it was evicted for another connection
            assert status == 408, (kind, status)
            assert limit - 1 <= seconds <= limit + LATE_S, (kind, seconds)
        assert len(times) > 3
        assert max(times) < SERVED_S, sorted(times)[-5:]
        for process, number in zip(idle, numbers, strict=True):  # says so when the last of them was closed
            assert int(await asyncio.to_thread(process.stdout.readline)) == number
        if LONG:
            await _readers_are_cut(product, readers, run_id)


async def test_an_idle_connection_costs_little(product: Any) -> None:
    number, process = 1000, psutil.Process(product.process.pid)
    await product.timed("warm")
    before = process.memory_info().rss
    clients = [await asyncio.open_connection("127.0.0.1", product.port) for _ in range(number)]
    for _, writer in clients:
        writer.write(product.head("GET", "/healthz", token=False) + b"\r\n")
    for reader, _ in clients:
        assert b"200" in await reader.readline()
    cost = (process.memory_info().rss - before) / number
    for _, writer in clients:
        writer.close()
    assert cost <= 24 * 1024, cost


async def _good_client(product: Any, others: list[Any]) -> list[float]:
    """One run after the other, as long as the others are at it."""
    times: list[float] = []
    while not all(task.done() for task in others):
        times.append(await product.timed(f"good {len(times)}"))
        await asyncio.sleep(0.1)
    return times


async def _slow_head(product: Any) -> tuple[str, int, float]:
    begun = time.monotonic()
    async with product.connected() as (reader, writer):
        feeding = asyncio.create_task(_trickle(writer, product.head("GET", "/api/v1/runs") + b"X: " + b"a" * 1000))
        first = await _end(reader)
        feeding.cancel()
    return "head", int(first.split()[1]) if first else 0, time.monotonic() - begun


async def _slow_body(product: Any) -> tuple[str, int, float]:
    begun = time.monotonic()
    async with product.connected() as (reader, writer):
        writer.write(product.head("POST", "/api/v1/runs", "Content-Length: 100000") + b"\r\n")
        feeding = asyncio.create_task(_trickle(writer, b'{"agent": "' + b"a" * 1000))
        first = await _end(reader)
        feeding.cancel()
    return "body", int(first.split()[1]) if first else 0, time.monotonic() - begun


async def _end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def _trickle(writer: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        for byte in data:
            writer.write(bytes([byte]))
            await asyncio.sleep(PART_S)


def _deaf_reader(product: Any, run_id: str) -> socket.socket:
    """Asks for much and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", product.port))
    client.sendall(product.head("GET", f"/api/v1/runs/{run_id}/stream") + b"\r\n")
    return client


async def _readers_are_cut(product: Any, readers: list[socket.socket], run_id: str) -> None:
    """After the deadline the stream ends without the end of the run, and the run can be resumed from there."""
    await asyncio.sleep(DRAIN_S)
    for client in readers:
        client.settimeout(10)
        got = b""
        with contextlib.suppress(ConnectionError):
            while part := await asyncio.to_thread(client.recv, 1 << 20):
                got += part
        assert b"event: run.ended" not in got
        whole = got.rpartition(b"\n\n")[0]
        last = [line[4:].decode() for line in whole.split(b"\n") if line.startswith(b"id: ")][-1]
        rest = await product.ask("GET", f"/api/v1/runs/{run_id}/stream", f"Last-Event-ID: {last}")
        assert b"event: run.ended" in rest.body
        assert f"id: {last}\n".encode() not in rest.body


@contextlib.contextmanager
def _idle(port: int, number: int) -> Iterator["subprocess.Popen[bytes]"]:
    script = str(Path(__file__).with_name("idle_clients.py"))
    command = [sys.executable, script, str(port), str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()
