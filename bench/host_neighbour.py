"""The effect of a run that emits deltas without pause on the runs of others, during the run and at its end."""

from figures import Figure, median
from host_process import HostProcess
from load import drive

__all__ = ["bad_neighbour", "long_neighbour"]

CLIENTS = 4
LONG_BYTES = 200_000_000
DELTA_BYTES = 2048


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
    return _figure("p99 beside a flooding run", beside, alone)


async def long_neighbour(host: HostProcess, *, passes: int, seconds: float) -> Figure:
    """The p99 of four clients around the end of a run with 200 MB of deltas, against the same four alone."""
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(passes):
        alone.append(await _p99_ms(host, seconds))
        run_id = await host.start_run(
            "benchflood.ending", bytes=LONG_BYTES, delta_bytes=DELTA_BYTES, pause_s=seconds / 4
        )
        await host.wait_for_record(run_id, "tool.call.started")
        beside.append(await _p99_ms(host, seconds))
        await host.wait_for(run_id, "completed")
    return _figure("p99 beside a run that ends after 200 MB", beside, alone)


def _figure(title: str, beside: list[float], alone: list[float]) -> Figure:
    return Figure(figure=title, value=median(beside), floor=median(alone), unit="ms", better="lower", must=2, aim=1.2)


async def _p99_ms(host: HostProcess, seconds: float) -> float:
    load = await drive(host, clients=CLIENTS, deltas=10, seconds=seconds)
    if load.errors:
        raise RuntimeError(f"{len(load.errors)} errors, the first: {load.errors[0]}")
    return load.latency_ms(0.99)
