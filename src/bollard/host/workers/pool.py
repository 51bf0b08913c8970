"""The worker pool of one plugin: keeps the configured number of workers alive and picks the least busy one."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from bollard.confine.errors import ConfineError
from bollard.host.clock import Clock
from bollard.host.errors import SandboxUnavailable, WorkerUnavailable
from bollard.host.limits import WORKER_CRASH_WINDOW_S, WORKER_CRASHES, WORKER_RESTART_S, WORKER_START_S
from bollard.host.reason import Why, why, why_error
from bollard.host.workers.boundary import (
    Confine,
    Discovered,
    PluginSource,
    PoolStatus,
    WorkerLog,
    WorkerView,
    unconfined,
)
from bollard.host.workers.worker_slot import WorkerSlot
from bollard.wire import IncompatiblePeer, RunnerCatalogue, ToolCatalogue, Violation, WireError, fault_in
from bollard.wire.limits import HEARTBEAT_TIMEOUT_S


class CrashHistory:
    """The crashes of one plugin within the window: restart delays, and the quarantine. Pure."""

    def __init__(self, restart_s: float = WORKER_RESTART_S) -> None:
        self._restart_s = restart_s
        self._at: deque[float] = deque()
        self.quarantined: Why | None = None
        """Why the plugin is quarantined. `None` if it is not."""

    def recent(self, now: float) -> int:
        """Crashes within the window."""
        return sum(now - at <= WORKER_CRASH_WINDOW_S for at in self._at)

    def crashed(self, now: float, reason: Why) -> float | None:
        """Seconds until a new worker may start. `None` if the plugin is quarantined."""
        self._at.append(now)
        while self._at and now - self._at[0] > WORKER_CRASH_WINDOW_S:
            self._at.popleft()
        if self.quarantined is None and len(self._at) >= WORKER_CRASHES:
            crashes, window_s = len(self._at), f"{WORKER_CRASH_WINDOW_S:g}"
            sentence = f"{crashes} crashes within {window_s} s, last: {reason}"
            self.quarantined = why(
                sentence, "worker.crashes", crashes=crashes, seconds=window_s, inner={**reason.whole}
            )
        if self.quarantined is not None:
            return None
        return self._restart_s * 2 ** (len(self._at) - 1)

    def pardon(self) -> None:
        """An operator ends the quarantine."""
        self._at.clear()
        self.quarantined = None


_log = structlog.get_logger("bollard.workers")


class PluginPool:
    """Supervises the worker processes of one plugin. A faulty plugin does not affect others."""

    def __init__(
        self,
        source: PluginSource,
        clock: Clock,
        *,
        host_version: str,
        discovered: Discovered,
        failed: Callable[[], None] = lambda: None,
        log: WorkerLog | None = None,
        violated: Callable[[Violation], None] = lambda _: None,
        confine: Confine = unconfined,
        start_s: float = WORKER_START_S,
        restart_s: float = WORKER_RESTART_S,
    ) -> None:
        self._source = source
        self.catalogue: RunnerCatalogue | None = None
        """The last successful discovery."""
        self._clock = clock
        self._host_version = host_version
        self._discovered = discovered
        self._notify_failed = failed
        self._worker_log = log
        self._on_violation = violated
        self._confine = confine
        self._slots: list[WorkerSlot] = []
        self._drained: list[WorkerSlot] = []
        """Draining workers, which end with their last run."""
        self._start_s = start_s
        self._crashes = CrashHistory(restart_s)
        self._tasks: set[asyncio.Task[None]] = set()
        self._reaping: set[asyncio.Task[None]] = set()
        """Clean-ups of lost workers. They are never cancelled, so that no process stays behind."""
        self._ready: asyncio.Event = asyncio.Event()
        self._stopping = False
        self._retired = False
        self._started = False
        self._restarting = 0
        self._coming = 0
        """Workers that are starting."""
        self._trial: asyncio.Future[Why | None] | None = None
        self.crashes = 0
        """How many workers were lost."""
        self.last_failure: Why | None = None
        self._identified: str | None = None
        """The `author/name` that the first worker reported."""

    @property
    def source(self) -> PluginSource:
        return self._source

    @property
    def plugin_id(self) -> str:
        """`author/name`; before the first worker of a folder, its name."""
        return self._identified or self._source.plugin_id or self._source.name

    @property
    def status(self) -> PoolStatus:
        if self._stopping:
            return "stopped"
        if self._retired:
            return "retired"
        if not self._started:
            return "idle"
        if self._crashes.quarantined is not None:
            return "quarantined"
        if any(slot.ready for slot in self._slots):
            return "ready"
        return "restarting" if self._restarting or self._silent else "starting"

    @property
    def _silent(self) -> bool:
        """Whether a worker does not respond. It recovers or is replaced."""
        return any(slot.silent for slot in self._slots)

    @property
    def problem(self) -> Why | None:
        return self._crashes.quarantined

    @property
    def pids(self) -> list[int]:
        return [slot.pid for slot in (*self._slots, *self._drained) if slot.pid is not None]

    @property
    def views(self) -> list[WorkerView]:
        return [slot.view for slot in (*self._slots, *self._drained)]

    @property
    def recent_crashes(self) -> int:
        """Crashes within the quarantine window."""
        return self._crashes.recent(self._clock.monotonic())

    def start(self) -> None:
        """Start the workers in the background."""
        self._started = True
        for _ in range(self._source.workers - len(self._slots) - self._coming):
            self._spawn(0)

    async def prove(self) -> Why | None:
        """Start, and wait for the first worker. Returns the problem if it cannot start."""
        self._trial = asyncio.get_running_loop().create_future()
        self.start()
        return await self._trial

    def pick(self) -> WorkerSlot | None:
        """The ready worker with the fewest runs. `None` while the plugin is quarantined."""
        if self._crashes.quarantined is not None:
            return None
        ready = [slot for slot in self._slots if slot.ready]
        return min(ready, key=lambda slot: slot.runs) if ready else None

    async def wait_ready(self, timeout_s: float) -> WorkerSlot:
        """Wait for a ready worker. Starts an idle pool. If a worker is silent, waits longer than `timeout_s` for its
        response or its replacement. Raises `WorkerUnavailable`."""
        if not self._started:
            self.start()
        if self._silent:
            timeout_s += HEARTBEAT_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                while (slot := self.pick()) is None:
                    if self._crashes.quarantined is not None or self._stopping or self._retired:
                        break
                    self._ready.clear()
                    await self._ready.wait()
        except TimeoutError:
            slot = None
        if slot is None:
            raise self._unavailable()
        return slot

    def _unavailable(self) -> WorkerUnavailable:
        plugin, quarantined = self.plugin_id, self._crashes.quarantined
        logs = f"see `bollard plugin logs {plugin}`"
        if quarantined is None:
            return WorkerUnavailable(
                f"plugin {plugin} has no ready worker", reason="no_worker", hint=logs, plugin=plugin
            )
        return WorkerUnavailable(
            f"plugin {plugin} is quarantined; `bollard plugin restart {plugin}` ends the quarantine: {quarantined}",
            reason="quarantined",
            hint=f"{logs}; after the repair run `bollard plugin restart {plugin}`",
            plugin=plugin,
            **quarantined.whole,
        )

    def drain(self, slot: WorkerSlot, run_id: str) -> None:
        """Give this worker no more runs, replace it, and end it when it is empty."""
        if not slot.draining and slot in self._slots:
            self._put_aside(slot)
            self._spawn(0)
        slot.forget(run_id)

    def _put_aside(self, slot: WorkerSlot) -> None:
        self._slots.remove(slot)
        self._drained.append(slot)
        slot.begin_draining()
        self._task(self._end_when_empty(slot))

    def _put_all_aside(self) -> None:
        for slot in list(self._slots):
            self._put_aside(slot)

    async def _end_when_empty(self, slot: WorkerSlot) -> None:
        await slot.empty()
        await slot.stop(0)
        if slot in self._drained:
            self._drained.remove(slot)

    async def stop(self, grace_s: float) -> None:
        self._stopping = True
        self._ready.set()
        self._tell_trial(why("its workers were stopped", "worker.stopped"))
        for task in list(self._tasks):
            task.cancel()
        left = [*self._slots, *self._drained]
        await asyncio.gather(*(slot.stop(grace_s) for slot in left), return_exceptions=True)
        await asyncio.gather(*self._tasks, *self._reaping, return_exceptions=True)
        self._slots.clear()
        self._drained.clear()

    async def retire(self) -> None:
        """Take no more runs, and end when the last run has ended: another version replaces this pool."""
        self._retired = True
        self._ready.set()
        self._put_all_aside()
        while self._tasks or self._reaping:
            await asyncio.gather(*self._tasks, *self._reaping, return_exceptions=True)

    def restart(self) -> None:
        """Leave the quarantine and replace every worker. Current runs may end first."""
        self._put_all_aside()
        self._crashes.pardon()
        self.start()

    # --- supervision ---

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _spawn(self, after_s: float) -> None:
        self._coming += 1
        self._task(self._start_slot(after_s))

    async def _start_slot(self, after_s: float) -> None:
        self._restarting += bool(after_s)
        try:
            if after_s:
                await asyncio.sleep(after_s)
            failure = await self._start_worker() if self._wanted else None
        finally:
            self._restarting -= bool(after_s)
            self._coming -= 1
        if failure is not None:
            self._failed(failure)

    @property
    def _wanted(self) -> bool:
        """Whether the pool should have workers."""
        return not self._retired and self._crashes.quarantined is None

    async def _start_worker(self) -> Why | None:
        """Start one worker. Returns the problem if that fails."""
        slot = WorkerSlot(
            self._source,
            self._host_version,
            self._lost,
            start_s=self._start_s,
            log=self._worker_log,
            violated=self._on_violation,
            confine=self._confine,
        )
        try:
            catalogue, tools = await slot.start()
        except (WireError, TimeoutError, OSError, ConfineError, SandboxUnavailable) as error:
            reason = _why_not_started(error, slot.stderr_tail, self._start_s)
            if (lack := slot.explain_start()) is not None:
                reason = Why(f"{lack}: {reason}", {**lack.details, "inner": {**reason.whole}})
            reason = reason.without_secrets(slot.hide_secrets)
            return why(f"it could not start: {reason}", "worker.start", inner={**reason.whole})
        slot.on_answer = self._ready.set
        self._identified = f"{slot.identity.author}/{slot.identity.name}"
        self._slots.append(slot)
        self._say(f"a worker is ready: {_offered(catalogue, tools)}", pid=slot.pid)
        if catalogue.runners or tools.tools:
            self.catalogue = catalogue
            self._discovered(slot.identity, catalogue, tools)
        if not self._wanted:  # while it started
            self._put_aside(slot)
        self._ready.set()
        self._tell_trial(None)
        return None

    def _lost(self, slot: WorkerSlot, reason: str) -> None:
        for slots in (self._slots, self._drained):
            if slot in slots:
                slots.remove(slot)
        reaping = asyncio.create_task(slot.reap())
        self._reaping.add(reaping)
        reaping.add_done_callback(self._reaping.discard)
        if not slot.draining and not self._stopping:
            self._failed(why(reason, "worker.lost"))

    def _tell_trial(self, problem: Why | None) -> None:
        if self._trial is not None and not self._trial.done():
            self._trial.set_result(problem)

    def _say(self, text: str, *, level: str = "info", pid: int | None = None) -> None:
        if self._worker_log is not None:
            self._worker_log.say("host", text, level=level, pid=pid)

    def _failed(self, reason: Why) -> None:
        if self._stopping:
            return
        self.crashes += 1
        self.last_failure = reason
        self._tell_trial(reason)
        if not self._wanted:
            return
        wait_s = self._crashes.crashed(self._clock.monotonic(), reason)
        if wait_s is None:
            _log.error("a plugin is quarantined", plugin=self._source.name, reason=str(self._crashes.quarantined))
            self._say(f"it gets no worker any more: {self._crashes.quarantined}", level="error")
            self._put_all_aside()
            self._ready.set()
        else:
            _log.warning("a worker was lost", plugin=self._source.name, reason=str(reason), restart_s=wait_s)
            self._say(f"a worker was lost: {reason}", level="warning")
            self._spawn(wait_s)
        self._notify_failed()


def _why_not_started(error: Exception, stderr: Sequence[str], start_s: float) -> Why:
    """The loader's own problem, else what the process printed, else the error of the connection."""
    if isinstance(error, IncompatiblePeer) and error.details:
        return Why(error.problem, error.details)
    if said := fault_in(stderr) or " | ".join(stderr[-3:]):
        return Why(said)
    if isinstance(error, TimeoutError):
        seconds = f"{start_s:g}"
        return why(f"the worker did not answer within {seconds} s", "worker.timeout", seconds=seconds)
    return why_error(error)


def _offered(catalogue: RunnerCatalogue, tools: ToolCatalogue) -> str:
    names = [runner.runner_name for runner in catalogue.runners] + [f"tool {tool.name}" for tool in tools.tools]
    return f"it offers {', '.join(names)}" if names else "it offers no runner"
