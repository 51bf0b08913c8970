"""The built-in tools in a whole host: a real runner calls them through the executor, on one run's own files."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bollard.host.settings import Settings

TOOLER = """
    import json
    from bollard.sdk import AgentAPIException, RunContext, runner

    @runner(name="default", label="Tooler", permissions={"tools": ["detail", "call"], "artifacts": ["read"]})
    async def tooler(ctx: RunContext):
        told = []
        for name, arguments in json.loads(ctx.input.text):
            try:
                arguments = json.loads(json.dumps(arguments).replace("LAST", last_of(told)))
                result = await ctx.api.tools.call(name, arguments)
            except AgentAPIException as refusal:
                told.append({"refused": refusal.error.code, "message": refusal.error.message})
            else:
                told.append(result.to_wire())
        yield ctx.completed(json.dumps([sorted(tool.tool_name for tool in ctx.resources.tools), told]))

    def last_of(told):
        return ((told or [{}])[-1].get("structured") or {}).get("artifact_id", "LAST")
"""
TOOLS = (
    *("now", "calculate", "write", "read", "edit", "glob", "grep", "artifact_read", "artifact_write", "exec"),
    "read_document",
)


@pytest.fixture(scope="module")
def client(start_module_host: Any, client_of: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    plugin = tmp_path_factory.mktemp("plugins") / "tooler.py"
    plugin.write_text(textwrap.dedent(TOOLER), encoding="utf-8")
    data = tmp_path_factory.mktemp("data")
    settings = Settings(data=data, plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)
    host = start_module_host(settings)
    client = client_of(host.port, host.token)
    client.data = data
    client.until_health(lambda health: health["plugins"]["tooler"]["status"] == "ready")
    granted = {"tools": {"add": [f"tool:builtin/{name}" for name in TOOLS]}}
    access = {"permissions": {"tools": ["detail", "call"]}, "resources": granted}
    client.save_agent(
        "tooler", "tooler/default", access=access, approval={"mode": "on_risk", "when_asked": "fail_fast"}
    )
    return client


def calls(client: Any, *asked: tuple[str, dict[str, Any]]) -> tuple[list[str], list[Any], str]:
    """The tools of the run, the outcomes of its calls, and the run."""
    answer = client.tell("tooler", json.dumps(asked))
    assert answer.status in (200, 201, 202), answer.body
    run_id = answer.json["run_id"]
    ended = client.ended(run_id)
    assert ended["status"] == "completed", ended
    said = [event.data for event in client.read(run_id) if event.type == "message.completed"]
    tools, told = json.loads(said[-1]["data"]["message"]["content"])
    return tools, told, run_id


def test_a_run_works_with_its_files_and_artifacts(client: Any) -> None:
    tools, told, run_id = calls(
        client,
        ("calculate", {"expression": "6 * 7"}),
        ("write", {"path": "notes/a.txt", "content": "one\n"}),
        ("edit", {"path": "notes/a.txt", "old": "one", "new": "two"}),
        ("grep", {"pattern": "two"}),
        ("artifact_write", {"name": "a.txt", "path": "notes/a.txt"}),
        ("artifact_read", {"artifact_id": "LAST"}),
        ("read", {"path": "../../../keys/heads.ed25519"}),
        ("read", {"path": "notes/a.txt", "unknown": 1}),
    )
    assert {"calculate", "write", "artifact_write"} <= set(tools)
    words = [each.get("content", [{}])[0].get("text") for each in told]
    assert words[0] == "42"
    assert words[3] == "notes/a.txt:1: two"
    assert words[5] == "two\n"
    assert told[6]["is_error"] is True
    assert "not a path inside" in words[6]
    assert told[7]["refused"] == "invalid_argument"
    assert Path(client.data, "workspaces", run_id, "files", "notes", "a.txt").read_text() == "two\n"
    assert client.get(f"/api/v1/artifacts/{told[4]['structured']['artifact_id']}/content").body == b"two\n"


def test_a_program_waits_for_approval_and_the_level_is_shown(client: Any) -> None:
    """`exec` is of high risk: without an approver no program starts, at any level."""
    level = client.get("/readyz").json["sandbox"]
    tools, told, run_id = calls(client, ("exec", {"command": "echo > ran"}))
    assert ("exec" in tools) == (level != "none")
    assert told[0]["refused"] in ("approval_denied", "approval_required", "capability_denied", "not_found")
    assert not Path(client.data, "workspaces", run_id, "files", "ran").exists()
    offered = {item["id"]: item for item in client.get("/api/v1/capabilities").json["items"]}
    assert "tool:builtin/now" in offered
    assert "tool:builtin/ask_user" in offered  # absent, with its reason


def test_the_calls_of_a_run_are_listed_in_order(client: Any) -> None:
    _, _, run_id = calls(client, ("now", {}), ("calculate", {"expression": 7}), ("calculate", {"expression": "6 * 7"}))
    path = f"/api/v1/runs/{run_id}/calls"
    items = client.until(path, lambda body: len(body["items"]) == 3 and "ended_at" in body["items"][2])["items"]
    assert [(item["name"], item["status"]) for item in items] == [
        ("now", "completed"),
        ("calculate", "rejected"),
        ("calculate", "completed"),
    ]
    assert items[1]["code"] == "invalid_argument"
    assert items[2]["content"] == [{"type": "text", "text": "42"}]
    assert len({item["call_id"] for item in items}) == 3
    first = client.get(f"{path}?limit=2").json
    rest = client.get(f"{path}?limit=2&cursor={first['next_cursor']}").json
    assert [*first["items"], *rest["items"]] == items
    assert client.get("/api/v1/runs/run_of_nobody/calls").status == 404
    assert 'bollard_actions_total{kind="tool",outcome="rejected"}' in client.get("/metrics").body.decode()
