"""The worker of a plugin on this machine: its start, its handshake, its tools and its end."""

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from bollard import __version__
from bollard.cli.errors import PluginUnusable, WorkerProblem
from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS, LOAD_TIMEOUT_S, STOP_GRACE_S, TOOL_TIMEOUT_MS
from bollard.cli.plugins.inspector import inspect_plugin
from bollard.cli.plugins.local_sandbox import confine_locally, confinement_problems
from bollard.cli.terminal.columns import shorten
from bollard.host.egress.connection_log import ConnectionSum
from bollard.host.workers.sandbox import ConfinedWorker
from bollard.protocol import (
    CHANNEL_FD_VARIABLE,
    AgentRunnerDiscovery,
    JsonObject,
    LogRecord,
    PluginIdentity,
    ToolAnswer,
    ToolCallContext,
    ToolCallParams,
    ToolDefinition,
)
from bollard.runtime import RULES, ManifestReading, PluginLoadError, Problem, read_manifest
from bollard.wire import (
    CallTimeout,
    CatalogueProblem,
    HostEnd,
    ProgramNotFound,
    Strike,
    Transport,
    WireError,
    WorkerProcess,
    check_program,
    fault_in,
    spawn_worker,
    worker_argv,
    worker_environment,
)
from bollard.wire.process import LineCallback

_LAST_LINES: Final = 20
_EXIT_PLUGIN: Final = 3
"""The runtime's exit code for a plugin that cannot be loaded."""


class LinkEvents:
    """Callbacks of the worker connection outside of runs; a session sets them to its own methods."""

    def __init__(self, logged: Callable[[LogRecord], None], committed: Callable[[], None]) -> None:
        self._logged = logged
        self._committed = committed
        self.closed_because: str | None = None
        self.strikes: list[Strike] = []

    def logged(self, record: LogRecord) -> None:
        self._logged(record)

    def batch_ended(self) -> None:
        self._committed()

    def struck(self, strike: Strike) -> None:
        self.strikes.append(strike)

    def closed(self, reason: str) -> None:
        self.closed_because = reason


class ConfinedProcess:
    """The process of a worker, and its sandbox if it has one."""

    def __init__(self, process: WorkerProcess, sandbox: ConfinedWorker | None) -> None:
        self._process = process
        self._sandbox = sandbox

    @property
    def transport(self) -> Transport:
        return self._process.transport

    async def stop(self, grace_s: float) -> int:
        """End the worker and its child processes. Returns its exit code."""
        code = await self._process.stop(grace_s)
        await self._close()
        return code

    async def kill(self) -> int:
        """End the worker at once, without its grace period."""
        code = await self._process.kill()
        await self._close()
        return code

    async def _close(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()


class WorkerLink:
    """A worker after its handshake."""

    def __init__(
        self,
        process: ConfinedProcess,
        end: HostEnd,
        events: LinkEvents,
        runners: tuple[AgentRunnerDiscovery, ...],
        tools: tuple[ToolDefinition, ...],
        problems: tuple[CatalogueProblem, ...],
    ) -> None:
        self.end = end
        self.runners = runners
        self.tools = tools
        self.problems = problems
        self._process = process
        self._events = events
        self._calls = 0

    @property
    def plugin(self) -> PluginIdentity:
        return self.end.peer.plugin

    @property
    def alive(self) -> bool:
        return self._events.closed_because is None

    @property
    def strikes(self) -> list[Strike]:
        return self._events.strikes

    async def call_tool(self, name: str, arguments: JsonObject, context: ToolCallContext) -> ToolAnswer:
        """Call a tool of the plugin."""
        self._calls += 1
        params = ToolCallParams(
            call_id=f"call-{self._calls}", tool=name, arguments=arguments, timeout_ms=TOOL_TIMEOUT_MS, context=context
        )
        return await self.end.call_tool(params)

    async def stop(self) -> int:
        """End the worker and its child processes. Returns its exit code."""
        return await self._process.stop(STOP_GRACE_S)

    async def kill(self) -> None:
        """End the worker at once, without its grace period."""
        await self._process.kill()


def read_declaration(path: Path) -> ManifestReading | None:
    """The manifest of a folder; `None` for a single file. Runs no plugin code. Raises `PluginLoadError`."""
    return read_manifest(path) if path.is_dir() else None


async def start_worker(path: Path, events: LinkEvents, text: Text, *, timeout_s: float = LOAD_TIMEOUT_S) -> WorkerLink:
    """Start the worker of a plugin like a host: the program of its manifest, or the Python runtime."""
    try:
        declared = read_declaration(path)
    except PluginLoadError as error:
        raise _unusable(path, error.problem, text) from error
    printed: deque[str] = deque(maxlen=_LAST_LINES)
    ready = asyncio.Event()  # until then, what the worker writes says why it does not start

    def output(stream: Literal["stdout", "stderr"], line: str) -> None:
        printed.append(line)
        if ready.is_set():  # native code, or a process of the plugin: not seen by the runtime
            events.logged(LogRecord(level="info", message=line, fields={"stream": stream}))

    worker = await _start_process(path, declared, events, output, text)
    end = HostEnd(worker.transport, events)
    try:
        async with asyncio.timeout(timeout_s):
            await end.initialize(__version__, timeout_s=timeout_s)
            runners, tools = await end.list_runners(), await end.list_tools()
    except (WireError, TimeoutError) as error:
        late = isinstance(error, CallTimeout | TimeoutError)
        code = await (worker.kill() if late else worker.stop(STOP_GRACE_S))
        if late:
            raise PluginUnusable("error.load_slow", "fix.PC08", path=path, seconds=f"{timeout_s:g}") from error
        if code == _EXIT_PLUGIN and text.language != "en_US":  # the output of the worker has only English sentences
            env = () if declared is None else declared.env
            loaded = await asyncio.to_thread(inspect_plugin, path, env, text, timeout_s=timeout_s)
            if loaded.problems:
                raise _unusable(path, loaded.problems[0], text) from error
        raise _did_not_start(path, code, list(printed), error, text) from error
    except BaseException:
        await worker.kill()
        raise
    ready.set()
    return WorkerLink(worker, end, events, runners.runners, tools.tools, (*runners.problems, *tools.problems))


async def _start_process(
    path: Path, declared: ManifestReading | None, events: LinkEvents, output: LineCallback, text: Text
) -> ConfinedProcess:
    """Start the process in its sandbox. Its connections become log lines."""

    def connected(found: ConnectionSum) -> None:
        level = "info" if found.outcome == "closed" else "warning"
        events.logged(LogRecord(level=level, message=_connection(found, text)))

    plugin, folder = _located(path)
    environment = worker_environment(os.environ, () if declared is None else declared.env)
    # No bytecode into the plugin's folder, nothing imported from the current one.
    argv = [sys.executable, "-B", "-P", "-m", "bollard.runtime", str(plugin)]
    try:
        if declared is not None and declared.command:
            argv = worker_argv(declared.command, folder, environment)
            check_program(argv[0])
        sandbox = await confine_locally(path, argv, CHANNEL_FD_VARIABLE, text, connected)
        with confinement_problems(path, text):
            return await _spawn(sandbox, argv, environment, output, folder)
    except ProgramNotFound as error:
        key = "error.program_file" if error.is_file else "error.program_path"
        raise WorkerProblem(key, "hint.program", path=path, program=error.program) from error
    except OSError as error:
        raise WorkerProblem("error.program", "hint.program", path=path, detail=error) from error


async def _spawn(
    sandbox: ConfinedWorker | None, argv: list[str], environment: dict[str, str], output: LineCallback, folder: Path
) -> ConfinedProcess:
    if sandbox is None:
        return ConfinedProcess(await spawn_worker(argv, environment=environment, output=output, cwd=folder), None)
    process: WorkerProcess | None = None
    try:
        process = await spawn_worker(
            sandbox.argv, environment=sandbox.environment(environment), output=output, descriptors=sandbox.descriptors
        )
        await sandbox.start()
    except BaseException:
        if process is not None:
            await process.kill()
        await sandbox.close()
        raise
    return ConfinedProcess(process, sandbox)


def _connection(found: ConnectionSum, text: Text) -> str:
    return text(
        "run.connection",
        place=f"{found.host}:{found.port}",
        outcome=text(f"connection.{found.outcome}"),
        count=found.count,
        sent=found.sent,
        received=found.received,
    )


def _located(path: Path) -> tuple[Path, Path]:
    """The plugin, and the working directory of its worker."""
    whole = path.resolve()
    return whole, whole if whole.is_dir() else whole.parent


def _unusable(path: Path, problem: Problem, text: Text) -> PluginUnusable:
    found = text.problem({"problem": problem.problem, **problem.details})
    found = f"{problem.where}: {text.place(problem.details, problem.field)}: {found}"
    if text.language != "en_US":
        found = text("rule.detail", rule=text(f"rule.{problem.rule}"), detail=found)
    return PluginUnusable("error.unusable", f"fix.{problem.rule}", path=path, rule=problem.rule, problem=found)


def _did_not_start(
    path: Path, code: int, lines: list[str], error: Exception, text: Text
) -> PluginUnusable | WorkerProblem:
    output = [line for line in lines if line.strip()]
    # The runtime writes `bollard: RULE where: field: problem`, then `hint: …`.
    reason = next((line for line in output if line.startswith("bollard: ")), "").removeprefix("bollard: ")
    rule, _, problem = reason.partition(" ")
    if code == _EXIT_PLUGIN and rule in RULES:
        problem = text.quote(shorten(problem, LINE_CHARACTERS))
        if text.language != "en_US":
            problem = text("rule.detail", rule=text(f"rule.{rule}"), detail=problem)
        return PluginUnusable("error.unusable", f"fix.{rule}", path=path, rule=rule, problem=problem)
    detail = text.quote(shorten(fault_in(output) or (output[-1] if output else str(error)), LINE_CHARACTERS))
    return WorkerProblem("error.worker", "hint.worker", path=path, code=code, detail=detail)
