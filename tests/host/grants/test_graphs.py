"""The graph of a grant: display, check and call use the same capabilities."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.replacement import replace

from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ResourceRule
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import CALL, CapabilityGraph
from bollard.host.errors import HostError
from bollard.host.grants import access as access_module
from bollard.host.grants.access import compile_access
from bollard.host.grants.check import Allowed, check
from bollard.host.grants.child import narrow
from bollard.host.grants.explanation import concerned, explain_capability
from bollard.host.grants.grant import Grant, GrantLimits, issue_grant, resources_of
from bollard.host.grants.graphs import Graphs, graph_of, load_graph
from bollard.host.grants.offer import Offer, OfferedAgent
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation, revoke
from bollard.host.grants.session import open_session
from bollard.host.reason import Why
from bollard.host.scope import Scope
from bollard.host.store.store import Store

SCOPE = Scope(workspace="default", conversation="here")


def capability(capability_id: str, **more: Any) -> Capability:
    kind, _, path = capability_id.partition(":")
    fields: dict[str, Any] = {
        "id": capability_id,
        "name": path.rpartition("/")[2],
        "kind": kind,
        "description": f"Does {path}.",
        "input_schema": {"type": "object"},
        "source": f"{kind}:{path.partition('/')[0]}",
        **more,
    }
    return Capability(**fields)


NOW, FIND = capability("tool:builtin/now"), capability("mcp:github/find")
OFFERED = (
    NOW,
    FIND,
    capability("mcp:web/find"),
    capability("agent:researcher"),
    capability("skill:report"),
    capability("channel:desk/message.send"),
    capability("channel:bell/message.send"),
)


def offer(*capabilities: Capability, absent: Any = None) -> Offer:
    return Offer.of(
        OfferedAgent(agent_id="researcher"),
        capabilities=capabilities or OFFERED,
        absent={name: Why(reason) for name, reason in (absent or {}).items()},
    )


def agent(*tools: str, permissions: Any = None, **resources: Any) -> Agent:
    """An agent whose policy adds these tools and lets all be called that its manifest lets."""
    granted = {"tools": ("detail", "call"), "agents": ("call",), "platform": ("request",)}
    policy = AccessPolicy(
        permissions=granted if permissions is None else permissions,
        resources={"tools": ResourceRule(add=tools), **resources},
    )
    return Agent(
        agent_id="helper",
        runner_id="plugin:acme/helper/default",
        runner_name="default",
        plugin="acme/helper",
        label={"en_US": "Helper"},
        permissions=frozenset({"tools.detail", "tools.call", "agents.call", "platform.request"}),
        policy=AgentPolicy(access=policy),
    )


def granted(of: Agent, offered: Offer) -> tuple[Grant, CapabilityGraph]:
    access = compile_access(of, offered)
    graph = graph_of(access.rights, offered.capabilities)
    grant = issue_grant(run_id="run-1", access=access, scope=SCOPE, limits=GrantLimits(), graph_sha256=graph.sha256)
    return grant, graph


def shown(grant: Grant) -> dict[str, Any]:
    """`ctx.resources`, as the runner has it."""
    found: Any = resources_of(grant)
    return {each["tool_name"]: each for each in found["tools"]}


def test_planner_and_executor_lack_the_same_tools() -> None:
    of = agent("tool:builtin/now", "mcp:github/find", "mcp:web/find", "mcp:github/ghost")
    grant, graph = granted(of, offer())
    planned = {str(entry["name"]) for entry in graph.for_planner()}
    assert planned == {"now", "github__find", "web__find"} == shown(grant).keys()
    every_name = {*planned, "find", "ghost", *(each.id for each in OFFERED), "mcp:github/ghost"}
    for name in every_name:
        callable_now = check(grant, NOTHING_REVOKED, "tools.call", name) == Allowed()
        assert callable_now == (name in planned or graph.name_of(name) in planned), name
        try:
            found = graph.require(name, CALL)
        except HostError:
            assert not callable_now, name
        else:
            assert callable_now, name
            assert shown(grant)[graph.name_of(found.id) or ""]["definition_sha256"] == found.definition_sha256


def test_a_tool_is_called_by_its_id_or_short_name_and_a_revocation_covers_both() -> None:
    grant, _ = granted(agent("mcp:github/find"), offer())
    revoked = revoke(grant, NOTHING_REVOKED, resources={"tools": ["mcp:github/find"]})
    for name in ("find", "mcp:github/find"):
        assert check(grant, NOTHING_REVOKED, "tools.detail", name) == Allowed()
        assert check(grant, revoked, "tools.call", name) != Allowed()


def test_wildcards_select_no_tool() -> None:
    grant, graph = granted(agent("mcp:github/*", "mcp:github/", "mcp:*", "*"), offer())
    assert (graph.for_planner(), shown(grant)) == ([], {})


def test_agents_skills_and_actions_are_in_the_graph_but_not_tools() -> None:
    of = agent(agents=ResourceRule(add=("researcher",)), skills=ResourceRule(add=("report",)))
    grant, graph = granted(of, offer())
    assert {node.capability.id: sorted(node.operations) for node in graph.nodes} == {
        "agent:researcher": ["agents.call"],
        "skill:report": ["skills.use"],
        "channel:bell/message.send": ["platform.request"],
        "channel:desk/message.send": ["platform.request"],
    }
    assert (graph.for_planner(), shown(grant)) == ([], {})
    both = granted(agent("agent:researcher", agents=ResourceRule(add=("researcher",))), offer())[1]
    assert sorted(both.nodes[0].operations) == ["agents.call", "tools.call", "tools.detail"]
    assert [entry["name"] for entry in both.for_planner()] == ["researcher"]


def test_a_grant_names_its_graph_and_changes_with_it() -> None:
    of = agent("mcp:github/find")
    grant, graph = granted(of, offer())
    risky, _ = granted(of, offer(*(replace(each, risk="critical") for each in OFFERED)))
    assert json.loads(grant.json)["graph_sha256"] == graph.sha256
    assert Grant.from_json(grant.json) == grant
    assert risky.graph_sha256 != grant.graph_sha256
    assert risky.sha256 != grant.sha256


def test_the_same_rights_reuse_one_graph() -> None:
    graphs, of = Graphs(), agent("mcp:github/find")
    first = graphs.of(compile_access(of, offer()), offer())
    assert graphs.of(compile_access(of, offer()), offer()) is first
    assert graphs.of(compile_access(of, offer(NOW)), offer(NOW)) is not first


def test_the_cache_evicts_an_old_graph_for_a_new_one() -> None:
    graphs, of = Graphs(entries=1), agent("mcp:github/find")
    first = graphs.of(compile_access(of, offer()), offer())
    graphs.of(compile_access(of, offer(NOW)), offer(NOW))
    assert graphs.of(compile_access(of, offer()), offer()) is not first


def test_a_definition_changed_since_its_consent_is_absent_with_a_reason() -> None:
    why = "its definition changed since somebody consented to it: consent again"
    grant, graph = granted(agent("tool:builtin/now", "mcp:github/find"), offer(NOW, absent={"mcp:github/find": why}))
    assert [entry["name"] for entry in graph.for_planner()] == ["now"]
    assert (graph.explain("mcp:github/find").why, graph.explain("mcp:github/find").detail) == ("workspace", why)
    found = explain_capability(grant, graph, offer(NOW), "mcp:github/find")
    assert (found.allowed, found.code, found.reasons[0].key) == (False, "not_found", "workspace.absent")
    assert why in found.reasons[0].words("en_US")
    assert why in found.reasons[0].words("zh_Hans")


def test_a_disconnected_server_is_the_reason_for_each_of_its_tools() -> None:
    gone = {"mcp:github/": "the server github is not connected"}
    _, graph = granted(agent("mcp:github/find", "mcp:github/close"), offer(NOW, absent=gone))
    assert {graph.explain(f"mcp:github/{name}").detail for name in ("find", "close")} == {gone["mcp:github/"]}


def _keys(of: Agent, offered: Offer, name: str) -> tuple[bool, list[str]]:
    grant, graph = granted(of, offered)
    found = explain_capability(grant, graph, offered, name)
    assert all(reason.words(language) for reason in found.reasons for language in ("en_US", "zh_Hans"))
    return found.allowed, [reason.key for reason in found.reasons]


def test_every_decision_names_its_layer() -> None:
    find, only = "mcp:github/find", ResourceRule(add=("mcp:github/find",), only=("tool:builtin/now",))
    yes = ["manifest.names", "policy.names", "policy.adds", "workspace.offers", "revocation.none"]
    assert _keys(agent(find), offer(), find) == (True, yes)
    assert _keys(agent(find), offer(), "find") == (True, yes)
    assert _keys(agent(), offer(), find) == (False, ["configuration.lacks"])
    assert _keys(agent(), offer(NOW), find) == (False, ["configuration.lacks", "workspace.lacks"])
    assert _keys(agent(), offer(NOW, absent={find: "off"}), find) == (
        False,
        ["configuration.lacks", "workspace.absent"],
    )
    assert _keys(agent(find), offer(NOW), find) == (False, ["workspace.lacks"])
    assert _keys(agent(tools=only), offer(), find) == (False, ["policy.cuts"])
    assert _keys(agent(find, permissions={}), offer(), find) == (False, ["policy.lacks"])
    silent = replace(agent(find), permissions=frozenset[str]())
    assert _keys(silent, offer(), find) == (False, ["manifest.lacks"])
    looks = agent(find, permissions={"tools": ("detail",)})
    assert _keys(looks, offer(), find) == (False, ["policy.lacks"])
    called = agent(agents=ResourceRule(add=("researcher",)))
    assert _keys(called, offer(), "agent:researcher")[0]
    skilled = agent(skills=ResourceRule(add=("report",)))
    assert _keys(skilled, offer(), "skill:report") == (True, ["policy.adds", "workspace.offers"])
    assert _keys(agent(), offer(), "channel:desk/message.send")[0]


def test_every_present_or_requested_capability_is_explained() -> None:
    grant, graph = granted(agent("mcp:github/find", "mcp:github/ghost"), offer())
    assert concerned(grant, graph) == [
        "channel:bell/message.send",
        "channel:desk/message.send",
        "mcp:github/find",
        "mcp:github/ghost",
    ]


def test_definitions_beyond_the_graph_size_are_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "GRAPH_BYTES", len(FIND.json) + len(NOW.json) - 1)
    grant, graph = granted(agent("mcp:github/find", "tool:builtin/now"), offer())
    assert [entry["name"] for entry in graph.for_planner()] == ["find"]
    assert "give it fewer" in (graph.explain("tool:builtin/now").detail or "")
    found = explain_capability(grant, graph, offer(), "tool:builtin/now")
    assert (found.allowed, found.reasons[0].key) == (False, "workspace.absent")


IDS = ("tool:builtin/now", "mcp:github/find", "mcp:web/find", "agent:researcher", "skill:report")
tools = st.lists(st.sampled_from(IDS), unique=True)


@st.composite
def offers(draw: st.DrawFn) -> Offer:
    """Of each tool one of two definitions, with one of two risks, or none at all."""
    ids = draw(tools)
    made = [
        capability(each, version=draw(st.sampled_from("12")), risk=draw(st.sampled_from(["low", "high"])))
        for each in ids
    ]
    return Offer.of(capabilities=made)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tools, offers(), tools, offers(), tools)
def test_the_graph_of_a_child_is_a_part_of_its_parents_graph(
    above: list[str], then: Offer, below: list[str], now: Offer, taken: list[str]
) -> None:
    grant, graph = granted(agent(*above), then)
    taken = [each for each in taken if each in grant.access.rights.resources.get("tools", {})]
    revoked = Revocation(resources={"tools": frozenset(taken)})
    left = narrow(compile_access(agent(*below), now), grant, revoked)
    child = Graphs().of_child(left, graph)
    held = left.rights.resources.get("tools", {})
    assert {node.capability.id for node in child.nodes} == held.keys()
    for node in child.nodes:
        over = graph.node(node.capability.id)
        assert over is not None
        assert node.capability is over.capability
        assert node.operations <= over.operations
        assert node.capability.id not in taken
        assert held[node.capability.id].name == node.name


def test_a_session_without_its_graph_has_no_calls_and_no_approver() -> None:
    grant, graph = granted(agent("mcp:github/find"), offer())
    session = open_session(grant)
    assert (session.graph.for_planner(), session.policy.unattended) == ([], True)
    assert open_session(grant, graph).graph is graph
    assert (session.context.workspace, session.context.agent_id) == ("default", "helper")


def test_a_graph_is_saved_with_its_first_run_and_read_by_its_digest(store: Store) -> None:
    graphs, (_, graph) = Graphs(), granted(agent("mcp:github/find"), offer())
    rows = graphs.rows("default", graph, 1)
    with store.write() as transaction:
        transaction.keep(rows)
    graphs.written("default", graph)
    assert graphs.rows("default", graph, 2) == []
    assert len(graphs.rows("other", graph, 2)) == 1
    assert load_graph(store, "default", graph.sha256) == graph
    assert load_graph(store, "other", graph.sha256) is None
    empty = granted(agent(), Offer.of())[1]
    assert graphs.rows("default", empty, 1) == []
    assert load_graph(store, "default", empty.sha256) == empty
