"""Templates of webhook routes: text with placeholders such as `{body.issue.title|untitled}`. Pure.

A placeholder names `body`, `headers` or `query`, then keys and list positions with dots between them. Text after `|` is
used if the path leads nowhere, to null or to an empty text. `{{` and `}}` are braces. There is no code and no loop, so
every template has a result for every request.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, Final, cast

import msgspec
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from bollard.host.hooks.limits import NAME_CHARACTERS, TEMPLATE_CHARACTERS, TEMPLATE_PLACEHOLDERS
from bollard.protocol import JsonValue

ROOTS: Final = ("body", "headers", "query")
_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_INDEX_DIGITS: Final = 6
_PARSED_TEMPLATES: Final = 2048
_CUT: Final = NAME_CHARACTERS - 65
"""Characters of a long id before its digest."""

Values = Mapping[str, JsonValue]
"""The parts of a request by root."""


class Placeholder(msgspec.Struct, frozen=True):
    """One placeholder of a template."""

    path: tuple[str, ...]
    default: str = ""


Parts = tuple[str | Placeholder, ...]


@lru_cache(_PARSED_TEMPLATES)
def parse_template(template: str) -> Parts:
    """The parts of a template. Raises `PydanticCustomError`, a `ValueError`."""
    parts: list[str | Placeholder] = []
    end = 0
    for found in _TOKEN.finditer(template):
        parts.append(template[end : found.start()])
        end = found.end()
        token = found[0]
        if token in ("{{", "}}"):
            parts.append(token[0])
        elif found[1] is None:
            raise PydanticCustomError("template_brace", "has a single brace; write {{ or }} for a brace")
        else:
            parts.append(_placeholder(found[1]))
    parts.append(template[end:])
    if sum(isinstance(part, Placeholder) for part in parts) > TEMPLATE_PLACEHOLDERS:
        limit = {"limit": TEMPLATE_PLACEHOLDERS}
        raise PydanticCustomError("template_long", "has more than {limit} placeholders", limit)
    return tuple(part for part in parts if part)


def _placeholder(inside: str) -> Placeholder:
    dotted, _, default = inside.partition("|")
    root, *keys = dotted.strip().split(".")
    if root not in ROOTS or not all(keys) or (root != "body" and len(keys) != 1):
        raise PydanticCustomError(
            "template_path", "has the placeholder {name}, which is no path below body, headers or query", {"name": root}
        )
    if root == "headers":
        keys = [keys[0].lower()]
    return Placeholder((root, *keys), default)


def _checked(template: str) -> str:
    parse_template(template)
    return template


Template = Annotated[str, Field(min_length=1, max_length=TEMPLATE_CHARACTERS), AfterValidator(_checked)]


def render_text(template: str, values: Values, max_bytes: int) -> str:
    """The text of a template, cut to its limit."""
    text = "".join(part if isinstance(part, str) else _shown(part, values) for part in parse_template(template))
    content = text.encode("utf-8", "replace")  # a lone surrogate of JSON becomes a question mark
    return content[:max_bytes].decode("utf-8", "ignore")


def render_name(template: str | None, values: Values) -> str | None:
    """An id; `None` if it is empty. A long id, or one that a store cannot hold, is cut and gets its digest, so that two
    ids never become one."""
    if template is None:
        return None
    text = "".join(part if isinstance(part, str) else _shown(part, values) for part in parse_template(template)).strip()
    if len(text) <= NAME_CHARACTERS and "\0" not in text and text.isascii():
        return text or None
    content = text.encode("utf-8", "surrogatepass")
    valid = content.decode("utf-8", "replace").replace("\0", "\ufffd")
    if valid == text and len(text) <= NAME_CHARACTERS:
        return text
    return f"{valid[:_CUT]}~{sha256(content).hexdigest()}"


def render_value(template: str, values: Values, max_bytes: int) -> JsonValue:
    """The value of a template: JSON as it is for a single placeholder without a default, otherwise a text."""
    parts = parse_template(template)
    if len(parts) == 1 and isinstance(parts[0], Placeholder) and not parts[0].default:
        value = _look_up(parts[0].path, values)
        return render_text(template, values, max_bytes) if isinstance(value, str) else value
    return render_text(template, values, max_bytes)


def _shown(placeholder: Placeholder, values: Values) -> str:
    value = _look_up(placeholder.path, values)
    if value is None or value == "":
        return placeholder.default
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _look_up(path: tuple[str, ...], values: Values) -> JsonValue:
    """The value at a path; `None` if there is none."""
    value: JsonValue = cast("dict[str, JsonValue]", values)
    for key in path:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isascii() and key.isdigit() and len(key) <= _INDEX_DIGITS:
            value = value[int(key)] if int(key) < len(value) else None
        else:
            return None
    return value
