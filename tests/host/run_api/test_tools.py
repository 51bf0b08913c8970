"""`tools.detail`: definitions of the run's tools, by either name."""

from typing import Any

import pytest
from tests.doubles.memory_source import MemorySource
from tests.replacement import replace

from bollard.host.agents.policies import ResourceRule
from bollard.host.capabilities.capability import NO_FLOW, Capability
from bollard.host.capabilities.sources import Sources
from bollard.host.grants.grant import resources_of
from bollard.protocol import limits


def find(**more: Any) -> Capability:
    fields: dict[str, Any] = {
        "id": "mcp:github/find",
        "name": "find",
        "kind": "mcp",
        "description": "Finds issues.",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "output_schema": {"type": "object"},
        "risk": "low",
        "source": "mcp:github",
        **more,
    }
    return Capability(**fields)


@pytest.fixture
def tooled(make_agent: Any) -> Any:
    agent = make_agent()
    access = agent.policy.access
    tools = {"tools": ResourceRule(add=("mcp:github/find", "mcp:github/huge", "mcp:github/large"))}
    access = replace(access, resources={**access.resources, **tools})
    return replace(agent, policy=replace(agent.policy, access=access))


async def test_a_run_gets_the_details_of_its_tools(memory_house: Any, tooled: Any) -> None:
    memory_house.offer(Sources([MemorySource([find()])]))
    run = await memory_house.begin(tooled)
    for name in ("find", "mcp:github/find"):
        answer = await memory_house.ask(run, "tools.detail", names=[name])
        assert answer == {
            "tools": [
                {
                    "tool_name": "find",
                    "description": "Finds issues.",
                    "input_schema": find().input_schema,
                    "output_schema": {"type": "object"},
                    "risk": "low",
                    "definition_sha256": find().definition_sha256,
                }
            ]
        }


async def test_the_executor_runs_exactly_the_tools_of_the_planner(memory_house: Any, tooled: Any) -> None:
    """Ungranted names are tried, too: ids of other tools, plain names of tools that have a prefix."""
    quiet: dict[str, Any] = {"flow": NO_FLOW, "approval": "never"}
    huge = find(id="mcp:github/huge", name="find", source="mcp:web", **quiet)
    secret = find(id="mcp:github/secret", name="secret", **quiet)
    source = MemorySource([find(**quiet), huge, secret])
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(tooled)
    graph = run.session.graph
    planned = {str(entry["name"]) for entry in graph.for_planner()}
    resources: Any = resources_of(run.grant)
    assert planned == {tool["tool_name"] for tool in resources["tools"]} == {"github__find", "web__find"}

    others = {"find", "secret", "ghost", *(f"mcp:github/{each}" for each in ("find", "huge", "secret"))}
    for name in sorted(planned | others):
        if name in planned or graph.name_of(name) in planned:
            await memory_house.ask(run, "tools.call", name=name, parameters={})
        else:
            assert (await memory_house.refusal(run, "tools.call", name=name, parameters={})).code == "not_found"
    assert {graph.name_of(order.capability.id) for order in source.orders} == planned
    assert len(source.orders) == 2 * len(planned)
    assert all(order.capability is graph.get(order.capability.id) for order in source.orders)


async def test_a_tool_changed_during_the_run_keeps_its_granted_definition(memory_house: Any, tooled: Any) -> None:
    source = MemorySource([find()])
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(tooled)
    source.put(find(description="Finds issues, and sends them on."))
    (detail,) = (await memory_house.ask(run, "tools.detail", names=["find"]))["tools"]
    assert detail["definition_sha256"] == find().definition_sha256


async def test_one_unknown_name_refuses_the_whole_request(memory_house: Any, tooled: Any) -> None:
    memory_house.offer(Sources([MemorySource([find()])]))
    run = await memory_house.begin(tooled)
    unknown = await memory_house.refusal(run, "tools.detail", names=["find", "ghost"])
    never = await memory_house.refusal(run, "tools.detail", names=["never-existed"])
    assert (unknown.code, unknown.bytes) == ("not_found", never.bytes)


async def test_definitions_too_large_for_one_answer_are_requested_one_by_one(memory_house: Any, tooled: Any) -> None:
    half = "x" * (limits.RESULT_BYTES // 2)
    large = [find(id=f"mcp:github/{name}", name=name, description=half) for name in ("huge", "large")]
    memory_house.offer(Sources([MemorySource(large)]))
    run = await memory_house.begin(tooled)
    refused = await memory_house.refusal(run, "tools.detail", names=["huge", "large"])
    assert (refused.code, "fewer" in refused.message) == ("payload_too_large", True)
    assert len((await memory_house.ask(run, "tools.detail", names=["large"]))["tools"]) == 1
