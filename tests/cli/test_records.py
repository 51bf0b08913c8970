"""The text of a host's records during a chat."""

import io

import pytest

from bollard.cli.client.run_stream import RecordPrinter
from bollard.cli.language import load_text
from bollard.cli.terminal.page import PipePage
from bollard.cli.terminal.text_renderer import TextRenderer
from bollard.protocol import AgentRunRecord, JsonObject

ASKED: JsonObject = {"approval_id": "apr_1", "name": "send_letter"}
LOST: JsonObject = {"status": "failed", "code": "host.lost", "error": "the host went away"}


def told(language: str, *records: tuple[str, JsonObject]) -> str:
    file = io.StringIO()
    text = load_text(language)
    shown = RecordPrinter(TextRenderer(PipePage(file, file), text, verbose=True), text)
    for number, (kind, data) in enumerate(records, start=1):
        shown.record(
            AgentRunRecord(run_id="run-1", epoch=1, seq=number, type=kind, data=data, created_at=1.0, observed=True)
        )
    return file.getvalue()


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("en_US", "send_letter waits for approval: bollard approvals show apr_1"),
        ("zh_Hans", "send_letter 正在等待审批"),
    ],
)
def test_a_waiting_reader_sees_that_the_call_needs_approval(language: str, sentence: str) -> None:
    assert sentence in told(language, ("approval.requested", ASKED))


def test_a_name_cannot_move_the_cursor() -> None:
    assert "\x1b" not in told("en_US", ("approval.requested", {**ASKED, "name": "send\x1b[2K"}))


def test_a_lost_run_with_an_open_approval_has_no_hint_to_send_again() -> None:
    answer = told("en_US", ("approval.requested", ASKED), ("run.ended", LOST))
    assert "still waiting for approval" in answer
    assert "Send the message again" not in answer


@pytest.mark.parametrize("before", [[], [("approval.requested", ASKED), ("approval.granted", ASKED)]])
def test_a_lost_run_without_an_open_approval_has_the_hint_to_send_again(before: list[tuple[str, JsonObject]]) -> None:
    answer = told("en_US", *before, ("run.ended", LOST))
    assert "Send the message again" in answer
    assert "still waiting for approval" not in answer


def test_the_fields_added_by_the_host_hide_no_text_of_a_message() -> None:
    said: JsonObject = {"message": {"role": "assistant", "content": "hello there"}, "flow": 3}
    saved: JsonObject = {"scope": "conversation", "key": "colour", "value": "red", "flow": 3, "expires_ms": 9}
    answer = told("en_US", ("message.completed", said), ("state.updated", saved))
    assert "hello there" in answer
    assert "colour" in answer


STARTED: JsonObject = {"call_id": "c1", "name": "fetch", "arguments": {"n": 1}}
ENDS = {
    "a result": (("action.completed", {"call_id": "c1", "content": [{"type": "text", "text": "42"}]}), "→ 42"),
    "an error of the tool": (
        ("action.completed", {"call_id": "c1", "content": [{"type": "text", "text": "no"}], "is_error": True}),
        "failed: no",
    ),
    "a structured result": (("action.completed", {"call_id": "c1", "structured": {"v": 2}}), '→ {"v": 2}'),
    "a refusal": (
        ("action.rejected", {"call_id": "c1", "code": "denied", "message": "it was denied"}),
        "it was denied",
    ),
    "a failure": (("action.failed", {"call_id": "c1", "code": "timeout"}), "failed: timeout"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_call_is_shown_once_with_its_outcome(name: str) -> None:
    ended, shown = ENDS[name]
    answer = told("en_US", ("action.started", STARTED), ended, ended)
    assert answer.count("fetch") == 2  # when it begins, and when it ends
    assert answer.count(shown) == 1


def test_a_call_refused_before_its_start_has_its_name() -> None:
    refused: JsonObject = {"call_id": "c2", "name": "send_letter", "code": "denied", "message": "it was denied"}
    assert "tool send_letter failed" in told("en_US", ("action.rejected", refused))


def test_the_error_of_a_call_is_told_by_its_reason_and_that_of_a_tool_is_quoted() -> None:
    refusal: JsonObject = {"call_id": "c1", "name": "fetch", "code": "not_found", "message": "there is no such run"}
    assert "没有这个运行" in told("zh_Hans", ("action.failed", {**refusal, "details": {"reason": "no_run"}}))
    assert "there is no such run" in told("en_US", ("action.failed", {**refusal, "details": {"reason": "no_run"}}))
    older = told("zh_Hans", ("action.failed", refusal))
    assert "（原文：there is no such run）" in older, "a record of an older host has no details"
    content: JsonObject = {"call_id": "c1", "name": "fetch", "is_error": True, "content": [{"text": "it is too late"}]}
    assert "“it is too late”（原文）" in told("zh_Hans", ("action.completed", content))
    assert "“" not in told("en_US", ("action.completed", content))
