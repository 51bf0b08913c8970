"""The runtimes that run one plugin in one workspace: those that are connected now, handed out like local workers.

It starts nothing: a runtime comes by itself, and comes back by itself.
"""

import asyncio
from collections.abc import Callable

from bollard.host.clock import Clock
from bollard.host.errors import WorkerUnavailable
from bollard.host.limits import WORKER_START_S
from bollard.host.runtimes.slot import RemoteSlot
from bollard.host.workers.boundary import Discovered, PoolStatus, WorkerView
from bollard.host.workers.plugin import PluginSource
from bollard.wire import RunnerCatalogue, ToolCatalogue

__all__ = ["RemotePool"]


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
        return "starting" if self._clock.monotonic() < self._hopeful_until else "away"

    @property
    def problem(self) -> str | None:
        return None

    @property
    def views(self) -> list[WorkerView]:
        return [
            WorkerView(pid=None, runs=slot.runs, status="draining" if slot.draining else "ready")
            for slot in (*self._slots, *self._drained)
        ]

    @property
    def recent_crashes(self) -> int:
        return 0

    def start(self) -> None:
        """Nothing to start."""

    async def prove(self) -> str | None:
        return None if self.pick() is not None else "no runtime is connected"

    def join(self, slot: RemoteSlot, catalogue: RunnerCatalogue, tools: ToolCatalogue) -> None:
        """A runtime that may be given runs from here on."""
        self._slots.append(slot)
        self._discovered(slot.identity, catalogue, tools)
        if self._retired:
            self._put_aside(slot)
        self._ready.set()

    def leave(self, slot: RemoteSlot) -> None:
        """It is gone, or may not be given runs any more."""
        if slot in self._slots:
            self._slots.remove(slot)
            self.crashes += not slot.ready
        elif slot in self._drained:
            self._drained.remove(slot)
        self._told_changed()

    def pick(self) -> RemoteSlot | None:
        """The connected runtime with the fewest runs."""
        ready = [slot for slot in self._slots if slot.ready]
        return min(ready, key=lambda slot: slot.runs) if ready else None

    async def wait_ready(self, timeout_s: float) -> RemoteSlot:
        """A runtime, as soon as one is connected. Raises `WorkerUnavailable`."""
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
