"""The exported documents: complete, the same each time, and checked in fresh."""

import json

import jsonschema
from tests.tables import for_each

from bollard.protocol import ACTIONS, ERROR_CODES, FAILURE_CODES, METHODS, limits
from bollard.protocol.export import LIMITS, SHAPES, render, schema_documents, unit_of

TABLES = {"actions.json", "errors.json", "events.json", "index.json", "limits.json", "methods.json"}
REFRESH = "refresh them: bollard protocol schema --out docs/reference/schema"


def test_there_is_one_document_for_each_shape_and_the_tables(documents) -> None:
    assert set(documents) == {f"{name}.json" for name in SHAPES} | TABLES


@for_each("name", SHAPES)
def test_every_schema_is_valid_and_self_contained(name, documents) -> None:
    schema = documents[f"{name}.json"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == name
    assert all(reference.startswith("#/$defs/") for reference in references_in(schema))


def references_in(schema: object) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
        return [*own, *(found for value in schema.values() for found in references_in(value))]
    return [found for value in schema for found in references_in(value)] if isinstance(schema, list) else []


def test_the_same_protocol_gives_the_same_text(documents) -> None:
    again = schema_documents()
    assert list(again) == list(documents)
    assert {name: render(again[name]) for name in again} == {name: render(documents[name]) for name in documents}


def test_the_documents_in_the_reference_are_current(documents, repository) -> None:
    folder = repository / "docs" / "reference" / "schema"
    kept = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.iterdir()}
    assert sorted(kept) == sorted(documents), REFRESH
    stale = [name for name in documents if render(kept[name]) != render(documents[name])]
    assert stale == [], REFRESH


def test_the_index_names_every_shape_with_its_strictness(documents) -> None:
    rows = {row["name"]: row for row in documents["index.json"]["shapes"]}
    assert list(rows) == sorted(SHAPES)
    assert all(row["file"] == f"{name}.json" and row["description"] for name, row in rows.items())
    expected = {"AgentRunResult": "strict", "AgentRunContext": "tolerant", "ToolCallStarted": "loose"}
    assert {name: rows[name]["strictness"] for name in expected} == expected


def test_the_methods_name_their_sender_and_their_answer(documents) -> None:
    rows = {row["name"]: row for row in documents["methods.json"]["methods"]}
    assert list(rows) == list(METHODS)
    for name, method in METHODS.items():
        assert rows[name]["sent_by"] == method.sent_by
        assert rows[name]["params"] in SHAPES
        assert (rows[name]["kind"] == "notification") == (method.result is None)
        assert rows[name]["result"] in {*SHAPES, None}
    assert [name for name, row in rows.items() if row["result_by_action"]] == ["api/call"]
    unanswered = {name for name, row in rows.items() if row["result"] is None and not row["result_by_action"]}
    assert unanswered == {name for name, row in rows.items() if row["kind"] == "notification"}


def test_the_actions_name_their_shapes_and_permission(documents) -> None:
    rows = {row["name"]: row for row in documents["actions.json"]["actions"]}
    assert list(rows) == list(ACTIONS)
    assert {row["params"] for row in rows.values()} | {row["result"] for row in rows.values()} <= set(SHAPES)
    assert rows["models.stream"]["permission"] == {"key": "models", "value": "stream"}
    assert rows["storage.get"]["permission"] == {"key": "storage", "value": None}
    assert rows["host.info"]["permission"] is None
    assert [name for name, row in rows.items() if row["streamed"]] == ["models.stream"]


def test_the_limits_have_value_unit_and_meaning(documents) -> None:
    rows = {row["name"]: row for row in documents["limits.json"]["limits"]}
    assert list(rows) == list(LIMITS)
    assert rows["FRAME_BYTES"] == {
        "name": "FRAME_BYTES",
        "value": 2 * 1024 * 1024,
        "unit": "bytes",
        "meaning": "One JSON document on the channel.",
    }
    assert documents["limits.json"]["protocol"] == limits.PROTOCOL_VERSION


@for_each(
    ("limit", "unit"),
    [
        ("CALLS_PER_S", "per second"),
        ("RUN_IDLE_S", "seconds"),
        ("READ_BYTES_DEFAULT", "bytes"),
        ("NAME_CHARACTERS", "characters"),
        ("FRAME_DEPTH", "levels"),
        ("INTEGER_MAX", "absolute value"),
        ("PAGE_ITEMS", "count"),
    ],
)
def test_the_name_of_a_limit_ends_with_its_unit(limit, unit) -> None:
    assert unit_of(limit) == unit


def test_the_errors_list_every_code(documents) -> None:
    errors = documents["errors.json"]
    assert tuple(row["code"] for row in errors["api_errors"]) == ERROR_CODES
    assert tuple(row["code"] for row in errors["run_failures"]) == FAILURE_CODES
    assert {row["code"]: row["status"] for row in errors["run_failures"]}["runner.timeout"] == "timeout"


@for_each(
    ("content", "accepted"),
    [
        ({"type": "text", "text": "你好"}, True),
        ({"type": "hologram", "voxels": 3}, True),
        ({"type": "text"}, False),
        ({"text": "你好"}, False),
        ({"type": "file_base64", "file_base64": "A"}, False),
    ],
)
def test_the_schema_accepts_content_like_the_shape(content, accepted, documents) -> None:
    validator = jsonschema.Draft202012Validator(documents["AgentInput.json"])
    assert validator.is_valid({"contents": [content]}) == accepted


def test_the_schema_accepts_old_form_types_like_the_shape(documents) -> None:
    validator = jsonschema.Draft202012Validator(documents["FormItem.json"])
    item = {"name": "model", "label": {"en_US": "Model"}}
    assert validator.is_valid({**item, "type": "select-llm-model"})
    assert not validator.is_valid({**item, "type": "select-anything"})
