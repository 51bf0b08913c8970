"""`scripts/bench wire`: the connection between one real worker process and a strict consumer, against the raw
machine."""

import asyncio
import gc
import time

import psutil
from figures import Figure, Measured, median
from wire_floor import push_lines_per_s, round_trip_s
from wire_host import BenchHost, CountingSink

__all__ = ["measure"]

RUNS_AT_ONCE = 100


async def _push(host: BenchHost, count: int) -> float:
    sink = CountingSink()
    run = host.run("push", sink, count=count)
    await sink.first_result.wait()
    started = time.perf_counter()
    await run.ended
    elapsed = time.perf_counter() - started
    if sink.deltas != count or sink.faults:
        raise RuntimeError(f"{sink.deltas} of {count} deltas arrived, {sink.faults}")
    return count / elapsed


async def _ping(host: BenchHost, count: int) -> list[float]:
    took: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        await host.end.ping()
        took.append(time.perf_counter() - started)
    return took


async def _ask(host: BenchHost, count: int) -> float:
    sink = CountingSink()
    started = time.perf_counter()
    await host.run("ask", sink, count=count).ended
    if sink.faults:
        raise RuntimeError(str(sink.faults))
    return (time.perf_counter() - started) / count


async def _memory_per_run(host: BenchHost) -> float:
    """KiB of the worker's own memory that each of 100 waiting runs costs."""
    process = psutil.Process(host.worker.pid)
    await host.run("push", CountingSink(), count=10).ended
    before = process.memory_full_info().uss
    sinks = [CountingSink() for _ in range(RUNS_AT_ONCE)]
    runs = [host.run("wait", sink) for sink in sinks]
    await asyncio.gather(*(sink.first_result.wait() for sink in sinks))
    after = process.memory_full_info().uss
    for run in runs:
        run.cancel("cancelled")
    await asyncio.gather(*(run.ended for run in runs))
    return (after - before) / RUNS_AT_ONCE / 1024


async def measure(*, quick: bool) -> Measured:
    """Floors and figures interleaved; medians."""
    passes, results, trips = (3, 60_000, 2_000) if quick else (7, 200_000, 5_000)
    ready: list[float] = []
    push: list[float] = []
    push_floor: list[float] = []
    ping: list[float] = []
    ping_floor: list[float] = []
    ask: list[float] = []
    memory: list[float] = []
    gc.freeze()
    for _ in range(passes):
        push_floor.append(push_lines_per_s(results))
        ping_floor.append(median(round_trip_s(trips)))
        host, ready_s = await BenchHost.start()
        ready.append(ready_s)
        memory.append(await _memory_per_run(host))
        push.append(await _push(host, results))
        ping.append(median(await _ping(host, trips)))
        ask.append(await _ask(host, trips))
        await host.stop()
    floor_us = median(ping_floor) * 1e6
    figures = [
        Figure(
            figure="results through one worker",
            value=median(push),
            floor=median(push_floor),
            unit="results/s",
            better="higher",
            must=0.25,
            aim=0.5,
        ),
        Figure(
            figure="round trip p50",
            value=median(ping) * 1e6,
            floor=floor_us,
            unit="µs",
            better="lower",
            must=3,
            aim=None,
        ),
        Figure(
            figure="API call by a runner, mean",
            value=median(ask) * 1e6,
            floor=floor_us,
            unit="µs",
            better="lower",
            must=None,
            aim=None,
        ),
        Figure(figure="worker ready after spawn", value=median(ready), unit="s", better="lower", must=0.4, aim=None),
        Figure(
            figure=f"worker memory per run, {RUNS_AT_ONCE} at once",
            value=median(memory),
            unit="KiB",
            better="lower",
            must=64,
            aim=None,
        ),
    ]
    return Measured(figures=figures)
