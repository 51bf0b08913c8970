"""The additional start time of a host with a long log."""

from pathlib import Path

from figures import Figure, median
from host_preload import preload
from host_process import Installation, host_running

__all__ = ["restart_with_a_long_log"]

RUNS = 100_000


async def restart_with_a_long_log(directory: Path, *, passes: int) -> Figure:
    """The same host on an empty log and on one with 100 000 runs, in turn."""
    empty, full = Installation(data=directory / "empty"), Installation(data=directory / "full")
    for installed in (empty, full):
        installed.data.mkdir(parents=True)
    preload(full.data, RUNS)
    ready: dict[str, list[float]] = {"empty": [], "full": []}
    for count in range(passes + 1):
        for name, installed in (("empty", empty), ("full", full)):
            async with host_running(installed) as host:
                if count:  # the first start creates schema and keys
                    ready[name].append(host.ready_s)
    return Figure(
        figure="restart with 100 000 runs, more than empty",
        value=median(ready["full"]) - median(ready["empty"]),
        unit="s",
        better="lower",
        must=0.5,
        aim=0.1,
        scope="full",
    )
