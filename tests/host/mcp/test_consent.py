"""The object of a consent, and its suggestions: pure."""

import json
from typing import Any

from tests.tables import for_each

from bollard.host.mcp.consent import Terms, difference, suggested
from bollard.host.mcp.limits import DIFF_LINES
from bollard.host.mcp.servers import SavedMcpServer
from bollard.wire.bridge_frames import ToolSeen


@for_each(
    ("hints", "risk", "effects", "sends_out"),
    [
        ({}, "high", "at_most_once", True),
        ({"read_only": True}, "low", "none", True),
        ({"read_only": True, "open_world": False}, "low", "none", False),
        ({"read_only": False}, "high", "at_most_once", True),
        ({"destructive": False}, "medium", "at_most_once", True),
        ({"destructive": False, "idempotent": True}, "medium", "idempotent", True),
        ({"destructive": True, "idempotent": True, "open_world": False}, "high", "idempotent", False),
    ],
)
def test_hints_of_a_server_give_suggestions_and_missing_hints_the_worst_case(
    hints: dict[str, Any], risk: str, effects: str, sends_out: bool
) -> None:
    terms = suggested(ToolSeen(name="x", **hints))
    assert (terms.risk, terms.effects, terms.flow.sends_out) == (risk, effects, sends_out)
    assert terms.flow.reads_private
    assert terms.flow.brings_untrusted
    assert terms.approval == "on_risk"
    assert Terms() == suggested(ToolSeen(name="x"))


def test_a_difference_names_paths_and_shows_hidden_characters() -> None:
    before = {"description": "Look.", "input_schema": {"properties": {"a": {"type": "string"}, "gone": {}}}}
    after = {
        "description": "Look.\u202e\x1b[2J\u200b",
        "input_schema": {"properties": {"a": {"type": "number"}, "odd.name": {"x": [1]}}},
    }
    found = difference(before, after)
    assert found == (
        '- description: "Look."',
        '+ description: "Look.\\u202e\\u001b[2J\\u200b"',
        "- input_schema.properties.a.type: string",
        "+ input_schema.properties.a.type: number",
        "- input_schema.properties.gone: {}",
        '+ input_schema.properties."odd.name": {"x": [1]}',
    )
    assert difference(before, json.loads(json.dumps(before))) == ()


def test_a_long_difference_is_truncated_with_a_note() -> None:
    found = difference({str(n): n for n in range(5000)}, {str(n): -n for n in range(1, 5000)})
    assert len(found) == DIFF_LINES + 1
    assert found[-1] == f"… and {5000 * 2 - 1 - DIFF_LINES} more lines"


def test_another_endpoint_makes_another_tool_and_another_variable_does_not() -> None:
    here = SavedMcpServer(server_id="x", command="npx", args=["a"])
    assert (
        here.endpoint == SavedMcpServer(server_id="x", command="npx", args=["a"], env={"A": "b"}, timeout_s=5).endpoint
    )
    others = [
        SavedMcpServer(server_id="x", command="npx", args=["a", "b"]),
        SavedMcpServer(server_id="x", command="npx a"),
        SavedMcpServer(server_id="x", url="https://example.org/a"),
        SavedMcpServer(server_id="x", url="https://example.org/b"),
    ]
    assert len({here.endpoint, *(other.endpoint for other in others)}) == 5
