"""The session of a run: built with its grant, restored after a restart, never wider in a child run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.doubles.memory_source import MemorySource

from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ConcurrencyPolicy, ResourceRule
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import Sources
from bollard.host.grants.graphs import GRAPH, load_graph
from bollard.host.store.rows import PutKept
from bollard.host.store.store import Store
from bollard.wire import WorkerRun

Stages = Callable[..., Awaitable[Any]]
CALL = {"tools": ("detail", "call"), "agents": ("call",)}
MANIFEST = frozenset({"tools.detail", "tools.call", "agents.call"})


def tool(name: str, **more: Any) -> Capability:
    fields: dict[str, Any] = {"kind": "tool", "description": name, "input_schema": {}, "source": "builtin", **more}
    return Capability(id=f"tool:builtin/{name}", name=name, **fields)


def policy(*tools: str, mode: Any = "queue") -> AgentPolicy:
    return AgentPolicy(
        access=AccessPolicy(permissions=CALL, resources={"tools": ResourceRule(add=tools)}),
        concurrency=ConcurrencyPolicy(mode=mode),
    )


async def waits(worker: Any, run: WorkerRun) -> None:
    await asyncio.Event().wait()


async def test_a_run_that_waited_over_a_restart_has_its_granted_tools(store: Store, stages: Stages) -> None:
    source = MemorySource([tool("now"), tool("exec")])
    first = await stages(store, waits, incarnation="first", sources=Sources([source]))
    first.agent(permissions=MANIFEST, policy=policy("tool:builtin/now"))
    await first.say("one")
    waiting = await first.say("two")
    assert first.row(waiting).status == "queued"

    # The next host has another idea of the tool, and the agent's policy has grown.
    changed = MemorySource([tool("now", description="Now, and more."), tool("exec")])
    then = await stages(store, None, incarnation="second", sources=Sources([changed]))
    then.agent(permissions=MANIFEST, policy=policy("tool:builtin/now", "tool:builtin/exec"))
    queued = then.recovery.queued(then.row(waiting))
    assert queued.session.graph.sha256 == queued.grant.graph_sha256
    assert [entry["name"] for entry in queued.session.graph.for_planner()] == ["now"]
    assert queued.session.graph.get("now") == tool("now")
    assert queued.session.graph == load_graph(store, "default", queued.grant.graph_sha256)


async def test_a_run_with_a_forged_graph_can_call_nothing(memory_store: Store, stages: Stages) -> None:
    first = await stages(memory_store, waits, incarnation="first", sources=Sources([MemorySource([tool("now")])]))
    first.agent(permissions=MANIFEST, policy=policy("tool:builtin/now"))
    await first.say("one")
    waiting = await first.say("two")
    (row,) = memory_store.all_kept(GRAPH, "default")
    with memory_store.write() as transaction:
        transaction.keep([_forged(row)])
    queued = first.recovery.queued(first.row(waiting))
    assert queued.session.graph.for_planner() == []


def _forged(row: Any) -> Any:
    return PutKept(msgspec.structs.replace(row, body=row.body.replace(b'"at_most_once"', b'"none"')))


async def test_a_graph_is_written_once_for_all_its_runs(memory_store: Store, stages: Stages) -> None:
    source = MemorySource([tool("now")])
    stage = await stages(memory_store, waits, sources=Sources([source]))
    stage.agent(permissions=MANIFEST, policy=policy("tool:builtin/now", mode="parallel"))
    first = await stage.say("one")
    (row,) = memory_store.all_kept(GRAPH, "default")
    stage.clock.advance(60)
    second = await stage.say("two")
    assert memory_store.all_kept(GRAPH, "default") == [row]
    assert stage.dispatcher.live[first].session.graph is stage.dispatcher.live[second].session.graph
    source.put(tool("now", description="Another one."))
    await stage.say("three")
    assert len(memory_store.all_kept(GRAPH, "default")) == 2


async def test_a_run_keeps_its_graph_while_the_sources_change(memory_store: Store, stages: Stages) -> None:
    source = MemorySource([tool("now")])
    stage = await stages(memory_store, waits, sources=Sources([source]))
    stage.agent(permissions=MANIFEST, policy=policy("tool:builtin/now"))
    live = stage.dispatcher.live[await stage.say("one")]
    before = live.session.graph
    source.lose("tool:builtin/now", "gone")
    assert live.session.graph is before
    assert live.session.graph.get("now") == tool("now")


@pytest.mark.parametrize(
    ("event", "unattended"),
    [
        ({}, False),
        ({"trigger": "webui"}, False),
        ({"trigger": "platform"}, False),
        ({"trigger": "scheduler"}, True),
        ({"trigger": "webhook"}, True),
        ({"trigger": "system"}, True),
        ({"event_type": "order.created"}, True),
    ],
)
async def test_a_run_is_attended_if_a_user_started_it(
    memory_store: Store, stages: Stages, event: Any, unattended: bool
) -> None:
    stage = await stages(memory_store, waits)
    session = stage.core.maker.session(stage.event(**event), stage.agent(), "run_1")
    assert session.policy.unattended is unattended


async def test_a_child_sees_no_more_than_its_parent_and_has_the_same_approvers(
    memory_store: Store, stages: Stages
) -> None:
    stage = await stages(memory_store, waits, sources=Sources([MemorySource([tool("now"), tool("exec")])]))
    stage.agent(permissions=MANIFEST, policy=policy("tool:builtin/now"))
    parent = stage.dispatcher.live[await stage.say("one")]
    child = stage.agent(agent_id="child", permissions=MANIFEST, policy=policy("tool:builtin/now", "tool:builtin/exec"))
    session = stage.core.maker.session(stage.event(trigger="system", conversation=None), child, "run_c", parent)
    assert [entry["name"] for entry in session.graph.for_planner()] == ["now"]
    assert session.graph.get("now") is parent.session.graph.get("now")
    assert session.grant.graph_sha256 == session.graph.sha256
    assert session.policy.unattended is False
    assert session.graph.explain("tool:builtin/exec").why == "parent"
