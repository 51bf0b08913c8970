"""A secret that is a word of the protocol does not break runs or their records."""

from typing import Any

import pytest

WORDS = ("completed", "assistant", "message", "message_id", "content", "default", "running", "parrot", "0123456789ab")


@pytest.fixture(scope="module")
def wordy(api: Any) -> Any:
    for number, word in enumerate(WORDS):
        assert api.put(f"/api/v1/secrets/word{number}", {"value": word}).status == 201
    return api


def test_a_secret_equal_to_a_protocol_word_breaks_no_run_and_no_response(wordy: Any) -> None:
    run_id = wordy.say("the parrot has completed its message", conversation="room")
    events = wordy.read(run_id)
    assert events[-1].data["data"]["status"] == "completed"
    (message,) = [event.data["data"] for event in events if event.type == "message.completed"]
    assert message["message"] == {"role": "assistant", "content": "the *** has *** its *** "}
    assert wordy.get(f"/api/v1/runs/{run_id}").json["status"] == "completed"
    said = wordy.get("/api/v1/conversations/room/messages").json["items"]
    assert {item["role"] for item in said} == {"user", "assistant"}
    refused = wordy.get("/api/v1/runs/run_nothing")
    assert (refused.status, refused.error["code"]) == (404, "not_found")
