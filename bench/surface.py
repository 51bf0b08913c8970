"""`scripts/bench surface`: lists and timelines on a log of a million rows."""

import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from figures import Figure, Measured
from host_postgres import NoServer, own_database
from host_preload import RECORDS_PER_RUN, preload
from host_process import HostProcess, Installation, host_running
from surface_reads import measure_reads

__all__ = ["measure"]

ROWS = 1_000_000
QUICK_ROWS = 100_000


async def measure(*, quick: bool) -> Measured:
    """Each read on SQLite and, in a full run, on PostgreSQL too."""
    rows, reads = (QUICK_ROWS, 40) if quick else (ROWS, 200)
    figures: list[Figure] = []
    missing: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as name, ExitStack() as databases:
        async with _long_log(Path(name) / "sqlite", rows) as host:
            figures += await measure_reads(host, reads=reads, rows=rows, quick=quick)
        if not quick:
            try:
                database = databases.enter_context(own_database())
            except NoServer as error:
                print(f"PostgreSQL was not measured: {error}", file=sys.stderr, flush=True)
                missing = ("PostgreSQL",)
            else:
                async with _long_log(Path(name) / "postgres", rows, database) as host:
                    figures += await measure_reads(host, reads=reads, rows=rows, quick=False, on="PostgreSQL: ")
    return Measured(figures=figures, missing=missing)


@asynccontextmanager
async def _long_log(data: Path, rows: int, database: str = "") -> AsyncGenerator[HostProcess]:
    """A host whose log has this many rows."""
    preload(data, -(-rows // RECORDS_PER_RUN), database)
    async with host_running(Installation(data=data, database=database)) as host:
        await host.wait_for_agents("benchecho")
        yield host
