"""Result values that a runner yields. Plain slots and dicts, because a stream of deltas is the hot path.

Every result but a text delta is validated when it is built, so that the traceback shows the line of a mistake. The
host validates again. Numbering and sending happen elsewhere.
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
    """A plain text delta. Its payload is built on access only, because deltas are frequent."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.type = "message.delta"
        self.text = text

    @property
    def data(self) -> JsonObject:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {"chunk": {"role": "assistant", "content": self.text}}


def _build_result(kind: str, data: Mapping[str, Any]) -> Result:
    try:
        payload = RESULT_PAYLOADS[kind].from_wire(cast("JsonValue", data))
        return Result(kind, payload.to_wire())
    except ValidationError as error:
        field, problem = first_problem(error, whole="")
        raise InvalidResult(kind, field, problem) from error


def measure_json(kind: str, value: JsonValue) -> int:
    """Return the size of a value as JSON in bytes. Raises `InvalidResult` if it is not JSON."""
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
        body = _to_dict(chunk)
    if reasoning is not None:
        body["reasoning"] = reasoning
    return _build_result("message.delta", _drop_absent({"chunk": body, "message_id": message_id}))


def message_completed(message: str | Message | Mapping[str, Any], *, message_id: str | None) -> Result:
    """A whole message."""
    if type(message) is str and message_id is None:  # the common case, which needs no validation
        return Result("message.completed", {"message": {"role": "assistant", "content": message}})
    return _build_result(
        "message.completed", _drop_absent({"message": _message_body(message), "message_id": message_id})
    )


def artifact_created(
    artifact_type: str,
    *,
    content: bytes | None,
    artifact_id: str | None,
    mime_type: str | None,
    name: str | None,
    metadata: JsonObject | None,
) -> Result:
    """A new artifact with inline content, or a reference to one that was written through the API."""
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
    return _build_result("artifact.created", _drop_absent(data))


def state_updated(scope: StateScope, key: str, value: JsonValue) -> Result:
    """A new value of one state key."""
    size = measure_json("state.updated", value)
    if size > limits.STATE_VALUE_BYTES:
        hint = "keep large values in ctx.api.storage"
        raise ResultTooLarge("state.updated", size, limits.STATE_VALUE_BYTES, hint)
    if not isinstance(key, str) or not 1 <= len(key) <= limits.STATE_KEY_CHARACTERS:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidResult("state.updated", "key", f"must be a str of 1 to {limits.STATE_KEY_CHARACTERS} characters")
    return _build_result("state.updated", {"scope": scope, "key": key, "value": value})


def action_requested(action: str, target: JsonObject | None, payload: JsonObject | None) -> Result:
    """A platform action whose outcome the runner does not wait for."""
    return _build_result("action.requested", _drop_absent({"action": action, "target": target, "payload": payload}))


def tool_call_started(tool_call_id: str, tool_name: str, parameters: JsonValue) -> Result:
    """Telemetry: the runner calls a tool."""
    return _build_result(
        "tool.call.started", {"tool_call_id": tool_call_id, "tool_name": tool_name, "parameters": parameters}
    )


def tool_call_completed(tool_call_id: str, tool_name: str, result: JsonValue, error: JsonValue) -> Result:
    """Telemetry: a tool answered."""
    data = _drop_absent({"tool_call_id": tool_call_id, "tool_name": tool_name, "result": result, "error": error})
    return _build_result("tool.call.completed", data)


def run_completed(finish_reason: str, message: str | Message | Mapping[str, Any] | None) -> Result:
    """Terminal: the run is done."""
    body = None if message is None else _message_body(message)
    return _build_result("run.completed", _drop_absent({"finish_reason": finish_reason, "message": body}))


def run_failed(code: FailureCode, error: str, retryable: bool) -> Result:
    """Terminal: the run failed."""
    return _build_result("run.failed", {"code": code, "error": error, "retryable": retryable})


def _message_body(message: str | Message | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(message, str):
        return {"role": "assistant", "content": message}
    return {"role": "assistant"} | _to_dict(message)


def _to_dict(value: Shape | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(value, Shape):
        return dict(value.to_wire())
    if isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        return dict(value)
    raise InvalidResult("message", "", f"expected text or a message, not a {type(value).__name__}")


def _drop_absent(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}
