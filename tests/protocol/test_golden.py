"""Every shape reads and writes its golden examples: an incompatible change fails here."""

import json

import jsonschema
import pytest
from pydantic import ValidationError
from tests.tables import for_each

from bollard.protocol import AgentRunRequest, JsonValue
from bollard.protocol.export import SHAPES, strictness_of

every_shape = for_each("name", SHAPES)
UNKNOWN = "field_of_a_newer_peer"
MADE_OPTIONAL = {"PluginRunner": {"entry"}, "PluginTool": {"entry"}}
"""Fields that were required once. The minimal example is a peer that still sends them."""


def as_text(value: JsonValue) -> str:
    # Text, because in Python 1 == 1.0 == True.
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def paths_of(refusal: ValidationError) -> set[str]:
    return {".".join(str(step) for step in error["loc"]) for error in refusal.errors()}


def test_every_shape_has_a_golden_and_every_golden_a_shape(goldens) -> None:
    assert sorted(goldens) == sorted(SHAPES)


@pytest.mark.requirement("P01-10")
@every_shape
def test_the_full_example_is_written_back_unchanged(name, goldens) -> None:
    golden = goldens[name]
    assert as_text(SHAPES[name].from_wire(golden.full).to_wire()) == as_text(golden.full)


@every_shape
def test_the_full_example_uses_every_field(name, goldens) -> None:
    golden = goldens[name]
    assert sorted(golden.full) == sorted(SHAPES[name].model_fields)


@pytest.mark.requirement("P01-08", "P01-10")
@every_shape
def test_the_minimal_example_is_written_with_its_defaults(name, goldens) -> None:
    golden = goldens[name]
    shape = SHAPES[name]
    assert as_text(shape.from_wire(golden.minimal).to_wire()) == as_text(golden.written)
    assert as_text(shape.from_wire(golden.written).to_wire()) == as_text(golden.written)


@every_shape
def test_the_minimal_example_has_no_optional_field(name, goldens, documents) -> None:
    golden = goldens[name]
    schema = documents[f"{name}.json"]
    assert set(golden.minimal) - MADE_OPTIONAL.get(name, set()) == set(schema.get("required", []))


@pytest.mark.requirement("P01-01", "P01-02", "P01-04", "P06-02")
@every_shape
def test_an_unknown_field_is_refused_ignored_or_kept_by_strictness(name, goldens) -> None:
    golden = goldens[name]
    shape = SHAPES[name]
    newer = {**golden.full, UNKNOWN: "新"}
    match strictness_of(shape):
        case "strict":
            with pytest.raises(ValidationError) as refusal:
                shape.from_wire(newer)
            assert paths_of(refusal.value) == {UNKNOWN}
        case "tolerant":
            assert shape.from_wire(newer) == shape.from_wire(golden.full)
            assert UNKNOWN not in shape.from_wire(newer).to_wire()
        case "loose":
            assert as_text(shape.from_wire(newer).to_wire()) == as_text(newer)


@every_shape
def test_a_missing_required_field_is_refused_by_its_name(name, goldens) -> None:
    golden = goldens[name]
    shape = SHAPES[name]
    for field, info in shape.model_fields.items():
        if not info.is_required():
            continue
        with pytest.raises(ValidationError) as refusal:
            shape.from_wire({key: value for key, value in golden.full.items() if key != field})
        assert paths_of(refusal.value) == {field}


@pytest.mark.requirement("P01-08")
@every_shape
def test_a_null_for_an_optional_field_equals_its_absence(name, goldens) -> None:
    golden = goldens[name]
    shape = SHAPES[name]
    optional = [field for field, info in shape.model_fields.items() if not info.is_required() and info.default is None]
    minimal = {key: value for key, value in golden.minimal.items() if key not in MADE_OPTIONAL.get(name, set())}
    nulls = {**minimal, **dict.fromkeys(optional)}
    assert shape.from_wire(nulls) == shape.from_wire(minimal)
    assert not set(optional) & set(shape.from_wire(nulls).to_wire())


@every_shape
def test_the_json_schema_accepts_the_examples(name, goldens, documents) -> None:
    golden = goldens[name]
    validator = jsonschema.Draft202012Validator(documents[f"{name}.json"])
    for example in (golden.minimal, golden.written, golden.full):
        validator.validate(example)


@every_shape
def test_the_json_schema_refuses_unknown_fields_of_strict_shapes_only(name, goldens, documents) -> None:
    golden = goldens[name]
    validator = jsonschema.Draft202012Validator(documents[f"{name}.json"])
    assert validator.is_valid({**golden.full, UNKNOWN: 1}) == (strictness_of(SHAPES[name]) != "strict")


def test_a_missing_nested_field_is_named_by_its_whole_path(goldens) -> None:
    request = json.loads(json.dumps(goldens["AgentRunRequest"].full))
    del request["context"]["event"]["event_id"]
    del request["context"]["resources"]["tools"][0]["risk"]
    with pytest.raises(ValidationError) as refusal:
        AgentRunRequest.from_wire(request)
    assert paths_of(refusal.value) == {"context.event.event_id", "context.resources.tools.0.risk"}
