"""JSON scalars are taken as they are: nothing is coerced, nothing is infinite, nothing changes after it was read."""

import json

import pytest
from pydantic import ValidationError
from tests.tables import for_each

from bollard.protocol import (
    AgentAPIError,
    AgentEventContext,
    AgentRunnerCapabilities,
    AgentRunResult,
    AgentTrigger,
    ApiCancel,
    ArtifactsFinish,
    FilesGet,
    Message,
    RerankScore,
    StateSet,
    StateUpdated,
    StorageSet,
    TextContent,
    ToolCallStarted,
    ToolResult,
)

RESULT = {"run_id": "run_1", "type": "run.completed", "data": {}, "sequence": 1}
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]


def refused(shape, wire) -> set[str]:
    with pytest.raises(ValidationError) as refusal:
        shape.from_wire(wire)
    return {str(error["loc"][0]) for error in refusal.value.errors()}


@pytest.mark.requirement("P01-13")
@for_each("not_an_integer", ["1", 1.0, True, None, [1], {}])
def test_only_an_integer_is_an_integer(not_an_integer) -> None:
    assert refused(AgentRunResult, {**RESULT, "sequence": not_an_integer}) == {"sequence"}


@pytest.mark.requirement("P01-13", "P02-05")
@for_each("not_a_flag", [1, 0, "true", "", None, 1.0])
def test_only_true_and_false_are_flags(not_a_flag) -> None:
    assert refused(AgentRunnerCapabilities, {"streaming": not_a_flag}) == {"streaming"}


@pytest.mark.requirement("P01-13")
@pytest.mark.parametrize("not_a_number", ["0.5", True, [0.5], {}])
def test_only_a_number_is_a_number(not_a_number) -> None:
    assert refused(RerankScore, {"index": 0, "score": not_a_number}) == {"score"}


def test_a_whole_number_is_a_number() -> None:
    assert RerankScore.from_wire({"index": 0, "score": 1}).score == 1.0


@pytest.mark.requirement("P01-13")
@for_each("not_text", [1, 1.5, True, None, ["a"], {}])
def test_only_text_is_text(not_text) -> None:
    assert refused(AgentTrigger, {"type": not_text, "source": "api"}) == {"type"}


@for_each("not_an_object", ["{}", 1, None, [], [["a", 1]]])
def test_only_an_object_is_an_object(not_an_object) -> None:
    assert refused(AgentRunResult, {**RESULT, "data": not_an_object}) == {"data"}


@for_each("not_a_list", ["text", {}, {"a": 1}, 1, None])
def test_only_a_list_is_a_list(not_a_list) -> None:
    assert refused(ToolResult, {"call_id": "c", "content": not_a_list}) == {"content"}


@for_each("document", ["{}", 1, None, [], True])
def test_a_shape_is_read_from_an_object_only(document) -> None:
    with pytest.raises(ValidationError):
        AgentRunnerCapabilities.from_wire(document)


@pytest.mark.parametrize("number", NOT_FINITE)
def test_no_number_is_infinite_or_undefined(number) -> None:
    assert refused(RerankScore, {"index": 0, "score": number}) == {"score"}
    assert refused(AgentTrigger, {"type": "t", "source": "api", "timestamp": number}) == {"timestamp"}


@for_each("number", NOT_FINITE)
@for_each("around", [lambda n: n, lambda n: [n], lambda n: {"a": n}, lambda n: {"a": [1, {"b": n}]}])
def test_no_nested_json_value_is_infinite_or_undefined(number, around) -> None:
    value = around(number)
    assert refused(StateUpdated, {"scope": "actor", "key": "k", "value": value}) == {"value"}
    assert refused(AgentEventContext, {"event_id": "e", "event_type": "t", "source": "s", "data": {"x": value}})
    assert refused(ToolCallStarted, {"tool_call_id": "c", "tool_name": "t", "telemetry": value}) == {"telemetry"}


def test_a_shape_built_without_checks_never_writes_such_a_number_as_null() -> None:
    wire = RerankScore.model_construct(index=0, score=float("nan")).to_wire()
    with pytest.raises(ValueError, match="JSON compliant"):
        json.dumps(wire, allow_nan=False)


@for_each("value", [object(), {1, 2}, b"bytes", {1: "a"}, (1, 2)])
def test_a_json_value_is_json(value) -> None:
    assert refused(StateSet, {"scope": "actor", "key": "k", "value": value}) == {"value"}


@pytest.mark.requirement("P04-06")
def test_a_timestamp_keeps_its_milliseconds_and_is_never_before_the_epoch() -> None:
    trigger = {"type": "t", "source": "scheduler"}
    assert AgentTrigger.from_wire({**trigger, "timestamp": 1731657600.125}).to_wire()["timestamp"] == 1731657600.125
    assert AgentTrigger.from_wire({**trigger, "timestamp": 0}).timestamp == 0
    assert refused(AgentTrigger, {**trigger, "timestamp": -0.001}) == {"timestamp"}
    assert refused(AgentTrigger, {**trigger, "timestamp": "2024-11-15T08:00:00Z"}) == {"timestamp"}


@for_each("digest", ["", "ab", "A" * 64, "g" * 64, "a" * 63, "a" * 65, "a" * 64 + "\n"])
def test_a_digest_is_64_lower_case_hex_digits(digest) -> None:
    assert refused(ArtifactsFinish, {"upload_id": "u", "sha256": digest}) == {"sha256"}


@for_each("content", ["A", "AB", "ABC", "ABC==", "AB=C", "====", "AB_-", "QUJD\n", " QUJD", "你好"])
def test_bytes_are_whole_standard_base64(content) -> None:
    assert refused(StorageSet, {"area": "plugin", "key": "k", "content_base64": content}) == {"content_base64"}


@for_each("content", ["", "QQ==", "QUI=", "QUJD", "+/+/"])
def test_bytes_of_every_length_have_their_base64(content) -> None:
    assert StorageSet.from_wire({"area": "plugin", "key": "k", "content_base64": content}).content_base64 == content


@pytest.mark.requirement("P01-08")
def test_an_absent_field_is_omitted_and_a_null_value_stays() -> None:
    assert "timestamp" not in AgentTrigger(type="t", source="api").to_wire()
    assert "timestamp" not in AgentTrigger.from_wire({"type": "t", "source": "api", "timestamp": None}).to_wire()
    assert StateUpdated(scope="actor", key="k", value=None).to_wire()["value"] is None
    assert refused(StateUpdated, {"scope": "actor", "key": "k"}) == {"value"}


def test_nulls_inside_free_json_are_never_dropped() -> None:
    data = {"a": None, "b": [None, {"c": None}]}
    assert AgentRunResult.from_wire({**RESULT, "data": data}).to_wire()["data"] == data


def test_a_call_id_keeps_its_type() -> None:
    assert ApiCancel.from_wire({"run_id": "r", "id": 7}).to_wire()["id"] == 7
    assert ApiCancel.from_wire({"run_id": "r", "id": "7"}).to_wire()["id"] == "7"
    assert refused(ApiCancel, {"run_id": "r", "id": True}) == {"id"}
    assert refused(ApiCancel, {"run_id": "r", "id": None}) == {"id"}


@pytest.mark.requirement("P01-14")
@pytest.mark.parametrize(
    ("value", "field"),
    [
        (TextContent(text="你好"), "text"),
        (FilesGet(file_id="f"), "offset"),
        (ToolCallStarted(tool_call_id="c", tool_name="t"), "tool_name"),
        (Message(role="user", content="hi"), "content"),
    ],
)
def test_a_value_is_immutable(value, field) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(value, field, "other")


@pytest.mark.requirement("P07-02")
def test_an_error_of_a_newer_host_is_still_read() -> None:
    error = AgentAPIError.from_wire({"code": "moon_phase_wrong", "message": "wait", "phase": "full"})
    known = {"code": "moon_phase_wrong", "message": "wait", "retryable": False, "details": {}, "hint": ""}
    assert error.to_wire() == known
