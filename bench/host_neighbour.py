"""What a run that emits deltas without pause does to the runs of others."""

from figures import Figure, median
from host_process import HostProcess
from load import drive

__all__ = ["bad_neighbour"]

CLIENTS = 4


async def bad_neighbour(host: HostProcess, *, passes: int, seconds: float) -> Figure:
    """The p99 of four clients beside a flooding run, against the same four alone."""
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(passes):
        alone.append(await _p99_ms(host, seconds))
        run_id = await host.start_run("benchflood")
        await host.wait_for(run_id, "running")
        beside.append(await _p99_ms(host, seconds))
        if (status := await host.status_of(run_id)) != "running":
            raise RuntimeError(f"the flooding run ended by itself: {status}")
        await host.cancel(run_id)
    return Figure(
        figure="p99 beside a flooding run",
        value=median(beside),
        floor=median(alone),
        unit="ms",
        better="lower",
        must=2,
        aim=1.2,
    )


async def _p99_ms(host: HostProcess, seconds: float) -> float:
    load = await drive(host, clients=CLIENTS, deltas=10, seconds=seconds)
    if load.errors:
        raise RuntimeError(f"{len(load.errors)} errors, the first: {load.errors[0]}")
    return load.latency_ms(0.99)
