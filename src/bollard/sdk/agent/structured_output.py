"""Structured output: the request for JSON of a given schema, its check, and the repair request. Pure.

The check covers a subset of JSON Schema: `type` (one or a list), `enum`, `const`, `properties`,
`required`, `additionalProperties` (false, or a schema), `items`, `minItems`, `maxItems`, `minLength`, `maxLength`,
`minimum`, `maximum`, `anyOf`, `oneOf`, `allOf`, and `$ref` into `$defs` of the same schema. Annotations (`title`,
`description`, `default` …) have no effect. Every other keyword, `pattern` and `format` among them, is not checked;
`unchecked_keywords` lists them.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

from bollard.protocol import JsonObject, JsonValue, Message

SCHEMA_NAME: Final = "answer"
DEPTH_MOST: Final = 32
ANSWER_CHARACTERS: Final = 256 * 1024
PROBLEM_CHARACTERS: Final = 300

_TYPES: Final[Mapping[str, Callable[[JsonValue], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_LOOKED_AT: Final = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "items", "minItems", "maxItems"}
    | {"minLength", "maxLength", "minimum", "maximum", "anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions"}
)
_ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly"}
)

_REPAIR: Final = (
    "Your last answer does not fit the JSON schema it must have: {problem}. Answer again with the corrected JSON "
    "alone, without a word before or after it."
)


def response_format(schema: JsonObject) -> JsonObject:
    """The argument of a model request for JSON of this schema."""
    return {"type": "json_schema", "json_schema": {"name": SCHEMA_NAME, "schema": schema, "strict": True}}


def check_answer(text: str, schema: JsonObject) -> tuple[JsonValue, str]:
    """The value and an empty problem, or `None` and the problem of the answer."""
    if len(text) > ANSWER_CHARACTERS:
        return None, f"it is longer than {ANSWER_CHARACTERS} characters"
    try:
        value = cast(
            "JsonValue", json.loads(_bare(text), parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        )
    except RecursionError:
        return None, "it is nested too deeply"
    except ValueError as error:
        return None, f"it is no JSON ({error})"[:PROBLEM_CHARACTERS]
    problem = next(_problems(value, schema, schema, "answer", 0), "")
    return (None, problem[:PROBLEM_CHARACTERS]) if problem else (value, "")


def repair_message(problem: str) -> Message:
    """The message that asks the model for a corrected answer."""
    return Message(role="user", content=_REPAIR.format(problem=problem))


def unchecked_keywords(schema: JsonValue, depth: int = 0) -> frozenset[str]:
    """The keywords of a schema that `check_answer` ignores."""
    if not isinstance(schema, dict) or depth > DEPTH_MOST:
        return frozenset()
    found = {word for word in schema if word not in _LOOKED_AT and word not in _ANNOTATIONS}
    for word in ("properties", "$defs", "definitions"):
        inner = schema.get(word)
        for each in inner.values() if isinstance(inner, dict) else ():
            found |= unchecked_keywords(each, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        inner = schema.get(word)
        for each in inner if isinstance(inner, list) else ():
            found |= unchecked_keywords(each, depth + 1)
    for word in ("items", "additionalProperties"):
        found |= unchecked_keywords(schema.get(word), depth + 1)
    return frozenset(found)


def _bare(text: str) -> str:
    """The text without a Markdown code fence."""
    stripped = text.strip()
    if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
        return stripped[stripped.index("\n") + 1 : -3]
    return stripped


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON number")


def _no_duplicates(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found: JsonObject = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands in an object twice")
    return found


def _problems(value: JsonValue, schema: JsonValue, root: JsonObject, at: str, depth: int) -> Iterator[str]:
    """The problems of a value."""
    if schema is False:
        yield f"{at} must not be there"
    if not isinstance(schema, dict):
        return
    if depth > DEPTH_MOST:
        yield f"{at} is nested too deeply"
        return
    if isinstance(ref := schema.get("$ref"), str):
        found = _defined(root, ref)
        if found is None:
            yield f"the schema refers to {ref}, which it does not have"
            return
        yield from _problems(value, found, root, at, depth + 1)
    yield from _of_kind(value, schema, at)
    yield from _of_choice(value, schema, root, at, depth)
    if isinstance(value, dict):
        yield from _of_object(value, schema, root, at, depth)
    elif isinstance(value, list):
        yield from _of_array(value, schema, root, at, depth)


def _of_kind(value: JsonValue, schema: JsonObject, at: str) -> Iterator[str]:
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(names, list) and not any(isinstance(name, str) and _is(name, value) for name in names):
        yield f"{at} must be {' or '.join(str(name) for name in names)}"
    allowed = schema.get("enum")
    if isinstance(allowed, list) and not any(_same(value, each) for each in allowed):
        yield f"{at} must be one of {json.dumps(allowed, ensure_ascii=False)}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{at} must be {json.dumps(schema['const'], ensure_ascii=False)}"
    if isinstance(value, str):
        yield from _bounds(len(value), schema, "minLength", "maxLength", f"the length of {at}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _bounds(value, schema, "minimum", "maximum", at)


def _of_choice(value: JsonValue, schema: JsonObject, root: JsonObject, at: str, depth: int) -> Iterator[str]:
    def fits(each: JsonValue) -> bool:
        return next(_problems(value, each, root, at, depth + 1), None) is None

    any_of, one_of, all_of = schema.get("anyOf"), schema.get("oneOf"), schema.get("allOf")
    if isinstance(any_of, list) and not any(fits(each) for each in any_of):
        yield f"{at} fits none of the {len(any_of)} shapes it may have"
    if isinstance(one_of, list) and (fitting := sum(fits(each) for each in one_of)) != 1:
        yield f"{at} fits {fitting} of the {len(one_of)} shapes, and must fit one"
    for each in all_of if isinstance(all_of, list) else ():
        yield from _problems(value, each, root, at, depth + 1)


def _of_object(value: JsonObject, schema: JsonObject, root: JsonObject, at: str, depth: int) -> Iterator[str]:
    required, properties = schema.get("required"), schema.get("properties")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in value:
            yield f"{at}.{name} is missing"
    known: JsonObject = properties if isinstance(properties, dict) else {}
    more = schema.get("additionalProperties", True)
    for name, inner in value.items():
        if name in known:
            yield from _problems(inner, known[name], root, f"{at}.{name}", depth + 1)
        elif more is not True:
            yield from _problems(inner, more, root, f"{at}.{name}", depth + 1)


def _of_array(value: list[JsonValue], schema: JsonObject, root: JsonObject, at: str, depth: int) -> Iterator[str]:
    yield from _bounds(len(value), schema, "minItems", "maxItems", f"the number of items of {at}")
    if "items" in schema:
        for index, inner in enumerate(value):
            yield from _problems(inner, schema["items"], root, f"{at}[{index}]", depth + 1)


def _bounds(value: float, schema: JsonObject, least: str, most: str, what: str) -> Iterator[str]:
    low, high = schema.get(least), schema.get(most)
    if isinstance(low, int | float) and value < low:
        yield f"{what} must be at least {low}"
    if isinstance(high, int | float) and value > high:
        yield f"{what} must be at most {high}"


def _is(name: str, value: JsonValue) -> bool:
    return name in _TYPES and _TYPES[name](value)


def _same(left: JsonValue, right: JsonValue) -> bool:
    """Whether two values are equal as JSON: in Python `True == 1`, at any depth."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(one, right[key]) for key, one in left.items())
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _defined(root: JsonObject, ref: str) -> JsonValue:
    if ref == "#":
        return root
    parts = ref.removeprefix("#/").split("/")
    found: JsonValue = root
    for part in parts if ref.startswith("#/") else ("",):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found
