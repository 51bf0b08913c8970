"""Answers that must have a shape."""

import json

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.sdk.agent.structured_output import check_answer, repair_message, response_format, unchecked_keywords

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "days": {"type": "array", "items": {"$ref": "#/$defs/day"}, "maxItems": 3},
        "unit": {"enum": ["C", "F"]},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"day": {"type": "object", "properties": {"high": {"type": "number", "maximum": 60}}}},
}


def test_a_fitting_answer_is_parsed():
    value = {"city": "Rome", "days": [{"high": 31.5}], "unit": "C"}
    assert check_answer(json.dumps(value), SCHEMA) == (value, "")
    assert check_answer(f"```json\n{json.dumps(value)}\n```", SCHEMA) == (value, "")


@for_each(
    ("answer", "problem"),
    [
        ("It is sunny.", "no JSON"),
        ('{"city": "Rome"}', "answer.days is missing"),
        ('{"city": "", "days": []}', "the length of answer.city must be at least 1"),
        ('{"city": 3, "days": []}', "answer.city must be string"),
        ('{"city": "Rome", "days": [{"high": 99}]}', "answer.days[0].high must be at most 60"),
        ('{"city": "Rome", "days": [{}, {}, {}, {}]}', "at most 3"),
        ('{"city": "Rome", "days": [], "unit": "K"}', "answer.unit must be one of"),
        ('{"city": "Rome", "days": [], "more": 1}', "answer.more must not be there"),
        ('{"city": "Rome", "city": "Bonn", "days": []}', "twice"),
        ('{"city": "Rome", "days": [{"high": NaN}]}', "NaN"),
        ("[" * 200_000, "nested too deeply"),
        ('"' + "x" * 300_000 + '"', "longer than"),
    ],
)
def test_an_unfitting_answer_has_a_problem(answer, problem):
    value, said = check_answer(answer, SCHEMA)
    assert value is None
    assert problem in said


def test_a_circular_schema_ends():
    value, said = check_answer("1", {"$ref": "#"})
    assert value is None
    assert "nested too deeply" in said
    assert "does not have" in check_answer("1", {"$ref": "#/$defs/none"})[1]


def test_true_is_not_one():
    assert check_answer("true", {"const": 1})[1]
    assert check_answer("1", {"type": "boolean"})[1]
    assert check_answer("1.0", {"type": "integer"})[1] == ""


def test_unchecked_keywords_are_reported():
    schema = {"type": "string", "pattern": "(a+)+$", "title": "T", "anyOf": [{"format": "email"}]}
    assert unchecked_keywords(schema) == {"pattern", "format"}
    assert check_answer('"' + "a" * 40 + '!"', schema)[1] == ""


def test_the_repair_message_contains_the_problem():
    message = repair_message("answer.days is missing")
    assert message.role == "user"
    assert "answer.days is missing" in str(message.content)
    assert response_format(SCHEMA)["json_schema"]["schema"] == SCHEMA


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries({}, optional={"type": KINDS, "enum": st.lists(VALUES, min_size=1, max_size=2)})
    | st.fixed_dictionaries({"minimum": st.integers(-5, 5)}, optional={"maxLength": st.integers(0, 3)})
    | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            "additionalProperties": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "maxItems": st.integers(0, 3),
        },
    ),
    max_leaves=5,
)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_the_checker_agrees_with_a_full_validator(schema, value):
    fits = jsonschema_rs.is_valid(schema, value)
    assert (check_answer(json.dumps(value), schema)[1] == "") == fits
