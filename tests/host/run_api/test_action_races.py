"""Races of calls: a second call with the same id, the end of the run, a result that cannot be stored, a caller that
gives up. No call executes twice, and every start has an outcome."""

import asyncio
from typing import Any

import pytest
from tests.doubles.memory_source import MemorySource
from tests.replacement import replace

from bollard.host.actions.budgets import Budgets
from bollard.host.actions.call import Call
from bollard.host.actions.call_records import LiveLedger
from bollard.host.actions.executor import Executor
from bollard.host.actions.wrappers import BlobArtifacts
from bollard.host.agents.policies import BudgetPolicy, ResourceRule, Spending
from bollard.host.capabilities.capability import NO_FLOW, Capability, CapabilityLimits
from bollard.host.capabilities.sources import CallOrder, CallResult, Sources
from bollard.host.errors import InvalidRequest

WAIT_S = 30
WRITES = Capability(
    id="tool:memory/write",
    name="write",
    kind="tool",
    description="",
    input_schema={"type": "object"},
    risk="low",
    flow=NO_FLOW,
    limits=CapabilityLimits(calls_per_run=2, cost=1.0),
    source="builtin",
)
SENDS = replace(WRITES, id="tool:memory/send", name="send")


@pytest.fixture
def acting(make_agent: Any) -> Any:
    agent = make_agent()
    rules = {"tools": ResourceRule(add=(WRITES.id, SENDS.id))}
    access = replace(agent.policy.access, resources={**agent.policy.access.resources, **rules})
    budget = BudgetPolicy(per_run=Spending(cost=3.0))
    return replace(agent, policy=replace(agent.policy, access=access, budget=budget))


async def test_a_call_id_belongs_to_one_tool_and_its_arguments(memory_house: Any, acting: Any) -> None:
    source = MemorySource([WRITES, SENDS])
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(acting)
    first = await memory_house.ask(run, "tools.call", name="write", parameters={}, call_id="c1")
    refused = await memory_house.refusal(run, "tools.call", name="send", parameters={}, call_id="c1")
    assert (refused.code, refused.message) == ("invalid_argument", "the call c1 was made of another tool")
    assert await memory_house.ask(run, "tools.call", name=WRITES.id, parameters={}, call_id="c1") == first
    assert [order.capability.id for order in source.orders] == [WRITES.id]


async def test_a_call_id_from_before_a_restart_belongs_to_its_tool_too(memory_house: Any, acting: Any) -> None:
    source = MemorySource([WRITES, SENDS])
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(acting)
    await memory_house.ask(run, "tools.call", name="write", parameters={}, call_id="c1")
    assert await run.written()
    run.epoch = 2  # another process has it now
    memory_house.executor.forget(run.facts.run_id)
    call = Call(name="send", arguments={}, call_id="c1")
    with pytest.raises(InvalidRequest, match="of another tool"):
        await memory_house.executor.execute(run.session, call, LiveLedger(run))
    assert len(source.orders) == 1


class NoRoom:
    """Keeps nothing."""

    async def keep(self, *args: Any, **more: Any) -> Any:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "returned",
    [
        CallResult(content=({"type": "text", "text": "x" * 200_000},)),
        CallResult(content=({"type": "text", "text": "\ud800"},)),
    ],
    ids=["no room for an artifact", "no text"],
)
async def test_a_call_whose_result_cannot_be_stored_ends_as_unknown(
    memory_house: Any, acting: Any, returned: CallResult
) -> None:
    async def act(order: CallOrder) -> CallResult:
        return returned

    memory_house.offer(Sources([MemorySource([WRITES, SENDS], act)]))
    executor = Executor(adapters=memory_house, store=memory_house.store, artifacts=NoRoom(), clock=memory_house.clock)
    run = await memory_house.begin(acting)
    call = Call(name="write", arguments={}, call_id="c1")
    outcome = await executor.execute(run.session, call, LiveLedger(run))
    assert (outcome.status, outcome.code) == ("unknown", "outcome_unknown")
    assert await run.written()
    assert [each["call_id"] for each in memory_house.records(run, "action.unknown")] == ["c1"]
    assert memory_house.store.tool_call(run.facts.run_id, "c1").status == "unknown"


async def test_an_abandoned_call_counts_in_the_budget(memory_house: Any, acting: Any) -> None:
    """F48: a runner that stops waiting in time would call as often as it likes."""
    begun, never = asyncio.Queue[CallOrder](), asyncio.Event()

    async def wait(order: CallOrder) -> CallResult:
        begun.put_nowait(order)
        await never.wait()
        return CallResult()

    memory_house.offer(Sources([MemorySource([WRITES, SENDS], wait)]))
    budgets = Budgets(memory_house.clock)
    executor = Executor(
        adapters=memory_house,
        store=memory_house.store,
        artifacts=BlobArtifacts(memory_house.blobs),
        clock=memory_house.clock,
        budgets=budgets,
    )
    run = await memory_house.begin(acting)
    for number in range(WRITES.limits.calls_per_run or 0):
        call = Call(name="write", arguments={}, call_id=f"c{number}")
        task = asyncio.create_task(executor.execute(run.session, call, LiveLedger(run)))
        await asyncio.wait_for(begun.get(), WAIT_S)
        task.cancel()
        await asyncio.wait([task], timeout=WAIT_S)
        assert task.cancelled()
    more = await executor.execute(run.session, Call(name="write", arguments={}), LiveLedger(run))
    assert (more.status, more.code) == ("rejected", "budget_exceeded")
    assert begun.empty()


async def test_a_run_that_is_being_stopped_starts_no_call(memory_house: Any, acting: Any) -> None:
    """F40: it is stopped in the moment in which its call is allowed, and while that is being written."""
    source = MemorySource([WRITES, SENDS])
    memory_house.offer(Sources([source]))
    run = await memory_house.begin(acting)

    class Stopping(LiveLedger):
        """The run is stopped while the beginning of its call is on the way to the disk."""

        async def write(self, kind: str, data: Any) -> None:
            await super().write(kind, data)
            run.attach(Ended(), lambda _: None)  # type: ignore[arg-type]
            run.cancel("cancelled")

    stopped = await executor_of(memory_house).execute(run.session, Call(name="write", arguments={}), Stopping(run))
    assert (stopped.status, stopped.code) == ("rejected", "cancelled")
    later = await executor_of(memory_house).execute(run.session, Call(name="send", arguments={}), LiveLedger(run))
    assert (later.status, later.code) == ("rejected", "cancelled")
    assert source.orders == []


async def test_a_called_agent_has_its_own_deadline(memory_house: Any, make_agent: Any, loop_time: Any) -> None:
    """It may wait for a user far longer than its calls may take; then its caller waits with it."""
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def wait(order: CallOrder) -> CallResult:
        begun.set()
        await goes_on.wait()
        return CallResult()

    polly = replace(WRITES, id="agent:polly", name="polly", kind="agent", source="agents")
    agent = make_agent()
    rules = {**agent.policy.access.resources, "tools": ResourceRule(add=(polly.id,))}
    access = replace(agent.policy.access, resources=rules)
    memory_house.offer(Sources([MemorySource([polly], wait)]))
    run = await memory_house.begin(replace(agent, policy=replace(agent.policy, access=access)))
    call = Call(name="polly", arguments={}, call_id="c1")
    calling = asyncio.create_task(executor_of(memory_house).execute(run.session, call, LiveLedger(run)))
    await asyncio.wait_for(begun.wait(), WAIT_S)
    loop_time.advance(100 * polly.limits.timeout_s)
    await asyncio.to_thread(lambda: None)  # everything due has happened
    assert not calling.done()
    goes_on.set()
    assert (await asyncio.wait_for(calling, WAIT_S)).status == "completed"


class Ended:
    """A worker that has the run and takes its time to end it."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def cancel(self, reason: str) -> None:
        del reason

    def credit(self, sequence: int) -> None:
        del sequence


def executor_of(house: Any) -> Executor:
    return house.executor
