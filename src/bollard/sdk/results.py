"""Result values: what a runner yields. Plain slots and dicts, because a stream of deltas is the hot path.

Everything but a text delta is checked against the protocol's payload shape when it is built, so that a mistake shows
at the line that made it. That is comfort; the boundary is the host. Numbering and sending are not done here.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError

from bollard.protocol import (
    RESULT_PAYLOADS,
    TERMINAL_TYPES,
    FailureCode,
    JsonObject,
    JsonValue,
    Message,
    MessageChunk,
    Shape,
    StateScope,
    first_problem,
    limits,
)
from bollard.sdk.errors import InvalidResult, ResultTooLarge

__all__ = [
    "Result",
    "TextDelta",
    "action_requested",
    "artifact_created",
    "json_bytes",
    "message_completed",
    "message_delta",
    "run_completed",
    "run_failed",
    "state_updated",
    "tool_call_completed",
    "tool_call_started",
]


class Result:
    """One result: a protocol type name and its JSON payload."""

    __slots__ = ("data", "type")

    def __init__(self, type: str, data: JsonObject) -> None:  # noqa: A002 -- the protocol's own name
        self.type = type
        self.data = data

    @property
    def terminal(self) -> bool:
        """Whether it ends the run."""
        return self.type in TERMINAL_TYPES

    def __repr__(self) -> str:
        return f"Result({self.type!r}, {self.data!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Result) and self.type == other.type and self.data == other.data

    __hash__ = None  # type: ignore[assignment]  # data is a dict


class TextDelta(Result):
    """A plain text delta, the one result that comes by the thousand: its payload is made only where it is looked at."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.type = "message.delta"
        self.text = text

    @property
    def data(self) -> JsonObject:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {"chunk": {"role": "assistant", "content": self.text}}


def _checked(kind: str, data: Mapping[str, Any]) -> Result:
    try:
        payload = RESULT_PAYLOADS[kind].from_wire(cast("JsonValue", data))
        return Result(kind, payload.to_wire())
    except ValidationError as error:
        field, problem = first_problem(error, whole="")
        raise InvalidResult(kind, field, problem) from error


def json_bytes(kind: str, value: JsonValue) -> int:
    """How many bytes a value is as JSON; raises `InvalidResult` when it is none."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidResult(kind, "value", f"is not JSON: {error}") from error


def message_delta(
    chunk: str | MessageChunk | Mapping[str, Any], *, reasoning: str | None, message_id: str | None
) -> Result:
    """An increment of a message: text, reasoning, or a whole chunk."""
    if isinstance(chunk, str):
        body: dict[str, Any] = {"role": "assistant", "content": chunk}
    else:
        body = _wire(chunk)
    if reasoning is not None:
        body["reasoning"] = reasoning
    return _checked("message.delta", _present({"chunk": body, "message_id": message_id}))


def message_completed(message: str | Message | Mapping[str, Any], *, message_id: str | None) -> Result:
    """A whole message."""
    if type(message) is str and message_id is None:  # every answer ends with one: nothing in it could be wrong
        return Result("message.completed", {"message": {"role": "assistant", "content": message}})
    return _checked("message.completed", _present({"message": _message(message), "message_id": message_id}))


def artifact_created(
    artifact_type: str,
    *,
    content: bytes | None,
    artifact_id: str | None,
    mime_type: str | None,
    name: str | None,
    metadata: JsonObject | None,
) -> Result:
    """A new artifact with its content inline, or a word about one that was written through the API."""
    data: dict[str, Any] = {
        "artifact_type": artifact_type,
        "artifact_id": artifact_id,
        "mime_type": mime_type,
        "name": name,
        "metadata": metadata,
    }
    if content is not None:
        if len(content) > limits.INLINE_ARTIFACT_BYTES:
            hint = "write it with ctx.api.artifacts.write(name, mime_type, content)"
            raise ResultTooLarge("artifact.created", len(content), limits.INLINE_ARTIFACT_BYTES, hint)
        data["size_bytes"] = len(content)
        data["sha256"] = hashlib.sha256(content).hexdigest()
        data["content_base64"] = base64.b64encode(content).decode()
    return _checked("artifact.created", _present(data))


def state_updated(scope: StateScope, key: str, value: JsonValue) -> Result:
    """A new value of one state key."""
    size = json_bytes("state.updated", value)
    if size > limits.STATE_VALUE_BYTES:
        hint = "keep large values in ctx.api.storage"
        raise ResultTooLarge("state.updated", size, limits.STATE_VALUE_BYTES, hint)
    if not isinstance(key, str) or not 1 <= len(key) <= limits.STATE_KEY_CHARACTERS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidResult("state.updated", "key", f"must be a str of 1 to {limits.STATE_KEY_CHARACTERS} characters")
    return _checked("state.updated", {"scope": scope, "key": key, "value": value})


def action_requested(action: str, target: JsonObject | None, payload: JsonObject | None) -> Result:
    """A platform action whose outcome the runner does not wait for."""
    return _checked("action.requested", _present({"action": action, "target": target, "payload": payload}))


def tool_call_started(tool_call_id: str, tool_name: str, parameters: JsonValue) -> Result:
    """Telemetry: the runner calls a tool."""
    return _checked(
        "tool.call.started", {"tool_call_id": tool_call_id, "tool_name": tool_name, "parameters": parameters}
    )


def tool_call_completed(tool_call_id: str, tool_name: str, result: JsonValue, error: JsonValue) -> Result:
    """Telemetry: a tool answered."""
    data = _present({"tool_call_id": tool_call_id, "tool_name": tool_name, "result": result, "error": error})
    return _checked("tool.call.completed", data)


def run_completed(finish_reason: str, message: str | Message | Mapping[str, Any] | None) -> Result:
    """Terminal: the run is done."""
    body = None if message is None else _message(message)
    return _checked("run.completed", _present({"finish_reason": finish_reason, "message": body}))


def run_failed(code: FailureCode, error: str, retryable: bool) -> Result:
    """Terminal: the run failed."""
    return _checked("run.failed", {"code": code, "error": error, "retryable": retryable})


def _message(message: str | Message | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(message, str):
        return {"role": "assistant", "content": message}
    return {"role": "assistant"} | _wire(message)


def _wire(value: Shape | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(value, Shape):
        return dict(value.to_wire())
    if isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        return dict(value)
    raise InvalidResult("message", "", f"expected text or a message, not a {type(value).__name__}")


def _present(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}
