"""The ports of the built-in tools, and helpers for their arguments and results."""

from typing import Protocol

import msgspec

from bollard.host.capabilities.capability import NO_FLOW, Flow
from bollard.host.capabilities.sources import CallContext, CallOrder, CallResult
from bollard.host.egress.destination import EgressRequest, EgressResponse
from bollard.host.errors import InvalidRequest
from bollard.protocol import JsonObject, JsonValue


class ArtifactPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an artifact, and the metadata of the whole."""

    name: str | None
    mime_type: str
    size: int
    content: bytes
    flow: Flow
    """The data flow of its content."""


class ToolArtifacts(Protocol):
    """The artifacts that a run may access."""

    async def read(self, context: CallContext, artifact_id: str, offset: int, length: int) -> ArtifactPiece:
        """Read a part. Raises `NotFound` if the artifact does not exist or is not accessible to the run."""
        ...

    async def write(
        self, context: CallContext, *, call_id: str, name: str, mime_type: str, content: bytes
    ) -> JsonObject:
        """Store an artifact of the run and return a reference to it."""
        ...


class DocumentText(Protocol):
    """A part of the text of a document, or why it has none."""

    @property
    def text(self) -> str: ...
    @property
    def characters(self) -> int:
        """Of the whole text."""
        ...

    @property
    def problem(self) -> str | None: ...


class DocumentReader(Protocol):
    """Extracts the text of documents."""

    async def extract(self, *, name: str, mime_type: str, content: bytes, offset: int, limit: int) -> DocumentText:
        """The text: `limit` characters from `offset` on. Raises `KnowledgeUnavailable`."""
        ...


class Fetcher(Protocol):
    """The egress guard."""

    async def fetch(self, request: EgressRequest) -> EgressResponse: ...


class Questions(Protocol):
    """Questions to the person in the run's conversation."""

    async def ask(self, order: CallOrder, question: str, choices: tuple[str, ...]) -> str:
        """Wait for the answer. The run is parked meanwhile."""
        ...


class Schedules(Protocol):
    """The schedules of a workspace."""

    def preview(self, timing: JsonObject) -> list[str]:
        """The next instants. Raises `InvalidRequest`."""
        ...

    async def propose(self, context: CallContext, schedule_id: str, body: JsonObject, instants: list[str]) -> None:
        """Save a schedule of the run's agent. Raises `InvalidRequest` if its next instants are not `instants`, and
        `Conflict` if it exists."""
        ...


# --- results ---


def text(content: str, structured: JsonValue = None, *, flow: Flow = NO_FLOW) -> CallResult:
    return CallResult(content=({"type": "text", "text": content},), structured=structured, flow=flow)


def problem(sentence: str, hint: str = "") -> CallResult:
    """An error as the tool's result, for the model to read."""
    content = f"{sentence}. {hint}" if hint else sentence
    return CallResult(content=({"type": "text", "text": content},), is_error=True)


# --- arguments ---
# The executor validated them against the schema. These checks catch bugs.


def string(arguments: JsonObject, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise _wrong_type("argument_not_text", name, "text")
    return value


def string_or(arguments: JsonObject, name: str, otherwise: str) -> str:
    return otherwise if arguments.get(name) is None else string(arguments, name)


def number(arguments: JsonObject, name: str, otherwise: int) -> int:
    value = arguments.get(name)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise _wrong_type("argument_not_integer", name, "a whole number")
    return int(value)


def flag(arguments: JsonObject, name: str) -> bool:
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise _wrong_type("argument_not_boolean", name, "true or false")
    return bool(value)


def _wrong_type(reason: str, name: str, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"{name} must be {wanted}", reason=reason, hint="see the tool's schema", field=name)
