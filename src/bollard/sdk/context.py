"""`RunContext`: the event, the configuration, the run API and the result builders of one run.

The builders return values that the runner yields. They send nothing.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic

from typing_extensions import TypeVar

from bollard.protocol import (
    ActorContext,
    AdapterContext,
    AgentEventContext,
    AgentInput,
    AgentResources,
    AgentRunContext,
    AgentRunState,
    AgentRuntimeContext,
    AgentTrigger,
    ContextAccess,
    ConversationContext,
    DeliveryContext,
    FailureCode,
    JsonObject,
    JsonValue,
    LogLevel,
    Message,
    MessageChunk,
    StateScope,
    SubjectContext,
)
from bollard.sdk import results
from bollard.sdk.api import RunApi
from bollard.sdk.calls import ApiCaller
from bollard.sdk.results import Result, TextDelta

C = TypeVar("C", covariant=True, default=JsonObject)

LogSink = Callable[[LogLevel, str, JsonObject], None]
"""Where `ctx.log` goes: level, message, fields. Must not block and must not raise."""

_LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
_logger: Final = logging.getLogger("bollard.runner")


def _log_here(level: LogLevel, message: str, fields: JsonObject) -> None:
    _logger.log(_LEVELS[level], "%s %s", message, json.dumps(fields, ensure_ascii=False) if fields else "")


class RunContext(Generic[C]):
    """One run: its event, its configuration, its API and the results that it may yield.

    `config` is the runner's configuration model, or plain JSON where it declares none. The host creates the context.
    """

    __slots__ = ("_api", "_caller", "_clock", "_log", "_until", "config", "raw")

    def __init__(
        self,
        raw: AgentRunContext,
        caller: ApiCaller,
        config: C,
        clock: Callable[[], float] = time.monotonic,
        log: LogSink = _log_here,
    ) -> None:
        self.raw: Final = raw
        self.config: Final = config
        self._caller = caller
        self._clock = clock
        self._log = log
        self._api: RunApi | None = None
        timeout_ms = raw.runtime.timeout_ms
        self._until = None if timeout_ms is None else clock() + timeout_ms / 1000

    # --- the event and its place ---

    @property
    def run_id(self) -> str:
        """The id of this run."""
        return self.raw.run_id

    @property
    def trigger(self) -> AgentTrigger:
        """Why the run started: the kind of its event, and its source."""
        return self.raw.trigger

    @property
    def event(self) -> AgentEventContext:
        """The event of the run. It need not be a message."""
        return self.raw.event

    @property
    def conversation(self) -> ConversationContext | None:
        """The conversation of the event; `None` for an event without one."""
        return self.raw.conversation

    @property
    def actor(self) -> ActorContext | None:
        """Who caused the event; `None` if the host does not know."""
        return self.raw.actor

    @property
    def subject(self) -> SubjectContext | None:
        """What the event is about, such as a ticket; `None` where there is nothing."""
        return self.raw.subject

    @property
    def input(self) -> AgentInput:
        """The text, the content and the attachments of the event."""
        return self.raw.input

    @property
    def delivery(self) -> DeliveryContext:
        """The target of the answer and its abilities."""
        return self.raw.delivery

    @property
    def resources(self) -> AgentResources:
        """The granted resources by name."""
        return self.raw.resources

    @property
    def access(self) -> ContextAccess:
        """The run's position in its conversation, and its available APIs."""
        return self.raw.context

    context = access

    @property
    def state_snapshot(self) -> AgentRunState:
        """The state at the start of the run; `api.state` reads the current state."""
        return self.raw.state

    @property
    def runtime(self) -> AgentRuntimeContext:
        """The host, the trace and the time limit of the run."""
        return self.raw.runtime

    @property
    def adapter(self) -> AdapterContext | None:
        """Additions of the channel that the event came from."""
        return self.raw.adapter

    @property
    def metadata(self) -> JsonObject:
        """Additions of the host."""
        return self.raw.metadata

    # --- actions ---

    @property
    def api(self) -> RunApi:
        """The host's API."""
        if self._api is None:
            self._api = RunApi(self._caller)
        return self._api

    @property
    def time_left(self) -> float | None:
        """Seconds until the deadline, at least 0, or `None` without one. Advice: the host enforces it."""
        return None if self._until is None else max(0.0, self._until - self._clock())

    def log(self, message: str, level: LogLevel = "info", **fields: JsonValue) -> None:
        """Leave a log record: a sentence plus fields. Never a secret."""
        if level not in _LEVELS:
            raise ValueError(f"unknown log level {level!r}; use one of {', '.join(_LEVELS)}")
        self._log(level, message, fields)

    # --- results ---

    def delta(
        self,
        text: str | MessageChunk | Mapping[str, Any] = "",
        *,
        reasoning: str | None = None,
        message_id: str | None = None,
    ) -> Result:
        """An increment of the answer, never cumulative text."""
        if type(text) is str and reasoning is None and message_id is None:
            return TextDelta(text)
        return results.message_delta(text, reasoning=reasoning, message_id=message_id)

    def completed(self, message: str | Message | Mapping[str, Any], *, message_id: str | None = None) -> Result:
        """A whole message. It overrides its deltas."""
        return results.message_completed(message, message_id=message_id)

    def artifact(
        self,
        artifact_type: str = "file",
        *,
        content: bytes | None = None,
        artifact_id: str | None = None,
        mime_type: str | None = None,
        name: str | None = None,
        metadata: JsonObject | None = None,
    ) -> Result:
        """A new artifact; content above 700 KiB goes through `api.artifacts.write`."""
        return results.artifact_created(
            artifact_type, content=content, artifact_id=artifact_id, mime_type=mime_type, name=name, metadata=metadata
        )

    def state(self, scope: StateScope, key: str, value: JsonValue) -> Result:
        """A new value of one state key, at most 256 KiB."""
        return results.state_updated(scope, key, value)

    def action(self, action: str, target: JsonObject | None = None, payload: JsonObject | None = None) -> Result:
        """A platform action without waiting for its outcome; `api.platform.request` waits."""
        return results.action_requested(action, target, payload)

    def tool_started(self, tool_call_id: str, tool_name: str, parameters: JsonValue = None) -> Result:
        """Telemetry: the runner calls a tool of its own."""
        return results.tool_call_started(tool_call_id, tool_name, parameters)

    def tool_completed(
        self, tool_call_id: str, tool_name: str, result: JsonValue = None, error: JsonValue = None
    ) -> Result:
        """Telemetry: a tool of the runner's own answered."""
        return results.tool_call_completed(tool_call_id, tool_name, result, error)

    def finish(self, reason: str = "end", message: str | Message | Mapping[str, Any] | None = None) -> Result:
        """End the run. Later results are not sent."""
        return results.run_completed(reason, message)

    def fail(self, error: str, code: FailureCode = "runner.error", *, retryable: bool = False) -> Result:
        """Fail the run. Later results are not sent."""
        return results.run_failed(code, error, retryable)

    def __repr__(self) -> str:
        return f"RunContext(run_id={self.run_id!r}, event_type={self.event.event_type!r})"
