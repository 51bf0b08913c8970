"""The cost of schedules that wait, and the punctuality of those that are due."""

import asyncio
import json
import re
import time
from datetime import UTC, datetime
from typing import Any

from figures import Figure
from host_process import HostProcess
from load import Connection

__all__ = ["measure_schedules"]

PLANNED = re.compile(rb'"planned_at":"([^"]+)"')
SCHEDULES = 10_000
SAVED_AT_ONCE = 16
DUE_PER_S = 50
LEAD_S = 10
"""From the first save of a due schedule to the first tick."""
STREAM_S = 60
NEVER = {"cron": "0 0 1 1 *", "agent_id": "benchecho", "data": {"deltas": 0}}
"""Due once a year."""


async def measure_schedules(host: HostProcess, *, quick: bool) -> list[Figure]:
    idle_s, seconds = (10, 6) if quick else (30, 20)
    before = await _cpu_share(host, idle_s)
    await _save(host, {f"s{number}": NEVER for number in range(SCHEDULES)})
    await _cpu_share(host, 2)  # the host plans them
    waiting = await _cpu_share(host, idle_s)
    late = await _due(host, seconds)
    return [
        Figure(
            figure="CPU of 10 000 schedules, none due",
            value=max(0.0, waiting - before),
            unit="% core",
            better="lower",
            must=1,
            aim=0.2,
        ),
        Figure(
            figure=f"ticks late, {DUE_PER_S} at once, p99",
            value=late * 1000,
            unit="ms",
            better="lower",
            must=250,
            aim=100,
        ),
    ]


async def _cpu_share(host: HostProcess, seconds: float) -> float:
    """CPU of the idle host, as a percentage of one core."""
    started, used = time.perf_counter(), host.cpu_s()
    await asyncio.sleep(seconds)
    return 100 * (host.cpu_s() - used) / (time.perf_counter() - started)


async def _save(host: HostProcess, schedules: dict[str, dict[str, Any]]) -> None:
    waiting = iter(schedules.items())

    async def client() -> None:
        connection = Connection(host.port)
        for name, schedule in waiting:
            body = json.dumps(schedule).encode()
            status, chunks = await connection.request("PUT", f"/api/v1/schedules/{name}", host.headers, body)
            text = b"".join([chunk async for chunk in chunks])
            if status not in (200, 201):
                raise RuntimeError(f"PUT {name}: {status} {text.decode()}")
        connection.close()

    await asyncio.gather(*(client() for _ in range(SAVED_AT_ONCE)))


async def _due(host: HostProcess, seconds: int) -> float:
    """p99 of the time from the planned instant until a client of the event stream has the event. The ticks of one
    second are all due at its beginning; the other schedules stay."""
    connection, count = Connection(host.port), seconds * DUE_PER_S
    path = "/api/v1/events/stream?types=schedule.triggered"
    status, chunks = await connection.request("GET", path, {**host.headers, "accept": "text/event-stream"})
    if status != 200:
        raise RuntimeError(f"GET {path}: {status}")
    first_s = int(time.time()) + LEAD_S
    due = {
        f"s{number}": {"at": _instant(first_s + number // DUE_PER_S), "agent_id": "benchecho", "data": {"deltas": 0}}
        for number in range(count)
    }
    reading = asyncio.create_task(_lateness(chunks, count))
    await _save(host, due)
    if time.time() > first_s - 1:
        raise RuntimeError("the schedules were not saved in time: the machine is too busy")
    late = sorted(await asyncio.wait_for(reading, STREAM_S))
    connection.close()
    return late[int(0.99 * len(late))]


def _instant(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


async def _lateness(chunks: Any, count: int) -> list[float]:
    late, text = list[float](), b""
    async for chunk in chunks:
        now, text = time.time(), text + chunk
        *lines, text = text.split(b"\n")
        for planned in (found[1].decode() for line in lines if (found := PLANNED.search(line)) is not None):
            late.append(now - datetime.fromisoformat(planned).timestamp())
        if len(late) >= count:
            return late
    raise RuntimeError("the stream of events ended")
