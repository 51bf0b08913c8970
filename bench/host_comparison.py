"""`scripts/bench host --against TREE`: the CPU per run of this tree beside that of other trees of the product."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from figures import Figure, Measured, median
from host_process import PLUGINS, PROGRAM, HostProcess, Installation, host_running
from load import drive

__all__ = ["measure_against"]

CLIENTS = 16
DELTAS = 10
RUNS = 600
"""Of each pass: below a second on a quiet machine, so that a disturbance meets every tree."""
PASSES = 15
OWN = Path(__file__).parent.parent


async def measure_against(trees: Sequence[Path], *, quick: bool) -> Measured:
    """The same runs on a host of each tree in turn. Every tree has a `.venv` of its own (`make setup`); all of them
    serve the plugin of this tree, and one pass is not counted."""
    passes = 7 if quick else PASSES
    found: dict[Path, list[float]] = {tree: [] for tree in (*trees, OWN)}
    with TemporaryDirectory(prefix="bollard-bench-") as name:
        async with AsyncExitStack() as stack:
            hosts: dict[Path, HostProcess] = {}
            for number, tree in enumerate(found):
                data = Path(name) / str(number)
                data.mkdir()
                running = host_running(Installation(data=data), plugins=PLUGINS[:1], program=_program(tree))
                hosts[tree] = await stack.enter_async_context(running)
                await hosts[tree].wait_for_agents("benchecho", "benchecho.wait")
            for number in range(passes + 1):
                order = list(hosts) if number % 2 else list(reversed(hosts))
                for tree in order:
                    cpu_ms = await _cpu_ms_per_run(hosts[tree])
                    if number:
                        found[tree].append(cpu_ms)
    return Measured(figures=[_figure(tree, found) for tree in found])


def _program(tree: Path) -> Path:
    return PROGRAM if tree == OWN else tree / ".venv" / "bin" / "bollard"


async def _cpu_ms_per_run(host: HostProcess) -> float:
    before = host.cpu_s()
    load = await drive(host, clients=CLIENTS, deltas=DELTAS, runs=RUNS)
    if load.errors:
        raise RuntimeError(f"{len(load.errors)} errors, the first: {load.errors[0]}")
    return (host.cpu_s() - before) * 1000 / (RUNS + CLIENTS)


def _figure(tree: Path, found: dict[Path, list[float]]) -> Figure:
    """The CPU per run, and for this tree the median of its ratios to the first other tree, pass by pass."""
    if tree != OWN:
        return Figure(
            figure=f"CPU per run, {tree.name}",
            value=median(found[tree]),
            unit="ms",
            better="lower",
            must=None,
            aim=None,
        )
    first = next(iter(found.values()))
    ratio = median([own / other for own, other in zip(found[OWN], first, strict=True)])
    return Figure(
        figure="CPU per run, this tree",
        value=median(found[OWN]),
        unit="ms",
        better="lower",
        must=None,
        aim=None,
        floor=median(found[OWN]) / ratio,
    )
