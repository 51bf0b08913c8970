"""A tool of a real MCP server, called by a real runner of a whole host, and its records."""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from bollard.host.settings import Settings

PROGRAMS = Path(__file__).parents[1] / "mcp" / "programs"
CALLER = """
    import json

    from bollard.sdk import AgentAPIException, RunContext, runner


    @runner(name="default", label="Caller", permissions={"tools": ["detail", "call"]})
    async def caller(ctx: RunContext):
        try:
            answer = await ctx.api.tools.call(ctx.input.text, {})
        except AgentAPIException as refusal:
            yield ctx.completed(json.dumps({"code": refusal.error.code}))
            return
        yield ctx.completed(json.dumps({"text": "".join(part.text for part in answer.content)}))
"""
NO_FLOW = {"reads_private": False, "brings_untrusted": False, "sends_out": False}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    caller = tmp_path_factory.mktemp("plugins") / "caller.py"
    caller.write_text(textwrap.dedent(CALLER), encoding="utf-8")
    return Settings(
        data=tmp_path_factory.mktemp("data"), plugins=(plugin, caller), builtin_plugins=False, port=0, grace_s=0.5
    )


def told(api: Any, text: str, agent: str = "able") -> tuple[Any, list[Any]]:
    """The last message of the runner, and all records of its run."""
    created = api.tell(agent, text)
    assert created.status == 202, created.body
    records = api.read(created.json["run_id"])
    last = next(each for each in reversed(records) if each.type == "message.completed")
    return json.loads(last.data["data"]["message"]["content"]), records


def connect(api: Any, name: str, mode: str, **terms: Any) -> dict[str, Any]:
    body = {"command": sys.executable, "args": [str(PROGRAMS / "hostile.py"), mode]}
    assert api.put(f"/api/v1/mcp-servers/{name}", body).status == 201
    (tool,) = api.post(f"/api/v1/mcp-servers/{name}/refresh", {}).json["tools"]
    yes = {"name": tool["name"], "definition_sha256": tool["definition_sha256"], **terms}
    answer = api.post(f"/api/v1/mcp-servers/{name}/consent", {"tools": [yes]})
    assert answer.status == 200, answer.body
    return answer.json["tools"][0]


def test_a_run_calls_only_consented_and_granted_tools(api: Any) -> None:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    tool = connect(api, "plain", "plain", risk="low", flow=NO_FLOW, effects="none")
    connect(api, "dies", "dies", risk="low", flow=NO_FLOW)
    permissions = {"tools": ["detail", "call"]}
    granted = {"tools": {"add": ["mcp:plain/act", "mcp:dies/act"]}}
    api.save_agent("able", "caller/default", access={"permissions": permissions, "resources": granted})
    api.save_agent("bare", "caller/default", access={"permissions": permissions})
    said, records = told(api, "mcp:plain/act")
    assert said == {"text": "acted"}
    started = next(each.data["data"] for each in records if each.type == "action.started")
    assert (started["capability"], started["definition_sha256"]) == ("mcp:plain/act", tool["definition_sha256"])
    assert "code" in told(api, "mcp:plain/act", agent="bare")[0], "nobody granted it"
    # A server that dies in a call: the outcome is unknown, and the run learns that.
    said, records = told(api, "mcp:dies/act")
    assert said == {"code": "outcome_unknown"}
    assert [each.type for each in records if each.type.startswith("action.")] == ["action.started", "action.unknown"]
    # Without its consent the tool is absent, with a reason.
    api.post("/api/v1/mcp-servers/plain/consent", {"withdraw": ["act"]})
    assert "code" in told(api, "mcp:plain/act")[0]
    absent = {each["id"]: each for each in api.get("/api/v1/capabilities").json["items"]}["mcp:plain/act"]
    assert (absent["available"], "has no consent yet" in absent["reason"]) == (False, True)
