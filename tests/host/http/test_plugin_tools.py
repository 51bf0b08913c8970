"""Tools of plugins, other agents and skills, called by real runners of a whole host through `tools.call`."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.host.http.test_channels import Program

from bollard.host.settings import Settings

KIT = """
    import asyncio
    import json
    import os

    from bollard.sdk import AgentAPIException, RunContext, runner, tool


    @runner(
        name="caller",
        label="Caller",
        permissions={"tools": ["detail", "call"]},
        capabilities=["skill_authoring"],
    )
    async def caller(ctx: RunContext):
        asked = json.loads(ctx.input.text)
        yield ctx.delta("calling ")
        try:
            answer = await ctx.api.tools.call(asked["tool"], asked.get("parameters", {}), call_id=asked.get("id"))
        except AgentAPIException as refusal:
            yield ctx.completed(json.dumps({"code": refusal.error.code, "message": refusal.error.message}))
            return
        said = {"text": "".join(part.text for part in answer.content), "is_error": answer.is_error}
        yield ctx.completed(json.dumps({**said, "structured": answer.structured}))


    @runner(name="plain", label="Plain", permissions={"tools": ["detail", "call"]})
    async def plain(ctx: RunContext):
        tools = [each.tool_name for each in ctx.resources.tools]
        yield ctx.completed(json.dumps({"tools": tools, "skills": [each.skill_name for each in ctx.resources.skills]}))


    @runner(name="sender", label="Sender", permissions={"platform": ["request"]})
    async def sender(ctx: RunContext):
        asked = json.loads(ctx.input.text)
        yield ctx.delta("calling ")
        try:
            done = await ctx.api.platform.request(asked["action"], asked["target"], asked["payload"])
        except AgentAPIException as refusal:
            yield ctx.completed(json.dumps({"code": refusal.error.code, "message": refusal.error.message}))
            return
        yield ctx.completed(json.dumps({"outcome": done.outcome, "result": done.result}))


    @runner(name="asker", label="Asker", permissions={"platform": ["request"]})
    async def asker(ctx: RunContext):
        for asked in json.loads(ctx.input.text):
            yield ctx.action(asked["action"], asked["target"], asked["payload"])
        yield ctx.completed("asked")


    @tool(risk="low", flow={"reads_private": False, "brings_untrusted": False, "sends_out": False}, effects="none")
    def add(a: int, b: int) -> int:
        "Adds."
        return a + b


    @tool(risk="low", flow={"reads_private": False, "brings_untrusted": False, "sends_out": False})
    async def hang() -> str:
        "Hangs."
        print("hanging", flush=True)
        await asyncio.Event().wait()
        return ""
"""
TOOLS = [
    "tool:local/kit/add",
    "tool:local/kit/hang",
    "agent:parrot",
    "tool:builtin/activate",
    "tool:builtin/register_skill",
]
SKILL = "---\nname: report-writer\ndescription: Writes reports.\n---\nBegin with what changed.\n"


@pytest.fixture(scope="module")
def settings(kit_settings: Settings) -> Settings:
    return kit_settings


@pytest.fixture(scope="module")
def kit(api: Any) -> Any:
    """A host with an agent that has the tools, and one that has none."""
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    assert api.put("/api/v1/skills/report-writer", {"files": [{"path": "SKILL.md", "text": SKILL}]}).status == 201
    resources = {"tools": {"add": TOOLS}, "skills": {"add": ["report-writer"]}}
    permissions = {"tools": ["detail", "call"]}
    for name, runner in (("able", "kit/caller"), ("plain", "kit/plain")):
        api.save_agent(name, runner, access={"permissions": permissions, "resources": resources})
    api.save_agent("bare", "kit/caller", access={"permissions": permissions})
    return api


def call(api: Any, agent: str, tool: str, **parameters: Any) -> dict[str, Any]:
    run_id = begun(api, agent, tool, **parameters)
    return said(api, run_id)


def begun(api: Any, agent: str, tool: str, **parameters: Any) -> str:
    created = api.tell(agent, json.dumps({"tool": tool, "parameters": parameters}))
    assert created.status == 202, created.body
    return created.json["run_id"]


def said(api: Any, run_id: str) -> dict[str, Any]:
    (message,) = [each for each in api.read(run_id) if each.type == "message.completed"]
    return json.loads(message.data["data"]["message"]["content"].removeprefix("calling "))


def test_a_plugin_tool_is_called_over_the_connection_and_recorded(kit: Any) -> None:
    run_id = begun(kit, "able", "add", a=20, b=22)
    assert said(kit, run_id)["text"] == "42"
    records = [each for each in kit.read(run_id) if each.type.startswith("action.")]
    assert [each.type for each in records] == ["action.started", "action.completed"]
    started = records[0].data
    assert (started["data"]["capability"], started["data"]["source"]) == ("tool:local/kit/add", "plugin:local/kit")
    assert started["observed"] is True
    assert call(kit, "able", "tool:local/kit/add", a=1, b=1)["text"] == "2"
    assert call(kit, "able", "add", a="one")["code"] == "invalid_argument"


def test_an_ungranted_tool_is_not_found(kit: Any) -> None:
    for name in ("add", "tool:local/kit/add", "no-such-tool"):
        refused = call(kit, "bare", name, a=1, b=1)
        assert refused["code"] == "not_found", refused


def test_a_worker_killed_in_a_tool_call_leaves_an_unknown_outcome(kit: Any) -> None:
    """The tool and the runner that calls it are in one process: the run ends, and the call is never made again."""
    log = "/api/v1/plugins/local/kit/logs"

    def calls(page: Any) -> list[str]:
        return [line["text"] for line in page["items"] if line["text"] == "hanging"]

    run_id = begun(kit, "able", "hang")
    kit.until(log, calls)
    os.kill(kit.get("/api/v1/plugins/local/kit").json["processes"][0]["pid"], signal.SIGKILL)
    events = kit.read(run_id)
    assert [each.type for each in events if each.type.startswith("action.")] == ["action.started", "action.unknown"]
    assert kit.ended(run_id)["status_reason"] == "runner.crashed"
    kit.until_health(lambda health: health["plugins"]["kit"]["status"] == "ready")
    assert call(kit, "able", "add", a=1, b=2)["text"] == "3"
    assert calls(kit.get(log).json) == ["hanging"]


def test_another_agent_is_a_tool_and_its_run_is_a_child(kit: Any) -> None:
    answer = call(kit, "able", "parrot", text="hello there")
    assert (answer["text"].strip(), answer["is_error"]) == ("hello there", False)
    child = kit.get(f"/api/v1/runs/{answer['structured']['run_id']}").json
    assert (child["agent_id"], child["status"]) == ("parrot", "completed")
    assert child["parent_run_id"]
    failed = call(kit, "able", "agent:parrot", text="die")
    assert failed["is_error"]
    assert "runner.crashed" in failed["text"]
    kit.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")


def test_a_run_activates_only_its_granted_skill(kit: Any) -> None:
    assert call(kit, "able", "activate", skill="report-writer")["text"] == "Begin with what changed.\n"
    assert call(kit, "able", "activate", skill="other")["is_error"]


def question_of(api: Any, run_id: str) -> dict[str, Any]:
    def is_asked(page: Any) -> bool:
        return [each["run_id"] for each in page["items"]] == [run_id]

    (asked,) = api.until("/api/v1/approvals?status=requested", is_asked)["items"]
    return asked


def test_a_skill_is_written_only_after_an_approval(kit: Any) -> None:
    skill = {"name": "mine", "description": "Mine.", "body": "Do it."}
    for decision, status in (("deny", 404), ("allow_once", 200)):
        run_id = begun(kit, "able", "register_skill", **skill)
        asked = question_of(kit, run_id)
        assert (asked["capability"], asked["risk"]) == ("tool:builtin/register_skill", "high")
        answer = {"decision": decision, "digest": asked["digest"]}
        decided = kit.post(f"/api/v1/approvals/{asked['approval_id']}/decide", answer)
        assert decided.status == 200, decided.body
        said(kit, run_id)
        assert kit.get("/api/v1/skills/mine").status == status
    saved = kit.get("/api/v1/skills/mine").json
    assert (saved["authored"], saved["versions"][0]["by"], saved["text"]) == (True, "agent:able", "Do it.")
    assert kit.delete("/api/v1/skills/mine").status == 200


def test_a_runner_without_skill_authoring_has_no_tool_for_it(kit: Any) -> None:
    run_id = kit.tell("plain", "what have you got?").json["run_id"]
    has = said(kit, run_id)
    assert sorted(has["tools"]) == ["activate", "add", "hang", "parrot"]
    assert has["skills"] == ["report-writer"]


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.stop()


def ask_platform(api: Any, agent: str, action: str, target: Any, **payload: Any) -> tuple[str, dict[str, Any]]:
    body = json.dumps({"action": action, "target": target, "payload": payload})
    run_id = api.tell(agent, body).json["run_id"]
    return run_id, said(api, run_id)


def test_a_revoked_skill_is_not_activated(kit: Any) -> None:
    resources = {"tools": {"add": ["tool:builtin/activate"]}, "skills": {"add": ["report-writer"]}}
    access = {"permissions": {"tools": ["call"]}, "resources": resources}
    kit.save_agent("watched", "kit/caller", access=access, approval={"mode": "always"})
    run_id = begun(kit, "watched", "activate", skill="report-writer")
    asked = question_of(kit, run_id)
    assert kit.post(f"/api/v1/runs/{run_id}/revoke", {"resources": {"skills": ["report-writer"]}}).status == 200
    answer = {"decision": "allow_once", "digest": asked["digest"]}
    assert kit.post(f"/api/v1/approvals/{asked['approval_id']}/decide", answer).status == 200
    told = said(kit, run_id)
    assert told["is_error"]
    assert told["text"].startswith("an operator revoked the skill")


def test_a_platform_action_passes_the_executor_and_returns_its_outcome(kit: Any, program: Program) -> None:
    kit.save_agent("sender", "kit/sender", access={"permissions": {"platform": ["request"]}})
    room = {"url": program.url, "abilities": {"dedupe": "none", "max_message_size": 100}}
    assert kit.put("/api/v1/channels/room", room).status == 201
    target = {"channel": "room", "target": "lobby"}
    run_id, done = ask_platform(kit, "sender", "message.send", target, text="hello, lobby")
    assert done == {"outcome": "completed", "result": {"channel": "room", "message": "m1"}}
    (came,) = program.until(1)
    assert (came["text"], came["target"], came["run_id"]) == ("hello, lobby", "lobby", run_id)
    kinds = [each.type for each in kit.read(run_id) if each.type.startswith("action.")]
    assert kinds == ["action.started", "action.completed"]
    for wrong, code in (
        (("message.send", target, {"text": "x" * 101}), "invalid_argument"),
        (("message.send", {"channel": "room"}, {"text": "x"}), "invalid_argument"),
        (("message.send", {"channel": "other", "target": "lobby"}, {"text": "x"}), "not_found"),
        (("message.edit", target, {"text": "x", "message": "m1"}), "not_found"),
    ):
        action, where, payload = wrong
        assert ask_platform(kit, "sender", action, where, **payload)[1]["code"] == code, wrong
    program.statuses.append(500)
    assert ask_platform(kit, "sender", "message.send", target, text="again")[1]["code"] == "tool_failed"
    kit.save_agent("quiet", "kit/sender")
    refused = ask_platform(kit, "quiet", "message.send", target, text="no")[1]
    assert refused["code"] == "unauthorized", refused
    assert [each["text"] for each in program.came] == ["hello, lobby", "again"]
    assert call(kit, "able", "channel:room/message.send", target="lobby", text="x")["code"] == "not_found"


@pytest.fixture
def asking(kit: Any, program: Program) -> Any:
    """Requests an action on the platform without waiting for it."""
    kit.save_agent("asker", "kit/asker", access={"permissions": {"platform": ["request"]}})
    assert kit.put("/api/v1/channels/hall", {"url": program.url, "abilities": {"dedupe": "none"}}).status in (200, 201)
    target = {"channel": "hall", "target": "lobby"}

    def ask(agent: str, *texts: str) -> str:
        asked = [{"action": "message.send", "target": target, "payload": {"text": text}} for text in texts]
        return kit.tell(agent, json.dumps(asked)).json["run_id"]

    return ask


@pytest.mark.requirement("P05-36")
def test_an_action_requested_in_a_result_is_executed_before_the_run_ends(
    kit: Any, program: Program, asking: Any
) -> None:
    run_id = asking("asker", "one", "two")
    kinds = [each.type for each in kit.read(run_id)]
    assert kinds.count("action.requested") == kinds.count("action.started") == kinds.count("action.completed") == 2
    assert kinds[-1] == "run.ended"
    assert kit.ended(run_id)["status"] == "completed"
    assert sorted(each["text"] for each in program.came) == ["one", "two"]


@pytest.mark.requirement("P05-36")
def test_an_action_in_a_result_is_refused_like_a_call(kit: Any, program: Program, asking: Any) -> None:
    kit.save_agent("quiet", "kit/asker")
    run_id = asking("quiet", "no")
    records = kit.read(run_id)
    (denied,) = [each.data["data"] for each in records if each.type == "api.denied"]
    assert (denied["action"], denied["outcome"]) == ("platform.request", "unauthorized")
    assert records[-1].data["data"]["status"] == "completed"
    assert program.came == []


def test_a_run_with_a_hanging_action_can_be_cancelled_and_its_outcome_is_unknown(
    kit: Any, program: Program, asking: Any
) -> None:
    program.gate.clear()
    run_id = asking("asker", "slow")
    program.until(1)
    assert kit.post(f"/api/v1/runs/{run_id}/cancel", {}).status in (200, 202)
    records = kit.read(run_id)
    program.gate.set()
    assert records[-1].data["data"]["status"] == "cancelled"
    assert "action.unknown" in [each.type for each in records]


def test_the_tools_of_one_workspace_are_absent_from_another(kit: Any) -> None:
    kept = {each["id"] for each in _all(kit) if each["id"].startswith("skill:")}
    assert kept == {"skill:report-writer"}
    assert kit.put("/api/v1/workspaces/second", {}).status in (200, 201)
    foreign = {each["id"] for each in _all(kit, bollard_workspace="second")}
    assert "skill:report-writer" not in foreign


def _all(api: Any, **headers: str) -> list[dict[str, Any]]:
    return api.get("/api/v1/capabilities?limit=100", **headers).json["items"]
