"""The in-memory host behind a channel: runs that are opened, fed and ended from outside."""

import base64

import pytest

from bollard.protocol import AgentRunContext, AgentRunnerPermissions, AgentRunResult, JsonObject, limits
from bollard.sdk import AgentAPIException
from bollard.sdk.testing import MemoryHost

pytestmark = pytest.mark.anyio


def result(sequence: int, kind: str, data: JsonObject) -> AgentRunResult:
    return AgentRunResult(run_id="run-1", type=kind, data=data, sequence=sequence)


def text(sequence: int, content: str) -> AgentRunResult:
    return result(sequence, "message.delta", {"chunk": {"content": content}})


@pytest.fixture
def host(raw: AgentRunContext) -> MemoryHost:
    made = MemoryHost()
    made.open(raw)
    return made


def test_external_results_make_up_the_outcome(host: MemoryHost):
    for taken in (text(1, "a"), text(2, "b"), result(3, "run.completed", {"finish_reason": "end"})):
        host.take(taken)
    outcome = host.end("run-1")
    assert (outcome.status, outcome.text) == ("completed", "ab")
    assert [item.sequence for item in outcome.results] == [1, 2, 3]


def test_a_duplicate_is_dropped_and_a_hole_is_recorded(host: MemoryHost):
    for taken in (text(1, "a"), text(1, "again"), text(4, "d")):
        host.take(taken)
    outcome = host.end("run-1")
    assert outcome.text == "ad"
    assert [(item.record, item.reason) for item in outcome.rejected] == [("result.gap", "results 2 to 3 are missing")]


def test_results_after_the_end_are_refused(host: MemoryHost):
    host.take(text(1, "a"))
    host.take(result(2, "run.completed", {"finish_reason": "end"}))
    host.take(text(3, "late"))
    outcome = host.end("run-1")
    assert outcome.text == "a"
    assert outcome.rejected[0].reason == "came after the end of the run"


def test_an_oversized_result_is_rejected_completely(host: MemoryHost):
    host.take(text(1, "x" * limits.RESULT_BYTES))
    outcome = host.end("run-1")
    assert outcome.text == ""
    assert outcome.rejected[0].record == "result.rejected"


def test_a_run_without_a_terminal_result_is_a_protocol_error(host: MemoryHost):
    host.take(text(1, "a"))
    outcome = host.end("run-1")
    assert (outcome.status, outcome.code) == ("failed", "runner.protocol")


def test_a_result_of_an_unknown_run_changes_nothing(host: MemoryHost):
    host.take(AgentRunResult(run_id="run-9", type="message.delta", data={}, sequence=1))
    assert host.end("run-1").results == ()


async def test_an_ended_run_gets_no_answer(host: MemoryHost):
    assert await host.answer("run-1", "host.info", {})
    host.end("run-1", "cancelled")
    with pytest.raises(AgentAPIException, match="not_found"):
        await host.answer("run-1", "host.info", {})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"size_bytes": 4}, "size_bytes"),
        ({"sha256": "0" * 64}, "sha256"),
        ({"content_base64": base64.b64encode(b"x" * (limits.INLINE_ARTIFACT_BYTES + 1)).decode()}, "exceed"),
    ],
)
def test_an_artifact_with_wrong_metadata_is_rejected(host: MemoryHost, data, reason):
    host.take(result(1, "artifact.created", {"artifact_type": "file", "content_base64": "YWJj"} | data))
    outcome = host.end("run-1")
    assert outcome.artifacts == {}
    assert reason in outcome.rejected[0].reason


def test_a_state_update_above_its_limit_is_rejected(host: MemoryHost):
    big = "x" * limits.STATE_VALUE_BYTES
    host.take(result(1, "state.updated", {"scope": "runner", "key": "k", "value": big}))
    outcome = host.end("run-1")
    assert outcome.state["runner"] == {}
    assert "exceed" in outcome.rejected[0].reason


async def test_an_opened_run_has_the_permissions_of_its_opening(raw: AgentRunContext):
    host = MemoryHost(history=["a"])
    ledger = host.open(raw, permissions=AgentRunnerPermissions())
    assert not ledger.context.context.available_apis.history_page
    with pytest.raises(AgentAPIException, match="unauthorized"):
        await host.answer("run-1", "history.page", {})


def test_a_run_gets_at_most_a_hundred_messages(raw: AgentRunContext):
    ledger = MemoryHost().open(raw)
    for number in range(limits.STEERING_QUEUE):
        ledger.steering.add(f"message {number}")
    with pytest.raises(ValueError, match="at most 100"):
        ledger.steering.add("one more")
