"""The calls of a run, as `bollard runs show` lists them."""

import json

import pytest
from tests.tables import for_each

from bollard.cli.runs.calls import calls_of

ASKED = {"approval_id": "apr_1", "call_id": "call_1", "capability": "mcp:letters/send", "name": "send"}
TOOL = {
    "call_id": "call_1",
    "capability": "mcp:letters/send",
    "name": "send",
    "status": "completed",
    "started_at": 12.0,
    "duration_ms": 30.0,
    "approval_id": "apr_1",
}


def record(type_: str, at: float, **data) -> dict:
    return {"type": type_, "created_at": at, "data": data}


def test_models_retrievals_and_tools_are_listed_in_starting_order() -> None:
    calls = calls_of(
        [TOOL],
        [
            record("model.called", 20.0, model_id="gpt", status="failed", latency_ms=5000.0, reason="timeout"),
            record("api.called", 11.0, action="knowledge.retrieve", outcome="ok", ms=500.0, resource="handbook"),
            record("api.called", 11.0, action="history.page", outcome="ok", ms=1.0),
            record("model.called", 30.0),  # dropped by retention
        ],
    )
    assert [(call["kind"], call["name"], call["status"], call["started_at"]) for call in calls] == [
        ("retrieval", "handbook", "completed", 10.5),
        ("mcp", "send", "completed", 12.0),
        ("model", "gpt", "failed", 15.0),
    ]
    assert calls[2]["code"] == "timeout"


@for_each(
    ("types", "status", "approval"),
    [
        (["requested"], "waiting", "requested"),
        (["requested", "granted"], "waiting", "granted"),
        (["requested", "denied"], "rejected", "denied"),
        (["requested", "expired"], "rejected", "expired"),
    ],
)
def test_a_call_that_was_not_made_has_the_state_of_its_approval(types, status, approval) -> None:
    (call,) = calls_of([], [record(f"approval.{each}", 10.0, **ASKED) for each in types])
    assert (call["status"], call["approval"], call["approval_id"]) == (status, approval, "apr_1")


@pytest.mark.full
def test_a_run_is_shown_with_a_waiting_call_and_then_with_its_outcome(host, bollard, started, tmp_path) -> None:
    agent = {
        "agent_id": "watchmaker",
        "runner_id": "plugin:bollard/demo/default",
        "policy": {
            "access": {"permissions": {"tools": ["call"]}, "resources": {"tools": {"add": ["tool:builtin/now"]}}},
            "approval": {"mode": "always"},
        },
    }
    file = tmp_path / "agent.json"
    file.write_text(json.dumps(agent), encoding="utf-8")
    bollard("agents", "save", str(file), **host.variables)
    chat = started("chat", "--agent", "watchmaker", "--message", "call now {}", "--json", **host.variables)
    asked = next(line for line in map(json.loads, chat.stdout) if line.get("type") == "approval.requested")
    run, approval = asked["run_id"], asked["data"]["approval_id"]
    waiting = bollard("runs", "show", run, "--text", **host.variables).out
    assert waiting.splitlines()[-3] == "calls:"
    assert "now   waiting" in waiting
    assert bollard("runs", "show", run, **host.variables).json["calls"][0]["approval_id"] == approval
    bollard("approvals", "allow", approval, "--yes", **host.variables)
    assert [*chat.stdout][-1]
    calls = bollard("runs", "show", run, **host.variables).json["calls"]
    assert [(call["kind"], call["name"], call["status"], call["approval"]) for call in calls] == [
        ("tool", "now", "completed", "used")
    ]
    shown = bollard("runs", "show", run, "--text", "--lang", "zh_Hans", **host.variables).out
    assert "已允许并执行" in shown
