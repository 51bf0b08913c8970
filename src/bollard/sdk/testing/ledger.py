"""One run in the in-memory host: its results, its messages, its calls and its outcome. The host applies the effects on
stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from bollard import protocol
from bollard.protocol import JsonObject, Shape, first_problem, limits
from bollard.sdk.errors import api_failure
from bollard.sdk.testing.grant import Grant
from bollard.sdk.testing.steering import SteeringQueue, SteeringStatus
from bollard.sdk.testing.stores import Maker, MemoryArtifact, measure_json
from bollard.sdk.testing.transcript import text_of


class ApiRecord(NamedTuple):
    """One API call of a run; `outcome` is `ok`, an error code, or `given up`."""

    action: str
    params: JsonObject
    outcome: str


class Rejected(NamedTuple):
    """A result that had no effect, and why."""

    result: protocol.AgentRunResult
    record: str
    reason: str


class LogEntry(NamedTuple):
    """One `ctx.log`."""

    level: str
    message: str
    fields: JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOutcome:
    """How a run ended."""

    run_id: str
    status: protocol.TerminalStatus
    code: str | None
    error: str | None
    text: str
    """The whole output: the text of every message, one after the other."""
    messages: tuple[protocol.Message, ...]
    results: tuple[protocol.AgentRunResult, ...]
    calls: tuple[ApiRecord, ...]
    state: Mapping[str, JsonObject]
    artifacts: Mapping[str, MemoryArtifact]
    actions: tuple[protocol.PlatformRequest, ...]
    rejected: tuple[Rejected, ...]
    logs: tuple[LogEntry, ...]
    steering: tuple[tuple[str, SteeringStatus], ...]

    def of_type(self, kind: str) -> tuple[protocol.AgentRunResult, ...]:
        """The results of one type."""
        return tuple(result for result in self.results if result.type == kind)


@dataclass(slots=True)
class _Building:
    parts: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    elements: list[Any] = field(default_factory=list[Any])
    whole: protocol.Message | None = None

    def add(self, chunk: protocol.MessageChunk) -> None:
        if isinstance(chunk.content, str):
            self.parts.append(chunk.content)
        else:
            self.elements += chunk.content
        self.reasoning.append(chunk.reasoning or "")

    def message(self) -> protocol.Message:
        if self.whole is not None:
            return self.whole
        content = tuple(self.elements) or "".join(self.parts)
        return protocol.Message(role="assistant", content=content, reasoning="".join(self.reasoning) or None)


class Assembly:
    """Deltas and completed messages, put together as the host does."""

    def __init__(self) -> None:
        self._order: list[_Building] = []
        self._open: dict[str | None, _Building] = {}
        self._any_completed = False

    @property
    def empty(self) -> bool:
        """Whether there was no output at all."""
        return not self._order

    @property
    def messages(self) -> tuple[protocol.Message, ...]:
        return tuple(building.message() for building in self._order)

    @property
    def text(self) -> str:
        return "\n".join(text for message in self.messages if (text := text_of(message.content)))

    def take(self, payload: Shape) -> None:
        """One valid payload."""
        if isinstance(payload, protocol.MessageDelta):
            self._building(payload.message_id).add(payload.chunk)
        elif isinstance(payload, protocol.MessageCompleted):
            self._complete(payload.message_id, payload.message)
            self._any_completed = True
        elif isinstance(payload, protocol.RunCompleted) and payload.message is not None and not self._any_completed:
            self._complete(None, payload.message)

    def _building(self, message_id: str | None) -> _Building:
        if message_id not in self._open:
            self._open[message_id] = _Building()
            self._order.append(self._open[message_id])
        return self._open[message_id]

    def _complete(self, message_id: str | None, message: protocol.Message) -> None:
        self._building(message_id).whole = message
        if message_id is None:  # what comes next is another message
            del self._open[None]


@dataclass(kw_only=True, slots=True)
class RunLedger:
    """The state of one run in the in-memory host."""

    context: protocol.AgentRunContext
    grant: Grant
    runner_id: str
    scope_keys: Mapping[str, str]
    steering: SteeringQueue
    prompts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The configured prompts by field, in the order of the form."""
    results: list[protocol.AgentRunResult] = field(default_factory=list[protocol.AgentRunResult])
    rejected: list[Rejected] = field(default_factory=list[Rejected])
    calls: list[ApiRecord] = field(default_factory=list[ApiRecord])
    logs: list[LogEntry] = field(default_factory=list[LogEntry])
    actions: list[protocol.PlatformRequest] = field(default_factory=list[protocol.PlatformRequest])
    artifact_ids: list[str] = field(default_factory=list[str])
    assembly: Assembly = field(default_factory=Assembly)
    in_flight: int = 0
    terminal: protocol.AgentRunResult | None = None
    closed: bool = False

    def scope_key(self, scope: str) -> str:
        """The key of a state scope. Raises `not_found` if the event of the run has no such scope."""
        if scope not in self.scope_keys:
            raise api_failure("not_found", f"the event of this run has no {scope}")
        return self.scope_keys[scope]

    @property
    def maker(self) -> Maker:
        """The run, as its artifacts name it."""
        place = self.context.conversation
        return Maker(
            source="runner",
            run_id=self.context.run_id,
            runner_id=self.runner_id,
            conversation_id=place.conversation_id if place else None,
        )

    def take(self, result: protocol.AgentRunResult) -> Shape | None:
        """Check and assemble one result. Returns its payload if it may have effects, otherwise `None`."""
        last = self.results[-1].sequence if self.results else 0
        if result.sequence <= last:
            return None  # a duplicate is dropped
        if self.terminal is not None or self.closed:
            self.reject(result, "result.rejected", "came after the end of the run")
            return None
        if result.sequence > last + 1:
            self.reject(result, "result.gap", f"results {last + 1} to {result.sequence - 1} are missing")
        self.results.append(result)
        self.steering.happened(result.type)
        if result.type in protocol.TERMINAL_TYPES:
            self.terminal = result
        if result.type not in protocol.RESULT_PAYLOADS:
            self.reject(result, "result.unknown", f"no result type {result.type}")
            return None
        size = measure_json(result.to_wire())
        if size > limits.RESULT_BYTES:
            self.reject(result, "result.rejected", f"{size} bytes exceed {limits.RESULT_BYTES}")
            return None
        try:
            payload = protocol.RESULT_PAYLOADS[result.type].from_wire(result.data)
        except ValidationError as error:
            self.reject(result, "result.rejected", ": ".join(first_problem(error)))
            return None
        self.assembly.take(payload)
        if isinstance(payload, protocol.ActionRequested):
            self.actions.append(
                protocol.PlatformRequest(action=payload.action, target=payload.target, payload=payload.payload)
            )
        return payload

    def reject(self, result: protocol.AgentRunResult, record: str, reason: str) -> None:
        """Record a result without effect."""
        self.rejected.append(Rejected(result, record, reason))

    def verdict(self, cancel_reason: str | None) -> tuple[protocol.TerminalStatus, str | None, str | None]:
        """Return status, code and error. The reason of a cancelled run overrides the runner's own result."""
        failure = _failure(self.terminal)
        if cancel_reason is not None:
            return protocol.status_of_failure(cancel_reason), cancel_reason, failure[1] if failure else None
        if self.terminal is None:
            return "failed", "runner.protocol", "the run ended without a terminal result"
        if failure is not None:
            return protocol.status_of_failure(failure[0]), *failure
        if self.context.event.event_type == "message.received" and self.assembly.empty:
            return "failed", "runner.no_output", "the run on a message ended without any output"
        return "completed", None, None


def _failure(terminal: protocol.AgentRunResult | None) -> tuple[str, str] | None:
    if terminal is None or terminal.type != "run.failed":
        return None
    try:
        failed = protocol.RunFailed.from_wire(terminal.data)
    except ValidationError as error:  # an invalid run.failed is still a failure
        return "runner.error", f"an invalid run.failed: {': '.join(first_problem(error))}"
    return failed.code, failed.error
