"""Validation of arguments: by the schema, in linear time, with any schema and any arguments."""

import subprocess
import sys
import time
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.actions.argument_validation import NotCountable, Validators, too_many_steps
from bollard.host.capabilities.capability import Capability
from bollard.host.errors import CapabilityDenied, InvalidRequest
from bollard.host.limits import SCHEMA_STEPS

BOMB_S = 0.05
"""F38, as time of this process: other processes of the machine do not count."""


def capability(**schema: Any) -> Capability:
    return Capability(
        id="tool:t/t",
        name="t",
        kind="tool",
        description="",
        input_schema={"type": "object", **schema},
        source="builtin",
    )


@for_each(
    ("schema", "arguments", "field"),
    [
        ({"required": ["a"]}, {}, "arguments"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": "1"}, "arguments.a"),
        ({"additionalProperties": False}, {"a": 1}, "arguments"),
        ({"properties": {"a": {"items": {"maximum": 3}}}}, {"a": [1, 9]}, "arguments.a.1"),
        ({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"minLength": 2}}}, {"a": "x"}, "arguments.a"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_place(schema: Any, arguments: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Validators().check(capability(**schema), arguments)
    assert refused.value.details["field"] == field
    assert refused.value.hint


def test_valid_arguments_are_accepted_repeatedly() -> None:
    validators, fits = Validators(), capability(properties={"a": {"type": "string", "pattern": "^[a-z]+$"}})
    for _ in range(3):
        validators.check(fits, {"a": "abc"})


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 50_000 + "!"),
        ("^(a|aa)+$", "a" * 50_000 + "!"),
        ("(x+x+)+y", "x" * 50_000),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 50_000),
    ],
)
def test_an_expensive_pattern_takes_linear_time(pattern: str, text: str) -> None:
    validators, bomb = Validators(), capability(properties={"a": {"pattern": pattern}})
    validators.check(bomb, {})  # compiled
    before = time.process_time()
    with pytest.raises(InvalidRequest):
        validators.check(bomb, {"a": text})
    assert time.process_time() - before < BOMB_S


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "(?=look)ahead"}}},
        {"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}},
        {"properties": {"a": {"$ref": "http://127.0.0.1/schema"}}},
        {"properties": {"a": {"type": "nonsense"}}},
    ],
)
def test_a_capability_with_an_uncheckable_schema_is_not_called(schema: Any) -> None:
    with pytest.raises(CapabilityDenied, match="cannot be used for validation"):
        Validators().check(capability(**schema), {"a": "x"})


def doubling(levels: int) -> Any:
    """Each definition needs the next one twice."""
    defs: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)
    }
    return {"$defs": {**defs, f"d{levels}": {"type": "object"}}, "$ref": "#/$defs/d0"}


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"x": value}
    return value


TWICE = {"anyOf": [{"properties": {"x": {"$ref": "#"}}}, {"properties": {"x": {"$ref": "#"}}}]}


@pytest.mark.parametrize(("schema", "arguments"), [(doubling(60), {}), (TWICE, nested(60)), ({"$ref": "#"}, {})])
def test_an_endless_schema_recursion_is_refused_before_validation(schema: Any, arguments: Any) -> None:
    with pytest.raises(CapabilityDenied, match="steps"):
        Validators().check(capability(**schema), arguments)


def test_a_schema_recursion_with_one_level_of_data_each_is_checked() -> None:
    tree = capability(properties={"x": {"$ref": "#"}}, additionalProperties=False)
    Validators().check(tree, nested(40))
    with pytest.raises(InvalidRequest):
        Validators().check(tree, {"x": {"x": {"y": 1}}})


def test_schema_steps_count_lists_and_tables_and_external_references_are_refused() -> None:
    many = {"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"allOf": [True] * 10}}}
    assert too_many_steps(many, [1] * 100, 1000)
    assert not too_many_steps(many, [1] * 10, SCHEMA_STEPS)
    for elsewhere in ("other.json", "#anchor", "#/$defs/missing"):
        with pytest.raises(NotCountable):
            too_many_steps({"$ref": elsewhere}, {}, 10)


def test_importing_the_host_does_not_load_the_schema_engine() -> None:
    program = "import sys, bollard.host.app; print([name for name in ('jsonschema_rs', 'mcp') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
