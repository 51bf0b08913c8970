"""A run asks its user, waits, and continues with the answer: through the API and by a message."""

import json
from typing import Any

import pytest

from bollard.host.settings import Settings

KIT = """
    import json

    from bollard.sdk import AgentAPIException, RunContext, runner


    @runner(name="asker", label="Asker", permissions={"tools": ["call"]}, capabilities=["steering"])
    async def asker(ctx: RunContext):
        asked = json.loads(ctx.input.text)
        yield ctx.delta("well: ")
        try:
            answer = await ctx.api.tools.call("ask_user", asked)
        except AgentAPIException as refusal:
            yield ctx.completed(refusal.error.code)
            return
        yield ctx.completed(answer.structured["answer"])
"""
ASKS = {"question": "Which one?", "choices": ["left", "right"]}


@pytest.fixture(scope="module")
def settings(kit_settings: Settings) -> Settings:
    return kit_settings


@pytest.fixture(scope="module")
def asker(api: Any) -> Any:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    resources = {"tools": {"add": ["tool:builtin/ask_user"]}}
    api.save_agent("asker", "kit/asker", access={"permissions": {"tools": ["call"]}, "resources": resources})
    return api


def asked(api: Any, question: dict[str, Any] = ASKS, **more: Any) -> tuple[str, dict[str, Any]]:
    run_id = api.tell("asker", json.dumps(question), **more).json["run_id"]
    found = api.until(f"/api/v1/runs/{run_id}/questions", lambda page: bool(page["items"]))
    return run_id, found["items"][0]


def said(api: Any, run_id: str) -> str:
    (message,) = [each for each in api.read(run_id) if each.type == "message.completed"]
    return message.data["data"]["message"]["content"]


def test_a_run_waits_for_the_answer_and_continues_with_it(asker: Any) -> None:
    run_id, question = asked(asker)
    assert (question["question"], question["choices"]) == ("Which one?", ["left", "right"])
    assert asker.get(f"/api/v1/runs/{run_id}").json["status"] == "waiting"
    path = f"/api/v1/runs/{run_id}/questions/{question['question_id']}/answer"
    wrong = asker.post(path, {"answer": "up"})
    assert (wrong.status, wrong.json["error"]["code"]) == (400, "invalid_argument"), wrong.body
    assert asker.post(f"{path[:-9]}x/answer", {"answer": "left"}).status == 404
    assert asker.post(path, {"answer": "left"}).json["answered"] is True
    assert said(asker, run_id).endswith("left")
    kinds = [each.type for each in asker.read(run_id)]
    order = ["run.waiting", "question.asked", "question.answered", "run.resumed", "action.completed", "run.ended"]
    assert [kind for kind in kinds if kind in order] == order
    assert asker.post(path, {"answer": "right"}).status == 404
    assert asker.get(f"/api/v1/runs/{run_id}/questions").json["items"] == []


def test_a_message_in_the_conversation_is_the_answer(asker: Any) -> None:
    run_id, _ = asked(asker, {"question": "What is your name?"}, conversation="room", actor={"id": "ann"})
    sent = asker.tell("asker", "Ann", conversation="room", actor={"id": "ann"}).json
    assert sent["steering"]["claimed_by_run_id"] == run_id
    assert said(asker, run_id).endswith("Ann")
    (answered,) = [each.data["data"] for each in asker.read(run_id) if each.type == "question.answered"]
    assert (answered["by"], answered["event_id"]) == ("message", sent["event_id"])
    kinds = [each.type for each in asker.read(run_id) if each.type.startswith("steering.")]
    assert kinds == ["steering.queued", "steering.injected", "steering.acknowledged"]


def test_a_message_outside_the_choices_is_not_an_answer_and_not_lost(asker: Any) -> None:
    run_id, question = asked(asker, conversation="hall", actor={"id": "ann"})
    sent = asker.tell("asker", json.dumps({"question": "again?"}), conversation="hall", actor={"id": "ann"}).json
    assert sent["steering"]["claimed_by_run_id"] == run_id
    path = f"/api/v1/runs/{run_id}/questions/{question['question_id']}/answer"
    assert asker.post(path, {"answer": "right"}).status == 200
    assert said(asker, run_id).endswith("right")
    kinds = [each.type for each in asker.read(run_id)]
    assert "steering.dropped" in kinds  # the runner never pulled it: it gets a run of its own
    found = asker.until("/api/v1/runs?conversation=hall", lambda page: len(page["items"]) == 2)
    other = found["items"][0]["run_id"]
    assert asker.post(f"/api/v1/runs/{other}/cancel", {}).status in (202, 409)


def test_open_questions_of_all_runs_are_listed_and_their_changes_streamed(asker: Any) -> None:
    stream = asker.events(path="/api/v1/changes/stream")
    run_id, question = asked(asker, conversation="desk")
    (listed,) = asker.get("/api/v1/questions").json["items"]
    assert listed == {**question, "run_id": run_id, "agent_id": "asker", "conversation_id": "desk"}
    change = stream.until("question.asked")
    assert (change.data["run_id"], change.data["data"]["question_id"]) == (run_id, question["question_id"])
    path = f"/api/v1/runs/{run_id}/questions/{question['question_id']}/answer"
    assert asker.post(path, {"answer": "left"}).status == 200
    assert stream.until("question.answered").data["data"]["status"] == "answered"
    stream.close()
    assert asker.get("/api/v1/questions").json == {"items": [], "has_more": False}


def test_a_stopped_run_withdraws_its_question(asker: Any) -> None:
    run_id, question = asked(asker)
    assert asker.post(f"/api/v1/runs/{run_id}/cancel", {}).status == 202
    assert asker.ended(run_id)["status"] == "cancelled"
    path = f"/api/v1/runs/{run_id}/questions/{question['question_id']}/answer"
    assert asker.post(path, {"answer": "left"}).status == 404
