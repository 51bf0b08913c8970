"""One worker process, from spawn to its end. Notifies its pool when it is ready or lost, and forwards its log."""

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Callable
from typing import Literal

import structlog

from bollard.host.limits import WORKER_FILES, WORKER_MEMORY_BYTES, WORKER_START_S, WORKER_STOP_S
from bollard.host.workers.boundary import PluginSource, WorkerLog
from bollard.host.workers.worker_slot import ConnectedSlot
from bollard.protocol import PluginIdentity
from bollard.wire import (
    HostEnd,
    IncompatiblePeer,
    RemoteError,
    RunnerCatalogue,
    ToolCatalogue,
    WireError,
    WorkerProcess,
    spawn_worker,
    watch_heartbeat,
    worker_environment,
)
from bollard.wire.envelope import METHOD_NOT_FOUND
from bollard.wire.manifest_text import declared_environment

_log = structlog.get_logger("bollard.worker")


class WorkerSlot(ConnectedSlot):
    """Drives one process."""

    def __init__(
        self,
        source: PluginSource,
        host_version: str,
        lost: Callable[["WorkerSlot", str], None],
        *,
        start_s: float = WORKER_START_S,
        log: WorkerLog | None = None,
    ) -> None:
        super().__init__(source.name, log=log)
        self._source = source
        self._host_version = host_version
        self._lost = lost
        self._start_s = start_s
        self._process: WorkerProcess | None = None
        self._watch: asyncio.Task[None] | None = None
        self._killed_because: str | None = None
        self.stderr_tail: list[str] = []

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> tuple[RunnerCatalogue, ToolCatalogue]:
        """Spawn, handshake, discover. If it raises `WireError`, `TimeoutError` or `OSError`, the process is gone."""
        argv = self._source.command or (sys.executable, "-P", "-m", "bollard.runtime", str(self._source.path))
        declared = self._source.env
        if declared is None:
            declared = await asyncio.to_thread(declared_environment, self._source.path)
        environment = worker_environment(os.environ, declared)
        secrets = [environment[name] for name in declared if name in environment]
        self._mask.hide(secrets)
        if self._worker_log is not None:
            self._worker_log.hide(secrets)
        self._process = await spawn_worker(argv, environment=environment, output=self._printed)
        end = HostEnd(self._process.transport, self)
        try:
            with contextlib.suppress(ProcessLookupError):  # it has ended already, and its connection reports that
                _limit(self._process.pid)
            async with asyncio.timeout(self._start_s):
                introduced = await end.initialize(self._host_version)
                _check_identity(self._source, introduced.plugin)
                runners, tools = await end.list_runners(), await _list_tools(end)
        except BaseException:
            self._gone = True
            await self._process.kill()
            raise
        self._end = end
        self._watch = asyncio.create_task(self._watch_heart(end))
        return runners, tools

    async def stop(self, grace_s: float) -> None:
        """Let runs end, then end the process and everything it spawned."""
        self.draining = True
        if self._watch is not None:
            self._watch.cancel()
        if self._end is not None and not self._gone:
            try:
                async with asyncio.timeout(grace_s + WORKER_STOP_S):  # a worker whose loop is blocked never responds
                    await self._end.shutdown(grace_s)
            except (WireError, TimeoutError) as error:
                _log.info("a worker did not shut down by itself", plugin=self._source.name, problem=str(error))
        self._gone = True
        if self._process is not None:
            await self._process.stop()

    async def empty(self) -> None:
        """Stop the worker, and kill it if it is blocked."""
        if self._end is not None and self._process is not None and not self._gone:
            try:
                await self._end.ping(timeout_s=WORKER_STOP_S)
            except WireError as error:
                _log.warning("a worker is killed", plugin=self._source.name, reason=str(error))
                await self._process.kill()
        await super().empty()

    def lost(self, reason: str) -> None:
        if self._end is not None:  # before that, `start` raises: a crash must not count twice
            self._lost(self, self._killed_because or reason)

    async def reap(self) -> None:
        """Remove everything of a lost worker."""
        if self._watch is not None:
            self._watch.cancel()
        if self._process is not None:
            await self._process.kill()

    async def _watch_heart(self, end: HostEnd) -> None:
        reason = await watch_heartbeat(end.ping, silent=self._silent, answered=self.answer)
        if not self._gone and self._process is not None:
            _log.warning("a worker is killed", plugin=self._source.name, reason=reason)
            self._killed_because = reason
            await self._process.kill()

    def _silent(self) -> str | None:
        """Why the process cannot respond: it is stopped, or has no connection."""
        self.fall_silent()
        return None if self._process is None else self._process.fault()

    def _printed(self, stream: Literal["stdout", "stderr"], line: str) -> None:
        line = self._shown(line)
        if stream == "stderr":
            self.stderr_tail = [*self.stderr_tail[-19:], line]
        _log.info(line, plugin=self._source.name, stream=stream)
        if self._worker_log is not None:
            self._worker_log.say(stream, line, pid=self.pid)


async def _list_tools(end: HostEnd) -> ToolCatalogue:
    """A worker that has none need not know the word."""
    try:
        return await end.list_tools()
    except RemoteError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return ToolCatalogue(tools=(), problems=())


def _check_identity(source: PluginSource, identity: PluginIdentity) -> None:
    """Refuse a worker that is not the pinned plugin."""
    plugin_id = f"{identity.author}/{identity.name}"
    if source.plugin_id is not None and plugin_id != source.plugin_id:
        raise IncompatiblePeer(f"the worker says it is {plugin_id}, but {source.plugin_id} was started", "correct it")
    if source.digest is not None and identity.digest != source.digest:
        raise IncompatiblePeer(
            f"the worker's code is {identity.digest}, but {source.digest} was consented to", "install the plugin again"
        )


def _limit(pid: int) -> None:
    """Limit the resources of a worker, before any plugin code is called."""
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: WORKER_MEMORY_BYTES,
        resource.RLIMIT_NOFILE: WORKER_FILES,
    }
    for kind, bound in bounds.items():
        hard = resource.prlimit(pid, kind)[1]
        allowed = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.prlimit(pid, kind, (allowed, allowed))
