"""What a tool returned, as the protocol's answer. Calling the tool is not done here."""

import json
from typing import Any, Final, cast, get_args

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from bollard.protocol import ContentElement, JsonValue, TextContent, ToolAnswer, limits

__all__ = ["MESSAGE_CHARACTERS", "answer_of", "failed"]

_CONTENT: tuple[type[BaseModel], ...] = tuple(get_args(member)[0] for member in get_args(get_args(ContentElement)[0]))
"""The classes of `ContentElement`."""

MESSAGE_CHARACTERS: Final = 8 * limits.KIB
"""The text of a failed call."""


def failed(message: str) -> ToolAnswer:
    """An answer that says what went wrong, to the model that asked."""
    text = message if len(message) <= MESSAGE_CHARACTERS else message[: MESSAGE_CHARACTERS - 1] + "…"
    clean = text.encode("utf-8", "replace").decode()
    return ToolAnswer(content=(TextContent(text=clean),), is_error=True)


def answer_of(name: str, returned: object) -> ToolAnswer:
    """Text and content elements become content; anything else that is JSON is structured, and content as JSON text."""
    try:
        answer = _answer(returned)
        size = len(_json(cast("JsonValue", answer.to_wire())).encode())
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        return failed(f"{name} returned a {type(returned).__name__} that is not JSON: {error}")
    if size > limits.CALL_BYTES:
        return failed(f"{name} returned {size} bytes of JSON, {limits.CALL_BYTES} are allowed; return less")
    return answer


def _answer(returned: object) -> ToolAnswer:
    if isinstance(returned, ToolAnswer):
        return returned
    if returned is None:
        return ToolAnswer()
    if isinstance(returned, str):
        return ToolAnswer(content=(TextContent(text=returned),))
    if isinstance(returned, _CONTENT):
        return ToolAnswer(content=(cast("Any", returned),))
    if isinstance(returned, list | tuple):
        members = cast("list[Any] | tuple[Any, ...]", returned)
        if members and all(isinstance(member, _CONTENT) for member in members):
            return ToolAnswer(content=tuple(members))
    structured = cast("JsonValue", to_jsonable_python(returned))
    return ToolAnswer(content=(TextContent(text=_json(structured)),), structured=structured)


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
