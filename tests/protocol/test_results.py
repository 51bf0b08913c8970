"""The result stream, and how a run ends (§5, §7)."""

import typing

import pytest
from pydantic import ValidationError
from tests.tables import for_each

from bollard.protocol import (
    ERROR_CODES,
    ERROR_MEANINGS,
    FAILURE_CODES,
    FAILURE_MEANINGS,
    HOST_RECORD_TYPES,
    LOOSE_TYPES,
    RESULT_PAYLOADS,
    RESULT_TYPES,
    RUN_STATUSES,
    TERMINAL_STATUSES,
    TERMINAL_TYPES,
    AgentRunResult,
    MessageCompleted,
    MessageDelta,
    RunFailed,
    StateUpdated,
    TerminalStatus,
    limits,
    status_of_failure,
)
from bollard.protocol.export import strictness_of

RESULT = {"run_id": "run_1", "type": "message.delta", "data": {}, "sequence": 1}


def test_every_result_type_has_a_payload_and_no_host_record_is_one() -> None:
    assert tuple(RESULT_PAYLOADS) == RESULT_TYPES
    assert set(RESULT_TYPES) >= TERMINAL_TYPES | LOOSE_TYPES
    assert not set(RESULT_TYPES) & set(HOST_RECORD_TYPES)


@pytest.mark.requirement("P05-07")
def test_payloads_are_strict_except_telemetry() -> None:
    loose = {name for name, shape in RESULT_PAYLOADS.items() if strictness_of(shape) == "loose"}
    assert loose == LOOSE_TYPES
    assert {strictness_of(shape) for name, shape in RESULT_PAYLOADS.items() if name not in loose} == {"strict"}


def test_a_result_of_an_unknown_type_is_read() -> None:
    assert AgentRunResult.from_wire({**RESULT, "type": "dance.started"}).type == "dance.started"


@pytest.mark.requirement("P05-23")
@pytest.mark.parametrize("sequence", [0, -1, 1.0, "1"])
def test_results_count_from_one(sequence) -> None:
    with pytest.raises(ValidationError, match="sequence"):
        AgentRunResult.from_wire({**RESULT, "sequence": sequence})


def test_a_delta_holds_a_chunk_and_a_completed_message_a_message() -> None:
    with pytest.raises(ValidationError, match="chunk"):
        MessageDelta.from_wire({"message": {"role": "assistant", "content": "hi"}})
    with pytest.raises(ValidationError, match=r"message\.role"):
        MessageCompleted.from_wire({"message": {"content": "no role"}})


@for_each("code", FAILURE_CODES)
def test_a_run_may_fail_with_any_failure_code(code) -> None:
    assert RunFailed.from_wire({"code": code, "error": "x"}).retryable is False


@for_each("code", ["", "failed", "runner.Error", "not_found", "runner.error ", None, 500])
def test_a_run_fails_only_with_a_failure_code(code) -> None:
    with pytest.raises(ValidationError, match="code"):
        RunFailed.from_wire({"code": code, "error": "x"})


@pytest.mark.parametrize("scope", ["workspace", "Conversation", "", None])
def test_state_is_written_to_one_of_four_scopes(scope) -> None:
    with pytest.raises(ValidationError, match="scope"):
        StateUpdated.from_wire({"scope": scope, "key": "k", "value": 1})


@pytest.mark.parametrize("key", ["", "k" * (limits.STATE_KEY_CHARACTERS + 1)])
def test_a_state_key_has_the_same_bounds_in_a_result_as_in_a_call(key) -> None:
    with pytest.raises(ValidationError, match="key"):
        StateUpdated.from_wire({"scope": "actor", "key": key, "value": 1})


@pytest.mark.requirement("P05-22")
def test_every_failure_code_leads_to_its_status() -> None:
    expected = dict.fromkeys(FAILURE_CODES, "failed")
    expected |= {"cancelled": "cancelled", "revoked": "cancelled", "runner.timeout": "timeout"}
    assert {code: status_of_failure(code) for code in FAILURE_CODES} == expected
    assert status_of_failure("code.of.a.newer.peer") == "failed"


def test_statuses_end_in_the_terminal_ones() -> None:
    assert set(typing.get_args(TerminalStatus)) == TERMINAL_STATUSES
    assert set(RUN_STATUSES) - TERMINAL_STATUSES == {"queued", "dispatching", "running", "waiting"}


@pytest.mark.requirement("P07-05")
def test_every_code_has_a_meaning() -> None:
    assert tuple(ERROR_MEANINGS) == ERROR_CODES
    assert tuple(FAILURE_MEANINGS) == FAILURE_CODES
    assert all([*ERROR_MEANINGS.values(), *FAILURE_MEANINGS.values()])
