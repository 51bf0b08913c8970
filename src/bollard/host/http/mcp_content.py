"""Content of our protocol (§4) and errors of ours as MCP has them. Pure."""

import mimetypes
import re
from collections.abc import Sequence
from typing import Final

from bollard.protocol import AgentAPIError, JsonObject, JsonValue
from bollard.wire import encode

__all__ = ["blocks_of", "refused_call", "text_block", "tool_answer", "without_headers"]

_DATA_URL: Final = re.compile(r"data:([a-zA-Z0-9.+-]+/[a-zA-Z0-9.+-]+)?(?:;[^,;]*)*;base64,(.*)", re.DOTALL)
_ANY_TYPE: Final = "application/octet-stream"
_ERROR_KEY: Final = "bollard/error"
_HEADER_KEY: Final = "x-mcp-header"


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def tool_answer(content: Sequence[JsonObject], structured: JsonValue = None, *, is_error: bool = False) -> JsonObject:
    """A `CallToolResult`. What is structured is an object, as every version has it; text says it too, for those who
    read nothing else."""
    answer: JsonObject = {"content": [*content], "isError": is_error}
    if isinstance(structured, dict):
        answer["structuredContent"] = structured
    if structured is not None and not content:
        answer["content"] = [text_block(encode(structured).decode())]
    return answer


def refused_call(error: AgentAPIError, hint: str = "") -> JsonObject:
    """A call that was not done, so that a model can read why."""
    told: JsonObject = {"code": error.code, "retryable": error.retryable, "details": error.details}
    said = f"{error.code}: {error.message}" + (f" ({hint})" if hint else "")
    return {**tool_answer([text_block(said)], is_error=True), "_meta": {_ERROR_KEY: told}}


def blocks_of(elements: Sequence[JsonObject], artifacts: Sequence[JsonObject] = ()) -> list[JsonObject]:
    """Elements of content, and what is kept beside them."""
    return [_block(element) for element in elements] + [_reference(artifact) for artifact in artifacts]


def _block(element: JsonObject) -> JsonObject:
    match element:
        case {"type": "text", "text": str() as text}:
            return text_block(text)
        case {"type": "image_base64", "image_base64": str() as data}:
            found = _DATA_URL.fullmatch(data)
            return {
                "type": "image",
                "data": data if found is None else found[2],
                "mimeType": "image/png" if found is None else found[1] or "image/png",
            }
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return text_block(url)
        case {"type": "file_url", "file_url": str() as url}:
            return {"type": "resource_link", "uri": url, "name": str(element.get("file_name") or url)}
        case {"type": "file_base64", "file_base64": str() as data}:
            name = str(element.get("file_name") or "file")
            kind = mimetypes.guess_type(name)[0] or _ANY_TYPE
            resource: JsonObject = {"uri": f"file:///{name}", "mimeType": kind, "blob": data}
            return {"type": "resource", "resource": resource}
        case {"type": "artifact"}:
            return _reference(element)
        case _:
            return text_block(encode(element).decode())


def _reference(artifact: JsonObject) -> JsonObject:
    """An artifact by its id, as text: it is read with a tool of the same server."""
    return text_block(encode({"artifact": artifact}).decode())


def without_headers(schema: JsonObject) -> JsonObject:
    """A schema without the marks that some arguments are sent as HTTP headers too: those were meant for whoever had the
    tool first, and would let each argument be said twice."""
    return {
        name: _cleaned(value) for name, value in schema.items() if name != _HEADER_KEY or not isinstance(value, str)
    }


def _cleaned(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return without_headers(value) if isinstance(value, dict) else value
