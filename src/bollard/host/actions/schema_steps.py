"""How often a schema that refers to itself would be held against parts of one value: an upper bound, counted without
judging anything. Pure. Two references to oneself make that number double with every level."""

from collections.abc import Iterator
from typing import Final, cast

from bollard.protocol import JsonObject, JsonValue

__all__ = ["NotCountable", "has_references", "too_many_steps"]

_SAME_VALUE: Final = ("not", "if", "then", "else")
_SAME_VALUE_MANY: Final = ("allOf", "anyOf", "oneOf")
_EACH_VALUE: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_EACH_ITEM: Final = ("items", "additionalItems", "contains", "unevaluatedItems")
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


class NotCountable(ValueError):
    """A reference that leads somewhere else than into the schema itself."""


def has_references(schema: JsonValue) -> bool:
    """Whether it refers to anything. Without that its own size bounds the work."""
    left = [schema]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if not _REFERENCES.isdisjoint(value):
                return True
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return False


def too_many_steps(schema: JsonObject, value: JsonValue, limit: int) -> bool:
    """Whether checking `value` may take more than `limit` steps. Raises `NotCountable`."""
    left: list[tuple[JsonValue, JsonValue]] = [(schema, value)]
    count = 0
    while left:
        part, about = left.pop()
        count += 1
        if count + len(left) > limit:
            return True
        if isinstance(part, dict):
            left.extend(_applied(schema, part, about))
    return False


def _applied(root: JsonObject, part: JsonObject, about: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    """What of a schema is held against what of the value."""
    for name in _REFERENCES & part.keys():
        yield _target(root, part[name]), about
    for name in _SAME_VALUE:
        if name in part:
            yield part[name], about
    for name in _SAME_VALUE_MANY:
        for each in cast("list[JsonValue]", part.get(name) or ()):
            yield each, about
    if isinstance(about, dict):
        yield from _applied_to_object(part, about)
    elif isinstance(about, list):
        yield from _applied_to_list(part, about)


def _applied_to_object(part: JsonObject, about: JsonObject) -> Iterator[tuple[JsonValue, JsonValue]]:
    for name, each in _table(part, "properties").items():
        if name in about:
            yield each, about[name]
    for each in _table(part, "patternProperties").values():
        yield from ((each, value) for value in about.values())
    for each in _table(part, "dependentSchemas").values():
        yield each, about
    for name in _EACH_VALUE:
        if name in part:
            yield from ((part[name], value) for value in about.values())


def _applied_to_list(part: JsonObject, about: list[JsonValue]) -> Iterator[tuple[JsonValue, JsonValue]]:
    yield from zip(cast("list[JsonValue]", part.get("prefixItems") or ()), about, strict=False)
    for name in _EACH_ITEM:
        if name in part:
            yield from ((part[name], item) for item in about)


def _table(part: JsonObject, name: str) -> JsonObject:
    found = part.get(name)
    return found if isinstance(found, dict) else {}


def _target(root: JsonObject, reference: JsonValue) -> JsonValue:
    """What a reference into the schema itself means: `#`, or `#/…`."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        raise NotCountable(f"{str(reference)[:80]!r} does not lead into the schema itself")
    found: JsonValue = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise NotCountable(f"{reference[:80]!r} leads nowhere")
    return found
