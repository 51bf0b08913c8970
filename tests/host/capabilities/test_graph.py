"""The graph: one frozen object for the display and the calls."""

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.capabilities.capability import NO_FLOW, CapabilityLimits
from bollard.host.capabilities.graph import CALL, DETAIL, EMPTY_GRAPH, CapabilityGraph, Node, build_graph
from bollard.host.errors import CapabilityDenied, InvalidRequest, NotFound
from bollard.trust import canonical_json, sha256_of


@pytest.fixture
def nodes(capability: Any) -> list[Node]:
    both = frozenset({CALL, DETAIL})
    return [
        Node(capability=capability("tool:builtin/now", risk="low", flow=NO_FLOW), name="now", operations=both),
        Node(capability=capability("mcp:github/create_issue"), name="create_issue", operations=both),
        Node(capability=capability("tool:builtin/exec"), name="exec", operations=frozenset({DETAIL})),
        Node(
            capability=capability("channel:desk/message.send"),
            name="channel:desk/message.send",
            operations=frozenset({"platform.request"}),
        ),
    ]


def test_the_planner_shows_exactly_the_callable_capabilities(nodes: list[Node]) -> None:
    graph = build_graph(nodes)
    shown = {str(entry["name"]) for entry in graph.for_planner()}
    callable_ids = set[str]()
    for node in nodes:
        for name in (node.name, node.capability.id):
            try:
                callable_ids.add(graph.require(name, CALL).id)
            except CapabilityDenied:
                assert node.name not in shown
    assert {graph.name_of(each) for each in callable_ids} == shown == {"now", "create_issue"}


def test_the_planner_shows_the_schema_that_validates_calls(nodes: list[Node]) -> None:
    graph = build_graph(nodes)
    for entry in graph.for_planner():
        assert entry["input_schema"] is graph.require(str(entry["name"]), CALL).input_schema


def test_a_tool_is_found_by_its_id_and_its_name(nodes: list[Node]) -> None:
    graph = build_graph(nodes)
    assert graph.get("now") is graph.get("tool:builtin/now") is nodes[0].capability
    assert graph.name_of("mcp:github/create_issue") == "create_issue"
    assert [each.id for each in graph.by_kind("tool")] == ["tool:builtin/exec", "tool:builtin/now"]


def test_an_absent_capability_is_not_found_and_a_forbidden_operation_is_denied(nodes: list[Node]) -> None:
    graph = build_graph(nodes)
    with pytest.raises(NotFound):
        graph.require("tool:builtin/ghost", CALL)
    with pytest.raises(CapabilityDenied) as denied:
        graph.require("exec", CALL)
    assert (denied.value.code, bool(denied.value.hint)) == ("capability_denied", True)
    assert graph.require("channel:desk/message.send", "platform.request").kind == "channel"
    assert (graph.get("ghost"), graph.name_of("ghost")) == (None, None)


def test_the_order_of_the_nodes_does_not_change_the_graph(nodes: list[Node]) -> None:
    graph, other = build_graph(nodes), build_graph(reversed(nodes))
    assert graph.json == other.json
    assert graph.for_planner() == other.for_planner()
    assert [str(entry["name"]) for entry in graph.for_planner()] == ["create_issue", "now"]


def test_the_bytes_are_canonical_and_their_digest_is_the_graphs(nodes: list[Node]) -> None:
    graph = build_graph(nodes)
    assert canonical_json(json.loads(graph.json)) == graph.json
    assert sha256_of(graph.json) == graph.sha256


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Does something else."},
        {"input_schema": {"type": "object"}},
        {"version": "2"},
        {"risk": "critical"},
        {"flow": NO_FLOW},
        {"effects": "idempotent"},
        {"approval": "always"},
        {"limits": CapabilityLimits(timeout_s=1)},
    ],
)
def test_every_change_of_a_capability_changes_the_digest(nodes: list[Node], capability: Any, change: Any) -> None:
    issue = replace(nodes[1], capability=capability("mcp:github/create_issue", **change))
    assert build_graph([nodes[0], issue]).sha256 != build_graph(nodes[:2]).sha256


def test_the_definition_covers_the_source_and_not_the_settings_of_operators(capability: Any) -> None:
    plain = capability("tool:builtin/now")
    assert capability("tool:builtin/now", risk="low", approval="always").definition_sha256 == plain.definition_sha256
    for said in ({"name": "then"}, {"source": "mcp:x"}, {"output_schema": {}}, {"version": "2"}, {"description": ""}):
        assert capability("tool:builtin/now", **said).definition_sha256 != plain.definition_sha256


def test_a_graph_reads_back_the_same_and_other_bytes_are_refused(nodes: list[Node]) -> None:
    graph = build_graph(nodes)
    again = CapabilityGraph.from_json(graph.json, graph.sha256)
    assert again == graph
    assert again.for_planner() == graph.for_planner()
    assert again.get("now") == nodes[0].capability
    touched = graph.json.replace(b'"risk":"low"', b'"risk":"medium"')
    assert touched != graph.json
    for text, sha256 in (
        (touched, graph.sha256),
        (graph.json[:-1], graph.sha256),
        (b"{}", sha256_of(b"{}")),
        (b"[]", sha256_of(b"[]")),
    ):
        with pytest.raises(InvalidRequest) as refused:
            CapabilityGraph.from_json(text, sha256)
        assert refused.value.hint


def test_a_graph_explains_present_and_missing_capabilities(nodes: list[Node]) -> None:
    missing: Any = {"mcp:github/delete": ("workspace", "not connected"), "tool:builtin/http_fetch": ("policy", None)}
    graph = build_graph(nodes, missing)
    assert graph.sha256 == build_graph(nodes).sha256
    there = graph.explain("now")
    assert (there.present, there.why, there.capability_id) == (True, "granted", "tool:builtin/now")
    gone = graph.explain("mcp:github/delete")
    assert (gone.present, gone.why, gone.detail) == (False, "workspace", "not connected")
    assert graph.explain("tool:builtin/http_fetch").why == "policy"
    assert graph.explain("tool:builtin/unheard").why == "not_asked"


def test_a_graph_is_immutable(nodes: list[Node]) -> None:
    graph = build_graph(nodes, {"a": ("policy", None)})
    with pytest.raises(FrozenInstanceError):
        graph.nodes = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        graph.missing["b"] = ("policy", None)  # type: ignore[index]
    graph.for_planner().clear()
    assert len(graph.for_planner()) == 2


def test_an_empty_graph_has_no_nodes() -> None:
    assert (len(EMPTY_GRAPH), EMPTY_GRAPH.for_planner()) == (0, [])
    assert CapabilityGraph.from_json(EMPTY_GRAPH.json, EMPTY_GRAPH.sha256) == EMPTY_GRAPH
