"""How a run ended and what it sent: the value that a test looks at, and the assembly of messages from results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bollard.protocol import (
    AgentRunResult,
    JsonObject,
    Message,
    MessageChunk,
    MessageCompleted,
    MessageDelta,
    PlatformRequest,
    RunCompleted,
    Shape,
    TerminalStatus,
)
from bollard.sdk.testing.steering import SteeringStatus
from bollard.sdk.testing.stores import MemoryArtifact
from bollard.sdk.testing.transcript import text_of


class ApiRecord(NamedTuple):
    """One API call of a run; `outcome` is `ok`, an error code, or `given up`."""

    action: str
    params: JsonObject
    outcome: str


class Rejected(NamedTuple):
    """A result that had no effect, and why."""

    result: AgentRunResult
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
    status: TerminalStatus
    code: str | None
    error: str | None
    text: str
    """The whole output: the text of every message, one after the other."""
    messages: tuple[Message, ...]
    results: tuple[AgentRunResult, ...]
    calls: tuple[ApiRecord, ...]
    state: Mapping[str, JsonObject]
    artifacts: Mapping[str, MemoryArtifact]
    actions: tuple[PlatformRequest, ...]
    rejected: tuple[Rejected, ...]
    logs: tuple[LogEntry, ...]
    steering: tuple[tuple[str, SteeringStatus], ...]

    def of_type(self, kind: str) -> tuple[AgentRunResult, ...]:
        """The results of one type."""
        return tuple(result for result in self.results if result.type == kind)


@dataclass(slots=True)
class _Building:
    parts: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    elements: list[Any] = field(default_factory=list[Any])
    whole: Message | None = None

    def add(self, chunk: MessageChunk) -> None:
        if isinstance(chunk.content, str):
            self.parts.append(chunk.content)
        else:
            self.elements += chunk.content
        self.reasoning.append(chunk.reasoning or "")

    def message(self) -> Message:
        if self.whole is not None:
            return self.whole
        content = tuple(self.elements) or "".join(self.parts)
        return Message(role="assistant", content=content, reasoning="".join(self.reasoning) or None)


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
    def messages(self) -> tuple[Message, ...]:
        return tuple(building.message() for building in self._order)

    @property
    def text(self) -> str:
        return "\n".join(text for message in self.messages if (text := text_of(message.content)))

    def take(self, payload: Shape) -> None:
        """One valid payload."""
        if isinstance(payload, MessageDelta):
            self._building(payload.message_id).add(payload.chunk)
        elif isinstance(payload, MessageCompleted):
            self._complete(payload.message_id, payload.message)
            self._any_completed = True
        elif isinstance(payload, RunCompleted) and payload.message is not None and not self._any_completed:
            self._complete(None, payload.message)

    def _building(self, message_id: str | None) -> _Building:
        if message_id not in self._open:
            self._open[message_id] = _Building()
            self._order.append(self._open[message_id])
        return self._open[message_id]

    def _complete(self, message_id: str | None, message: Message) -> None:
        self._building(message_id).whole = message
        if message_id is None:  # what comes next is another message
            del self._open[None]
