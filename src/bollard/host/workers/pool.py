"""The workers of one plugin: keeps as many alive as configured, and hands out the one with the fewest runs."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import structlog

from bollard.host.clock import Clock
from bollard.host.errors import WorkerUnavailable
from bollard.host.limits import WORKER_RESTART_S, WORKER_START_S
from bollard.host.workers.crashes import CrashBook
from bollard.host.workers.plugin import PluginSource
from bollard.host.workers.slot import WorkerSlot
from bollard.wire import RunnerCatalogue, WireError

__all__ = ["PluginPool", "PoolStatus"]

_log = structlog.get_logger("bollard.workers")

PoolStatus = Literal["starting", "ready", "restarting", "quarantined", "stopped"]


class PluginPool:
    """Supervises the processes of one plugin. A bad plugin costs nobody else anything."""

    def __init__(
        self,
        source: PluginSource,
        clock: Clock,
        *,
        host_version: str,
        discovered: Callable[["PluginPool", RunnerCatalogue], None],
        failed: Callable[[], None] = lambda: None,
        start_s: float = WORKER_START_S,
        restart_s: float = WORKER_RESTART_S,
    ) -> None:
        self.source = source
        self.catalogue: RunnerCatalogue | None = None
        """The last good one: a failed discovery keeps it."""
        self._clock = clock
        self._host_version = host_version
        self._discovered = discovered
        self._told_failed = failed
        self._slots: list[WorkerSlot] = []
        self._drained: list[WorkerSlot] = []
        """Workers that get no more runs and are ended when their last one has."""
        self._start_s = start_s
        self._crashes = CrashBook(restart_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._reaping: set[asyncio.Task[None]] = set()
        """Unlike the rest they are never cancelled: nothing of a lost worker may stay."""
        self._ready: asyncio.Event = asyncio.Event()
        self._stopping = False
        self._restarting = 0

    @property
    def status(self) -> PoolStatus:
        if self._stopping:
            return "stopped"
        if self._crashes.quarantined is not None:
            return "quarantined"
        if any(slot.ready for slot in self._slots):
            return "ready"
        return "restarting" if self._restarting else "starting"

    @property
    def problem(self) -> str | None:
        return self._crashes.quarantined

    @property
    def pids(self) -> list[int]:
        return [slot.pid for slot in (*self._slots, *self._drained) if slot.pid is not None]

    def start(self) -> None:
        """Begin to start the workers; returns at once."""
        for _ in range(self.source.workers - len(self._slots)):
            self._spawn(0)

    def pick(self) -> WorkerSlot | None:
        """The ready worker with the fewest runs."""
        ready = [slot for slot in self._slots if slot.ready]
        return min(ready, key=lambda slot: slot.runs) if ready else None

    async def wait_ready(self, timeout_s: float) -> WorkerSlot:
        """A worker, as soon as there is one. Raises `WorkerUnavailable`."""
        try:
            async with asyncio.timeout(timeout_s):
                while (slot := self.pick()) is None:
                    if self._crashes.quarantined is not None or self._stopping:
                        break
                    self._ready.clear()
                    await self._ready.wait()
        except TimeoutError:
            slot = None
        if slot is None:
            reason = self._crashes.quarantined or f"the plugin {self.source.name} has no ready worker"
            hint = "see the plugin's log; `bollard plugin check` names what is wrong with it"
            raise WorkerUnavailable(reason, hint=hint, plugin=self.source.name)
        return slot

    def drain(self, slot: WorkerSlot, run_id: str) -> None:
        """A run on this worker ignores its cancellation: give it no more, replace it, end it when it is empty."""
        if not slot.draining and slot in self._slots:
            slot.draining = True
            self._slots.remove(slot)
            self._drained.append(slot)
            self._task(self._end_when_empty(slot))
            self._spawn(0)
        slot.forget(run_id)

    async def _end_when_empty(self, slot: WorkerSlot) -> None:
        await slot.empty()
        await slot.stop(0)
        if slot in self._drained:
            self._drained.remove(slot)

    async def stop(self, grace_s: float) -> None:
        self._stopping = True
        self._ready.set()
        for task in list(self._tasks):
            task.cancel()
        left = [*self._slots, *self._drained]
        await asyncio.gather(*(slot.stop(grace_s) for slot in left), return_exceptions=True)
        await asyncio.gather(*self._tasks, *self._reaping, return_exceptions=True)

    def pardon(self) -> None:
        """Leave the quarantine and try again."""
        if self._crashes.quarantined is not None:
            self._crashes.pardon()
            self.start()

    # --- supervision ---

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _spawn(self, after_s: float) -> None:
        self._task(self._start_slot(after_s))

    async def _start_slot(self, after_s: float) -> None:
        self._restarting += bool(after_s)
        try:
            if after_s:
                await asyncio.sleep(after_s)
            slot = WorkerSlot(self.source, self._host_version, self._lost, start_s=self._start_s)
            try:
                catalogue = await slot.start()
            except (WireError, TimeoutError, OSError) as error:
                reason = " | ".join(slot.stderr_tail[-3:]) or str(error) or type(error).__name__
                self._failed(f"it could not start: {reason}")
                return
            self._slots.append(slot)
            if catalogue.runners:
                self.catalogue = catalogue
                self._discovered(self, catalogue)
            self._ready.set()
        finally:
            self._restarting -= bool(after_s)

    def _lost(self, slot: WorkerSlot, reason: str) -> None:
        for slots in (self._slots, self._drained):
            if slot in slots:
                slots.remove(slot)
        reaping = asyncio.create_task(slot.reap())
        self._reaping.add(reaping)
        reaping.add_done_callback(self._reaping.discard)
        if not slot.draining and not self._stopping:
            self._failed(reason)

    def _failed(self, reason: str) -> None:
        if self._stopping:
            return
        wait_s = self._crashes.crashed(self._clock.monotonic(), reason)
        if wait_s is None:
            _log.error("a plugin is quarantined", plugin=self.source.name, reason=self._crashes.quarantined)
            self._ready.set()
        else:
            _log.warning("a worker was lost", plugin=self.source.name, reason=reason, restart_s=wait_s)
            self._spawn(wait_s)
        self._told_failed()
