"""`bollard capabilities` against a real host, and how its answers are shown."""

import json

import pytest
from rich.console import Console

from bollard.cli.agents.capabilities import EXPLAINED, OFFERED, explained
from bollard.cli.language import load_text
from bollard.cli.terminal.columns import table_of

ADD = {
    "id": "tool:local/kit/add",
    "name": "add",
    "description": "Adds.\nAlways.",
    "risk": "high",
    "flow": {"reads_private": True, "brings_untrusted": False, "sends_out": True},
    "available": True,
}
GONE = {"id": "mcp:github/", "available": False, "reason": "not connected\u202e"}


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def shown(table) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_the_reason_for_a_denied_capability_is_in_the_chosen_language(ask) -> None:
    asked = ("capabilities", "explain", "echo", "mcp:nowhere/x", "--text")
    told = ask(*asked).out
    assert told.startswith("mcp:nowhere/x: cannot be called (unauthorized)\n  manifest: ")
    assert ask(*asked, BOLLARD_LANG="zh_Hans").out.startswith("mcp:nowhere/x：不能调用（unauthorized）\n")
    (item,) = ask("capabilities", "explain", "echo", "mcp:nowhere/x").json["items"]
    assert (item["id"], item["present"], item["code"]) == ("mcp:nowhere/x", False, "unauthorized")


def test_explain_lists_every_requested_capability(ask) -> None:
    agent = ask("agents", "new", "wisher", "--runner", "echo").json
    agent["policy"].setdefault("access", {})["resources"] = {"tools": {"add": ["mcp:nowhere/x"]}}
    ask("agents", "save", "-", stdin=json.dumps(agent))
    told = ask("capabilities", "explain", "wisher", "--text").out
    assert "mcp:nowhere/x" in told
    assert "\ngraph " in told
    assert ask("capabilities", "explain", "echo", "--text").out == "Agent echo requests no capabilities.\n"


def test_an_absent_agent_is_reported_as_not_found(ask) -> None:
    gone = ask("capabilities", "explain", "nobody", "--text")
    assert gone.err == "bollard: the host says: there is no such agent\nhint: `bollard agents` lists them\n"


def test_the_list_is_the_same_with_and_without_its_name(ask) -> None:
    assert ask("capabilities").json == ask("capabilities", "list").json
    assert ask("capabilities", "--text").out == ask("capabilities", "list", "--text").out


def test_offered_capabilities_show_their_risk_and_absent_ones_the_reason() -> None:
    told = shown(table_of("capabilities", OFFERED, [ADD, GONE], load_text("en_US")))
    assert "private, out" in told
    assert "Adds." in told
    assert "Always." not in told
    assert "unavailable: not connected" in told
    assert "\u202e" not in told
    assert "⟪U+202E⟫" in told
    assert "读取私密数据" in shown(table_of("capabilities", OFFERED, [ADD], load_text("zh_Hans")))


def test_a_present_capability_has_its_name_and_an_absent_one_its_reason() -> None:
    text = load_text("en_US")
    yes = {**ADD, "present": True, "operations": ["tools.call"], "reasons": [{"layer": "policy", "text": "It may."}]}
    skill = {"id": "skill:report", "present": True, "operations": ["skills.use"], "reasons": []}
    no = {
        "id": "mcp:x/y",
        "present": False,
        "operations": [],
        "code": "not_found",
        "reasons": [{"layer": "w", "text": "No."}],
    }
    table = shown(table_of("capabilities", EXPLAINED, [yes, skill, no], text))
    assert [line.split()[0] for line in table.splitlines()[1:] if line.strip()] == [
        ADD["id"],
        "skill:report",
        "mcp:x/y",
    ]
    assert "No." in table
    assert "It may." not in table
    assert next(iter(explained(yes, text))) == "tool:local/kit/add: can be called as add"
    assert [*explained(skill, text)] == ["skill:report: granted, but not callable as a tool"]
    assert [*explained(no, text)] == ["mcp:x/y: cannot be called (not_found)", "  w: No."]
