"""Approval rules of an agent: for which capabilities, and for which arguments, its policy asks. Pure.

The first rule that matches a call decides, otherwise the mode of the policy. A rule only replaces that mode: approvals
that a capability itself requires, and those for combined data flows, stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from bollard.host.agents.names import ForeignId, visible
from bollard.protocol import JsonObject, JsonValue

RULES: Final = 100
"""Rules of one agent."""
CONDITIONS: Final = 10
"""Conditions of one rule."""
VALUES: Final = 100
"""Values of one condition."""
_TEXT_CHARACTERS: Final = 1024
_STRICT: Final = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)


def _pointer(value: str) -> str:
    if not value.startswith("/"):
        raise PydanticCustomError("not_a_pointer", "is not a JSON pointer, for example /path")
    return value


def _scalar(value: JsonValue) -> JsonValue:
    if isinstance(value, dict | list) or (isinstance(value, str) and len(value) > _TEXT_CHARACTERS):
        raise PydanticCustomError("not_a_scalar", "is not a number, a boolean, null or a short text")
    return value


Pointer = Annotated[str, Field(max_length=_TEXT_CHARACTERS), AfterValidator(_pointer)]
Text = Annotated[str, Field(max_length=_TEXT_CHARACTERS), AfterValidator(visible)]
Scalar = Annotated[JsonValue, AfterValidator(_scalar)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentCondition:
    """One argument of a call: its value is one of `values`, or a text that `pattern` matches."""

    __pydantic_config__ = _STRICT

    pointer: Pointer
    """A JSON pointer into the arguments. An absent argument matches nothing."""
    values: Annotated[tuple[Scalar, ...], Field(max_length=VALUES)] = ()
    pattern: Text | None = None
    """`*` stands for any text."""

    def __post_init__(self) -> None:
        if bool(self.values) == (self.pattern is not None):
            raise PydanticCustomError("one_condition", "has either values or a pattern")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """When the policy asks before calls of some capabilities."""

    __pydantic_config__ = _STRICT

    capability: ForeignId
    """An id; `*` stands for any text, as in `mcp:files/*`."""
    decision: Literal["always", "never", "ask"]
    """`ask` asks for the calls that `when` matches; other calls go to the next rule."""
    when: Annotated[tuple[ArgumentCondition, ...], Field(max_length=CONDITIONS)] = ()
    """All of them must match."""

    def __post_init__(self) -> None:
        if self.decision == "ask" and not self.when:
            raise PydanticCustomError("rule_without_when", "asks for some arguments, and when is empty")
        if self.decision != "ask" and self.when:
            raise PydanticCustomError("rule_with_when", "is for every call, but has when; use the decision ask")

    def covers(self, capability_id: str) -> bool:
        return matches(self.capability, capability_id)


def decide(
    rules: Sequence[ApprovalRule], capability_id: str, arguments: JsonObject
) -> Literal["always", "never"] | None:
    """The decision of the first rule that matches the call; `None` if none does."""
    for rule in rules:
        if rule.covers(capability_id) and all(_holds(condition, arguments) for condition in rule.when):
            return "never" if rule.decision == "never" else "always"
    return None


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern matches a whole text. `*` is the only special character."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    last = rest.pop()
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    place, end = len(first), len(text) - len(last)
    for part in rest:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


_ABSENT: Final = object()


def _holds(condition: ArgumentCondition, arguments: JsonObject) -> bool:
    found = _at(condition.pointer, arguments)
    if condition.pattern is not None:
        return isinstance(found, str) and matches(condition.pattern, found)
    # True and 1 are equal in Python, and different in JSON.
    return any(found == value and isinstance(found, bool) == isinstance(value, bool) for value in condition.values)


def _at(pointer: str, arguments: JsonObject) -> JsonValue | object:
    found: JsonValue = arguments
    for token in pointer[1:].split("/"):
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(found):
            found = found[int(key)]
        else:
            return _ABSENT
    return found
