"""One MCP call over stdio: through the host's bridge, and with the SDK's own client, to the same server.

Both are measured in turns, so that other load affects both.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mcp import Client, StdioServerParameters

from bollard.host.capabilities.sources import CallContext, CallOrder
from bollard.host.clock import SystemClock
from bollard.host.egress.client import EgressClient
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.saved_resources import JointChange, SavedChanges
from bollard.host.log.writer import Writer
from bollard.host.mcp.consent import ConsentMcpTools
from bollard.host.mcp.source import McpSource
from bollard.host.store.blobs import BlobStore
from bollard.host.store.selection import choose_store
from bollard.protocol import JsonObject
from bollard.trust.keys import SigningKey

__all__ = ["McpCalls", "measure_mcp_calls"]

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
        program = Path(folder, "server.py")
        program.write_text(SERVER, encoding="utf-8")
        return asyncio.run(_measured(Path(folder), program, rounds))


async def _measured(folder: Path, program: Path, rounds: int) -> McpCalls:
    clock = SystemClock()
    store = choose_store("", folder, clock)
    store.open()
    writer = Writer(
        store, BlobStore(folder / "blobs"), clock, incarnation="bench", key=SigningKey(SigningKey.new_secret())
    )
    journal = Journal(WriterThread(writer))
    await journal.start()
    source = McpSource(
        changes=SavedChanges(journal, clock),
        secrets=_NoSecrets(),
        clock=clock,
        home=folder / "mcp",
        egress=EgressClient(),
    )
    source.start()
    try:
        order = await _connected(source, program)
        async with Client(StdioServerParameters(command=sys.executable, args=[str(program)])) as client:
            return await _in_turns(source, order, client, rounds)
    finally:
        await source.stop()
        await journal.close()
        store.close()


async def _connected(source: McpSource, program: Path) -> CallOrder:
    """The server behind the bridge, and a call of its tool."""
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
        for _ in range(CALLS_OF_ROUND):
            begun = time.perf_counter()
            await source.invoke(order)
            ours.append(time.perf_counter() - begun)
        for _ in range(CALLS_OF_ROUND):
            begun = time.perf_counter()
            await client.call_tool("add", {"a": 1, "b": 2})
            theirs.append(time.perf_counter() - begun)
    return McpCalls(bridge_s=statistics.median(ours), sdk_s=statistics.median(theirs))


if __name__ == "__main__":
    found = measure_mcp_calls()
    print(f"bridge {found.bridge_s * 1e3:.2f} ms, SDK {found.sdk_s * 1e3:.2f} ms, ratio {found.ratio:.2f}")
