"""A host's side of remote runtimes over a real journal, and runtimes that speak the channel in memory."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_transport import MemoryTransport, memory_pair

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.routing import BindingRegistry
from bollard.host.log.journal import Journal
from bollard.host.plugins.code_store import CodeStore
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.repository import PluginRepository
from bollard.host.runtimes.connections import Connection, RemoteRuntimes, build_runtimes
from bollard.host.store.store import Store
from bollard.protocol import PluginIdentity, TextContent, ToolAnswer, WorkerIdentity
from bollard.trust import connect_proof, enrol_proof
from bollard.trust.keys import SigningKey
from bollard.wire import ToolRequest, WorkerEnd, WorkerRun

HOST_ID = "0123456789abcdef"
PATIENCE_S = 120.0


class Remote:
    """A runtime: a key, a plugin, and the worker's end of a channel. Starts no run by itself."""

    def __init__(self, number: int = 1, *, digest: str | None = "a" * 64, permissions: dict[str, Any] | None = None):
        self.key = SigningKey(bytes([number]) * 32)
        self.plugin = PluginIdentity(author="acme", name="distant", version="1.0", digest=digest)
        self.permissions = permissions or {}
        self.offered_tools: list[dict[str, Any]] = []
        self.runs: list[WorkerRun] = []
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.told_to_leave = False

    @property
    def public(self) -> str:
        return self.key.verify_key.public.hex()

    def dial(self) -> MemoryTransport:
        """The host's end of a line to it."""
        ours, theirs = memory_pair()
        self.end = WorkerEnd(
            theirs, self, worker=WorkerIdentity(name="test", version="1", language="python"), plugin=self.plugin
        )
        self.end.start()
        return ours

    # --- WorkerHandler ---

    def runners(self) -> list[Any]:
        manifest = {
            "id": "plugin:acme/distant/default",
            "name": "default",
            "label": {"en_US": "Distant"},
            "permissions": self.permissions,
        }
        return [
            {
                "plugin_author": "acme",
                "plugin_name": "distant",
                "plugin_version": "1.0",
                "runner_name": "default",
                "manifest": manifest,
            }
        ]

    def tools(self) -> list[Any]:
        return self.offered_tools

    def run_started(self, run: WorkerRun) -> None:
        self.runs.append(run)

    def run_cancelled(self, run: WorkerRun, reason: str) -> None: ...

    def tool_called(self, request: ToolRequest) -> None:
        said = TextContent(text=f"{request.params.tool} for {request.params.context.agent_id}")
        request.answer(ToolAnswer(content=(said,)))

    def tool_cancelled(self, call_id: str) -> None: ...

    def shutdown(self, grace_s: float, done: Callable[[], None]) -> None:
        self.told_to_leave = True

    def closed(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)


class Harbour:
    """One host's side, which can be started again over the same store."""

    def __init__(self, store: Store, open_journal: Callable[..., Journal], clock: ManualClock, shelf: Path) -> None:
        self.store = store
        self.clock = clock
        self._open_journal = open_journal
        self._shelf = shelf
        self._starts = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> "Harbour":
        self._starts += 1
        self.journal = self._open_journal(self.store, f"i{self._starts}")
        self.agents = AgentRegistry()
        self.fleet = PluginFleet(
            clock=self.clock, host_version="test", agents=self.agents, runners={}, first_workspace="default"
        )
        self.plugins = PluginRepository(
            fleet=self.fleet,
            code_store=CodeStore(self._shelf),
            journal=self.journal,
            store=self.store,
            clock=self.clock,
            agents=self.agents,
            bindings=BindingRegistry(),
        )
        await self.plugins.load()
        self.remote: RemoteRuntimes = build_runtimes(
            journal=self.journal,
            clock=self.clock,
            fleet=self.fleet,
            plugins=self.plugins,
            host_id=HOST_ID,
            host_version="test",
            is_open=lambda workspace: workspace != "closed",
        )
        await self.remote.load(self.store)
        return self

    async def again(self) -> "Harbour":
        """The host stops and starts."""
        await self.stop()
        await self.journal.close()
        return await self.start()

    async def stop(self) -> None:
        self.remote.connections.close()
        await asyncio.gather(*self._tasks)
        await self.fleet.stop()

    async def invite(self, name: str = "box", workspace: str = "default", plugin: str | None = None) -> str:
        return (await self.remote.repository.invite(workspace, name, plugin, "admin-token"))[0]

    async def enrol(self, runtime: Remote, name: str = "box", **more: Any) -> None:
        code = await self.invite(name, **more)
        await self.remote.repository.enrol(code, runtime.public, self.proof(runtime, code))

    @staticmethod
    def proof(runtime: Remote, code: str) -> str:
        return runtime.key.sign(enrol_proof(code, runtime.key.verify_key.public)).hex()

    def signed(self, runtime: Remote) -> tuple[str, str, str]:
        """The handshake headers of the runtime."""
        nonce, _ = self.remote.challenges.issue()
        signature = runtime.key.sign(connect_proof(HOST_ID, nonce, runtime.key.verify_key.public))
        return runtime.public, nonce, signature.hex()

    async def connect(self, runtime: Remote) -> Connection:
        """Let it in, and wait until it has introduced itself."""
        began: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

        async def served() -> None:
            try:
                async with self.remote.connections.admitted(*self.signed(runtime)) as connection:
                    began.set_result(connection)
                    await self.remote.connections.serve(connection, runtime.dial())
            except Exception as error:
                began.set_exception(error)

        self._tasks.append(asyncio.create_task(served()))
        async with asyncio.timeout(PATIENCE_S):
            connection = await began
            while connection.introduced is None:  # noqa: ASYNC110 -- a commit lies in between
                await asyncio.sleep(0.001)
        return connection

    async def consent(self, connection: Connection) -> None:
        assert connection.introduced is not None
        saved = connection.saved
        await self.remote.connections.consent(saved.workspace, saved.id, connection.introduced.consent, "admin-token")

    def records(self, kind: str) -> list[Any]:
        return [row for row in self.store.records(0, 10_000) if row.type == kind]


@pytest.fixture
async def harbour(store: Store, open_journal: Any, clock: ManualClock, tmp_path: Path) -> Any:
    """Over each kind of store."""
    made = await Harbour(store, open_journal, clock, tmp_path / "plugins").start()
    yield made
    await made.stop()


@pytest.fixture
async def quick_harbour(memory_store: Store, open_journal: Any, clock: ManualClock, tmp_path: Path) -> Any:
    made = await Harbour(memory_store, open_journal, clock, tmp_path / "plugins").start()
    yield made
    await made.stop()


@pytest.fixture
async def make_remote() -> Callable[..., Remote]:
    return Remote
