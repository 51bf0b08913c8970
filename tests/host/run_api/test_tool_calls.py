"""`tools.call`: every call passes the executor, is recorded before it executes, and executes once."""

import asyncio
from typing import Any

import pytest
from tests.doubles.memory_source import MemorySource
from tests.host.run_api.conftest import Refused
from tests.replacement import replace

from bollard.host.agents.policies import ApprovalPolicy, BudgetPolicy, ResourceRule, Spending
from bollard.host.capabilities.capability import NO_FLOW, Capability, CapabilityLimits, Flow
from bollard.host.capabilities.sources import CallOrder, CallResult, Sources
from bollard.host.errors import OutcomeUnknown, ToolFailed
from bollard.host.grants.revocation import NOTHING_REVOKED
from bollard.host.log.rebuild import rebuild

PRIVATE = Flow(reads_private=True, brings_untrusted=False, sends_out=False)
OUT = Flow(reads_private=False, brings_untrusted=False, sends_out=True)
WAIT_S = 30


def tool(name: str, **more: Any) -> Capability:
    fields: dict[str, Any] = {
        "id": f"tool:memory/{name}",
        "name": name,
        "kind": "tool",
        "description": name,
        "input_schema": {
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": 10}},
            "additionalProperties": False,
        },
        "risk": "low",
        "flow": NO_FLOW,
        "source": "builtin",
        **more,
    }
    return Capability(**fields)


@pytest.fixture
def with_tools(make_agent: Any) -> Any:
    """An agent that may call these, and its policy."""

    def make(*tools: Capability, approval: Any = None, budget: Any = None) -> Any:
        agent = make_agent()
        added = {"tools": ResourceRule(add=tuple(each.id for each in tools))}
        access = replace(agent.policy.access, resources={**agent.policy.access.resources, **added})
        policy = replace(
            agent.policy, access=access, approval=approval or ApprovalPolicy(), budget=budget or BudgetPolicy()
        )
        return replace(agent, policy=policy)

    return make


async def text(order: CallOrder) -> CallResult:
    return CallResult(content=({"type": "text", "text": f"did {order.arguments.get('text')}"},))


def acted(house: Any, run: Any) -> list[tuple[str, str]]:
    """The log records about the run's calls."""
    rows = house.store.records_of_run(run.facts.run_id, 0, 1000)
    found = [(row.type, row) for row in rows if row.type.startswith("action.")]
    assert all(row.observed for _, row in found)
    return [(kind, house.records(run, kind)[0]["call_id"]) for kind, _ in found]


async def test_a_call_is_recorded_before_its_effect_and_a_repeat_gets_the_same_answer(
    house: Any, with_tools: Any
) -> None:
    seen: list[list[tuple[str, str]]] = []

    async def look(order: CallOrder) -> CallResult:
        seen.append(acted(house, run))
        return await text(order)

    writes = tool("write")
    source = MemorySource([writes], look)
    house.offer(Sources([source]))
    run = await house.begin(with_tools(writes))
    answer = await house.ask(run, "tools.call", name="write", parameters={"text": "a"}, call_id="c1")
    assert seen == [[("action.started", "c1")]]
    assert answer["content"] == [{"type": "text", "text": "did a"}]
    assert (answer["call_id"], answer["is_error"]) == ("c1", False)
    again = await house.ask(run, "tools.call", name="write", parameters={"text": "a"}, call_id="c1")
    assert again == answer
    assert len(source.orders) == 1
    other = await house.refusal(run, "tools.call", name="write", parameters={"text": "b"}, call_id="c1")
    assert other.code == "invalid_argument"
    assert await run.written()
    (started,), (ended,) = house.records(run, "action.started"), house.records(run, "action.completed")
    assert started["arguments"] == {"text": "a"}
    assert (started["definition_sha256"], started["effects"]) == (writes.definition_sha256, "at_most_once")
    assert ended["result_sha256"]
    assert ended["size"] > 0
    row = await asyncio.to_thread(house.store.tool_call, run.facts.run_id, "c1")
    assert (row.status, row.capability, row.arguments_sha256) == (
        "completed",
        "tool:memory/write",
        started["arguments_sha256"],
    )
    await house.end(run)
    before = house.store.dump_projections()
    rebuild(house.store)
    assert house.store.dump_projections() == before


@pytest.mark.parametrize(
    ("name", "parameters", "code"),
    [
        ("nothing", {}, "not_found"),
        ("plain", {"text": 5}, "invalid_argument"),
        ("plain", {"other": "x"}, "invalid_argument"),
        ("plain", {"text": "longer than ten"}, "invalid_argument"),
        ("bad", {}, "capability_denied"),
    ],
)
async def test_an_absent_invalid_or_uncheckable_call_is_not_made(
    memory_house: Any, with_tools: Any, name: str, parameters: Any, code: str
) -> None:
    tools = [tool("plain"), tool("bad", input_schema={"type": "object", "pattern": "(?=look)ahead"})]
    source = MemorySource(tools, text)
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(with_tools(*tools))
    refused = await memory_house.refusal(run, "tools.call", name=name, parameters=parameters)
    assert refused.code == code
    assert source.orders == []


async def test_two_concurrent_calls_with_one_id_are_one_call(memory_house: Any, with_tools: Any) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(order: CallOrder) -> CallResult:
        begun.set()
        await go.wait()
        return await text(order)

    slow = tool("slow")
    source = MemorySource([slow], wait)
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(with_tools(slow))
    asking = [
        asyncio.create_task(memory_house.ask(run, "tools.call", name="slow", parameters={}, call_id="same"))
        for _ in range(3)
    ]
    await asyncio.wait_for(begun.wait(), WAIT_S)
    go.set()
    answers = await asyncio.wait_for(asyncio.gather(*asking), WAIT_S)
    assert answers[0] == answers[1] == answers[2]
    assert len(source.orders) == 1


@pytest.mark.parametrize(
    ("error", "effects", "status", "code", "tries"),
    [
        (ToolFailed("no", reason="test"), "at_most_once", "failed", "tool_failed", 1),
        (OutcomeUnknown("?", reason="test"), "at_most_once", "unknown", "outcome_unknown", 1),
        (OutcomeUnknown("?", reason="test"), "idempotent", "unknown", "outcome_unknown", 2),
        (KeyError("broken"), "at_most_once", "unknown", "outcome_unknown", 1),
    ],
)
async def test_only_calls_without_effects_fail_and_only_repeatable_ones_are_retried(
    memory_house: Any, with_tools: Any, error: Exception, effects: Any, status: str, code: str, tries: int
) -> None:
    async def fail(order: CallOrder) -> CallResult:
        raise error

    bad = tool("bad", effects=effects)
    source = MemorySource([bad], fail)
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(with_tools(bad))
    refused = await memory_house.refusal(run, "tools.call", name="bad", parameters={}, call_id="c")
    assert (refused.code, refused.details["call_id"]) == (code, "c")
    assert len(source.orders) == tries
    assert await run.written()
    assert acted(memory_house, run) == [("action.started", "c"), (f"action.{status}", "c")]


async def test_a_call_that_takes_too_long_is_stopped_with_an_unknown_outcome(
    memory_house: Any, with_tools: Any
) -> None:
    stopped = asyncio.Event()

    async def for_ever(order: CallOrder) -> CallResult:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    slow = tool("slow", limits=CapabilityLimits(timeout_s=0.05))
    memory_house.offer(Sources([MemorySource([slow], for_ever)]))
    run = await memory_house.begin(with_tools(slow))
    refused = await memory_house.refusal(run, "tools.call", name="slow", parameters={}, call_id="c")
    assert refused.code == "outcome_unknown"
    await asyncio.wait_for(stopped.wait(), WAIT_S)


async def test_a_large_output_is_stored_as_an_artifact_with_a_preview(house: Any, with_tools: Any) -> None:
    whole = "word " * 60_000

    async def talk(order: CallOrder) -> CallResult:
        return CallResult(content=({"type": "text", "text": whole},))

    big = tool("big")
    house.offer(Sources([MemorySource([big], talk)]))
    run = await house.begin(with_tools(big))
    answer = await house.ask(run, "tools.call", name="big", parameters={})
    (ref,) = answer["artifact_refs"]
    assert ref["size_bytes"] == len(whole)
    assert answer["content"][0]["text"].startswith("word word")
    assert len(answer["content"][0]["text"]) < 3000
    read = await house.ask(run, "artifacts.read", artifact_id=ref["artifact_id"], offset=0, length=10)
    assert read["content_base64"] == "d29yZCB3b3JkIA=="


async def test_an_unattended_run_with_all_three_flow_bits_is_refused(memory_house: Any, with_tools: Any) -> None:
    """F42 at its third step, without an approver: refused, and not called."""
    reads, sends = tool("reads", flow=PRIVATE), tool("sends", flow=OUT)
    source = MemorySource([reads, sends], text)
    memory_house.offer(Sources([source]))
    agent = with_tools(reads, sends)
    trusted = await memory_house.begin(agent)
    for name in ("reads", "sends"):
        await memory_house.ask(trusted, "tools.call", name=name, parameters={})
    assert len(source.orders) == 2
    fed = await memory_house.begin(agent, trigger="platform", conversation="other")
    await memory_house.ask(fed, "tools.call", name="reads", parameters={})
    refused = await memory_house.refusal(fed, "tools.call", name="sends", parameters={})
    assert refused.code == "approval_denied"
    alone = await memory_house.begin(agent, trigger="webhook", event_type="webhook.received", conversation="third")
    await memory_house.ask(alone, "tools.call", name="reads", parameters={})
    refused = await memory_house.refusal(alone, "tools.call", name="sends", parameters={})
    assert refused.code == "capability_denied"
    assert "sends data out" in refused.message
    assert len(source.orders) == 4


async def test_concurrent_calls_cannot_bypass_the_flow_check(memory_house: Any, with_tools: Any) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(order: CallOrder) -> CallResult:
        begun.set()
        await go.wait()
        return await text(order)

    reads, sends = tool("reads", flow=PRIVATE), tool("sends", flow=OUT)
    memory_house.offer(Sources([MemorySource([reads, sends], wait)]))
    run = await memory_house.begin(with_tools(reads, sends), trigger="platform")
    reading = asyncio.create_task(memory_house.ask(run, "tools.call", name="reads", parameters={}))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    refused = await memory_house.refusal(run, "tools.call", name="sends", parameters={})
    assert refused.code == "approval_denied"
    go.set()
    assert await asyncio.wait_for(reading, WAIT_S)


async def test_risk_needs_an_approval_and_a_policy_can_only_tighten_it(memory_house: Any, with_tools: Any) -> None:
    risky, plain = tool("risky", risk="high"), tool("plain")
    memory_house.offer(Sources([MemorySource([risky, plain], text)]))
    lax = await memory_house.begin(with_tools(risky, plain, approval=ApprovalPolicy(mode="never")))
    assert (await memory_house.refusal(lax, "tools.call", name="risky", parameters={})).code == "approval_denied"
    assert await memory_house.ask(lax, "tools.call", name="plain", parameters={})
    strict = await memory_house.begin(with_tools(plain, approval=ApprovalPolicy(mode="always")), conversation="other")
    assert (await memory_house.refusal(strict, "tools.call", name="plain", parameters={})).code == "approval_denied"


async def stopped(house: Any, run: Any) -> str:
    """Why a run that calls for ever is stopped."""
    while True:
        try:
            await house.ask(run, "tools.call", name="cheap", parameters={})
        except Refused as refused:
            return refused.code


async def test_an_endless_loop_of_calls_ends_at_its_budget(memory_house: Any, with_tools: Any) -> None:
    """F48: a runner that never stops calling."""
    cheap = tool("cheap", limits=CapabilityLimits(cost=0.25))
    source = MemorySource([cheap], text)
    memory_house.offer(Sources([source]))
    budget = BudgetPolicy(per_run=Spending(calls=5), per_day=Spending(cost=2.0))
    agent = with_tools(cheap, budget=budget)
    done: list[int] = []
    for room in ("one", "two", "three"):
        run = await memory_house.begin(agent, conversation=room)
        refused = await stopped(memory_house, run)
        assert refused == "budget_exceeded"
        done.append(len(source.orders))
        await memory_house.end(run)
    assert done == [5, 8, 8], "five of the first run, then the three that the agent's day has left, then none"


async def test_an_ending_run_leaves_no_call_without_an_outcome(memory_house: Any, with_tools: Any) -> None:
    begun = asyncio.Event()

    async def wait(order: CallOrder) -> CallResult:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    slow = tool("slow")
    memory_house.offer(Sources([MemorySource([slow], wait)]))
    run = await memory_house.begin(with_tools(slow))
    asking = asyncio.create_task(memory_house.ask(run, "tools.call", name="slow", parameters={}, call_id="c"))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    await memory_house.end(run)
    assert acted(memory_house, run) == [("action.started", "c"), ("action.unknown", "c")]
    row = memory_house.store.tool_call(run.facts.run_id, "c")
    assert (row.status, row.ended_ms is None) == ("unknown", False)
    asking.cancel()


async def test_a_tool_removed_during_the_run_is_not_called(memory_house: Any, with_tools: Any) -> None:
    plain = tool("plain")
    source = MemorySource([plain], text)
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(with_tools(plain))
    run.revoked = replace(NOTHING_REVOKED, resources={"tools": frozenset({plain.id})})
    assert (await memory_house.refusal(run, "tools.call", name="plain", parameters={})).code == "revoked"
    run.revoked = NOTHING_REVOKED
    source.put(replace(plain, description="another thing"))
    gone = await memory_house.refusal(run, "tools.call", name="plain", parameters={})
    assert gone.code == "tool_failed"
    assert source.orders == []
