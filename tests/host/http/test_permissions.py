"""Permissions as sentences: of an agent, of a draft, of a run; in two languages, with the policy behind each."""

from typing import Any

from bollard.host.actions.permissions import WORDS

TOOLS = ["tool:builtin/now"]
RUNNER = "plugin:local/workshop/twofold"


def policy(**resources: Any) -> dict[str, Any]:
    permissions = {"tools": ["call"], "agents": ["call"]}
    return {"access": {"permissions": permissions, "resources": resources}}


def keys(answer: Any) -> list[str]:
    assert answer.status == 200, answer.body
    return [each["key"] for each in answer.json["items"]]


def test_both_languages_have_the_same_keys() -> None:
    assert WORDS["en_US"].keys() == WORDS["zh_Hans"].keys()


def test_an_agent_without_a_policy_may_do_little(shop: Any) -> None:
    shop.save_agent("bare", "workshop/bard")
    found = keys(shop.get("/api/v1/agents/bare/permissions"))
    assert found[:3] == ["history_none", "models_none", "tools_none"]
    assert "sends_none" in found


def test_sentences_name_tools_their_risk_and_the_policy_behind_them(shop: Any) -> None:
    body = {"runner_id": RUNNER, "policy": policy(tools={"add": TOOLS}, agents={"add": ["bare"]})}
    assert shop.put("/api/v1/agents/helper", body).status == 201
    items = {each["key"]: each for each in shop.get("/api/v1/agents/helper/permissions").json["items"]}
    tool = items["tool"]
    assert (tool["text"], tool["risk"], tool["fields"]["id"]) == ("May call `now`.", "low", TOOLS[0])
    assert tool["policy"] == "/policy/access/resources/tools"
    assert items["agents"]["text"] == "May call these agents: bare."
    chinese = shop.get("/api/v1/agents/helper/permissions?locale=zh_Hans").json["items"]
    assert "可以调用 `now`。" in [each["text"] for each in chinese]


def test_a_draft_has_the_permissions_that_it_would_have_when_saved(shop: Any) -> None:
    body = {"runner_id": RUNNER, "policy": {**policy(tools={"add": TOOLS}), "approval": {"mode": "always"}}}
    draft = shop.post("/api/v1/agents/permissions", body)
    assert "tool_asked" in keys(draft)
    assert shop.get("/api/v1/agents/draft").status == 404
    assert shop.put("/api/v1/agents/drafted", body).status == 201
    assert shop.get("/api/v1/agents/drafted/permissions").json == draft.json


def test_a_draft_that_cannot_work_is_refused(shop: Any) -> None:
    for body in ({}, {"runner_id": "plugin:nobody/at/home"}, {"runner_id": RUNNER, "polcy": {}}):
        answer = shop.post("/api/v1/agents/permissions", body)
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), body


def test_the_grant_of_a_run_reads_like_its_agent(shop: Any) -> None:
    shop.save_agent("granted", "workshop/bard")
    run_id = shop.tell("granted", "3").json["run_id"]
    assert shop.get(f"/api/v1/runs/{run_id}/permissions").json == shop.get("/api/v1/agents/granted/permissions").json
    assert shop.get("/api/v1/runs/run_nobody/permissions").status == 404
    assert shop.get("/api/v1/agents/nobody/permissions").status == 404
