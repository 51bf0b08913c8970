"""Real MCP servers: programs of this folder, over stdio and streamable HTTP, behind a real bridge process."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.ports import free_port

from bollard.confine.cgroup import UNLIMITED
from bollard.confine.worker_level import WorkerLevel
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import CallContext, CallOrder, CallResult, Progress
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connection_log import ConnectionLog
from bollard.host.egress.connection_records import connection_recorder
from bollard.host.egress.worker_proxy import WorkerProxy
from bollard.host.errors import NotFound
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.saved_resources import JointChange, SavedChanges
from bollard.host.log.writer import Writer
from bollard.host.mcp.connection import McpConnection
from bollard.host.mcp.consent import ConsentMcpTools
from bollard.host.mcp.source import McpSource
from bollard.host.store.blobs import BlobStore
from bollard.host.store.store import Store
from bollard.host.telemetry.counts import ProxyCounts
from bollard.host.workers.sandbox import WorkerSandbox
from bollard.protocol import JsonObject
from bollard.trust.keys import SigningKey

PROGRAMS = Path(__file__).parent / "programs"
WAIT_S = 60.0


class KnownSecrets:
    """Hands out its secrets, and records the purposes."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.used: list[tuple[str, str]] = []

    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name in names:
            if name not in self.known:
                raise NotFound(f"there is no secret {name}", reason="test", hint="set it")
            self.used.append((name, purpose))
            found[name] = self.known[name]
        return found

    def find(self, workspace: str, name: str) -> object | None:
        return self.known.get(name)

    async def keep_own(self, workspace: str, name: str, value: str, *, by: str) -> None:
        self.known[name] = value

    async def drop_own(self, workspace: str, name: str, *, by: str) -> None:
        del self.known[name]

    def leaving(self, workspace: str, names: Iterable[str], by: str) -> JointChange:
        return JointChange(settled=[lambda: [self.known.pop(name, None) for name in names] and None])


class Servers:
    """A source with shared helpers for tests."""

    def __init__(self, source: McpSource, secrets: KnownSecrets, store: Store, data: Path) -> None:
        """`data` is the data directory."""
        self.source = source
        self.secrets = secrets
        self.store = store
        self.data = data

    async def add(self, name: str, *command: str, workspace: str = "w", **fields: Any) -> McpConnection:
        """A newly saved server; one of the programs, or a server of these fields."""
        body: JsonObject = dict(fields)
        if command:
            program, *rest = command
            body |= {"command": sys.executable, "args": [str(PROGRAMS / f"{program}.py"), *rest]}
        await self.source.save(body, workspace, name, by="ann", edited=None)
        found = self.source.connection(workspace, name)
        assert found is not None
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        """Checked after every change of the source, and periodically."""
        async with asyncio.timeout(WAIT_S):
            while not holds():  # noqa: ASYNC110 -- nothing tells of every change of a status
                await asyncio.sleep(0.02)

    async def ready(self, name: str, *command: str, workspace: str = "w", **fields: Any) -> McpConnection:
        """The same, once it is connected and every usable tool of it was agreed to."""
        connection = await self.add(name, *command, workspace=workspace, **fields)
        await self.until(lambda: connection.connected)
        await self.agree(connection)
        return connection

    async def agree(self, connection: McpConnection) -> None:
        yes = [
            {"name": tool.name, "definition_sha256": tool.capability.definition_sha256}
            for tool in connection.tools
            if tool.capability is not None and tool.state != "refused"
        ]
        given = ConsentMcpTools.from_wire({"tools": yes})
        await self.source.consent(connection.workspace, connection.server.server_id, given, "ann")

    def offered(self, server: str, workspace: str = "w") -> list[str]:
        """The tools of one server that are offered now."""
        return [each.name for each in self.source.capabilities(workspace) if each.source == f"mcp:{server}"]

    def capability(self, capability_id: str, workspace: str = "w") -> Capability:
        return next(each for each in self.source.capabilities(workspace) if each.id == capability_id)

    async def call(
        self,
        capability_id: str,
        arguments: JsonObject | None = None,
        *,
        workspace: str = "w",
        timeout_s: float = WAIT_S,
        progress: Progress | None = None,
        capability: Capability | None = None,
    ) -> CallResult:
        order = CallOrder(
            call_id="c1",
            capability=capability or self.capability(capability_id, workspace),
            arguments=arguments or {},
            context=CallContext(run_id="r1", workspace=workspace, agent_id="polly"),
            timeout_s=timeout_s,
            progress=progress,
        )
        return await self.source.invoke(order)


class OpenServers(Protocol):
    async def __call__(
        self, egress: EgressClient | None = None, level: WorkerLevel | None = None, roots: Sequence[Path] = ()
    ) -> Servers: ...


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for all tests of a module: they share the bridge, which takes a while to start."""
    return "asyncio"


@pytest.fixture(scope="module")
async def open_servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenServers]:
    """Opens the source from disk, as a host does at its start."""
    folder, clock = tmp_path_factory.mktemp("mcp"), ManualClock()
    store, key = MemoryStore(clock), SigningKey(SigningKey.new_secret())
    opened: list[tuple[McpSource, Journal]] = []

    async def open_them(
        egress: EgressClient | None = None, level: WorkerLevel | None = None, roots: Sequence[Path] = ()
    ) -> Servers:
        secrets, egress = KnownSecrets(), egress or EgressClient()
        writer = Writer(store, BlobStore(folder / "blobs"), clock, incarnation=f"i{len(opened)}", key=key)
        journal = Journal(WriterThread(writer))
        proxy = WorkerProxy(egress, ConnectionLog(connection_recorder(journal, clock), ProxyCounts()))
        source = McpSource(
            changes=SavedChanges(journal, clock),
            secrets=secrets,
            clock=clock,
            home=folder / "mcp",
            egress=egress,
            sandbox=None if level is None else WorkerSandbox(level, proxy, roots, folder, UNLIMITED),
            reconnect_s=0.05,
        )
        opened.append((source, journal))
        await journal.start()
        await source.load(store)
        source.start()
        return Servers(source, secrets, store, folder)

    yield open_them
    for source, journal in opened:
        await source.stop()
        await journal.close()


@pytest.fixture(scope="module")
async def servers(open_servers: OpenServers) -> Servers:
    return await open_servers()


class Guarded:
    """A server that wants a login, with the authorization server that it names."""

    def __init__(self, mcp_port: int, authority_port: int) -> None:
        self.url = f"http://127.0.0.1:{mcp_port}/mcp"
        self.authority = f"http://127.0.0.1:{authority_port}"

    def control(self, **said: Any) -> None:
        httpx2.get(f"{self.authority}/control", params=said).raise_for_status()

    @property
    def seen(self) -> Any:
        return httpx2.get(f"{self.authority}/seen").raise_for_status().json()


def start_guarded() -> tuple["subprocess.Popen[bytes]", Guarded]:
    """Once it answers."""
    mcp_port, authority_port = free_port(), free_port()
    process = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "guarded.py"), str(mcp_port), str(authority_port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    guarded, until = Guarded(mcp_port, authority_port), time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(httpx2.TransportError):
            assert guarded.seen
            httpx2.get(guarded.url)
            return process, guarded
        assert time.monotonic() < until, "it does not start"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def guarded_server() -> Iterator[Guarded]:
    process, guarded = start_guarded()
    yield guarded
    process.terminate()
    process.wait(30)


@pytest.fixture
def guarded(guarded_server: Guarded) -> Guarded:
    """As it was when it was started."""
    guarded_server.control(reset=1)
    return guarded_server


@pytest.fixture(scope="session")
def http_server() -> Iterator[str]:
    """The friendly program over streamable HTTP, for as long as the tests run."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "friendly.py"), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.wait(30)
