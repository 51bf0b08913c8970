"""Platform actions of a run, over a channel with a program behind it: declared, limited, approved, recorded, once."""

import json
from typing import Any

import pytest
from tests.host.http.test_channels import Program
from tests.host.http.test_channels import program as program

from bollard.host.channels.platform_actions import PLATFORM_ACTIONS
from bollard.host.limits import CHANNEL_ANSWER_BYTES
from bollard.host.settings import Settings

KIT = """
    import json

    from bollard.sdk import AgentAPIException, RunContext, runner


    @runner(name="steward", label="Steward", permissions={"platform": ["request"]})
    async def steward(ctx: RunContext):
        outcomes = []
        for action, target, payload in json.loads(ctx.input.text):
            try:
                done = await ctx.api.platform.request(action, target, payload)
                outcomes.append({"outcome": done.outcome, "result": done.result})
            except AgentAPIException as refusal:
                outcomes.append({"code": refusal.error.code, "message": refusal.error.message})
        offered = sorted(ctx.resources.platform_capabilities)
        yield ctx.completed(json.dumps({"offered": offered, "outcomes": outcomes}))
"""
GROUP = {"channel": "hall", "target": "group-1"}
HALL = {"channel": "hall"}
CALLS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("message.recall", GROUP, {"message": "m1"}),
    ("message.react", GROUP, {"message": "m1", "reaction": "👍"}),
    ("message.pin", GROUP, {"message": "m1", "remove": True}),
    ("friend.request.accept", HALL, {"request": "f1"}),
    ("friend.request.reject", HALL, {"request": "f2", "text": "not now"}),
    ("group.member.invite", GROUP, {"user": "bob"}),
    ("group.member.remove", GROUP, {"user": "bob"}),
    ("group.member.mute", GROUP, {"user": "bob", "seconds": 60}),
    ("group.rename", GROUP, {"name": "Front desk"}),
    ("user.info", HALL, {"user": "bob"}),
    ("conversation.members", GROUP, {"limit": 2}),
]
EVERYONE = {"approve": {"who": "everyone"}}


@pytest.fixture(scope="module")
def settings(kit_settings: Settings) -> Settings:
    return kit_settings


@pytest.fixture
def hall(api: Any, program: Program) -> Any:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    body = {"url": program.url, "abilities": {"supports_edit": True}, "actions": [*PLATFORM_ACTIONS]}
    assert api.put("/api/v1/channels/hall", body).status in (200, 201)
    save(api)
    return api


def save(api: Any, **access: Any) -> None:
    api.save_agent(
        "steward", "kit/steward", access={"permissions": {"platform": ["request"]}, **access}, audience=EVERYONE
    )


def told(api: Any, *calls: Any) -> str:
    created = api.tell("steward", json.dumps(calls))
    assert created.status == 202, created.body
    return created.json["run_id"]


def said(api: Any, run_id: str) -> dict[str, Any]:
    (message,) = [each for each in api.read(run_id) if each.type == "message.completed"]
    return json.loads(message.data["data"]["message"]["content"])


def allow(api: Any, run_id: str) -> dict[str, Any]:
    def is_asked(page: Any) -> bool:
        return [each["run_id"] for each in page["items"]] == [run_id]

    (asked,) = api.until("/api/v1/approvals?status=requested", is_asked)["items"]
    answer = {"decision": "allow_once", "digest": asked["digest"]}
    assert api.post(f"/api/v1/approvals/{asked['approval_id']}/decide", answer).status == 200
    return asked


def test_a_run_requests_every_action_and_gets_the_answers_of_the_program(hall: Any, program: Program) -> None:
    program.results = {name: {"result": {"done": name}} for name in PLATFORM_ACTIONS}
    asked = []
    for call in CALLS:
        run_id = told(hall, call)
        if call[0] in ("friend.request.accept", "group.member.invite", "group.member.remove", "group.member.mute"):
            asked.append(allow(hall, run_id)["capability"])
        answer = said(hall, run_id)
        assert answer["offered"] == sorted({"message.send", "message.edit", *PLATFORM_ACTIONS})
        assert answer["outcomes"] == [{"outcome": "completed", "result": {"done": call[0]}}], call
        records = [each for each in hall.read(run_id) if each.type.startswith("action.")]
        assert [each.type for each in records] == ["action.started", "action.completed"]
        assert records[0].data["data"]["capability"] == f"channel:hall/{call[0]}"
        sent = program.came[-1]
        place = {"target": call[1]["target"]} if "target" in call[1] else {}
        assert (sent["type"], sent["action"], sent["arguments"]) == ("action.requested", call[0], {**call[2], **place})
        assert (sent["run_id"], sent["key"]) == (run_id, f"{run_id}.{sent['call_id']}")
    assert len(asked) == 4, "high risks ask"
    assert len(program.came) == len(CALLS)


def test_wrong_arguments_are_refused_before_anything_is_sent(hall: Any, program: Program) -> None:
    run_id = told(
        hall,
        ("message.recall", GROUP, {}),
        ("message.react", GROUP, {"message": "m1", "reaction": ""}),
        ("group.rename", GROUP, {"name": "x" * 257}),
        ("group.rename", HALL, {"name": "no target"}),
        ("conversation.members", GROUP, {"limit": 0}),
        ("user.info", HALL, {"user": "bob", "password": True}),
        ("message.fly", GROUP, {}),
        ("user.info", {"channel": "other"}, {"user": "bob"}),
        ("user.info", None, {"user": "bob"}),
    )
    codes = [each["code"] for each in said(hall, run_id)["outcomes"]]
    assert codes == [*["invalid_argument"] * 6, "not_found", "not_found", "invalid_argument"]
    assert program.came == []


def test_the_policy_of_an_agent_limits_its_actions(hall: Any, program: Program) -> None:
    save(hall, resources={"platform": {"only": ["message.react"]}})
    answer = said(hall, told(hall, CALLS[1], CALLS[2]))
    assert answer["offered"] == ["message.react"]
    assert [each.get("code") for each in answer["outcomes"]] == [None, "not_found"]
    assert [each["action"] for each in program.came] == ["message.react"]


def test_an_action_that_the_channel_does_not_declare_does_not_exist(hall: Any, program: Program) -> None:
    shown = hall.get("/api/v1/channels/hall").json
    assert hall.put("/api/v1/channels/hall", {**shown, "actions": ["message.pin"]}).status == 200
    answer = said(hall, told(hall, ("user.info", HALL, {"user": "bob"}), CALLS[2]))
    assert [each.get("code") for each in answer["outcomes"]] == ["not_found", None]
    assert len(program.came) == 1


def test_the_program_refuses_an_action_with_its_own_sentence(hall: Any, program: Program) -> None:
    program.results = {"message.pin": {"error": "only administrators pin messages"}}
    (outcome,) = said(hall, told(hall, CALLS[2]))["outcomes"]
    assert outcome["code"] == "tool_failed"
    assert "only administrators pin messages" in outcome["message"]


def test_an_unusable_answer_leaves_the_outcome_unknown_and_the_action_is_not_repeated(
    hall: Any, program: Program
) -> None:
    program.results = {name: {"result": "x" * CHANNEL_ANSWER_BYTES} for name in ("message.pin", "user.info")}
    run_id = told(hall, CALLS[2])
    assert [each["code"] for each in said(hall, run_id)["outcomes"]] == ["outcome_unknown"]
    assert "action.unknown" in [each.type for each in hall.read(run_id)]
    reading = said(hall, told(hall, ("user.info", HALL, {"user": "bob"})))
    assert [each["code"] for each in reading["outcomes"]] == ["tool_failed"]
    assert [each["action"] for each in program.came] == ["message.pin", "user.info"]
