"""The host under load beside its floor: the same cells on each server in turn, several passes, medians."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from figures import Figure, median
from host_process import HostProcess
from load import Load, Target, drive

__all__ = ["Cell", "Cells", "load_figures", "measure_cells", "postgres_figures", "traced_figures"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of clients; each starts one run after the other with this many deltas."""

    clients: int
    deltas: int


_WITHOUT_LONG = ("postgres", "traced")
"""Deltas take the same code path there: only the commits are slower, and no delta has a span."""
ALONE, SIXTEEN, SIXTY_FOUR, LONG = Cell(1, 10), Cell(16, 10), Cell(64, 10), Cell(1, 1000)


@dataclass(slots=True)
class Cells:
    """The results of one server, pass by pass."""

    loads: dict[Cell, list[Load]] = field(default_factory=dict[Cell, list[Load]])
    cpu_ms_per_run: dict[Cell, list[float]] = field(default_factory=dict[Cell, list[float]])

    def runs_per_s(self, cell: Cell) -> float:
        return median([load.runs_per_s for load in self.loads[cell]])

    def deltas_per_s(self, cell: Cell) -> float:
        return median([load.deltas_per_s for load in self.loads[cell]])

    def latency_ms(self, cell: Cell) -> float:
        return median([load.latency_ms(0.5) for load in self.loads[cell]])

    def first_delta_ms(self, cell: Cell) -> float:
        return median([load.first_delta_ms(0.5) for load in self.loads[cell]])

    def errors(self, cell: Cell) -> int:
        return sum(len(load.errors) for load in self.loads[cell])


async def measure_cells(servers: Mapping[str, Target], *, passes: int, seconds: float) -> dict[str, Cells]:
    """Every cell on every server before the next cell, every cell before the next pass."""
    found = {name: Cells() for name in servers}
    for _ in range(passes):
        for cell in (ALONE, SIXTEEN, SIXTY_FOUR, LONG):
            for name, server in servers.items():
                if cell == LONG and name in _WITHOUT_LONG:
                    continue
                await _measure_one(name, server, cell, seconds, found[name])
    return found


async def _measure_one(name: str, server: Target, cell: Cell, seconds: float, cells: Cells) -> None:
    before = server.cpu_s() if isinstance(server, HostProcess) else 0.0
    load = await drive(server, clients=cell.clients, deltas=cell.deltas, seconds=seconds)
    if not load.samples:
        raise RuntimeError(f"{name}, {cell}: no run was answered: {load.errors[:3]}")
    if load.errors:
        print(f"{name}, {cell}: {len(load.errors)} errors, the first: {load.errors[0]}", file=sys.stderr, flush=True)
    if isinstance(server, HostProcess):
        cpu_ms = (server.cpu_s() - before) * 1000 / (len(load.samples) + cell.clients)  # the warm-up costs CPU too
        cells.cpu_ms_per_run.setdefault(cell, []).append(cpu_ms)
    cells.loads.setdefault(cell, []).append(load)


def load_figures(floor: Cells, host: Cells) -> list[Figure]:
    """The host on SQLite."""
    return [
        _rate("runs/s, 16 clients", floor, host, SIXTEEN, must=0.22, aim=0.45),
        _rate("runs/s, 64 clients", floor, host, SIXTY_FOUR, must=0.18, aim=0.40),
        _errors("errors, 64 clients", host),
        _latency("latency p50, 1 client", floor, host, must=2.5, aim=1.6),
        Figure(
            figure="first delta p50 over the floor",
            value=host.first_delta_ms(ALONE) - floor.first_delta_ms(ALONE),
            unit="ms",
            better="lower",
            must=1.5,
            aim=0.5,
        ),
        Figure(
            figure="durable deltas/s, 1000-delta run",
            value=host.deltas_per_s(LONG),
            floor=floor.deltas_per_s(LONG),
            unit="deltas/s",
            better="higher",
            must=0.30,
            aim=0.60,
        ),
        Figure(
            figure="host CPU per run, 16 clients",
            value=median(host.cpu_ms_per_run[SIXTEEN]),
            unit="ms",
            better="lower",
            must=1.5,
            aim=0.8,
        ),
    ]


def traced_figures(floor: Cells, host: Cells) -> list[Figure]:
    """The host on SQLite with every trace recorded and sent to a collector on the same machine: the same musts."""
    return [
        _rate("traced: runs/s, 16 clients", floor, host, SIXTEEN, must=0.22, aim=0.45),
        _rate("traced: runs/s, 64 clients", floor, host, SIXTY_FOUR, must=0.18, aim=0.40),
        _errors("traced: errors, 64 clients", host),
        _latency("traced: latency p50, 1 client", floor, host, must=2.5, aim=1.6),
    ]


def postgres_figures(floor: Cells, host: Cells) -> list[Figure]:
    """The host on PostgreSQL, against the same floor."""
    return [
        _rate("PostgreSQL: runs/s, 16 clients", floor, host, SIXTEEN, must=0.12, aim=0.22),
        _rate("PostgreSQL: runs/s, 64 clients", floor, host, SIXTY_FOUR, must=0.12, aim=0.20),
        _errors("PostgreSQL: errors, 64 clients", host),
        _latency("PostgreSQL: latency p50, 1 client", floor, host, must=5, aim=3),
    ]


def _rate(name: str, floor: Cells, host: Cells, cell: Cell, *, must: float, aim: float) -> Figure:
    return Figure(
        figure=name,
        value=host.runs_per_s(cell),
        floor=floor.runs_per_s(cell),
        unit="runs/s",
        better="higher",
        must=must,
        aim=aim,
    )


def _latency(name: str, floor: Cells, host: Cells, *, must: float, aim: float) -> Figure:
    return Figure(
        figure=name,
        value=host.latency_ms(ALONE),
        floor=floor.latency_ms(ALONE),
        unit="ms",
        better="lower",
        must=must,
        aim=aim,
    )


def _errors(name: str, host: Cells) -> Figure:
    return Figure(figure=name, value=host.errors(SIXTY_FOUR), unit="runs", better="lower", must=0, aim=0)
