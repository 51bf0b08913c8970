"""One run on a worker: its results, its calls, its deadline and its end."""

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from bollard import __version__
from bollard.cli.errors import UsageProblem
from bollard.cli.limits import END_MARGIN_S
from bollard.cli.terminal.renderers import ApiDone, Renderer, RunEnded
from bollard.host.models.demo import answer_to
from bollard.protocol import (
    AgentAPIError,
    AgentRunnerManifest,
    AgentRunRequest,
    AgentRunResult,
    FormItem,
    JsonObject,
    JsonValue,
    Message,
    ModelsInvoke,
    ToolAnswer,
    ToolDefinition,
    limits,
)
from bollard.protocol.context import DeliveryContext
from bollard.protocol.form import same_json
from bollard.sdk import AgentAPIException, ApiCaller
from bollard.sdk.testing import MemoryHost, Recording, RunLedger, RunOutcome, ScriptedModel, record
from bollard.sdk.testing.live_run import HostCaller
from bollard.sdk.testing.occasion import Occasion, build_context
from bollard.sdk.testing.recording import BLANK
from bollard.sdk.testing.transcript import text_of
from bollard.wire import ChannelClosed, Delta, HostRun, PayloadTooLarge, RunCall, RunEnd, Strike, WorkerResult

# The host that `plugin run` simulates: a `MemoryHost` with a demo model, the plugin's own tools, and a growing history.
# It knows contexts, configuration and the transcript; `session` has the worker and its connection.


DEMO_MODEL: Final = "demo"
"""The model that answers offline."""
DEFAULT_MODEL: Final = "default"
"""The id of the model that a host uses where nobody chose one; here the demo model too."""

ToolCaller = Callable[[str, JsonObject], Awaitable[ToolAnswer]]
"""Calls a tool of the plugin by name."""

_DEMO_VALUES: Final[Mapping[str, JsonValue]] = {
    "llm-model-selector": DEMO_MODEL,
    "select-llm-model": DEMO_MODEL,
    "rerank-model-selector": DEMO_MODEL,
    "embedding-model-selector": DEMO_MODEL,
    "model-fallback-selector": {"primary": DEMO_MODEL, "fallbacks": []},
}
"""The value of an empty selector."""


def _demo_reply(request: ModelsInvoke) -> Message | str:
    """The answer of the demo model of every host. A text is streamed word by word."""
    answer = answer_to(request.messages, request.tools or (), request.extra_args or {})
    return answer if answer.tool_calls or answer.reasoning else text_of(answer.content)


def whole_config(given: JsonObject, form: Sequence[FormItem]) -> JsonObject:
    """The configuration of an agent, with defaults and models filled in. Raises if a field is missing, or cannot be
    set."""
    config = dict(given)
    for item in form:
        if item.name in config:
            if item.type == "display" or (item.locked is not None and not same_json(config[item.name], item.default)):
                raise UsageProblem("error.config_fixed", "hint.config_fixed", name=item.name)
            continue
        if item.type == "display":
            continue
        value = item.default if item.default is not None else _DEMO_VALUES.get(item.type)
        if value is not None:
            config[item.name] = value
        elif item.required and not item.show_if:
            raise UsageProblem("error.config_missing", "hint.config_missing", name=item.name, type=item.type)
    return config


class LocalConversation:
    """One conversation in memory."""

    def __init__(
        self,
        runner: AgentRunnerManifest,
        config: JsonObject,
        tools: Sequence[ToolDefinition],
        call_tool: ToolCaller,
        *,
        locale: str,
        timeout_s: float,
    ) -> None:
        self.runner = runner
        self._config = whole_config(config, runner.config_schema)
        self._locale = locale
        self._timeout_s = timeout_s
        self._runs = 0
        self.host = MemoryHost(
            models=dict.fromkeys((DEMO_MODEL, DEFAULT_MODEL), ScriptedModel(itertools.repeat(_demo_reply))),
            tools={tool.name: _forwarded(tool, call_tool) for tool in tools},
        )
        offered: dict[str, Any] = self.host.world.tools.offered
        for tool in tools:  # a forwarding function has no schema; the plugin's own description does
            offered[tool.name] = dataclasses.replace(offered[tool.name], definition=tool)

    def open(self, text: str | None, event_type: str) -> RunLedger:
        """Begin a run. The context of the ledger is sent to the worker."""
        self._runs += 1
        delivery = DeliveryContext(surface="terminal", supports_streaming=True)
        occasion: Occasion = {"event_type": event_type, "locale": self._locale, "delivery": delivery}
        context = build_context(
            f"run-{self._runs}",
            text,
            occasion,
            config=self._config,
            now=self.host.clock.now(),
            timeout_s=self._timeout_s,
        )
        runtime = context.runtime.model_copy(update={"host_version": __version__})
        return self.host.open(
            context.model_copy(update={"runtime": runtime}),
            permissions=self.runner.permissions,
            capabilities=self.runner.capabilities,
            runner_name=self.runner.name,
        )

    def end(self, ledger: RunLedger, reason: str | None) -> RunOutcome:
        """Close a run. Its messages are in the history of the next one."""
        return self.host.end(ledger.context.run_id, reason)


def _forwarded(tool: ToolDefinition, call_tool: ToolCaller) -> Callable[..., Awaitable[ToolAnswer]]:
    def forward(**arguments: JsonValue) -> Awaitable[ToolAnswer]:
        return call_tool(tool.name, arguments)

    forward.__doc__ = tool.description
    forward.__name__ = tool.name
    return forward


def recording_of(ledger: RunLedger, runner: AgentRunnerManifest) -> Recording:
    """A recording of a run that starts now, without secret fields."""
    secret = {item.name for item in runner.config_schema if item.type == "secret"}
    config = {name: BLANK if name in secret else value for name, value in ledger.context.config.items()}
    return Recording(ledger.context.model_copy(update={"config": config}))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRunEnd:
    """The end of a run."""

    outcome: RunOutcome
    shown: RunEnded
    worker_is_gone: bool
    abandoned: bool
    """Whether the runner ignored its cancellation, so that its worker must be replaced."""

    @property
    def status(self) -> str:
        return self.outcome.status

    @property
    def dropped(self) -> tuple[str, ...]:
        """Lines that were sent into the run, but not read."""
        return tuple(line for line, status in self.outcome.steering if status == "dropped")


class LocalRun:
    """The active run; a `RunSink`."""

    def __init__(
        self,
        stage: LocalConversation,
        ledger: RunLedger,
        renderer: Renderer,
        recording: Recording | None,
        *,
        timeout_s: float,
    ) -> None:
        self.ledger = ledger
        self.run: HostRun | None = None
        self.reason: str | None = None
        """Why the run was cancelled. It decides the status, whatever the runner's last result is."""
        self._stage = stage
        self._renderer = renderer
        self._recording = recording
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._done: asyncio.Future[RunEnd] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        caller: ApiCaller = HostCaller(stage.host, ledger.context.run_id)
        self._caller = caller if recording is None else record(caller, recording)

    @property
    def request(self) -> AgentRunRequest:
        """The request to the worker."""
        runner = self._stage.runner
        return AgentRunRequest(runner_id=runner.id, runner_name=runner.name, context=self.ledger.context)

    def started(self, run: HostRun) -> None:
        """Start the deadline."""
        self.run = run
        self._timer = self._loop.call_later(self._timeout_s, self.cancel, "runner.timeout")

    def cancel(self, reason: str) -> None:
        """Request the cancellation. After the grace period the run has ended, whether it stopped or not."""
        if self.reason is not None or self.run is None or self._done.done():
            return
        self.reason = reason
        self.run.cancel(reason)
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(limits.CANCEL_GRACE_S + END_MARGIN_S, self._give_up)

    def _give_up(self) -> None:
        if not self._done.done():
            self._done.set_result(RunEnd(how="refused", reason="the worker does not answer"))

    def steer(self, text: str) -> None:
        """Send a message into the active run. Raises `ValueError` if it accepts no more."""
        self.ledger.steering.add(text)

    def commit(self) -> None:
        """Return credit: all results are in memory, so the worker may send more."""
        if self.run is not None and not self._done.done():
            self.run.credit(self.run.last_sequence)

    async def finish(self) -> LocalRunEnd:
        """Wait for the end of the run and return it."""
        end = await self._done
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        reason = self.reason
        if reason is None and end.how == "lost" and self.ledger.terminal is None:
            reason = "runner.crashed"
        outcome = self._stage.end(self.ledger, reason)
        # Cancelled without further output: the run was abandoned, and its code may still be active in the worker.
        abandoned = self.reason is not None and self.ledger.terminal is None
        return LocalRunEnd(
            outcome=outcome,
            worker_is_gone=end.how == "lost",
            abandoned=abandoned,
            shown=RunEnded(
                run_id=outcome.run_id,
                status=outcome.status,
                code=outcome.code,
                error=outcome.error or end.reason,
                results=len(outcome.results),
                seconds=time.monotonic() - self._began,
            ),
        )

    # --- callbacks of the worker connection (RunSink) ---

    def delta(self, delta: Delta, size: int) -> None:
        del size
        self._take(AgentRunResult.from_wire(delta.to_wire()))

    def result(self, result: WorkerResult) -> None:
        self._take(
            AgentRunResult(
                run_id=result.run_id,
                type=result.type,
                data=result.data,
                sequence=result.sequence,
                timestamp=result.timestamp,
            )
        )

    def _take(self, result: AgentRunResult) -> None:
        refused = len(self.ledger.rejected)
        self._stage.host.take(result)
        if self._recording is not None:
            self._recording.result(result)
        self._renderer.result(result)
        for rejected in self.ledger.rejected[refused:]:
            self._renderer.rejected(rejected.record, rejected.reason)

    def gap(self, first: int, last: int) -> None:
        """A no-op: the ledger notices it at the next result."""

    def refused(self, sequence: int, why: Literal["late", "too_large"]) -> None:
        self._renderer.rejected("result.rejected", f"result {sequence}: {why}")

    def called(self, call: RunCall) -> None:
        task = self._loop.create_task(self._answer(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def give_up() -> None:
            task.cancel()

        call.on_given_up = give_up

    def crowded(self, call: RunCall, times: int) -> None:
        many = f"{times} × {call.action}"
        self._renderer.rejected("api.denied", f"{many}: {limits.CALLS_IN_FLIGHT} calls are unanswered already")

    def struck(self, strike: Strike) -> None:
        self._renderer.rejected(f"strike {strike.count}", f"{strike.fault}: {strike.detail}")
        if strike.ends == "run" and self.reason is None:  # the worker connection has sent the cancellation
            self.reason = "runner.protocol"
            self._wait_for_end()

    def ended(self, end: RunEnd) -> None:
        if not self._done.done():
            self._done.set_result(end)

    # --- the run API ---

    async def _answer(self, call: RunCall) -> None:
        began = time.monotonic()
        refusal: AgentAPIError | None = None
        try:
            if call.streamed:
                async for chunk in self._caller.stream(call.action, call.params):
                    await call.chunk(chunk)
                call.answer({})
            else:
                call.answer(await self._caller.call(call.action, call.params))
        except AgentAPIException as error:
            refusal = error.error
        except PayloadTooLarge as error:
            refusal = AgentAPIError(code="payload_too_large", message=str(error))
        except ChannelClosed:
            return  # no caller waits for it any more
        if refusal is not None:
            call.refuse(refusal)
        self._renderer.called(
            ApiDone(
                action=call.action,
                params=call.params,
                error=None if refusal is None else str(AgentAPIException(refusal)),
                seconds=time.monotonic() - began,
            )
        )
