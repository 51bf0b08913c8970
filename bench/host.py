"""`scripts/bench host`: a whole host, started as a user starts it, against a floor that only does what physics asks."""

import gc
import resource
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

from figures import Measured
from host_cells import load_figures, measure_cells, postgres_figures
from host_chain import chain_verify
from host_footprint import growth_over_runs, idle_memory, idle_readers, start_times
from host_growth import measure_growth
from host_neighbour import bad_neighbour
from host_postgres import NoServer, own_database
from host_process import HostProcess, Installation, floor_running, host_running
from host_restart import restart_with_a_long_log
from load import Target

__all__ = ["measure", "measure_growth"]


async def measure(*, quick: bool) -> Measured:
    """Every figure of the host. Full adds what needs minutes: 10 000 runs, 10 000 readers, 100 000 runs in the log."""
    passes, seconds = (3, 0.5) if quick else (5, 2.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))  # hosts inherit it
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as name, ExitStack() as databases:
        directory, database = Path(name), _database(databases)
        for part in ("start", "floor", "host", "postgres"):
            (directory / part).mkdir()
        figures = await start_times(directory / "start", passes=passes)
        async with AsyncExitStack() as stack:
            floor = await stack.enter_async_context(floor_running(directory / "floor"))
            host = await _host(stack, Installation(data=directory / "host"))
            figures.append(idle_memory(host))
            servers: dict[str, Target] = {"floor": floor, "host": host}
            if database is not None:
                installed = Installation(data=directory / "postgres", database=database)
                servers["postgres"] = await _host(stack, installed)
            cells = await measure_cells(servers, passes=passes, seconds=seconds)
            figures += load_figures(cells["floor"], cells["host"])
            figures.append(await bad_neighbour(host, passes=passes, seconds=2 * seconds))
            figures.append(await idle_readers(host, 1_000))
            if database is not None:
                figures += postgres_figures(cells["floor"], cells["postgres"])
            if not quick:
                figures.append(await growth_over_runs(host))
                figures.append(await idle_readers(host, 10_000))
        figures.append(chain_verify(passes=passes))
        if not quick:
            figures.append(await restart_with_a_long_log(directory / "restart", passes=passes))
    missing = ("PostgreSQL",) if database is None and not quick else ()
    return Measured(figures=figures, missing=missing)


async def _host(stack: AsyncExitStack, installed: Installation) -> HostProcess:
    """A host whose agents are all there."""
    host = await stack.enter_async_context(host_running(installed))
    waited_for = {"echo", "echo.wait", "flood"}
    while waited_for:
        waited_for.discard(await host.agents.get())
    return host


def _database(stack: ExitStack) -> str | None:
    """The URL of a PostgreSQL database for as long as the stack stands; nothing, and a line that says so, without."""
    try:
        return stack.enter_context(own_database())
    except NoServer as error:
        print(f"PostgreSQL was not measured: {error}", file=sys.stderr)
        print("hint: start one on 127.0.0.1:5432, or name one in BOLLARD_TEST_POSTGRES", file=sys.stderr, flush=True)
        return None
