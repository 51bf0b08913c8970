"""The worker: runs the runners and tools of one plugin as the host asks. Owns tasks; the channel's rules are wire's."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from pydantic import ValidationError

from bollard.protocol import (
    AgentRunRequest,
    JsonObject,
    LogLevel,
    ToolAnswer,
    WorkerIdentity,
    first_problem,
    limits,
)
from bollard.runtime.api_caller import ChannelCaller
from bollard.runtime.limits import CLOSE_GRACE_S, EXIT_GRACE_S
from bollard.runtime.loading import LoadedPlugin, LoadedRunner
from bollard.runtime.outlet import ChannelOutlet
from bollard.runtime.output import CURRENT_RUN, StreamName, end_lines
from bollard.runtime.sendable import sendable_fields, sendable_text, unsendable_result
from bollard.runtime.watchdog import BlockReport
from bollard.sdk import ConfigError, RunContext, RunnerObject, TextContent, drive
from bollard.sdk.errors import ERROR_CHARACTERS, sentence_of
from bollard.wire import ToolRequest, Transport, WorkerEnd, WorkerRun

__all__ = ["Worker"]


class _ActiveRun:
    """One run that this worker executes."""

    __slots__ = ("begun", "grace", "interrupt", "reason", "run", "task")

    def __init__(self, run: WorkerRun, interrupt: bool) -> None:
        self.run = run
        self.interrupt = interrupt
        self.begun = False
        self.reason: str | None = None
        self.grace: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None


class _ReadyRunner:
    """A runner and its one instance, made and started when the first run wants it."""

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
        # Plugin code at the very end: nobody is left to be told, and not even SystemExit may keep others from closing.
        with contextlib.suppress(BaseException):
            if self._object is not None:
                await self._object.close()


class Worker:
    """Serves one plugin over one channel until the host is done with it."""

    def __init__(self, transport: Transport, plugin: LoadedPlugin, identity: WorkerIdentity) -> None:
        self._plugin: Final = plugin
        self._end: Final = WorkerEnd(transport, self, worker=identity, plugin=plugin.identity)
        self._loop: Final = asyncio.get_running_loop()
        self._thread: Final = threading.get_ident()
        self._runners: Final = {name: _ReadyRunner(loaded) for name, loaded in plugin.runners.items()}
        self._active: dict[str, _ActiveRun] = {}
        self._tools: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned: set[asyncio.Task[None]] = set()  # held, because a loop holds its tasks only weakly
        self._problems_told = False
        self.dismissed = False
        """Whether the host said that it needs this worker no more."""
        self._gone: Final[asyncio.Future[str]] = self._loop.create_future()

    async def serve(self) -> str:
        """Work until the channel is gone or the host said shutdown; returns why it ended.

        Plugin code that does not end within `EXIT_GRACE_S` is left where it is: the process ends without it.
        """
        self._end.start()
        reason = await self._gone
        give_up_at = self._loop.time() + EXIT_GRACE_S
        for active in list(self._active.values()):
            self._cancel(active, "host.lost")
        for task in list(self._tools.values()):
            task.cancel()
        await _settled(self._tasks, EXIT_GRACE_S)
        closing = [self._spawn(runner.close()) for runner in self._runners.values()]
        await _settled(closing, max(CLOSE_GRACE_S, give_up_at - self._loop.time()))
        return reason

    @property
    def heard_at(self) -> float:
        """When the host was last heard, on the loop's clock."""
        return self._end.heard_at

    def hang_up(self, reason: str) -> None:
        """Close the channel and leave, also when the host does not read what is still to be sent."""
        self._end.close(reason)
        self._loop.call_later(EXIT_GRACE_S, self.closed, reason)

    # --- logs ---

    def log(self, level: LogLevel, message: str, fields: JsonObject, run_id: str | None = None) -> None:
        """Send one log record. Plugin code calls this from any thread and with anything; it never raises."""
        if threading.get_ident() != self._thread:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self.log, level, message, fields, run_id)
            return
        text = sendable_text(message if isinstance(message, str) else repr(message))  # pyright: ignore[reportUnnecessaryIsInstance]
        self._end.log(level, text, sendable_fields(fields), run_id=run_id)

    def printed(self, stream: StreamName, line: str, cut: int, run_id: str | None) -> None:
        """A line of the plugin's stdout or stderr; told on the loop's thread."""
        fields: JsonObject = {"stream": stream, "cut_characters": cut} if cut else {"stream": stream}
        self._end.log("info" if stream == "stdout" else "warning", line, fields, run_id=run_id)

    def blocked(self, report: BlockReport) -> None:
        """The loop was blocked; told by the watchdog."""
        fields: JsonObject = {"seconds": round(report.seconds, 3), "stack": report.stack[-4000:]}
        self.log("error", "runner code blocked the worker's loop; use await, or asyncio.to_thread", fields)

    # --- what the host wants (WorkerHandler) ---

    def runners(self) -> list[JsonObject]:
        if not self._problems_told:
            self._problems_told = True
            for problem in self._plugin.problems:
                fields: JsonObject = {"rule": problem.rule, "field": sendable_text(problem.field), "hint": problem.hint}
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
            # Not in the task itself: one that is cancelled before its first step never runs.
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

    async def _execute(self, active: _ActiveRun, runner: _ReadyRunner, request: AgentRunRequest) -> None:
        active.begun = True
        run, outlet = active.run, ChannelOutlet(active.run)
        CURRENT_RUN.set(run.run_id)
        try:
            if active.reason is None:
                ctx = await self._context(run, runner, request)
                if ctx is not None:
                    await drive(
                        await runner.get(),
                        ctx,
                        outlet,
                        interrupt=active.interrupt,
                        cancel_reason=lambda: active.reason,
                    )
        except asyncio.CancelledError:
            pass  # before the runner was reached: the reason below is all there is to say
        except BaseException as error:  # noqa: BLE001 -- plugin code: its constructor or start() failed
            await _fail(run, "runner.error", f"the runner could not start: {sentence_of(error)}")
        finally:
            if active.grace is not None:
                active.grace.cancel()
        if not run.terminal_sent:
            await _fail(run, active.reason or "runner.error", "the run was cancelled before it began")
        end_lines(run.run_id)
        self._end_run(active, "the run has ended")

    async def _context(self, run: WorkerRun, runner: _ReadyRunner, request: AgentRunRequest) -> RunContext[Any] | None:
        def log(level: LogLevel, message: str, fields: JsonObject) -> None:
            self.log(level, message, fields, run.run_id)

        try:
            config = runner.loaded.declaration.read_config(request.context.config)
        except ConfigError as error:
            await _fail(run, "runner.error", str(error))
            return None
        return RunContext(request.context, ChannelCaller(run), config, log=log)

    def _cancel(self, active: _ActiveRun, reason: str) -> None:
        if active.reason is not None:
            return
        active.reason = reason
        active.grace = self._loop.call_later(limits.CANCEL_GRACE_S, self._abandon, active)
        if active.begun and active.task is not None:
            active.task.cancel()

    def _abandon(self, active: _ActiveRun) -> None:
        """The runner ignores its cancellation: answer for it, and let it talk to nobody."""
        if active.task is not None:
            # It had its grace: the end of the worker need not wait for it again.
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
            answer = _tool_error(f"the tool did not answer within {params.timeout_ms} ms")
        except asyncio.CancelledError:
            answer = _tool_error("the call was cancelled")
        if (problem := unsendable_result(answer.to_wire())) is not None:
            answer = _tool_error(f"the answer of {params.tool} cannot be sent: {problem}")
        request.answer(answer)

    def _end_tool(self, request: ToolRequest) -> None:
        self._tools.pop(request.params.call_id, None)
        end_lines(request.params.context.run_id)
        request.answer(_tool_error("the call was cancelled"))  # dropped when it was answered

    # --- the end ---

    async def _shut_down(self, grace_s: float, done: Callable[[], None]) -> None:
        current = asyncio.current_task()
        await _settled([task for task in self._tasks if task is not current], grace_s)
        for active in list(self._active.values()):
            self._cancel(active, "cancelled")
        for task in list(self._tools.values()):
            task.cancel()
        busy = [active.task for active in self._active.values() if active.task is not None]
        await _settled([*busy, *self._tools.values()], limits.CANCEL_GRACE_S)
        done()
        self.hang_up("the host asked this worker to shut down")


async def _settled(tasks: Iterable[asyncio.Task[None]], timeout_s: float) -> None:
    waited_for = set(tasks)
    if waited_for:
        await asyncio.wait(waited_for, timeout=timeout_s)


def _tool_error(text: str) -> ToolAnswer:
    return ToolAnswer(content=(TextContent(text=text),), is_error=True)


async def _fail(run: WorkerRun, code: str, error: str) -> None:
    outlet = ChannelOutlet(run)
    await outlet.emit(
        "run.failed", {"code": code, "error": sendable_text(error[:ERROR_CHARACTERS]), "retryable": False}
    )
