"""The fields of every shape and the rows of every table, as the protocol's text lists them.

Written down a second time on purpose, here and in fields.yaml: everything else is derived from the code and would
follow it anywhere.
"""

from pathlib import Path
from typing import get_args

import pytest
import yaml
from tests.tables import for_each

from bollard.protocol import (
    ACTIONS,
    COMPACTION_CHECKPOINT_KEY,
    ERROR_CODES,
    EVENT_TYPES,
    FAILURE_CODES,
    HOST_RECORD_TYPES,
    METHODS,
    RESULT_TYPES,
    TRIGGER_SOURCES,
    AgentRunnerPermissions,
    FormType,
    limits,
)
from bollard.protocol.export import SHAPES, strictness_of

LISTED = yaml.safe_load((Path(__file__).parent / "fields.yaml").read_text(encoding="utf-8"))
FROM_HOST = (
    "initialize runners/list run/start run/cancel run/credit ping shutdown tools/list tool/call tool/cancel api/chunk"
)
FROM_WORKER = "run/result api/call api/stream api/credit api/cancel log"
NOTIFICATIONS = "run/cancel run/credit tool/cancel api/chunk run/result api/credit api/cancel log"


def fields_of(shape) -> str:
    return " ".join(
        f"{name}?" if not info.is_required() and info.default is None and info.default_factory is None else name
        for name, info in shape.model_fields.items()
    )


@for_each(
    ("name", "fields"), {**LISTED["discovery"], **LISTED["context"], **LISTED["results"], **LISTED["channel"]}.items()
)
def test_a_shape_has_the_fields_of_the_protocol(name, fields) -> None:
    assert fields_of(SHAPES[name]) == fields


@pytest.mark.requirement("P06-23", "P07-02")
@for_each(("name", "fields"), LISTED["returned"].items())
def test_a_returned_shape_has_the_fields_of_the_protocol(name, fields) -> None:
    assert fields_of(SHAPES[name]) == fields


@pytest.mark.requirement("P09-01", "P10-01")
@pytest.mark.parametrize(("name", "fields"), LISTED["conventions"].items())
def test_a_convention_has_the_fields_of_the_protocol(name, fields) -> None:
    assert fields_of(SHAPES[name]) == fields


@pytest.mark.requirement("P10-01")
def test_the_checkpoint_has_its_key() -> None:
    assert COMPACTION_CHECKPOINT_KEY == "runner.compaction.checkpoint"


@pytest.mark.requirement("P06-22")
@for_each(("action", "fields"), LISTED["calls"].items())
def test_a_call_has_the_parameters_of_the_protocol(action, fields) -> None:
    assert fields_of(ACTIONS[action].params) == fields


@pytest.mark.requirement("P06-22")
def test_the_actions_match_the_protocol() -> None:
    assert list(ACTIONS) == list(LISTED["calls"])


@pytest.mark.requirement("P02-06")
def test_the_permissions_match_the_protocol() -> None:
    declarable = {
        key: " ".join(get_args(get_args(info.annotation)[0]))
        for key, info in AgentRunnerPermissions.model_fields.items()
    }
    assert declarable == LISTED["permissions"]


@pytest.mark.requirement("P02-08")
def test_the_form_types_match_the_protocol() -> None:
    assert " ".join(get_args(FormType)) == LISTED["form_types"]


@for_each(("name", "value"), LISTED["limits"].items())
def test_a_limit_has_the_value_of_the_protocol(name, value) -> None:
    assert getattr(limits, name) == value


@pytest.mark.requirement("P11-62")
def test_every_method_has_its_direction_and_its_kind() -> None:
    assert [name for name, method in METHODS.items() if method.sent_by == "host"] == FROM_HOST.split()
    assert [name for name, method in METHODS.items() if method.sent_by == "worker"] == FROM_WORKER.split()
    assert {name for name, method in METHODS.items() if method.result is None} == set(NOTIFICATIONS.split())


@for_each("name", [*LISTED["discovery"], *LISTED["results"]])
def test_shapes_of_a_runner_are_strict_except_telemetry_and_host_records(name) -> None:
    other = {"ToolCallCompleted": "loose", "RunEnded": "tolerant"}
    assert strictness_of(SHAPES[name]) == other.get(name, "strict")


@for_each("name", [*LISTED["context"], *LISTED["returned"], *LISTED["conventions"]])
def test_shapes_of_the_host_and_shared_shapes_are_tolerant(name) -> None:
    assert strictness_of(SHAPES[name]) == "tolerant"


def test_the_enumerations_match_the_protocol() -> None:
    assert " ".join(TRIGGER_SOURCES) == "platform webui api scheduler webhook system host_adapter"
    assert " ".join(EVENT_TYPES) == (
        "message.received message.edited message.recalled reaction.added group.member_joined group.member_left "
        "friend.request_received bot.added schedule.triggered webhook.received api.invoked approval.decided "
        "approval.requested artifact.created interaction.submitted command.invoked channel.status_changed "
        "run.completed run.failed run.stop_requested"
    )
    assert " ".join(RESULT_TYPES) == (
        "message.delta message.completed tool.call.started tool.call.completed artifact.created state.updated "
        "action.requested run.completed run.failed"
    )
    assert " ".join(HOST_RECORD_TYPES) == "result.gap result.rejected result.unknown run.ended"


@pytest.mark.requirement("P07-05")
def test_the_codes_match_the_protocol() -> None:
    assert " ".join(ERROR_CODES) == (
        "unauthorized not_found deadline_exceeded payload_too_large rate_limited invalid_argument approval_required "
        "approval_denied approval_expired capability_denied outpost_offline outcome_unknown tool_failed cancelled "
        "revoked budget_exceeded audit_unavailable storage_full runtime_error"
    )
    assert " ".join(FAILURE_CODES) == (
        "runner.error runner.timeout runner.crashed runner.no_output runner.protocol "
        "runner.output_too_large cancelled revoked budget_exceeded host.lost host.overloaded"
    )
