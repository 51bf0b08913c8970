"""Translates answers of MCP servers into content elements of our protocol (§4), and checks their tools. Pure."""

import base64
import binascii
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, cast

import jsonschema_rs
import msgspec
from mcp_types import Tool

from bollard.mcp_bridge.fault import Fault, fault
from bollard.mcp_bridge.limits import DESCRIPTION_CHARACTERS, SCHEMA_BYTES, SCHEMA_DEPTH, TOOLS_BYTES, TOOLS_OF_SERVER
from bollard.wire.bridge_frames import Returned, ToolSeen
from bollard.wire.errors import FrameError
from bollard.wire.strict_json import encode_frame

_Json = dict[str, Any]
_UNREADABLE: Final = "[the server sent {what}, which cannot be read]"


def translate_result(call: int, answer: _Json) -> Returned:
    """The result of a tool call. Content that cannot be passed on becomes an error result."""
    if answer.get("resultType", "complete") == "input_required":
        return failed_result(call, "the server asks for input during the call, which this host does not support")
    content = [element for block in _list(answer.get("content")) for element in _elements(block)]
    structured = answer.get("structuredContent")
    if structured is not None and not isinstance(structured, dict):
        structured = {"result": structured}  # from 2026-07-28 on it may be any JSON
    try:
        encode_frame([*content, structured])
    except (FrameError, OverflowError, ValueError) as error:
        return failed_result(call, f"the answer of the server cannot be passed on: {error}")
    return Returned(
        call=call, content=content, structured=cast("_Json | None", structured), is_error=answer.get("isError") is True
    )


def failed_result(call: int, problem: str) -> Returned:
    """The result of a call whose answer cannot be passed on."""
    return Returned(call=call, content=[_text(problem)], is_error=True)


def _elements(block: _Json) -> list[_Json]:
    match block.get("type"):
        case "text":
            return [_text(str(block.get("text", "")))]
        case "image":
            data = _base64(block.get("data"))
            if data is None:
                return [_text(_UNREADABLE.format(what="an image"))]
            return [{"type": "image_base64", "image_base64": f"data:{_mime(block, 'image/png')};base64,{data}"}]
        case "audio":
            return [_file(block.get("data"), f"audio.{_mime(block, 'audio/wav').partition('/')[2]}")]
        case "resource_link":
            link: _Json = {"type": "file_url", "file_url": str(block.get("uri", ""))}
            return [link | ({"file_name": str(block["name"])} if block.get("name") else {})]
        case "resource":
            return [_embedded(cast("_Json", block.get("resource") or {}))]
        case other:
            return [_text(_UNREADABLE.format(what=f"content of the type {other!r}"))]


def _embedded(resource: _Json) -> _Json:
    if isinstance(resource.get("text"), str):
        return _text(resource["text"])
    return _file(resource.get("blob"), str(resource.get("uri", "")).rstrip("/").rpartition("/")[2])


def _text(text: str) -> _Json:
    return {"type": "text", "text": text}


def _file(data: object, name: str) -> _Json:
    checked = _base64(data)
    if checked is None:
        return _text(_UNREADABLE.format(what="a file"))
    return {"type": "file_base64", "file_base64": checked, "file_name": name or "file"}


def _mime(block: _Json, otherwise: str) -> str:
    mime = str(block.get("mimeType", ""))
    return mime if mime.isascii() and mime.count("/") == 1 and not set(mime) & set(" ;,\r\n") else otherwise


def _base64(data: object) -> str | None:
    if not isinstance(data, str):
        return None
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data


def _list(value: object) -> list[_Json]:
    return [each for each in cast("list[Any]", value) if isinstance(each, dict)] if isinstance(value, list) else []


# --- tools ---

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SHOWN_NAME: Final = 64
_encode: Final = msgspec.json.Encoder().encode


def check_tools(tools: Sequence[Tool]) -> list[ToolSeen]:
    """The tools in the order of their names; an unusable tool has a `problem` instead of a definition."""
    counts = Counter(tool.name for tool in tools)
    checked: list[ToolSeen] = []
    room = TOOLS_BYTES
    for tool in sorted(tools, key=lambda tool: tool.name)[:TOOLS_OF_SERVER]:
        problem = _problem(tool, counts[tool.name])
        size = 0 if problem else _size(tool)
        if problem is None and size > room:
            said = f"the definitions of this server have more than {TOOLS_BYTES} bytes in total"
            problem = fault(said, "mcp.tools_too_large", limit=TOOLS_BYTES)
        if problem is None:
            room -= size
            checked.append(_seen(tool))
        elif not checked or checked[-1].name != _escape_name(tool.name):
            name = _escape_name(tool.name)
            checked.append(ToolSeen(name=name, problem=problem.problem, details=problem.details))
    return checked


def _problem(tool: Tool, count: int) -> Fault | None:
    if not _NAME.fullmatch(tool.name):
        return fault(
            "its name has other characters than letters, digits, `_`, `-` and `.`, or more than 64", "mcp.tool_name"
        )
    if count > 1:
        return fault(
            f"the server lists {count} tools with this name; none of them is used", "mcp.tool_twice", count=count
        )
    if len(tool.description or "") > DESCRIPTION_CHARACTERS:
        most = DESCRIPTION_CHARACTERS
        return fault(f"its description has more than {most} characters", "mcp.description", limit=most)
    return _schema_problem("input", tool.input_schema, needs_object=True) or (
        None if tool.output_schema is None else _schema_problem("output", tool.output_schema, needs_object=False)
    )


def _schema_problem(which: str, schema: dict[str, Any], *, needs_object: bool) -> Fault | None:
    part = f"{which}Schema"
    try:
        size = len(_encode(schema))
    except (ValueError, OverflowError, RecursionError, UnicodeEncodeError):
        return fault(f"its {which} schema is not valid JSON", "mcp.schema_json", part=part)
    if size > SCHEMA_BYTES:
        return fault(
            f"its {which} schema has more than {SCHEMA_BYTES} bytes", "mcp.schema_size", part=part, limit=SCHEMA_BYTES
        )
    if _is_deeper(schema, SCHEMA_DEPTH):
        said = f"its {which} schema is nested deeper than {SCHEMA_DEPTH}"
        return fault(said, "mcp.schema_depth", part=part, limit=SCHEMA_DEPTH)
    if needs_object and schema.get("type") != "object":
        return fault(f"its {which} schema is not of type object", "mcp.schema_object", part=part)
    try:
        # Offline, and with a regex engine that takes linear time.
        jsonschema_rs.validator_for(schema, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        first = str(error).splitlines()[0][:200]
        return fault(
            f"its {which} schema is not valid: {first}", "mcp.schema_invalid", part=part, inner={"problem": first}
        )
    return None


def _is_deeper(value: object, levels: int) -> bool:
    if levels < 0:
        return True
    if isinstance(value, dict):
        inner = cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        inner = cast("list[object]", value)
    else:
        return False
    return any(_is_deeper(each, levels - 1) for each in inner)


def _size(tool: Tool) -> int:
    return len(_encode([tool.name, tool.description, tool.input_schema, tool.output_schema]))


def _escape_name(name: str) -> str:
    """An invalid name, truncated and escaped for display."""
    return name[:_SHOWN_NAME].encode("ascii", "backslashreplace").decode()


def _seen(tool: Tool) -> ToolSeen:
    hints = tool.annotations
    return ToolSeen(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        read_only=None if hints is None else hints.read_only_hint,
        destructive=None if hints is None else hints.destructive_hint,
        idempotent=None if hints is None else hints.idempotent_hint,
        open_world=None if hints is None else hints.open_world_hint,
    )
