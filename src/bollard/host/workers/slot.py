"""One worker process: from spawn to its end. Tells its pool when it is ready, when it is lost, and what it logs."""

import asyncio
import os
import resource
import sys
from collections.abc import Callable
from typing import Literal, Protocol

import structlog

from bollard.host.limits import WORKER_FILES, WORKER_MEMORY_BYTES, WORKER_START_S, WORKER_STOP_S
from bollard.host.workers.plugin import PluginSource
from bollard.protocol import JsonObject, LogRecord
from bollard.wire import (
    HostEnd,
    HostRun,
    RunnerCatalogue,
    RunSink,
    Strike,
    WireError,
    WorkerProcess,
    spawn_worker,
    watch_heartbeat,
    worker_environment,
)
from bollard.wire.manifest_text import declared_environment

__all__ = ["Flushable", "WorkerSlot"]

_log = structlog.get_logger("bollard.worker")


class Flushable(RunSink, Protocol):
    """A run that wants to know when everything that arrived together was told."""

    def flush(self) -> None: ...


class WorkerSlot:
    """Drives one process. Implements `HostObserver` of the wire."""

    def __init__(
        self,
        source: PluginSource,
        host_version: str,
        lost: Callable[["WorkerSlot", str], None],
        *,
        start_s: float = WORKER_START_S,
    ) -> None:
        self._source = source
        self._host_version = host_version
        self._lost = lost
        self._start_s = start_s
        self._process: WorkerProcess | None = None
        self._end: HostEnd | None = None
        self._touched: dict[Flushable, None] = {}
        self._watch: asyncio.Task[None] | None = None
        self._gone = False
        self._active: dict[str, HostRun] = {}
        self._emptied = asyncio.Event()
        self.draining = False
        self.stderr_tail: list[str] = []

    @property
    def ready(self) -> bool:
        return self._end is not None and not self._gone and not self.draining

    @property
    def runs(self) -> int:
        """Runs that it was given and that have not ended."""
        return len(self._active)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> RunnerCatalogue:
        """Spawn, introduce, discover. Raises `WireError`, `TimeoutError` or `OSError`; the process is gone then."""
        argv = self._source.command or (sys.executable, "-P", "-m", "bollard.runtime", str(self._source.path))
        declared = await asyncio.to_thread(declared_environment, self._source.path)
        self._process = await spawn_worker(
            argv, environment=worker_environment(os.environ, declared), output=self._printed
        )
        _limit(self._process.pid)
        end = HostEnd(self._process.transport, self)
        try:
            async with asyncio.timeout(self._start_s):
                await end.initialize(self._host_version)
                catalogue = await end.list_runners()
        except BaseException:
            self._gone = True
            await self._process.kill()
            raise
        self._end = end
        self._watch = asyncio.create_task(self._watch_heart(end))
        return catalogue

    def start_run(self, run_id: str, request: JsonObject, sink: Flushable) -> HostRun:
        """Raises `ChannelClosed` when the worker is gone."""
        if self._end is None:
            raise RuntimeError("the worker is not started")
        run = self._end.start_run_raw(run_id, request, sink)
        self._active[run_id] = run
        run.ended.add_done_callback(lambda _: self.forget(run_id))
        return run

    def touch(self, run: Flushable) -> None:
        """The run got something in this batch."""
        self._touched[run] = None

    async def stop(self, grace_s: float) -> None:
        """Let runs end, then end the process and everything it spawned."""
        self.draining = True
        if self._watch is not None:
            self._watch.cancel()
        if self._end is not None and not self._gone:
            try:
                async with asyncio.timeout(grace_s + WORKER_STOP_S):  # one whose loop is blocked never answers
                    await self._end.shutdown(grace_s)
            except (WireError, TimeoutError) as error:
                _log.info("a worker did not shut down by itself", plugin=self._source.name, problem=str(error))
        self._gone = True
        if self._process is not None:
            await self._process.stop()

    def forget(self, run_id: str) -> None:
        """A run has ended here, or will not: the worker counts as empty without it."""
        self._active.pop(run_id, None)
        if self.draining and not self._active:
            self._emptied.set()

    async def empty(self) -> None:
        """Wait until every run that is not abandoned has ended, or the worker is gone; a blocked one is killed."""
        if self._end is not None and self._process is not None and not self._gone:
            try:
                await self._end.ping(timeout_s=WORKER_STOP_S)
            except WireError as error:
                _log.warning("a worker is killed", plugin=self._source.name, reason=str(error))
                await self._process.kill()
        await self._emptied.wait()

    async def _watch_heart(self, end: HostEnd) -> None:
        reason = await watch_heartbeat(end.ping)
        if not self._gone and self._process is not None:
            _log.warning("a worker is killed", plugin=self._source.name, reason=reason)
            await self._process.kill()

    # --- what the channel tells (HostObserver) ---

    def batch_ended(self) -> None:
        touched, self._touched = self._touched, {}
        for run in touched:
            run.flush()

    def logged(self, record: LogRecord) -> None:
        _log.info(record.message, plugin=self._source.name, level=record.level, run=record.run_id, fields=record.fields)

    def struck(self, strike: Strike) -> None:
        _log.warning("a worker broke the protocol", plugin=self._source.name, fault=strike.fault, detail=strike.detail)

    def closed(self, reason: str) -> None:
        self.batch_ended()
        if not self._gone:
            self._gone = True
            self._emptied.set()
            if self._end is not None:  # before that `start` tells its caller: one crash must not count twice
                self._lost(self, reason)

    def _printed(self, stream: Literal["stdout", "stderr"], line: str) -> None:
        if stream == "stderr":
            self.stderr_tail = [*self.stderr_tail[-19:], line]
        _log.info(line, plugin=self._source.name, stream=stream)

    async def reap(self) -> None:
        """After a loss: nothing of the worker may stay."""
        if self._watch is not None:
            self._watch.cancel()
        if self._process is not None:
            await self._process.kill()


def _limit(pid: int) -> None:
    """Bound what a worker can take from the machine, before any plugin code is asked to do something."""
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: WORKER_MEMORY_BYTES,
        resource.RLIMIT_NOFILE: WORKER_FILES,
    }
    for kind, bound in bounds.items():
        hard = resource.prlimit(pid, kind)[1]
        allowed = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.prlimit(pid, kind, (allowed, allowed))
