"""The parameters of run API calls: defaults, caps, and the permission each action needs (§6)."""

import typing

import pytest
from pydantic import ValidationError

from bollard.protocol import ACTIONS, METHODS, AgentRunnerPermissions, ApiStream, ChannelLimits, LogRecord, limits
from bollard.protocol.export import SHAPES, strictness_of

CAPPED = [
    ("HistoryPageQuery", "limit", limits.PAGE_ITEMS),
    ("EventsPage", "limit", limits.PAGE_ITEMS),
    ("KnowledgeRetrieve", "top_k", limits.SEARCH_TOP_K),
    ("HistorySearch", "top_k", limits.SEARCH_TOP_K),
    ("SteeringPull", "limit", limits.STEERING_QUEUE),
    ("StateList", "limit", limits.STATE_LIST_KEYS),
    ("StorageList", "limit", limits.STATE_LIST_KEYS),
    ("ArtifactsRead", "length", limits.READ_BYTES),
    ("StorageGet", "length", limits.READ_BYTES),
    ("FilesGet", "length", limits.READ_BYTES),
]
COUNTED = [("ModelsRerank", "documents", limits.RERANK_DOCUMENTS), ("ToolsDetail", "names", limits.PAGE_ITEMS)]
DEFAULTS = [
    ("HistoryPageQuery", {"limit": 50, "direction": "backward", "include_artifacts": False}),
    ("EventsPage", {"limit": 50}),
    ("KnowledgeRetrieve", {"top_k": 5}),
    ("HistorySearch", {"top_k": 10}),
    ("SteeringPull", {"mode": "all"}),
    ("ArtifactsRead", {"offset": 0, "length": 65536}),
]


def refused(name, wire) -> list[str]:
    with pytest.raises(ValidationError) as refusal:
        SHAPES[name].from_wire(wire)
    return [".".join(str(step) for step in error["loc"]) for error in refusal.value.errors()]


@pytest.mark.requirement("P06-03", "P06-12", "P06-14")
@pytest.mark.parametrize(("name", "field", "most"), CAPPED)
def test_a_limit_is_at_least_one_and_at_most_its_cap(name, field, most, golden) -> None:
    for allowed in (1, most):
        assert getattr(SHAPES[name].from_wire({**golden.minimal, field: allowed}), field) == allowed
    for outside in (0, -1, most + 1, -limits.INTEGER_MAX):
        assert refused(name, {**golden.minimal, field: outside}) == [field]


@pytest.mark.requirement("P06-03")
@pytest.mark.parametrize(("name", "field", "most"), COUNTED)
def test_a_list_holds_at_least_one_and_at_most_its_cap(name, field, most, golden) -> None:
    assert SHAPES[name].from_wire({**golden.minimal, field: ["一"] * most})
    for outside in ([], ["一"] * (most + 1)):
        assert refused(name, {**golden.minimal, field: outside}) == [field]


@pytest.mark.parametrize(("name", "expected"), DEFAULTS)
def test_an_omitted_parameter_has_the_documented_default(name, expected, golden) -> None:
    written = SHAPES[name].from_wire(golden.minimal).to_wire()
    assert {field: written[field] for field in expected} == expected


@pytest.mark.parametrize("name", ["ArtifactsRead", "StorageGet", "FilesGet", "ArtifactsAppend"])
def test_an_offset_is_never_negative(name, golden) -> None:
    assert refused(name, {**golden.full, "offset": -1}) == ["offset"]


@pytest.mark.parametrize("name", ["StateGet", "StateSet", "StateDelete", "StorageGet", "StorageSet", "StorageDelete"])
def test_a_key_is_never_empty_nor_longer_than_its_cap(name, golden) -> None:
    assert SHAPES[name].from_wire({**golden.full, "key": "键" * limits.STATE_KEY_CHARACTERS})
    for outside in ("", "k" * (limits.STATE_KEY_CHARACTERS + 1)):
        assert refused(name, {**golden.full, "key": outside}) == ["key"]


@pytest.mark.parametrize(("field", "outside"), [("if_version", -1), ("ttl", 0), ("ttl", -5)])
def test_a_version_may_be_zero_and_a_lifetime_may_not(field, outside, goldens) -> None:
    assert refused("StateSet", {**goldens["StateSet"].full, field: outside}) == [field]
    assert SHAPES["StateSet"].from_wire({**goldens["StateSet"].full, "if_version": 0, "ttl": 1})


@pytest.mark.parametrize(
    ("name", "field", "unknown"),
    [("StateGet", "scope", "workspace"), ("StorageGet", "area", "host"), ("HistoryPageQuery", "direction", "up")],
)
def test_a_choice_is_one_of_its_values(name, field, unknown, golden) -> None:
    assert refused(name, {**golden.full, field: unknown}) == [field]


def test_a_model_call_needs_at_least_one_message(goldens) -> None:
    assert refused("ModelsInvoke", {**goldens["ModelsInvoke"].minimal, "messages": []}) == ["messages"]


@pytest.mark.requirement("P06-02")
def test_parameters_are_strict_and_answers_are_tolerant() -> None:
    assert {strictness_of(action.params) for action in ACTIONS.values()} == {"strict"}
    assert {strictness_of(action.result) for action in ACTIONS.values()} == {"tolerant"}


@pytest.mark.requirement("P06-22")
def test_every_permission_an_action_needs_can_be_declared() -> None:
    declarable = {
        key: typing.get_args(typing.get_args(info.annotation)[0])
        for key, info in AgentRunnerPermissions.model_fields.items()
    }
    needed = [action.permission for action in ACTIONS.values() if action.permission is not None]
    assert all(value is None or value in declarable[key] for key, value in needed)
    decided_by_parameters = {key for key, value in needed if value is None}
    spelled_out = {(key, value) for key, value in needed if value is not None}
    every_value = {(key, value) for key, values in declarable.items() for value in values}
    assert {pair for pair in every_value if pair[0] not in decided_by_parameters} == spelled_out


def test_only_state_steering_and_the_host_itself_need_no_permission() -> None:
    free = {name.partition(".")[0] for name, action in ACTIONS.items() if action.permission is None}
    assert free == {"state", "steering", "host"}


def test_shapes_of_a_worker_are_strict_and_shapes_of_a_host_are_tolerant() -> None:
    for method in METHODS.values():
        from_host = method.sent_by == "host"
        assert strictness_of(method.params) == ("tolerant" if from_host else "strict"), method.name
        if method.result is not None and method.result.model_fields:
            assert strictness_of(method.result) == ("strict" if from_host else "tolerant"), method.name


@pytest.mark.parametrize(("field", "least"), [("frame_bytes", 1024), ("window_results", 1), ("window_bytes", 1024)])
def test_a_connection_limit_has_a_minimum(field, least) -> None:
    assert ChannelLimits.from_wire({field: least})
    with pytest.raises(ValidationError, match=field):
        ChannelLimits.from_wire({field: least - 1})


@pytest.mark.parametrize("stream_id", ["", "s" * 129])
def test_a_stream_id_has_limits(stream_id) -> None:
    with pytest.raises(ValidationError, match="stream_id"):
        ApiStream.from_wire({"run_id": "r", "stream_id": stream_id, "action": "models.stream"})


def test_a_log_record_has_a_known_level_and_a_limit() -> None:
    record = {"level": "info", "message": "长" * limits.LOG_MESSAGE_CHARACTERS}
    assert LogRecord.from_wire(record)
    for field, value in (("level", "shout"), ("message", record["message"] + "!")):
        with pytest.raises(ValidationError, match=field):
            LogRecord.from_wire({**record, field: value})
