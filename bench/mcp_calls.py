"""One MCP call over stdio: through the host's bridge, and with the SDK's own client, to the same server.

Both are measured in turns, so that other load affects both.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcp import Client, StdioServerParameters

from bollard.confine.cgroup import UNLIMITED
from bollard.confine.worker_level import WorkerLevel
from bollard.host.capabilities.sources import CallContext, CallOrder
from bollard.host.clock import SystemClock
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connection_log import ConnectionLog
from bollard.host.egress.worker_proxy import WorkerProxy
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.saved_resources import JointChange, SavedChanges
from bollard.host.log.writer import Writer
from bollard.host.mcp.consent import ConsentMcpTools
from bollard.host.mcp.source import McpSource
from bollard.host.store.blobs import BlobStore
from bollard.host.store.selection import choose_store
from bollard.host.telemetry.counts import ProxyCounts
from bollard.host.workers.sandbox import WorkerSandbox
from bollard.protocol import JsonObject
from bollard.trust.keys import SigningKey

__all__ = ["McpCalls", "measure_confined_calls", "measure_mcp_calls"]

SERVER: Final = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")


@server.tool()
def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


server.run()
"""
ROUNDS: Final = 20
CALLS_OF_ROUND: Final = 25
_READY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class McpCalls:
    """Medians of one call, in seconds."""

    bridge_s: float
    sdk_s: float

    @property
    def ratio(self) -> float:
        return self.bridge_s / self.sdk_s


class _NoSecrets:
    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]:
        del workspace, names, purpose, by
        return {}

    def find(self, workspace: str, name: str) -> object | None:
        del workspace, name
        return None

    async def keep_own(self, workspace: str, name: str, value: str, *, by: str) -> object:
        raise NotImplementedError("the server of this benchmark needs no login")

    async def drop_own(self, workspace: str, name: str, *, by: str) -> None:
        del workspace, name, by

    def leaving(self, workspace: str, names: Iterable[str], by: str) -> JointChange:
        del workspace, names, by
        return JointChange()


def measure_mcp_calls(rounds: int = ROUNDS) -> McpCalls:
    """Takes some seconds."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(Path(folder), _program(Path(folder)), rounds))


async def measure_confined_calls(level: WorkerLevel, rounds: int = ROUNDS) -> tuple[float, float]:
    """Medians of one call in seconds, to a server at this level and to one that is not confined, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        program = _program(Path(folder))
        async with (
            _served(Path(folder, "confined"), program, level) as (confined, order),
            _served(Path(folder, "plain"), program) as (plain, same_order),
        ):
            pairs = [
                (await _timed(confined.invoke(order)), await _timed(plain.invoke(same_order)))
                for _ in range(rounds * CALLS_OF_ROUND)
            ]
            return statistics.median(each[0] for each in pairs), statistics.median(each[1] for each in pairs)


def _program(folder: Path) -> Path:
    """The server, outside of the data directories, which confined servers do not see."""
    program = folder / "code" / "server.py"
    program.parent.mkdir()
    program.write_text(SERVER, encoding="utf-8")
    return program


async def _measured(folder: Path, program: Path, rounds: int) -> McpCalls:
    async with (
        _served(folder / "data", program) as (source, order),
        Client(StdioServerParameters(command=sys.executable, args=[str(program)])) as client,
    ):
        return await _in_turns(source, order, client, rounds)


@asynccontextmanager
async def _served(
    data: Path, program: Path, level: WorkerLevel | None = None
) -> AsyncGenerator[tuple[McpSource, CallOrder]]:
    """A connected server behind a bridge, and a call of its tool."""
    clock = SystemClock()
    await asyncio.to_thread(data.mkdir)
    store = choose_store("", data, clock)
    store.open()
    writer = Writer(
        store, BlobStore(data / "blobs"), clock, incarnation="bench", key=SigningKey(SigningKey.new_secret())
    )
    journal = Journal(WriterThread(writer))
    await journal.start()
    sandbox = None
    if level is not None:
        proxy = WorkerProxy(EgressClient(), ConnectionLog(lambda _: None, ProxyCounts()))
        sandbox = WorkerSandbox(level, proxy, (), data, UNLIMITED)
    source = McpSource(
        changes=SavedChanges(journal, clock),
        secrets=_NoSecrets(),
        clock=clock,
        home=data / "mcp",
        egress=EgressClient(),
        sandbox=sandbox,
    )
    source.start()
    try:
        yield source, await _connected(source, program)
    finally:
        await source.stop()
        await journal.close()
        store.close()


async def _connected(source: McpSource, program: Path) -> CallOrder:
    """Connect the server, and consent to its tool. Returns a call of it."""
    body: JsonObject = {"command": sys.executable, "args": [str(program)]}
    await source.repository.save(body, "default", "bench", by="bench", edited=None)
    await source.refresh("default", "bench")
    connection = source.connection("default", "bench")
    if connection is None or not connection.connected:
        raise RuntimeError("the server did not connect")
    capability = connection.tools[0].capability
    if capability is None:
        raise RuntimeError("the tool cannot be used")
    yes: JsonObject = {"tools": [{"name": capability.name, "definition_sha256": capability.definition_sha256}]}
    await source.consent("default", "bench", ConsentMcpTools.from_wire(yes), "bench")
    return CallOrder(
        call_id="call",
        capability=capability,
        arguments={"a": 1, "b": 2},
        context=CallContext(run_id="run", workspace="default", agent_id="agent"),
        timeout_s=_READY_S,
    )


async def _in_turns(source: McpSource, order: CallOrder, client: Client, rounds: int) -> McpCalls:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours += [await _timed(source.invoke(order)) for _ in range(CALLS_OF_ROUND)]
        theirs += [await _timed(client.call_tool("add", {"a": 1, "b": 2})) for _ in range(CALLS_OF_ROUND)]
    return McpCalls(bridge_s=statistics.median(ours), sdk_s=statistics.median(theirs))


async def _timed(call: Awaitable[object]) -> float:
    begun = time.perf_counter()
    await call
    return time.perf_counter() - begun


if __name__ == "__main__":
    found = measure_mcp_calls()
    print(f"bridge {found.bridge_s * 1e3:.2f} ms, SDK {found.sdk_s * 1e3:.2f} ms, ratio {found.ratio:.2f}")
