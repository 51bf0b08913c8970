"""One worker behind its connection: its runs, its log and its end. `ConnectedSlot` serves local processes and remote
workers. `WorkerSlot` is a local process from spawn to end."""

import asyncio
import contextlib
import logging
import os
import re
import resource
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

import structlog
from msgspec import structs

from bollard.host.limits import WORKER_FILES, WORKER_MEMORY_BYTES, WORKER_START_S, WORKER_STOP_S
from bollard.host.reason import Why
from bollard.host.secrets.redactor import Scrubber
from bollard.host.workers.boundary import Confine, Confined, Flushable, PluginSource, WorkerLog, WorkerView, unconfined
from bollard.host.workers.identity import identity_problem
from bollard.manifest.text import declared_worker
from bollard.protocol import JsonObject, JsonValue, LogRecord, PluginIdentity, PluginSandbox, ToolAnswer, ToolCallParams
from bollard.wire import (
    HostEnd,
    HostRun,
    RunnerCatalogue,
    RunSink,
    Strike,
    ToolCatalogue,
    Violation,
    WireError,
    WorkerProcess,
    check_program,
    spawn_worker,
    watch_heartbeat,
    worker_argv,
    worker_environment,
)
from bollard.wire.plugin_files import digest_of_plugin

_ESCAPES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")
_HIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


class Mask:
    """Redacts the log of a worker: secrets that it received, secrets of its workspace, and terminal control characters.
    A value that was secret once stays redacted."""

    def __init__(self, secrets: Scrubber | None = None) -> None:
        """`secrets` are those of the workspace."""
        self._given = Scrubber()
        self._secrets = secrets or Scrubber()

    def hide(self, values: Iterable[str]) -> None:
        """Add values to redact."""
        self._given.add(values)

    def text(self, text: str) -> str:
        """Redact a text. Control characters go first, because they may split a secret."""
        return self._secrets.text(self._given.text(_HIDDEN.sub("\ufffd", _ESCAPES.sub("", text))))

    def value(self, value: JsonValue) -> JsonValue:
        """Redact every text in a JSON value."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(each) for name, each in value.items()}
        return value


_log = structlog.get_logger("bollard.worker")


class ConnectedSlot(ABC):
    """Implements `RunSlot`, and `HostObserver` of the wire."""

    def __init__(
        self, plugin: str, *, log: WorkerLog | None = None, violated: Callable[[Violation], None] = lambda _: None
    ) -> None:
        """`plugin` names it in the host's log. `violated` gets each violation of the protocol, without secrets."""
        self._plugin = plugin
        self._on_violation = violated
        self._worker_log = log
        self._mask = Mask()
        self._end: HostEnd | None = None
        self._gone = False
        self._touched: dict[Flushable, None] = {}
        self._active: dict[str, HostRun] = {}
        self._traces: dict[str, str | None] = {}
        """The trace id of each run, for its log lines."""
        self._calls = 0
        """Open tool calls."""
        self._emptied = asyncio.Event()
        self.draining = False
        self.silent = False
        """Whether a ping is overdue. A silent worker gets no new runs."""
        self.on_answer: Callable[[], None] = lambda: None
        """Called when a silent worker responds again."""

    @property
    def pid(self) -> int | None:
        """The process id. `None` for a remote worker."""
        return None

    @property
    def ready(self) -> bool:
        return self._end is not None and not self._gone and not self.draining and not self.silent

    @property
    def view(self) -> WorkerView:
        """As an operator sees it."""
        status = "draining" if self.draining else "silent" if self.silent else "ready"
        return WorkerView(pid=self.pid, runs=self.runs, status=status)

    @property
    def runs(self) -> int:
        """Runs that have not ended."""
        return len(self._active)

    @property
    def identity(self) -> PluginIdentity:
        """The identity that the worker reports."""
        if self._end is None:
            raise RuntimeError("the worker is not started")
        return self._end.peer.plugin

    def start_run(self, run_id: str, request: JsonObject, sink: RunSink) -> HostRun:
        """Start a run. Raises `ChannelClosed` if the worker is gone."""
        if self._end is None:
            raise RuntimeError("the worker is not started")
        run = self._end.start_run_raw(run_id, request, sink)
        self._active[run_id] = run
        self._traces[run_id] = _trace_of(request)
        run.ended.add_done_callback(lambda _: self.forget(run_id))
        return run

    async def call_tool(self, params: ToolCallParams) -> ToolAnswer:
        """Call a tool of the plugin. A worker with open tool calls is not empty. Raises `WireError`."""
        if self._end is None:
            raise RuntimeError("the worker is not started")
        self._calls += 1
        try:
            return await self._end.call_tool(params)
        finally:
            self._calls -= 1
            self._check_empty()

    def touch(self, run: Flushable) -> None:
        """The run received something in this batch."""
        self._touched[run] = None

    def explain_failure(self, error: str) -> str:
        """The error of a run, with the permission whose lack explains it."""
        return error

    def begin_draining(self) -> None:
        """Take no more runs."""
        self.draining = True
        self._check_empty()

    def forget(self, run_id: str) -> None:
        """Do not wait for this run any more: the worker counts as empty without it."""
        self._active.pop(run_id, None)
        self._traces.pop(run_id, None)
        self._check_empty()

    def _check_empty(self) -> None:
        if self.draining and not self._active and not self._calls:
            self._emptied.set()

    async def empty(self) -> None:
        """Wait until every run that is not abandoned and every tool has ended, or the worker is gone."""
        await self._emptied.wait()

    def fall_silent(self) -> None:
        """A ping is overdue."""
        if not self.silent:
            self.silent = True
            self._tell("a worker does not answer: it gets no new runs until it does", level="warning")

    def answer(self) -> None:
        """A ping was answered."""
        if self.silent:
            self.silent = False
            self._tell("a worker answers again")
            self.on_answer()

    def _tell(self, text: str, *, level: str = "info") -> None:
        """Log a message about this worker in the logs of the host and of the plugin."""
        _log.log(logging.getLevelNamesMapping()[level.upper()], text, plugin=self._plugin, pid=self.pid)
        if self._worker_log is not None:
            self._worker_log.say("host", text, level=level, pid=self.pid)

    @abstractmethod
    def lost(self, reason: str) -> None:
        """The connection ended unexpectedly. Called once."""

    # --- HostObserver ---

    def batch_ended(self) -> None:
        touched, self._touched = self._touched, {}
        for run in touched:
            run.flush()

    def logged(self, record: LogRecord) -> None:
        _log.log(
            logging.getLevelNamesMapping().get(record.level.upper(), logging.INFO),
            self.hide_secrets(record.message),
            plugin=self._plugin,
            run=record.run_id,
            trace=self._traces.get(record.run_id or ""),
            fields=self._mask.value(record.fields),
        )
        if self._worker_log is not None:
            self._worker_log.say(
                "log",
                record.message,
                level=record.level,
                pid=self.pid,
                run_id=record.run_id,
                fields=record.fields or None,
            )

    def hide_secrets(self, text: str) -> str:
        """The text without the secrets of the worker and of its workspace."""
        text = self._mask.text(text)
        return text if self._worker_log is None else self._worker_log.shown(text)

    def struck(self, strike: Strike) -> None:
        _log.warning("a worker broke the protocol", plugin=self._plugin, fault=strike.fault, detail=strike.detail)
        if self._worker_log is not None:
            text = f"it broke the protocol: {strike.fault}: {strike.detail}"
            self._worker_log.say("host", text, level="warning", pid=self.pid)

    def violated(self, violation: Violation) -> None:
        """The worker broke the protocol, or is not the plugin that was started."""
        run_id = None if violation.run_id is None else self.hide_secrets(violation.run_id)
        self._on_violation(structs.replace(violation, detail=self.hide_secrets(violation.detail), run_id=run_id))

    def closed(self, reason: str) -> None:
        self.batch_ended()
        if not self._gone:
            self._gone = True
            self._emptied.set()
            self.lost(reason)


def _exit_text(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def _trace_of(request: JsonObject) -> str | None:
    """The trace id in a start request."""
    context = request.get("context")
    runtime = context.get("runtime") if isinstance(context, dict) else None
    found = runtime.get("trace_id") if isinstance(runtime, dict) else None
    return found if isinstance(found, str) else None


class WorkerSlot(ConnectedSlot):
    """Drives one process. Notifies its pool when it is ready or lost, and forwards its log."""

    def __init__(
        self,
        source: PluginSource,
        host_version: str,
        lost: Callable[["WorkerSlot", str], None],
        *,
        start_s: float = WORKER_START_S,
        log: WorkerLog | None = None,
        violated: Callable[[Violation], None] = lambda _: None,
        confine: Confine = unconfined,
    ) -> None:
        """`confine` prepares the sandbox of the process."""
        super().__init__(source.name, log=log, violated=violated)
        self._source = source
        self._confine = confine
        self._confined: Confined | None = None
        self._host_version = host_version
        self._lost = lost
        self._start_s = start_s
        self._process: WorkerProcess | None = None
        self._identity: PluginIdentity | None = None
        self._watch: asyncio.Task[None] | None = None
        self._killed_because: str | None = None
        self._sandbox: Confined | None = None
        """The sandbox that explains errors, also after the end of the process."""
        self.stderr_tail: list[str] = []

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def identity(self) -> PluginIdentity:
        return self._identity or super().identity

    async def start(self) -> tuple[RunnerCatalogue, ToolCatalogue]:
        """Spawn, handshake, discover. If it raises `WireError`, `TimeoutError`, `OSError`, `ConfineError` or
        `HostError`, the process is gone."""
        declared, command, version = self._source.env, self._source.command, self._source.version
        sandbox = self._source.sandbox
        if declared is None:
            manifest = await asyncio.to_thread(declared_worker, self._source.path)
            declared, command, version = manifest.env, command or manifest.command, manifest.version
            sandbox = sandbox or manifest.sandbox
        environment = worker_environment(os.environ, declared)
        secrets = [environment[name] for name in declared if name in environment]
        self._mask.hide(secrets)
        if self._worker_log is not None:
            self._worker_log.hide(secrets)
        self._process = await self._spawn(command, environment, sandbox or PluginSandbox())
        end = HostEnd(self._process.transport, self, violated=self.violated)
        try:
            await self._settle(self._process)
            async with asyncio.timeout(self._start_s):
                introduced = (await end.initialize(self._host_version)).plugin
                if command and introduced.digest is None:
                    introduced = await self._with_digest(introduced)
                self._check_identity(introduced, version)
                runners, tools = await end.list_runners(), await end.list_tools()
        except BaseException:
            self._gone = True
            await self._process.kill()
            await self._release()
            raise
        if self._confined is not None:
            self._process.identify(self._confined.find_program(self._process.pid))
        self._end, self._identity = end, introduced
        self._watch = asyncio.create_task(self._watch_heart(end))
        return runners, tools

    def explain_start(self) -> Why | None:
        """The permission whose lack explains why it did not start."""
        return None if self._sandbox is None else self._sandbox.explain(self.stderr_tail)

    def explain_failure(self, error: str) -> str:
        lack = None if self._sandbox is None else self._sandbox.explain([error])
        return error if lack is None else f"{error}\n{lack}"

    async def _spawn(
        self, command: tuple[str, ...], environment: dict[str, str], sandbox: PluginSandbox
    ) -> WorkerProcess:
        """Start the Python runtime, or the program of the plugin in the plugin's folder, in its sandbox."""
        path = self._source.path
        folder: Path | None = None
        if command:
            folder = path if path.is_dir() else path.parent
            argv = worker_argv(command, folder, environment)
        else:
            argv = [sys.executable, "-P", "-m", "bollard.runtime", str(path.resolve())]
        self._sandbox = self._confined = confined = await self._confine(self._source, sandbox, argv)
        if confined is None:
            return await spawn_worker(argv, environment=environment, output=self._printed, cwd=folder)
        try:
            if command:
                check_program(argv[0])
            return await spawn_worker(
                confined.argv,
                environment=confined.environment(environment),
                output=self._printed,
                descriptors=confined.descriptors,
            )
        except BaseException:
            await self._release()
            raise

    async def _settle(self, process: WorkerProcess) -> None:
        """Serve the network of a confined worker, or limit one that is not confined."""
        if self._confined is not None:
            await self._confined.start()
            return
        with contextlib.suppress(ProcessLookupError):  # it has ended already, and its connection reports that
            _limit(process.pid)

    async def _release(self) -> None:
        """Remove the sandbox of an ended process."""
        confined, self._confined = self._confined, None
        if confined is None:
            return
        if confined.memory_kills:
            more = "spec.sandbox.memory_mib of its manifest asks for more, the setting workspace_memory_mib allows more"
            self._tell(f"its memory was used up, or that of its workspace: {more}", level="warning")
        await confined.close()

    async def _with_digest(self, identity: PluginIdentity) -> PluginIdentity:
        """Add the digest of the plugin's files for a program that does not report one. The host reads the files that
        the program was started from: those of an installed plugin are checked and read-only."""
        digest = self._source.digest or await asyncio.to_thread(digest_of_plugin, self._source.path)
        return identity.model_copy(update={"digest": digest})

    def _check_identity(self, identity: PluginIdentity, version: str | None) -> None:
        """Refuse a worker that is not the pinned plugin, or states another version than its manifest."""
        refused = identity_problem(self._source, identity, version)
        if refused is not None:
            self.violated(Violation(kind="identity", detail=refused.problem, run_id=None, ends="worker"))
            raise refused

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
            await self._release()

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
        """Remove everything of a lost worker, and log how its process ended."""
        if self._watch is not None:
            self._watch.cancel()
        if self._process is not None:
            code = await self._process.kill()
            await self._release()
            self._tell(f"the worker process ended with {_exit_text(code)}")

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
        line = self.hide_secrets(line)
        if stream == "stderr":
            self.stderr_tail = [*self.stderr_tail[-19:], line]
        _log.info(line, plugin=self._source.name, stream=stream)
        if self._worker_log is not None:
            self._worker_log.say(stream, line, pid=self.pid)


def _limit(pid: int) -> None:
    """Limit the resources of a worker, before any plugin code is called."""
    bounds = {resource.RLIMIT_CORE: 0, resource.RLIMIT_DATA: WORKER_MEMORY_BYTES, resource.RLIMIT_NOFILE: WORKER_FILES}
    for kind, bound in bounds.items():
        hard = resource.prlimit(pid, kind)[1]
        allowed = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.prlimit(pid, kind, (allowed, allowed))
