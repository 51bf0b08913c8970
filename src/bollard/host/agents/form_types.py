"""What a value of each form type must be. A problem is told without the value, which may be a secret."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from bollard.host.agents.names import ID_CHARACTERS, visible
from bollard.protocol import NOTHING_SELECTED, FormItem, FormType, JsonValue
from bollard.protocol.limits import INTEGER_MAX

__all__ = ["EXPECTED", "LIST_ITEMS", "is_empty", "problem_of", "same_json"]

LIST_ITEMS: Final = 1000
"""Items of one list in a configuration."""


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Whether two JSON values are the same."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other  # JSON: 1 is not true


def is_empty(kind: FormType, value: JsonValue) -> bool:
    """Whether nothing is filled in: what `required` refuses."""
    if kind == "model-fallback-selector" and isinstance(value, dict):
        return value.get("primary") in (None, *NOTHING_SELECTED)
    if kind in _MANY and isinstance(value, list):
        return not any(item not in NOTHING_SELECTED for item in value)
    if kind in _ONE or kind in _MANY:
        return value is None or value in NOTHING_SELECTED
    return value is None or value in ("", [])


def problem_of(item: FormItem, value: JsonValue) -> str | None:
    """What is wrong with a value that was filled in; `None` when it fits."""
    if item.type == "select":
        return None if any(same_json(value, option) for option in _options(item)) else _choose("one", item)
    if item.type == "multi-select":
        listed = isinstance(value, list) and len(value) <= LIST_ITEMS
        chosen = value if isinstance(value, list) else ()
        fits = listed and all(any(same_json(one, option) for option in _options(item)) for one in chosen)
        return None if fits else _choose("a list of some", item)
    return None if _FITS[item.type](value) else f"should be {EXPECTED[item.type]}"


def _options(item: FormItem) -> list[JsonValue]:
    return [option.value for option in item.options or ()]


def _choose(how_many: str, item: FormItem) -> str:
    options = ", ".join(msgspec.json.encode(option).decode() for option in _options(item))
    return f"should be {how_many} of {options}" if options else "cannot be set: its form offers no options"


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str)


def _is_integer(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INTEGER_MAX


def _is_number(value: JsonValue) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _is_flag(value: JsonValue) -> bool:
    return isinstance(value, bool)


def _is_json(_value: JsonValue) -> bool:
    return True  # what was decoded from JSON is JSON


def _is_texts(value: JsonValue) -> bool:
    return isinstance(value, list) and len(value) <= LIST_ITEMS and all(isinstance(one, str) for one in value)


def _is_id(value: JsonValue) -> bool:
    if not isinstance(value, str) or len(value) > ID_CHARACTERS:
        return False
    try:
        return visible(value) == value
    except ValueError:
        return False


def _is_ids(value: JsonValue) -> bool:
    if isinstance(value, str):
        return value in NOTHING_SELECTED
    return isinstance(value, list) and len(value) <= LIST_ITEMS and all(_is_id(one) for one in value)


def _is_fallback(value: JsonValue) -> bool:
    if isinstance(value, str):
        return value in NOTHING_SELECTED
    if not isinstance(value, dict) or not value.keys() <= {"primary", "fallbacks"}:
        return False
    primary, fallbacks = value.get("primary"), value.get("fallbacks")
    return (primary is None or _is_id(primary)) and (fallbacks is None or _is_ids(fallbacks))


_ONE: Final = frozenset(
    {"file", "llm-model-selector", "model-fallback-selector", "rerank-model-selector"}
    | {"embedding-model-selector", "outpost-selector"}
)
_MANY: Final = frozenset({"array[file]", "knowledge-base-multi-selector", "tool-multi-selector"})
_FITS: Final[Mapping[FormType, Callable[[JsonValue], bool]]] = MappingProxyType(
    {
        "string": _is_text,
        "text": _is_text,
        "secret": _is_text,
        "prompt-editor": _is_text,
        "integer": _is_integer,
        "float": _is_number,
        "boolean": _is_flag,
        "array[string]": _is_texts,
        "json": _is_json,
        "file": _is_id,
        "array[file]": _is_ids,
        "llm-model-selector": _is_id,
        "model-fallback-selector": _is_fallback,
        "rerank-model-selector": _is_id,
        "embedding-model-selector": _is_id,
        "knowledge-base-multi-selector": _is_ids,
        "tool-multi-selector": _is_ids,
        "outpost-selector": _is_id,
    }
)
EXPECTED: Final[Mapping[FormType, str]] = MappingProxyType(
    {
        "string": "a text",
        "text": "a text",
        "secret": "a text",
        "prompt-editor": "a text",
        "integer": "a whole number between -2^53 and 2^53",
        "float": "a number",
        "boolean": "true or false",
        "select": "one of its options",
        "multi-select": "a list of its options",
        "array[string]": f"a list of at most {LIST_ITEMS} texts",
        "json": "a JSON value",
        "file": "the id of a file",
        "array[file]": f"a list of at most {LIST_ITEMS} file ids",
        "llm-model-selector": "the id of a model",
        "model-fallback-selector": "an object with primary, the id of a model, and fallbacks, a list of them",
        "rerank-model-selector": "the id of a rerank model",
        "embedding-model-selector": "the id of an embedding model",
        "knowledge-base-multi-selector": f"a list of at most {LIST_ITEMS} knowledge base ids",
        "tool-multi-selector": f"a list of at most {LIST_ITEMS} tool names",
        "outpost-selector": "the id of an outpost",
    }
)
