"""`scripts/bench sandbox`: confined workers of plugins against those of the level `none`, in turn."""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
from figures import Figure, Measured, median
from host_process import PLUGINS, HostProcess, Installation, host_running
from load import drive
from mcp_calls import measure_confined_calls

from bollard.confine.launch import Launch, LaunchNeeds
from bollard.confine.probe import probe
from bollard.confine.worker_level import LevelName, WorkerLevel, choose_level
from bollard.host.workers.boundary import PluginSource
from bollard.host.workers.worker_slot import WorkerSlot
from bollard.protocol import CHANNEL_FD_VARIABLE, PluginSandbox

__all__ = ["measure"]

LEVELS: Sequence[LevelName] = ("none", "landlock", "full")
CLIENTS = 16
DELTAS = 10
WARM_S = 0.5
SETTLED_S = 0.3
STOP_S = 1.0
MEMORY_MUST_MIB = {"landlock": 3.0, "full": 12.0}


async def measure(*, quick: bool) -> Measured:
    """Start and memory of single workers and calls of MCP servers at each level; runs and their cost on whole hosts."""
    passes, starts, seconds = (3, 3, 0.5) if quick else (5, 5, 2.0)
    levels: dict[LevelName, WorkerLevel] = {name: level for name in LEVELS if (level := _level(name)) is not None}
    missing = [f"level {name}" for name in LEVELS if name not in levels]
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as folder:
        figures = await _worker_figures(levels, passes=passes * starts)
        for name, level in levels.items():
            if name != "none":
                figures.append(await _call_figure(name, level, rounds=passes * 4))
        if "full" in levels:
            figures += await _run_figures(Path(folder), passes=passes, seconds=seconds)
    return Measured(figures=figures, missing=missing)


def _level(name: LevelName) -> WorkerLevel | None:
    findings = probe()
    if name == "landlock":
        findings = replace(findings, view=False, namespaces=False)
    level = choose_level("none" if name == "none" else "best", findings)
    return level if level.name == name else None


async def _worker_figures(levels: dict[LevelName, WorkerLevel], *, passes: int) -> list[Figure]:
    ready: dict[str, list[float]] = {name: [] for name in levels}
    memory: dict[str, list[float]] = {name: [] for name in levels}
    for count in range(passes + 1):
        for name, level in levels.items():
            started = time.perf_counter()
            async with _worker(level):
                taken = time.perf_counter() - started
                await asyncio.sleep(SETTLED_S)
                used = _own_memory_mib()
            if count:  # the first pass fills the caches of files
                ready[name].append(taken)
                memory[name].append(used)
    figures: list[Figure] = []
    for name in levels:
        if name == "none":
            continue
        figures += [
            Figure(
                figure=f"worker ready, {name}",
                value=median(ready[name]) * 1000,
                floor=median(ready["none"]) * 1000,
                unit="ms",
                better="lower",
                must=1.3,
                aim=1.15,
            ),
            Figure(
                figure=f"memory of a worker (PSS), {name}",
                value=median(memory[name]) - median(memory["none"]),
                unit="MiB more",
                better="lower",
                must=MEMORY_MUST_MIB[name],
                aim=None,
            ),
        ]
    return figures


@asynccontextmanager
async def _worker(level: WorkerLevel) -> AsyncGenerator[None]:
    """One worker of the plugin, started as the host starts it."""

    async def confine(source: PluginSource, sandbox: PluginSandbox, argv: Sequence[str]) -> _Confined | None:
        del sandbox
        if level.name == "none":
            return None
        needs = LaunchNeeds(read=(str(source.path),), descriptor_variable=CHANNEL_FD_VARIABLE)
        launch = await asyncio.to_thread(Launch, level, argv, cwd="/", needs=needs)
        return _Confined(launch)

    source = PluginSource(name="benchecho", path=PLUGINS[0])
    slot = WorkerSlot(source, "0", lambda _slot, _reason: None, confine=confine)
    await slot.start()
    try:
        yield
    finally:
        await slot.stop(STOP_S)


class _Confined:
    """A worker without a network."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self.argv = launch.argv
        self.descriptors = launch.descriptors
        self.environment = launch.environment
        self.find_program = launch.find_program
        self.memory_kills = 0

    def explain(self, lines: Sequence[str]) -> None:
        del lines

    async def start(self) -> None:
        self._launch.release()

    async def close(self) -> None:
        await self._launch.close()


def _own_memory_mib() -> float:
    """The proportional memory of all processes below this one."""
    total = 0
    for child in psutil.Process().children(recursive=True):
        total += child.memory_full_info().pss
    return total / 2**20


async def _call_figure(name: str, level: WorkerLevel, *, rounds: int) -> Figure:
    confined_s, plain_s = await measure_confined_calls(level, rounds)
    return Figure(
        figure=f"MCP stdio call, {name}",
        value=confined_s * 1000,
        floor=plain_s * 1000,
        unit="ms",
        better="lower",
        must=1.1,
        aim=1.03,
    )


async def _run_figures(directory: Path, *, passes: int, seconds: float) -> list[Figure]:
    """Runs on a host with confined workers and on one without, in turn."""
    runs: dict[str, list[float]] = {"none": [], "best": []}
    cpu: dict[str, list[float]] = {"none": [], "best": []}
    for name in runs:
        (directory / name).mkdir()
    async with _host(directory, "none") as plain, _host(directory, "best") as confined:
        hosts = {"none": plain, "best": confined}
        for host in hosts.values():
            await host.wait_for_agents("benchecho")
            await drive(host, clients=CLIENTS, deltas=DELTAS, seconds=WARM_S)
        for _ in range(passes):
            for name, host in hosts.items():
                before = host.cpu_with_workers_s()
                load = await drive(host, clients=CLIENTS, deltas=DELTAS, seconds=seconds)
                if load.errors:
                    raise RuntimeError(f"{len(load.errors)} errors, the first: {load.errors[0]}")
                runs[name].append(load.runs_per_s)
                cpu[name].append((host.cpu_with_workers_s() - before) * 1000 / len(load.samples))
    return [
        Figure(
            figure="runs/s, full",
            value=median(runs["best"]),
            floor=median(runs["none"]),
            unit="runs/s",
            better="higher",
            must=0.90,
            aim=0.97,
        ),
        Figure(
            figure="CPU of a run, full",
            value=median(cpu["best"]),
            floor=median(cpu["none"]),
            unit="ms",
            better="lower",
            must=1.05,
            aim=1.02,
        ),
    ]


@asynccontextmanager
async def _host(directory: Path, demand: str) -> AsyncGenerator[HostProcess]:
    variables = {"BOLLARD_WORKER_SANDBOX": demand}
    async with host_running(Installation(data=directory / demand), variables=variables) as host:
        yield host
