"""`scripts/bench host`: a whole host, started like a user would, against a floor of the machine."""

import gc
import resource
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

from figures import Figure, Measured
from host_cells import load_figures, measure_cells, postgres_figures, traced_figures
from host_chain import chain_verify
from host_footprint import growth_over_runs, idle_memory, idle_readers, start_times, stuck_readers
from host_grants import grant_figures
from host_growth import measure_growth
from host_neighbour import bad_neighbour, long_neighbour
from host_postgres import NoServer, own_database
from host_process import NO_VARIABLES, HostProcess, Installation, floor_running, host_running, trace_sink_running
from host_restart import restart_with_a_long_log
from load import Target

__all__ = ["measure", "measure_growth"]


async def measure(*, quick: bool) -> Measured:
    """Every figure of the host. The full run adds those that take minutes: 10 000 runs, 10 000 readers, 100 000 runs in
    the log."""
    passes, seconds = (3, 0.5) if quick else (5, 2.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))  # hosts inherit it
    gc.freeze()
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as name, ExitStack() as databases:
        directory, database = Path(name), _database(databases)
        for part in ("start", "readers", "stuck-readers", "floor", "host", "traced", "postgres"):
            (directory / part).mkdir()
        figures = await start_times(directory / "start", passes=passes)
        async with _host(directory / "readers") as host:
            figures += [idle_memory(host), await idle_readers(host, 1_000)]
        async with _host(directory / "stuck-readers") as host:
            figures += await stuck_readers(host)
        async with AsyncExitStack() as stack:
            floor = await stack.enter_async_context(floor_running(directory / "floor"))
            host = await stack.enter_async_context(_host(directory / "host"))
            sink = await stack.enter_async_context(trace_sink_running())
            traced = await stack.enter_async_context(_host(directory / "traced", variables=sink.variables))
            servers: dict[str, Target] = {"floor": floor, "host": host, "traced": traced}
            if database is not None:
                servers["postgres"] = await stack.enter_async_context(_host(directory / "postgres", database))
            cells = await measure_cells(servers, passes=passes, seconds=seconds)
            if not await sink.taken():
                raise RuntimeError("the traced host sent no span")
            figures.append(await bad_neighbour(host, passes=passes, seconds=2 * seconds))
            # Each pass writes 200 MB first: a quick run has time for one.
            figures.append(await long_neighbour(host, passes=1 if quick else passes, seconds=2 * seconds))
        figures += load_figures(cells["floor"], cells["host"])
        figures += traced_figures(cells["floor"], cells["traced"])
        if database is not None:
            figures += postgres_figures(cells["floor"], cells["postgres"])
        figures.append(chain_verify(passes=passes))
        figures += grant_figures()
        if not quick:
            figures += await _long_figures(directory, passes=passes)
    missing = ("PostgreSQL",) if database is None and not quick else ()
    return Measured(figures=figures, missing=missing)


async def _long_figures(directory: Path, *, passes: int) -> list[Figure]:
    for part in ("many-runs", "many-readers"):
        (directory / part).mkdir()
    async with _host(directory / "many-runs") as host:
        growth = await growth_over_runs(host)
    async with _host(directory / "many-readers") as host:
        readers = await idle_readers(host, 10_000)
    return [growth, readers, await restart_with_a_long_log(directory / "restart", passes=passes)]


@asynccontextmanager
async def _host(
    data: Path, database: str = "", *, variables: Mapping[str, str] = NO_VARIABLES
) -> AsyncGenerator[HostProcess]:
    """A host whose agents are all ready."""
    async with host_running(Installation(data=data, database=database), variables=variables) as host:
        await host.wait_for_agents("benchecho", "benchecho.wait", "benchflood", "benchflood.ending")
        yield host


def _database(stack: ExitStack) -> str | None:
    """The URL of a PostgreSQL database while the stack is open; `None`, with a message, without a server."""
    try:
        return stack.enter_context(own_database())
    except NoServer as error:
        print(f"PostgreSQL was not measured: {error}", file=sys.stderr)
        print("hint: start one on 127.0.0.1:5432, or name one in BOLLARD_TEST_POSTGRES", file=sys.stderr, flush=True)
        return None
