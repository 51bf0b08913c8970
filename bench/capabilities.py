"""`scripts/bench capabilities`: the cost of graphs, calls and proofs."""

import asyncio
import tempfile
import time
from pathlib import Path

from capability_calls import calling, measure_calls
from figures import Figure, Measured, median
from mcp_calls import measure_mcp_calls

from bollard.host.audit.trail import ARCHIVE_FOLDER
from bollard.host.backup.archived_files import public_keys
from bollard.host.backup.log_check import check_log, read_witnesses
from bollard.host.backup.table_source import open_snapshot
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import CALL, Node, build_graph, short_names
from bollard.trust.keys import VerifyKey

__all__ = ["measure"]

TOOLS = 500


async def measure(*, quick: bool) -> Measured:
    passes, calls = (3, 300) if quick else (7, 2100)
    figures = [_graph(passes)]
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as name:
        data = Path(name)
        async with calling(data) as bench:
            figures += await measure_calls(bench, passes=passes, calls=calls)
        figures.append(await asyncio.to_thread(_verified, data, passes))
    mcp = await asyncio.to_thread(measure_mcp_calls, 5 if quick else 20)
    figures.append(
        Figure(
            figure="MCP stdio call p50",
            value=mcp.bridge_s * 1000,
            floor=mcp.sdk_s * 1000,
            unit="ms",
            better="lower",
            must=1.5,
            aim=1.2,
        )
    )
    return Measured(figures=figures)


def _graph(passes: int) -> Figure:
    """Build a graph from its capabilities, which their sources have cached."""
    tools = [
        Capability(
            id=f"mcp:server{number % 10}/tool{number // 2}",
            name=f"tool{number // 2}",
            kind="mcp",
            description=f"The tool number {number}, which does one of many things.",
            input_schema={
                "type": "object",
                "properties": {name: {"type": "string", "description": name * 5} for name in ("path", "text", "mode")},
                "required": ["path"],
            },
            source=f"mcp:server{number % 10}",
        )
        for number in range(TOOLS)
    ]
    taken: list[float] = []
    for _ in range(passes * 5):
        started = time.perf_counter()
        names = short_names(tools)
        graph = build_graph(Node(capability=tool, name=names[tool.id], operations=frozenset({CALL})) for tool in tools)
        taken.append((time.perf_counter() - started) * 1000)
        if len(graph) != TOOLS:
            raise RuntimeError("the graph does not hold every tool")
    return Figure(figure="graph build, 500 tools", value=median(taken), unit="ms", better="lower", must=20, aim=10)


def _verified(data: Path, passes: int) -> Figure:
    """Verify the log of the calls, from the file to the last link."""
    keys = {key_id: VerifyKey(bytes.fromhex(key)) for key_id, key in public_keys(data).items()}
    rates: list[float] = []
    for _ in range(passes):
        started = time.perf_counter()
        snapshot = open_snapshot("", data)
        try:
            report = check_log(snapshot, read_witnesses(keys), archive=data / ARCHIVE_FOLDER).report
        finally:
            snapshot.close()
        rates.append(report.records / (time.perf_counter() - started))
        if report.problems:
            raise RuntimeError(f"the log does not verify: {report.problems[0]}")
    return Figure(
        figure="audit verify", value=median(rates), unit="records/s", better="higher", must=200_000, aim=300_000
    )
