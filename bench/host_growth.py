"""`scripts/bench host --growth`: the cost of a run on logs of different lengths, printed and plotted.

Each length has its own data directory and host; the hosts take turns, so that a noisy minute affects all of them. The
two short logs are restored before every pass, because the load itself would lengthen them.
"""

import shutil
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from figures import Figure, Measured, median
from host_growth_plot import Point, plot
from host_preload import RECORDS_PER_RUN, preload
from host_process import HostProcess, Installation, host_running
from load import drive

__all__ = ["measure_growth"]

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SHORT = 10_000
"""Logs up to this length are restored before every pass."""
PLOT = Path(__file__).parents[1] / "docs" / "images" / "growth.svg"
CLIENTS = 16
RUNS = 400
MUST = 1.25
"""The largest cost of a run on a long log, as a multiple of that on a short one. It leaves room for noise."""


@dataclass(slots=True)
class _Log:
    records: int
    installed: Installation
    cpu_ms: list[float] = field(default_factory=list[float])
    runs_per_s: list[float] = field(default_factory=list[float])

    async def measure(self, host: HostProcess) -> None:
        host.in_conversations = True
        await drive(host, clients=CLIENTS, deltas=10, runs=CLIENTS)
        before = host.cpu_s()
        load = await drive(host, clients=CLIENTS, deltas=10, runs=RUNS)
        if load.errors:
            raise RuntimeError(f"{len(load.errors)} errors, the first: {load.errors[0]}")
        self.cpu_ms.append((host.cpu_s() - before) * 1000 / (RUNS + CLIENTS))
        self.runs_per_s.append(load.runs_per_s)


async def measure_growth(*, quick: bool) -> Measured:
    """The quick run leaves out the million."""
    passes, sizes = (3, SIZES[:3]) if quick else (7, SIZES)
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as name:
        logs = [_preloaded(Path(name) / str(size), size) for size in sizes]
        async with AsyncExitStack() as stack:
            hosts = {
                log.records: await stack.enter_async_context(host_running(log.installed))
                for log in logs
                if log.records > SHORT
            }
            for _ in range(passes):
                for log in logs:
                    if log.records > SHORT:
                        await log.measure(hosts[log.records])
                    else:
                        await _measure_restored(log)
    points = [Point(records=log.records, cpu_ms=median(log.cpu_ms), runs_per_s=median(log.runs_per_s)) for log in logs]
    if not quick:
        PLOT.write_text(plot(points), encoding="utf-8")
    return Measured(figures=[figure for point in points for figure in _figures(point, points[0])])


def _preloaded(directory: Path, records: int) -> _Log:
    directory.mkdir()
    preload(directory, records // RECORDS_PER_RUN)
    return _Log(records, Installation(data=directory))


async def _measure_restored(log: _Log) -> None:
    copy = log.installed.data.with_name(f"{log.records}-copy")
    shutil.copytree(log.installed.data, copy)
    async with host_running(Installation(data=copy)) as host:
        await log.measure(host)
    shutil.rmtree(copy)


def _figures(point: Point, shortest: Point) -> list[Figure]:
    is_floor = point is shortest
    length = f"{point.records:_} records".replace("_", " ")
    return [
        Figure(
            figure=f"host CPU per run, {length}",
            value=point.cpu_ms,
            floor=None if is_floor else shortest.cpu_ms,
            unit="ms",
            better="lower",
            must=None if is_floor else MUST,
            aim=None,
            scope="full",
        ),
        Figure(
            figure=f"runs/s, {length}",
            value=point.runs_per_s,
            floor=None if is_floor else shortest.runs_per_s,
            unit="runs/s",
            better="higher",
            must=None,
            aim=None,
            scope="full",
        ),
    ]
