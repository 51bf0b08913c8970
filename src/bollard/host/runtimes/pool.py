"""Connected remote runtimes as workers: the slot of one runtime, the pool of one plugin, and the plugins in the fleet.

A pool starts nothing: runtimes connect and reconnect by themselves.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import WorkerUnavailable
from bollard.host.limits import RUNTIME_ALIVE_S, WORKER_START_S
from bollard.host.log.saved_resources import Saved
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.plugins.repository import PluginRepository
from bollard.host.reason import Why, why
from bollard.host.runtimes.enrolment import Consented, Enrolled
from bollard.host.workers.boundary import Discovered, PluginSource, PoolStatus, WorkerLog, WorkerView
from bollard.host.workers.worker_slot import ConnectedSlot
from bollard.protocol import InitializeResult, PluginIdentity
from bollard.wire import HostEnd, RunnerCatalogue, ToolCatalogue, Transport, Violation, WireError, watch_heartbeat
from bollard.wire.limits import HEARTBEAT_TIMEOUT_S


class RemoteSlot(ConnectedSlot):
    """One connected runtime. The host can disconnect it but not kill it."""

    def __init__(
        self,
        runtime: str,
        clock: Clock,
        *,
        start_s: float = WORKER_START_S,
        violated: Callable[[Violation], None] = lambda _: None,
    ) -> None:
        super().__init__(runtime, violated=violated)
        self._clock = clock
        self._start_s = start_s
        self.connected_ms = clock.now_ms()
        self.heard_ms = self.connected_ms
        self.ping_s: float | None = None
        """The duration of the last ping."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Resolves to the reason when the connection ends."""
        self._parting: asyncio.Task[None] | None = None

    async def introduce(
        self, transport: Transport, host_version: str
    ) -> tuple[InitializeResult, RunnerCatalogue, ToolCatalogue]:
        """The identity, runners and tools of the runtime. Raises `WireError` or `TimeoutError`."""
        end = self._end = HostEnd(transport, self, violated=self.violated)
        async with asyncio.timeout(self._start_s):
            introduced = await end.initialize(host_version)
            return introduced, await end.list_runners(), await end.list_tools()

    def log_to(self, log: WorkerLog) -> None:
        """Send its log lines to the log of its plugin."""
        self._worker_log = log

    async def watch(self, beat: Callable[[], None]) -> str:
        """Ping until the runtime does not answer, and return the reason. `beat` is called after each answer."""

        async def ping() -> None:
            await self._ping()
            beat()

        return await watch_heartbeat(ping, silent=self.fall_silent, answered=self.answer)

    async def is_alive(self) -> bool:
        """Whether it answers a ping now. A runtime that has not introduced itself yet counts as alive."""
        if self._gone:
            return False
        try:
            await self._ping(timeout_s=RUNTIME_ALIVE_S)
        except WireError:
            return False
        return not self._gone

    async def _ping(self, **more: float) -> None:
        if self._end is None:
            return
        began = self._clock.monotonic()
        await self._end.ping(**more)
        self.ping_s = self._clock.monotonic() - began

    def cut(self, reason: str) -> None:
        """End the connection and its runs."""
        if self._end is not None and not self._gone:
            self._end.close(reason)
        elif not self.ended.done():
            self.ended.set_result(reason)

    def dismiss(self, reason: str) -> None:
        """Send `shutdown`, so that the runtime does not reconnect, and end the connection without waiting."""
        if self._parting is not None:
            return
        if self._end is not None and not self._gone:
            self._parting = asyncio.create_task(self._shut_down(self._end))
            # After the first step of the task, which sends `shutdown`.
            asyncio.get_running_loop().call_soon(self.cut, reason)
        else:
            self.cut(reason)

    @staticmethod
    async def _shut_down(end: HostEnd) -> None:
        with suppress(WireError):
            await end.shutdown(0)

    def batch_ended(self) -> None:
        self.heard_ms = self._clock.now_ms()
        super().batch_ended()

    def lost(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)


class RemotePool:
    """Implements `SupervisedPool`."""

    def __init__(
        self,
        source: PluginSource,
        clock: Clock,
        *,
        discovered: Discovered,
        changed: Callable[[], None] = lambda: None,
        start_s: float = WORKER_START_S,
    ) -> None:
        """`changed` is called when a runtime leaves."""
        self._source = source
        self._clock = clock
        self._discovered = discovered
        self._on_change = changed
        self._starting_until = clock.monotonic() + start_s
        """Until then an enrolled runtime is expected to reconnect."""
        self._slots: list[RemoteSlot] = []
        self._drained: list[RemoteSlot] = []
        """Runtimes that get no more runs and are disconnected after their last one."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = asyncio.Event()
        self._retired = False
        self._stopping = False
        self.crashes = 0
        """Runtimes lost since the pool was created."""

    @property
    def source(self) -> PluginSource:
        return self._source

    @property
    def pids(self) -> list[int]:
        return []

    @property
    def status(self) -> PoolStatus:
        if self._stopping:
            return "stopped"
        if self._retired:
            return "retired"
        if any(slot.ready for slot in self._slots):
            return "ready"
        if any(slot.silent for slot in self._slots):
            return "restarting"
        return "starting" if self._clock.monotonic() < self._starting_until else "away"

    @property
    def problem(self) -> None:
        return None

    @property
    def views(self) -> list[WorkerView]:
        return [slot.view for slot in (*self._slots, *self._drained)]

    @property
    def recent_crashes(self) -> int:
        return 0

    def start(self) -> None:
        """Nothing to start."""

    async def prove(self) -> Why | None:
        return None if self.pick() is not None else why("no runtime is connected", "worker.no_runtime")

    def join(self, slot: RemoteSlot, catalogue: RunnerCatalogue, tools: ToolCatalogue) -> None:
        """Add a runtime; it gets runs from here on."""
        slot.on_answer = self._ready.set
        self._slots.append(slot)
        self._discovered(slot.identity, catalogue, tools)
        if self._retired:
            self._drain_slot(slot)
        self._ready.set()

    def leave(self, slot: RemoteSlot) -> None:
        """Remove a runtime that is disconnected or lost its consent."""
        if slot in self._slots:
            self._slots.remove(slot)
            self.crashes += slot.ended.done()
        elif slot in self._drained:
            self._drained.remove(slot)
        self._on_change()

    def pick(self) -> RemoteSlot | None:
        """The connected runtime with the fewest runs."""
        ready = [slot for slot in self._slots if slot.ready]
        return min(ready, key=lambda slot: slot.runs) if ready else None

    async def wait_ready(self, timeout_s: float) -> RemoteSlot:
        """Wait for a runtime that is connected and answers. While one is silent the time-out is longer, because it may
        answer or reconnect. Raises `WorkerUnavailable`."""
        if any(slot.silent for slot in self._slots):
            timeout_s += HEARTBEAT_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                while (slot := self.pick()) is None:
                    if self._stopping or self._retired:
                        break
                    self._ready.clear()
                    await self._ready.wait()
        except TimeoutError:
            slot = None
        if slot is None:
            raise WorkerUnavailable(
                f"no runtime of the plugin {self._source.name} is connected",
                reason="runtime_not_connected",
                hint="see `bollard runtimes`; on its machine `bollard runtime … --connect` must run",
                plugin=self._source.name,
            )
        return slot

    def drain(self, slot: RemoteSlot, run_id: str) -> None:
        """Drain a runtime with a run that ignores its cancellation; it reconnects as a new process."""
        if not slot.draining and slot in self._slots:
            self._drain_slot(slot)
        slot.forget(run_id)

    def restart(self) -> None:
        """Disconnect every runtime after its last run; each reconnects as a new process."""
        for slot in list(self._slots):
            self._drain_slot(slot)

    async def retire(self) -> None:
        self._retired = True
        self._ready.set()
        self.restart()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self, grace_s: float) -> None:
        del grace_s  # the runs had their grace before
        self._stopping = True
        self._ready.set()
        for slot in (*self._slots, *self._drained):
            slot.cut("the host stops")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _drain_slot(self, slot: RemoteSlot) -> None:
        self._slots.remove(slot)
        self._drained.append(slot)
        slot.begin_draining()
        task = asyncio.create_task(self._disconnect_when_empty(slot))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _disconnect_when_empty(self, slot: RemoteSlot) -> None:
        await slot.empty()
        slot.cut("a new process is wanted")


# --- remote plugins in the fleet ---

_REMOTE_PATH: Final = Path("remote")
"""Stands for the path of code on another machine."""
_Key = tuple[str, str]


def newest_consents(enrolled: Iterable[Saved[Enrolled]]) -> dict[str, Consented]:
    """The latest consent for each plugin, among the enabled runtimes. Pure."""
    newest: dict[str, Consented] = {}
    for saved in enrolled:
        consented = saved.value.consented
        if consented is None or not saved.value.enabled:
            continue
        known = newest.get(consented.plugin)
        if known is None or known.at_ms < consented.at_ms:
            newest[consented.plugin] = consented
    return newest


class RemotePlugins:
    """Places the plugins of runtimes in the fleet: one pool for each plugin, of the code with the latest consent.
    Runtimes with other code get no runs. One per host."""

    def __init__(self, fleet: PluginFleet, plugins: PluginRepository, clock: Clock) -> None:
        self._fleet = fleet
        self._plugins = plugins
        self._clock = clock
        self._placed: dict[_Key, tuple[Consented, RemotePool]] = {}

    def sync(self, workspace: str, enrolled: Iterable[Saved[Enrolled]]) -> None:
        """Add and remove plugins in the fleet so that it has those of these runtimes."""
        wanted = newest_consents(enrolled)
        for key in [key for key in self._placed if key[0] == workspace and key[1] not in wanted]:
            del self._placed[key]
            self._fleet.remove(*key, "remote")
            self._fleet.forget_log(*key)
        for plugin, consented in wanted.items():
            placed = self._placed.get((workspace, plugin))
            if placed is not None and placed[0].is_same(consented):
                continue
            if self.name_conflict(workspace, plugin) is None:
                self._place(workspace, consented)

    def forget(self, workspace: str) -> None:
        """Drop the pools of a closed workspace, which the fleet has stopped."""
        for key in [key for key in self._placed if key[0] == workspace]:
            del self._placed[key]

    def pool_of(self, workspace: str, consented: Consented) -> RemotePool | None:
        """The pool of this code; `None` while other code of the plugin is in use."""
        placed = self._placed.get((workspace, consented.plugin))
        return placed[1] if placed is not None and placed[0].is_same(consented) else None

    def name_conflict(self, workspace: str, plugin: str) -> str | None:
        """Why no runtime can serve this plugin: the workspace has a local plugin of this name."""
        local = self._fleet.find(workspace, plugin)
        if local is not None and local.origin == "dev":
            local = local.covered
        if (local is None or local.origin == "remote") and self._plugins.find(workspace, plugin) is None:
            return None
        return f"the workspace already has a plugin {plugin} that is not remote"

    def check_name(self, workspace: str, plugin: str) -> None:
        """Raises `Conflict` for a name that looks like that of another plugin."""
        self._plugins.check_name(workspace, plugin)

    def _place(self, workspace: str, consented: Consented) -> None:
        def discovered(identity: PluginIdentity, catalogue: RunnerCatalogue, tools: ToolCatalogue) -> None:
            self._fleet.discovered(placement, identity, catalogue, tools)

        source = PluginSource(
            name=consented.plugin.partition("/")[2],
            path=_REMOTE_PATH,
            plugin_id=consented.plugin,
            digest=consented.digest,
        )
        pool = RemotePool(source, self._clock, discovered=discovered, changed=self._fleet.note_change)
        placement = PoolPlacement(
            workspace=workspace,
            origin="remote",
            source=source,
            pool=pool,
            log=self._fleet.log_of(workspace, consented.plugin),
            plugin_id=consented.plugin,
            version=consented.version,
            access=consented.access,
            pins=dict(consented.definitions),
        )
        self._placed[workspace, consented.plugin] = (consented, pool)
        self._fleet.place(placement)
