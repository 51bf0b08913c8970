"""The capabilities of a workspace, the ones of an agent and the reasons, over the API of a real host with a real
worker."""

import json
import textwrap
from typing import Any

import pytest

from bollard.host.settings import Settings

KIT = """
    import json
    from bollard.sdk import RunContext, runner, tool

    NONE = {"reads_private": False, "brings_untrusted": False, "sends_out": False}

    @tool(risk="low", flow=NONE, effects="none")
    def add(a: int, b: int) -> int:
        "Adds."
        return a + b

    @tool()
    def wipe(path: str) -> str:
        "Wipes."
        return path

    @runner(name="default", label="Kit", permissions={"tools": ["detail", "call"]})
    async def kit(ctx: RunContext):
        names = [tool.tool_name for tool in ctx.resources.tools]
        detail = await ctx.api.tools.detail(names) if names else []
        yield ctx.completed(json.dumps({"tools": [each.to_wire() for each in detail]}))
"""
ADD, WIPE = "tool:local/kit/add", "tool:local/kit/wipe"
CALL = {"tools": ["detail", "call"]}


@pytest.fixture(scope="module")
def host(start_module_host: Any, client_of: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("plugins") / "kit.py"
    path.write_text(textwrap.dedent(KIT), encoding="utf-8")
    data = tmp_path_factory.mktemp("data")
    started = start_module_host(Settings(data=data, plugins=(path,), builtin_plugins=False, port=0, grace_s=0.5))
    client = client_of(started.port, started.token)
    client.until("/api/v1/capabilities", lambda page: ADD in [item["id"] for item in page["items"]])
    client.save_agent("careful", "kit/default", access={"permissions": CALL, "resources": {"tools": {"add": [ADD]}}})
    wants = {"tools": {"add": [WIPE, "mcp:nowhere/x"], "only": [ADD, "mcp:nowhere/x"]}}
    client.save_agent("greedy", "kit/default", access={"permissions": CALL, "resources": wants})
    return client


def _explained(host: Any, agent: str, query: str = "") -> dict[str, Any]:
    answer = host.get(f"/api/v1/agents/{agent}/capabilities{query}")
    assert answer.status == 200, answer.body
    return {item["id"]: item for item in answer.json["items"]}


def test_the_workspace_lists_its_capabilities_and_grants_none(host: Any) -> None:
    items = {item["id"]: item for item in host.get("/api/v1/capabilities?limit=100").json["items"]}
    assert (items[ADD]["available"], items[ADD]["risk"], items[ADD]["effects"]) == (True, "low", "none")
    assert items[WIPE]["risk"] == "high"
    assert items[WIPE]["flow"] == {"reads_private": True, "brings_untrusted": True, "sends_out": True}
    assert not any(item["present"] for name, item in _explained(host, "kit").items() if name in (ADD, WIPE))


def test_the_list_is_paged_in_a_stable_order(host: Any) -> None:
    every, cursor = list[str](), ""
    while True:
        page = host.get(f"/api/v1/capabilities?limit=1{cursor}").json
        every += [item["id"] for item in page["items"]]
        if not page["has_more"]:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert every == sorted({*every})
    assert {ADD, WIPE} <= {*every}


def test_an_agent_has_the_capabilities_of_its_policy_with_reasons_in_both_languages(host: Any) -> None:
    item = _explained(host, "careful")[ADD]
    assert (item["present"], item["name"], item["operations"]) == (True, "add", ["tools.call", "tools.detail"])
    assert [reason["layer"] for reason in item["reasons"]][:3] == ["manifest", "policy", "policy"]
    chinese = _explained(host, "careful", "?capability=add&locale=zh_Hans")[ADD]
    assert chinese["reasons"][2]["text"] == f"智能体的策略加入了 {ADD}。"


def test_an_excluded_capability_is_explained_even_if_not_requested(host: Any) -> None:
    found = _explained(host, "greedy")
    assert [reason["text"] for reason in found[WIPE]["reasons"]] == [f"The agent's policy excludes {WIPE}."]
    assert [reason["layer"] for reason in found["mcp:nowhere/x"]["reasons"]] == ["workspace"]
    unasked = _explained(host, "careful", f"?capability={WIPE}")[WIPE]
    assert (unasked["present"], unasked["code"], unasked["risk"]) == (False, "not_found", "high")
    assert [reason["layer"] for reason in unasked["reasons"]] == ["configuration"]
    unheard = _explained(host, "careful", "?capability=tool:x/y")["tool:x/y"]
    assert [reason["layer"] for reason in unheard["reasons"]] == ["configuration", "workspace"]


def test_a_policy_with_a_pattern_is_refused(host: Any) -> None:
    access = {"permissions": CALL, "resources": {"tools": {"add": ["tool:local/kit/*"]}}}
    body = {"runner_id": "plugin:local/kit/default", "policy": {"access": access}}
    refused = host.put("/api/v1/agents/lazy", body)
    assert (refused.status, refused.error["details"]["field"]) == (400, "policy.access.resources.tools")
    assert refused.error["hint"] == "`bollard capabilities` lists the ids"


def test_an_absent_agent_is_not_found(host: Any) -> None:
    assert host.get("/api/v1/agents/nobody/capabilities").status == 404


def test_a_run_sees_exactly_the_graph_of_its_grant(host: Any) -> None:
    graph = host.get("/api/v1/agents/careful/capabilities").json["graph_sha256"]
    run_id = host.tell("careful", "look").json["run_id"]
    (said,) = [event for event in host.read(run_id) if event.type == "message.completed"]
    (detail,) = json.loads(said.data["data"]["message"]["content"])["tools"]
    listed = _explained(host, "careful")[ADD]
    assert (detail["tool_name"], detail["definition_sha256"]) == ("add", listed["definition_sha256"])
    assert detail["input_schema"] == _explained(host, "careful", "?capability=add")[ADD]["input_schema"]
    assert "input_schema" not in listed
    grant = host.get(f"/api/v1/runs/{run_id}/grant").json["grant"]
    assert grant["graph_sha256"] == graph
    assert [*grant["access"]["resources"]["tools"]] == [ADD]
