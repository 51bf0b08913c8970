"""The runtimes that run one plugin in one workspace: those that are connected now, handed out like local workers.

It starts nothing: a runtime comes by itself, and comes back by itself.
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
from bollard.host.runtimes.enrolment import Consented, Enrolled
from bollard.host.workers.boundary import Discovered, PluginSource, PoolStatus, WorkerLog, WorkerView
from bollard.host.workers.worker_slot import ChannelSlot
from bollard.protocol import InitializeResult, PluginIdentity
from bollard.wire import HostEnd, RunnerCatalogue, ToolCatalogue, Transport, WireError, watch_heartbeat
from bollard.wire.limits import HEARTBEAT_TIMEOUT_S

# One connected runtime: a worker that came over the network. It is never killed, only let go.


class RemoteSlot(ChannelSlot):
    """Knows how long it is there, when it was last heard, and how far away it is."""

    def __init__(self, runtime: str, clock: Clock, *, start_s: float = WORKER_START_S) -> None:
        super().__init__(runtime)
        self._clock = clock
        self._start_s = start_s
        self.connected_ms = clock.now_ms()
        self.heard_ms = self.connected_ms
        self.ping_s: float | None = None
        """How long the last ping took."""
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why it is gone, once it is."""
        self._parting: asyncio.Task[None] | None = None

    async def introduce(
        self, transport: Transport, host_version: str
    ) -> tuple[InitializeResult, RunnerCatalogue, ToolCatalogue]:
        """Who is there, and what it offers. Raises `WireError` or `TimeoutError`."""
        end = self._end = HostEnd(transport, self)
        async with asyncio.timeout(self._start_s):
            introduced = await end.initialize(host_version)
            return introduced, await end.list_runners(), await end.list_tools()

    def log_to(self, log: WorkerLog) -> None:
        """Where its lines go, now that it is known whose they are."""
        self._worker_log = log

    async def watch(self, beat: Callable[[], None]) -> str:
        """Ask again and again whether it is there; why it is not. `beat` is called each time that it is."""

        async def ping() -> None:
            await self._ping()
            beat()

        return await watch_heartbeat(ping, silent=self.fall_silent, answered=self.answer)

    async def is_alive(self) -> bool:
        """Whether it answers, asked right now. One that has not introduced itself yet has its time for that."""
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
        """End the connection; its runs end with it."""
        if self._end is not None and not self._gone:
            self._end.close(reason)
        elif not self.ended.done():
            self.ended.set_result(reason)

    def dismiss(self, reason: str) -> None:
        """The same, and it need not come back: it is told to shut down, and not waited for."""
        if self._parting is not None:
            return
        if self._end is not None and not self._gone:
            self._parting = asyncio.create_task(self._shut_down(self._end))
            # After the task's first step, which sends the word.
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
        """`changed` is told when a runtime goes."""
        self._source = source
        self._clock = clock
        self._discovered = discovered
        self._told_changed = changed
        self._hopeful_until = clock.monotonic() + start_s
        """Until then a runtime that was here before is likely to come back."""
        self._slots: list[RemoteSlot] = []
        self._drained: list[RemoteSlot] = []
        """They get no more runs, and are let go when their last one has ended."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = asyncio.Event()
        self._retired = False
        self._stopping = False
        self.crashes = 0
        """Runtimes that were lost, ever."""

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
        return "starting" if self._clock.monotonic() < self._hopeful_until else "away"

    @property
    def problem(self) -> str | None:
        return None

    @property
    def views(self) -> list[WorkerView]:
        return [slot.view for slot in (*self._slots, *self._drained)]

    @property
    def recent_crashes(self) -> int:
        return 0

    def start(self) -> None:
        """Nothing to start."""

    async def prove(self) -> str | None:
        return None if self.pick() is not None else "no runtime is connected"

    def join(self, slot: RemoteSlot, catalogue: RunnerCatalogue, tools: ToolCatalogue) -> None:
        """A runtime that may be given runs from here on."""
        slot.on_answer = self._ready.set
        self._slots.append(slot)
        self._discovered(slot.identity, catalogue, tools)
        if self._retired:
            self._put_aside(slot)
        self._ready.set()

    def leave(self, slot: RemoteSlot) -> None:
        """It is gone, or may not be given runs any more."""
        if slot in self._slots:
            self._slots.remove(slot)
            self.crashes += slot.ended.done()
        elif slot in self._drained:
            self._drained.remove(slot)
        self._told_changed()

    def pick(self) -> RemoteSlot | None:
        """The connected runtime with the fewest runs."""
        ready = [slot for slot in self._slots if slot.ready]
        return min(ready, key=lambda slot: slot.runs) if ready else None

    async def wait_ready(self, timeout_s: float) -> RemoteSlot:
        """A runtime, as soon as one is connected and answers. One that is silent is waited for beyond `timeout_s`: it
        answers, or comes back. Raises `WorkerUnavailable`."""
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
                hint="see `bollard runtimes`; on its machine `bollard runtime … --connect` must run",
                plugin=self._source.name,
            )
        return slot

    def drain(self, slot: RemoteSlot, run_id: str) -> None:
        """A run there ignores its cancellation: no more for this one; it comes back as a new process."""
        if not slot.draining and slot in self._slots:
            self._put_aside(slot)
        slot.forget(run_id)

    def restart(self) -> None:
        """Let every runtime go when its last run has ended; each comes back as a new process."""
        for slot in list(self._slots):
            self._put_aside(slot)

    async def retire(self) -> None:
        self._retired = True
        self._ready.set()
        self.restart()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self, grace_s: float) -> None:
        del grace_s  # its runs have had theirs
        self._stopping = True
        self._ready.set()
        for slot in (*self._slots, *self._drained):
            slot.cut("the host stops")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _put_aside(self, slot: RemoteSlot) -> None:
        self._slots.remove(slot)
        self._drained.append(slot)
        slot.begin_draining()
        task = asyncio.create_task(self._let_go(slot))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _let_go(self, slot: RemoteSlot) -> None:
        await slot.empty()
        slot.cut("a new process is wanted")


# The plugins that runtimes bring, in the places of the fleet: one pool for each plugin, of the code that somebody said
# yes to last. Runtimes with other code wait.


_NOWHERE: Final = Path("remote")
"""Where its code is: on another machine."""
_Key = tuple[str, str]


def newest_consents(enrolled: Iterable[Saved[Enrolled]]) -> dict[str, Consented]:
    """For each plugin the code that was said yes to last, by runtimes that may come in. Pure."""
    found: dict[str, Consented] = {}
    for saved in enrolled:
        consented = saved.thing.consented
        if consented is None or not saved.thing.enabled:
            continue
        known = found.get(consented.plugin)
        if known is None or known.at_ms < consented.at_ms:
            found[consented.plugin] = consented
    return found


class RemotePlaces:
    """One per host."""

    def __init__(self, fleet: PluginFleet, plugins: PluginRepository, clock: Clock) -> None:
        self._fleet = fleet
        self._plugins = plugins
        self._clock = clock
        self._placed: dict[_Key, tuple[Consented, RemotePool]] = {}

    def settle(self, workspace: str, enrolled: Iterable[Saved[Enrolled]]) -> None:
        """Make the fleet have what these runtimes may bring, and no more."""
        wanted = newest_consents(enrolled)
        for key in [key for key in self._placed if key[0] == workspace and key[1] not in wanted]:
            del self._placed[key]
            self._fleet.remove(*key, "remote")
            self._fleet.forget_log(*key)
        for plugin, consented in wanted.items():
            there = self._placed.get((workspace, plugin))
            if there is not None and there[0].is_same(consented):
                continue
            if self.taken_by(workspace, plugin) is None:
                self._place(workspace, consented)

    def forget(self, workspace: str) -> None:
        """The workspace was closed; the fleet has ended its pools."""
        for key in [key for key in self._placed if key[0] == workspace]:
            del self._placed[key]

    def pool_of(self, workspace: str, consented: Consented) -> RemotePool | None:
        """Where a runtime with this code belongs; nowhere while other code has the place."""
        there = self._placed.get((workspace, consented.plugin))
        return there[1] if there is not None and there[0].is_same(consented) else None

    def taken_by(self, workspace: str, plugin: str) -> str | None:
        """Why no runtime can bring this plugin: it is here already, from elsewhere."""
        there = self._fleet.find(workspace, plugin)
        if there is not None and there.origin == "dev":
            there = there.covered
        if there is not None and there.origin != "remote":
            return f"the plugin {plugin} is here already ({there.origin}), and one name is one plugin"
        if self._plugins.find(workspace, plugin) is not None:
            return f"the plugin {plugin} is installed here, and one name is one plugin"
        return None

    def check_name(self, workspace: str, plugin: str) -> None:
        """Raises `Conflict` for a name that people would take for another."""
        self._plugins.check_name(workspace, plugin)

    def _place(self, workspace: str, consented: Consented) -> None:
        def discovered(identity: PluginIdentity, catalogue: RunnerCatalogue, tools: ToolCatalogue) -> None:
            self._fleet.discovered(placement, identity, catalogue, tools)

        source = PluginSource(
            name=consented.plugin.partition("/")[2],
            path=_NOWHERE,
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
