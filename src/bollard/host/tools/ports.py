"""What the built-in tools need of the rest of the host. Tests have small ones."""

from typing import Protocol

import msgspec

from bollard.host.capabilities.capability import NO_FLOW, Flow
from bollard.host.capabilities.sources import CallContext, CallOrder, CallResult
from bollard.host.egress.destination import EgressRequest, EgressResponse
from bollard.host.errors import InvalidRequest
from bollard.protocol import JsonObject, JsonValue


class ArtifactPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an artifact, and what is known of all of it."""

    name: str | None
    mime_type: str
    size: int
    content: bytes
    flow: Flow
    """What its content brings along."""


class ToolArtifacts(Protocol):
    """Artifacts that a run may reach."""

    async def read(self, context: CallContext, artifact_id: str, offset: int, length: int) -> ArtifactPiece:
        """Raises `NotFound` for what is absent and for what is not the run's."""
        ...

    async def write(
        self, context: CallContext, *, call_id: str, name: str, mime_type: str, content: bytes
    ) -> JsonObject:
        """Keeps it as an artifact of the run; a reference to it."""
        ...


class Fetcher(Protocol):
    """The guarded way out."""

    async def fetch(self, request: EgressRequest) -> EgressResponse: ...


class Questions(Protocol):
    """A way to ask the person in the run's conversation."""

    async def ask(self, order: CallOrder, question: str, choices: tuple[str, ...]) -> str:
        """What was answered. The run waits meanwhile. Raises `ApprovalExpired` when nobody answers in time."""
        ...


# How a tool says what came of it.


def text(words: str, structured: JsonValue = None, *, flow: Flow = NO_FLOW) -> CallResult:
    return CallResult(content=({"type": "text", "text": words},), structured=structured, flow=flow)


def problem(sentence: str, hint: str = "") -> CallResult:
    """The tool's own error: the model reads it and tries otherwise."""
    words = f"{sentence}. {hint}" if hint else sentence
    return CallResult(content=({"type": "text", "text": words},), is_error=True)


# Arguments of a call, by type. The executor held them against the schema; what is wrong here is a bug, or a call that
# went another way.


def words(arguments: JsonObject, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text", hint="look at the tool's schema", field=name)
    return value


def words_or(arguments: JsonObject, name: str, otherwise: str) -> str:
    return otherwise if arguments.get(name) is None else words(arguments, name)


def number(arguments: JsonObject, name: str, otherwise: int) -> int:
    value = arguments.get(name)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise InvalidRequest(f"{name} must be a whole number", hint="look at the tool's schema", field=name)
    return int(value)


def flag(arguments: JsonObject, name: str) -> bool:
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"{name} must be true or false", hint="look at the tool's schema", field=name)
    return bool(value)
