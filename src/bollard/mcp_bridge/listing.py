"""What a server says that it offers, judged: only tools that can be named, checked and called without surprise are
passed on as such. The others keep their place with the reason. Pure."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, cast

import jsonschema_rs
import msgspec
from mcp_types import Tool

from bollard.mcp_bridge.limits import (
    DESCRIPTION_CHARACTERS,
    SCHEMA_BYTES,
    SCHEMA_DEPTH,
    TOOLS_BYTES,
    TOOLS_OF_SERVER,
)
from bollard.wire.bridge_frames import ToolSeen

__all__ = ["judged"]

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SHOWN_NAME: Final = 64
_encode: Final = msgspec.json.Encoder().encode


def judged(tools: Sequence[Tool]) -> list[ToolSeen]:
    """In the order of their names, so that the same offer is the same list."""
    often = Counter(tool.name for tool in tools)
    found: list[ToolSeen] = []
    room = TOOLS_BYTES
    for tool in sorted(tools, key=lambda tool: tool.name)[:TOOLS_OF_SERVER]:
        problem = _problem(tool, often[tool.name])
        size = 0 if problem else _size(tool)
        if problem is None and size > room:
            problem = f"the definitions of this server have more than {TOOLS_BYTES} bytes together"
        if problem is None:
            room -= size
            found.append(_seen(tool))
        elif not found or found[-1].name != _shown(tool.name):
            found.append(ToolSeen(name=_shown(tool.name), problem=problem))
    return found


def _problem(tool: Tool, often: int) -> str | None:
    if not _NAME.fullmatch(tool.name):
        return "its name has other characters than letters, digits, `_`, `-` and `.`, or more than 64"
    if often > 1:
        return f"the server lists {often} tools of this name, and none of them is taken"
    if len(tool.description or "") > DESCRIPTION_CHARACTERS:
        return f"its description has more than {DESCRIPTION_CHARACTERS} characters"
    return _schema_problem("input", tool.input_schema, needs_object=True) or (
        None if tool.output_schema is None else _schema_problem("output", tool.output_schema, needs_object=False)
    )


def _schema_problem(which: str, schema: dict[str, Any], *, needs_object: bool) -> str | None:
    try:
        size = len(_encode(schema))
    except (ValueError, OverflowError, RecursionError, UnicodeEncodeError):
        return f"its {which} schema is no JSON that can be kept"
    if size > SCHEMA_BYTES:
        return f"its {which} schema has more than {SCHEMA_BYTES} bytes"
    if _is_deeper(schema, SCHEMA_DEPTH):
        return f"its {which} schema is nested deeper than {SCHEMA_DEPTH}"
    if needs_object and schema.get("type") != "object":
        return f"its {which} schema is not of type object"
    try:
        # Nothing is fetched, and patterns are those of an engine that takes linear time.
        jsonschema_rs.validator_for(schema, offline=True, pattern_options=jsonschema_rs.RegexOptions())
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return f"its {which} schema is not valid: {str(error).splitlines()[0][:200]}"
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


def _shown(name: str) -> str:
    """A name that cannot be used, such that it can be shown."""
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
