"""Validation of call arguments against the schema of their capability. A schema is compiled once."""

import importlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import msgspec

from bollard.host.capabilities.capability import Capability
from bollard.host.errors import CapabilityDenied, InvalidRequest
from bollard.host.limits import SCHEMA_STEPS, VALIDATORS_KEPT
from bollard.host.reason import Why, why
from bollard.protocol import JsonObject, JsonValue

# --- bound on the steps of a recursive schema ---
# Two references of a schema to itself double the steps with every level, so they are counted before validation.

_SAME_VALUE: Final = ("not", "if", "then", "else")
_SAME_VALUE_MANY: Final = ("allOf", "anyOf", "oneOf")
_EACH_VALUE: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_EACH_ITEM: Final = ("items", "additionalItems", "contains", "unevaluatedItems")
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


class NotCountable(ValueError):
    """A reference does not point into the schema itself."""

    def __init__(self, why: Why) -> None:
        super().__init__(why.sentence)
        self.why = why


def has_references(schema: JsonValue) -> bool:
    """Whether the schema has references. Without any, its size bounds the work."""
    stack = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if not _REFERENCES.isdisjoint(value):
                return True
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return False


def too_many_steps(schema: JsonObject, value: JsonValue, limit: int) -> bool:
    """Whether validating `value` may take more than `limit` steps. Raises `NotCountable`."""
    stack: list[tuple[JsonValue, JsonValue]] = [(schema, value)]
    count = 0
    while stack:
        part, instance = stack.pop()
        count += 1
        if count + len(stack) > limit:
            return True
        if isinstance(part, dict):
            stack.extend(_applied(schema, part, instance))
    return False


def _applied(root: JsonObject, part: JsonObject, instance: JsonValue) -> Iterator[tuple[JsonValue, JsonValue]]:
    """The subschemas with the parts of the instance they apply to."""
    for name in _REFERENCES & part.keys():
        yield _target(root, part[name]), instance
    for name in _SAME_VALUE:
        if name in part:
            yield part[name], instance
    for name in _SAME_VALUE_MANY:
        for each in cast("list[JsonValue]", part.get(name) or ()):
            yield each, instance
    if isinstance(instance, dict):
        yield from _applied_to_object(part, instance)
    elif isinstance(instance, list):
        yield from _applied_to_list(part, instance)


def _applied_to_object(part: JsonObject, instance: JsonObject) -> Iterator[tuple[JsonValue, JsonValue]]:
    for name, each in _table(part, "properties").items():
        if name in instance:
            yield each, instance[name]
    for each in _table(part, "patternProperties").values():
        yield from ((each, value) for value in instance.values())
    for each in _table(part, "dependentSchemas").values():
        yield each, instance
    for name in _EACH_VALUE:
        if name in part:
            yield from ((part[name], value) for value in instance.values())


def _applied_to_list(part: JsonObject, instance: list[JsonValue]) -> Iterator[tuple[JsonValue, JsonValue]]:
    yield from zip(cast("list[JsonValue]", part.get("prefixItems") or ()), instance, strict=False)
    for name in _EACH_ITEM:
        if name in part:
            yield from ((part[name], item) for item in instance)


def _table(part: JsonObject, name: str) -> JsonObject:
    value = part.get(name)
    return value if isinstance(value, dict) else {}


def _target(root: JsonObject, reference: JsonValue) -> JsonValue:
    """Resolve a reference into the schema itself: `#`, or `#/…`."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        name = repr(str(reference)[:80])
        raise NotCountable(
            why(f"{name} does not point into the schema itself", "schema.reference_outside", reference=name)
        )
    target: JsonValue = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            name = repr(reference[:80])
            raise NotCountable(why(f"{name} does not exist in the schema", "schema.reference_missing", reference=name))
    return target


# --- validators ---

_ENGINE: Final = "bollard.host.actions.schema_engine"
_PROBLEM_CHARACTERS: Final = 300
"""A problem is cut to this length: it may quote the arguments."""


class _Validator(msgspec.Struct, frozen=True):
    first_problem: Callable[[JsonObject], tuple[str, str] | None]
    has_references: bool


class Validators:
    """A cache of compiled validators, least recently used first out."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, _Validator | CapabilityDenied] = OrderedDict()

    def check(self, capability: Capability, arguments: JsonObject) -> None:
        """Raises `InvalidRequest` if the schema rejects the arguments, and `CapabilityDenied` if the schema cannot be
        validated against. Such a capability is never called."""
        validator = self._of(capability)
        if isinstance(validator, CapabilityDenied):
            raise validator
        if validator.has_references:
            _check_steps(capability, arguments)
        first = validator.first_problem(arguments)
        if first is not None:
            field, problem = first
            where = f"arguments.{field}" if field else "arguments"
            raise InvalidRequest(
                f"{where}: {problem[:_PROBLEM_CHARACTERS]}",
                reason="invalid_arguments",
                hint="read the schema with tools.detail",
                field=where[:128],
                problem=problem[:_PROBLEM_CHARACTERS],
            )

    def _of(self, capability: Capability) -> _Validator | CapabilityDenied:
        key = capability.definition_sha256
        if key not in self._compiled:
            self._compiled[key] = _compile(capability)
            if len(self._compiled) > VALIDATORS_KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(key)
        return self._compiled[key]


def _compile(capability: Capability) -> _Validator | CapabilityDenied:
    engine: Any = importlib.import_module(_ENGINE)  # by name: an idle host does not load it
    try:
        validator = engine.compiled(capability.input_schema)
    except ValueError as error:
        return _unusable_schema(capability, Why(str(error).splitlines()[0][:_PROBLEM_CHARACTERS]))
    return _Validator(
        first_problem=lambda arguments: engine.problem_of(validator, arguments),
        has_references=has_references(capability.input_schema),
    )


def _check_steps(capability: Capability, arguments: JsonObject) -> None:
    try:
        exceeds = too_many_steps(capability.input_schema, arguments, SCHEMA_STEPS)
    except NotCountable as error:
        raise _unusable_schema(capability, error.why) from None
    if exceeds:
        sentence = f"these arguments take more than {SCHEMA_STEPS} steps"
        raise _unusable_schema(capability, why(sentence, "schema.steps", limit=SCHEMA_STEPS))


def _unusable_schema(capability: Capability, problem: Why) -> CapabilityDenied:
    return CapabilityDenied(
        f"the schema of {capability.name} cannot be used for validation: {problem}",
        reason="unusable_schema",
        hint="ask the maker of the tool for a simpler schema",
        tool=capability.name,
        **problem.whole,
    )
