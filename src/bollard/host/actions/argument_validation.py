"""Whether the arguments of a call are what its capability takes. Compiled once for each definition."""

import importlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import msgspec

from bollard.host.capabilities.capability import Capability
from bollard.host.errors import CapabilityDenied, InvalidRequest
from bollard.host.limits import SCHEMA_STEPS, VALIDATORS_KEPT
from bollard.protocol import JsonObject, JsonValue

# How often a schema that refers to itself would be held against parts of one value: an upper bound, counted without
# judging anything. Pure. Two references to oneself make that number double with every level.


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


_ENGINE: Final = "bollard.host.actions.schema_engine"
_SHOWN: Final = 300
"""Characters of a problem that are told: it may quote the arguments."""


class _Ready(msgspec.Struct, frozen=True):
    problem: Callable[[JsonObject], tuple[str, str] | None]
    refers: bool


class Validators:
    """One per host. Keeps what was used last."""

    def __init__(self) -> None:
        self._ready: OrderedDict[str, _Ready | CapabilityDenied] = OrderedDict()

    def check(self, capability: Capability, arguments: JsonObject) -> None:
        """Raises `InvalidRequest` for arguments that the schema refuses, `CapabilityDenied` for a schema that cannot
        be checked: what nobody can check is not called."""
        ready = self._of(capability)
        if isinstance(ready, CapabilityDenied):
            raise ready
        if ready.refers:
            _refuse_endless(capability, arguments)
        found = ready.problem(arguments)
        if found is not None:
            field, problem = found
            where = f"arguments.{field}" if field else "arguments"
            raise InvalidRequest(
                f"{where}: {problem[:_SHOWN]}", hint="read the schema with tools.detail", field=where[:128]
            )

    def _of(self, capability: Capability) -> _Ready | CapabilityDenied:
        key = capability.definition_sha256
        if key not in self._ready:
            self._ready[key] = _made(capability)
            if len(self._ready) > VALIDATORS_KEPT:
                self._ready.popitem(last=False)
        self._ready.move_to_end(key)
        return self._ready[key]


def _made(capability: Capability) -> _Ready | CapabilityDenied:
    engine: Any = importlib.import_module(_ENGINE)  # by name: an idle host does without it
    try:
        validator = engine.compiled(capability.input_schema)
    except ValueError as error:
        return _uncheckable(capability, str(error).splitlines()[0])
    return _Ready(
        problem=lambda arguments: engine.problem_of(validator, arguments),
        refers=has_references(capability.input_schema),
    )


def _refuse_endless(capability: Capability, arguments: JsonObject) -> None:
    try:
        endless = too_many_steps(capability.input_schema, arguments, SCHEMA_STEPS)
    except NotCountable as error:
        raise _uncheckable(capability, str(error)) from None
    if endless:
        raise _uncheckable(capability, f"these arguments take more than {SCHEMA_STEPS} steps to check")


def _uncheckable(capability: Capability, problem: str) -> CapabilityDenied:
    return CapabilityDenied(
        f"the schema of {capability.name} cannot be checked: {problem[:_SHOWN]}",
        hint="ask whoever makes the tool for a simpler schema",
    )
