"""The worker: executes the runners and tools of one plugin for the host. Owns their tasks."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final

from pydantic import ValidationError

from bollard.protocol import (
    AgentAPIError,
    AgentRunRequest,
    ErrorCode,
    JsonObject,
    JsonValue,
    LogLevel,
    WorkerIdentity,
    first_problem,
    limits,
)
from bollard.runtime.limits import CLOSE_GRACE_S, EXIT_GRACE_S, SILENCED_PAUSE_S
from bollard.runtime.output import CURRENT_RUN, StreamName, end_lines
from bollard.runtime.plugin_loader import LoadedPlugin, LoadedRunner
from bollard.runtime.problems import check_log_fields, explain_unsendable, make_sendable
from bollard.runtime.watchdog import BlockReport
from bollard.sdk import AgentAPIException, ConfigError, InvalidResult, ResultTooLarge, RunContext, RunnerObject, drive
from bollard.sdk.errors import ERROR_CHARACTERS, describe_error
from bollard.sdk.tool import failed_answer
from bollard.wire import (
    ChannelClosed,
    FrameError,
    PayloadTooLarge,
    RemoteError,
    ToolRequest,
    Transport,
    WireError,
    WorkerEnd,
    WorkerRun,
)

_NOT_JSON = (TypeError, ValueError, OverflowError, RecursionError)


def _translate_error(error: Exception) -> AgentAPIException:
    if isinstance(error, RemoteError):
        return AgentAPIException(error.api_error)
    code: ErrorCode = "runtime_error"
    if isinstance(error, ChannelClosed):
        code = "cancelled"
    elif isinstance(error, PayloadTooLarge):
        code = "payload_too_large"
    elif isinstance(error, (FrameError, *_NOT_JSON)):
        code = "invalid_argument"
    return AgentAPIException(AgentAPIError(code=code, message=str(error)))


class RunApiCaller:
    """The SDK's `ApiCaller` over a `WorkerRun`."""

    __slots__ = ("_run",)

    def __init__(self, run: WorkerRun) -> None:
        self._run = run

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        try:
            return await self._run.call(action, params)
        except (WireError, *_NOT_JSON) as error:
            raise _translate_error(error) from error

    async def stream(self, action: str, params: JsonObject) -> AsyncIterator[JsonValue]:
        chunks = self._run.stream(action, params)
        try:
            async for chunk in chunks:
                yield chunk
        except (WireError, *_NOT_JSON) as error:
            raise _translate_error(error) from error
        finally:
            # Closed now instead of on collection, so that the host learns at once.
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()


class ResultOutlet:
    """The SDK's `Outlet` over a `WorkerRun`. Results after the end of the run are dropped."""

    __slots__ = ("_run", "offer_text")

    def __init__(self, run: WorkerRun) -> None:
        self._run = run
        self.offer_text = run.offer_text

    async def emit(self, kind: str, data: JsonObject) -> None:
        if not isinstance(kind, str) or not isinstance(data, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidResult(str(kind), "data", "a result has the name of its type and an object of data")
        try:
            await self._run.emit(kind, data)
        except PayloadTooLarge as error:
            raise ResultTooLarge(kind, error.size_bytes, error.limit_bytes) from error
        except FrameError as error:
            raise InvalidResult(kind, "data", error.detail) from error
        except ChannelClosed:
            # The run was abandoned or the host is gone. The pause keeps a runner that awaits nothing else from
            # blocking the other runs.
            await asyncio.sleep(SILENCED_PAUSE_S)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidResult(kind, "data", f"is not JSON: {error}") from error


class _ActiveRun:
    """One active run and its task."""

    __slots__ = ("begun", "grace", "interrupt", "reason", "run", "task")

    def __init__(self, run: WorkerRun, interrupt: bool) -> None:
        self.run = run
        self.interrupt = interrupt
        self.begun = False
        self.reason: str | None = None
        self.grace: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None


class _RunnerInstance:
    """A runner and its single instance, created and started by the first run."""

    def __init__(self, loaded: LoadedRunner) -> None:
        self.loaded = loaded
        self._starting = asyncio.Lock()
        self._object: RunnerObject | None = None

    async def get(self) -> RunnerObject:
        if self._object is not None:
            return self._object
        async with self._starting:
            if self._object is None:
                made = self.loaded.declaration.instantiate()
                await made.start()
                self._object = made
        return self._object

    async def close(self) -> None:
        # Plugin code at shutdown: even SystemExit must not keep the other runners from closing.
        with contextlib.suppress(BaseException):
            if self._object is not None:
                await self._object.close()


class Worker:
    """Serves one plugin over one connection until the host is done."""

    def __init__(self, transport: Transport, plugin: LoadedPlugin, identity: WorkerIdentity) -> None:
        self._plugin: Final = plugin
        self._end: Final = WorkerEnd(transport, self, worker=identity, plugin=plugin.identity)
        self._loop: Final = asyncio.get_running_loop()
        self._thread: Final = threading.get_ident()
        self._runners: Final = {name: _RunnerInstance(loaded) for name, loaded in plugin.runners.items()}
        self._active: dict[str, _ActiveRun] = {}
        self._tools: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned: set[asyncio.Task[None]] = set()  # kept here because a loop holds its tasks only weakly
        self._problems_logged = False
        self.dismissed = False
        """Whether the host has sent `shutdown`."""
        self._gone: Final[asyncio.Future[str]] = self._loop.create_future()

    async def serve(self) -> str:
        """Serve until the connection closes or the host sends `shutdown`, and return the reason.

        Plugin code that does not end within `EXIT_GRACE_S` is abandoned; the process exits without it.
        """
        self._end.start()
        reason = await self._gone
        give_up_at = self._loop.time() + EXIT_GRACE_S
        for active in list(self._active.values()):
            self._cancel(active, "host.lost")
        for task in list(self._tools.values()):
            task.cancel()
        await _wait_for(self._tasks, EXIT_GRACE_S)
        closing = [self._spawn(runner.close()) for runner in self._runners.values()]
        await _wait_for(closing, max(CLOSE_GRACE_S, give_up_at - self._loop.time()))
        return reason

    @property
    def heard_at(self) -> float:
        """When the last frame of the host arrived, on the loop's clock."""
        return self._end.heard_at

    def hang_up(self, reason: str) -> None:
        """Close the connection and exit, even if the host does not read the queued frames."""
        self._end.close(reason)
        self._loop.call_later(EXIT_GRACE_S, self.closed, reason)

    # --- logs ---

    def log(self, level: LogLevel, message: str, fields: JsonObject, run_id: str | None = None) -> None:
        """Send one log record. Never raises: plugin code calls this from any thread with any value."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.log, level, message, fields, run_id)
            return
        text = make_sendable(message if isinstance(message, str) else repr(message))  # pyright: ignore[reportUnnecessaryIsInstance]
        self._end.log(level, text, check_log_fields(fields), run_id=run_id)

    def printed(self, stream: StreamName, line: str, cut: int, run_id: str | None) -> None:
        """Log a line of the plugin's stdout or stderr. Called on the loop's thread."""
        fields: JsonObject = {"stream": stream, "cut_characters": cut} if cut else {"stream": stream}
        self._end.log("info" if stream == "stdout" else "warning", line, fields, run_id=run_id)

    def blocked(self, report: BlockReport) -> None:
        """Log that the loop was blocked. Called by the watchdog."""
        fields: JsonObject = {"seconds": round(report.seconds, 3), "stack": report.stack[-4000:]}
        self.log("error", "runner code blocked the worker's loop; use await, or asyncio.to_thread", fields)

    # --- requests of the host (WorkerHandler) ---

    def runners(self) -> list[JsonObject]:
        if not self._problems_logged:
            self._problems_logged = True
            for problem in self._plugin.problems:
                fields: JsonObject = {"rule": problem.rule, "field": make_sendable(problem.field), "hint": problem.hint}
                fields |= {"details": problem.details}
                self.log("warning", f"{problem.where}: {problem.problem}", fields)
        return [loaded.discovery.to_wire() for loaded in self._plugin.runners.values()]

    def tools(self) -> list[JsonObject]:
        return [loaded.definition.to_wire() for loaded in self._plugin.tools.values()]

    def run_started(self, run: WorkerRun) -> None:
        try:
            request = AgentRunRequest.from_wire(run.request)
        except ValidationError as error:
            field, problem = first_problem(error)
            self._end.refuse_run(run, f"run/start: {field}: {problem}", field)
            return
        runner = self._runners.get(request.runner_name)
        if runner is None or runner.loaded.discovery.manifest.id != request.runner_id:
            self._end.refuse_run(run, "run/start: runner_id: this plugin has no such runner", "runner_id")
            return
        active = _ActiveRun(run, runner.loaded.discovery.manifest.capabilities.interrupt)
        self._active[run.run_id] = active
        active.task = self._spawn(self._execute(active, runner, request))

    def run_cancelled(self, run: WorkerRun, reason: str) -> None:
        if active := self._active.get(run.run_id):
            self._cancel(active, reason)

    def tool_called(self, request: ToolRequest) -> None:
        params = request.params
        if params.tool not in self._plugin.tools:
            request.refuse(f"tool/call: tool: this plugin has no tool {params.tool[:64]!r}")
        elif params.call_id in self._tools:
            request.refuse("tool/call: call_id: a call with this id is under way")
        else:
            task = self._tools[params.call_id] = self._spawn(self._call_tool(request))
            # Not in the task itself: a task that is cancelled before its first step never runs.
            task.add_done_callback(lambda _: self._end_tool(request))

    def tool_cancelled(self, call_id: str) -> None:
        if task := self._tools.get(call_id):
            task.cancel()

    def shutdown(self, grace_s: float, done: Callable[[], None]) -> None:
        self.dismissed = True
        self._spawn(self._shut_down(grace_s, done))

    def closed(self, reason: str) -> None:
        if not self._gone.done():
            self._gone.set_result(reason)

    # --- runs ---

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _execute(self, active: _ActiveRun, runner: _RunnerInstance, request: AgentRunRequest) -> None:
        active.begun = True
        run, outlet = active.run, ResultOutlet(active.run)
        CURRENT_RUN.set(run.run_id)
        try:
            if active.reason is None:
                ctx = await self._context(run, runner, request)
                if ctx is not None:
                    await drive(
                        await runner.get(), ctx, outlet, interrupt=active.interrupt, cancel_reason=lambda: active.reason
                    )
        except asyncio.CancelledError:
            pass  # cancelled before the runner was called; reported below
        except BaseException as error:  # noqa: BLE001 -- plugin code: its constructor or start() failed
            await _fail(run, "runner.error", f"the runner could not start: {describe_error(error)}")
        finally:
            if active.grace is not None:
                active.grace.cancel()
        if not run.terminal_sent:
            await _fail(run, active.reason or "runner.error", "the run was cancelled before it began")
        end_lines(run.run_id)
        self._end_run(active, "the run has ended")

    async def _context(
        self, run: WorkerRun, runner: _RunnerInstance, request: AgentRunRequest
    ) -> RunContext[Any] | None:
        def log(level: LogLevel, message: str, fields: JsonObject) -> None:
            self.log(level, message, fields, run.run_id)

        try:
            config = runner.loaded.declaration.read_config(request.context.config)
        except ConfigError as error:
            await _fail(run, "runner.error", str(error))
            return None
        return RunContext(request.context, RunApiCaller(run), config, log=log)

    def _cancel(self, active: _ActiveRun, reason: str) -> None:
        if active.reason is not None:
            return
        active.reason = reason
        active.grace = self._loop.call_later(limits.CANCEL_GRACE_S, self._abandon, active)
        if active.begun and active.task is not None:
            active.task.cancel()

    def _abandon(self, active: _ActiveRun) -> None:
        """Answer `run/start` for a runner that ignores its cancellation. It can send nothing after that."""
        if active.task is not None:
            # Its grace is over, so the shutdown of the worker does not wait for it again.
            self._tasks.discard(active.task)
            self._abandoned.add(active.task)
            active.task.add_done_callback(self._abandoned.discard)
        fields: JsonObject = {"grace_s": limits.CANCEL_GRACE_S}
        self.log("error", "the run ignored its cancellation and was abandoned", fields, active.run.run_id)
        self._end_run(active, "the run was abandoned")

    def _end_run(self, active: _ActiveRun, reason: str) -> None:
        if self._active.pop(active.run.run_id, None) is not None:
            self._end.finish_run(active.run, reason)

    # --- tools ---

    async def _call_tool(self, request: ToolRequest) -> None:
        params = request.params
        tool = self._plugin.tools[params.tool].declaration
        CURRENT_RUN.set(params.context.run_id)
        try:
            async with asyncio.timeout(params.timeout_ms / 1000):
                answer = await tool.invoke(params.arguments, params.context)
        except TimeoutError:
            answer = failed_answer(f"the tool did not answer within {params.timeout_ms} ms")
        except asyncio.CancelledError:
            answer = failed_answer("the call was cancelled")
        if (problem := explain_unsendable(answer.to_wire())) is not None:
            answer = failed_answer(f"the answer of {params.tool} cannot be sent: {problem}")
        request.answer(answer)

    def _end_tool(self, request: ToolRequest) -> None:
        self._tools.pop(request.params.call_id, None)
        end_lines(request.params.context.run_id)
        request.answer(failed_answer("the call was cancelled"))  # dropped if already answered

    # --- the end ---

    async def _shut_down(self, grace_s: float, done: Callable[[], None]) -> None:
        current = asyncio.current_task()
        await _wait_for([task for task in self._tasks if task is not current], grace_s)
        for active in list(self._active.values()):
            self._cancel(active, "cancelled")
        for task in list(self._tools.values()):
            task.cancel()
        busy = [active.task for active in self._active.values() if active.task is not None]
        await _wait_for([*busy, *self._tools.values()], limits.CANCEL_GRACE_S)
        done()
        self.hang_up("the host asked this worker to shut down")


async def _wait_for(tasks: Iterable[asyncio.Task[None]], timeout_s: float) -> None:
    waited_for = set(tasks)
    if waited_for:
        await asyncio.wait(waited_for, timeout=timeout_s)


async def _fail(run: WorkerRun, code: str, error: str) -> None:
    outlet = ResultOutlet(run)
    await outlet.emit(
        "run.failed", {"code": code, "error": make_sendable(error[:ERROR_CHARACTERS]), "retryable": False}
    )
