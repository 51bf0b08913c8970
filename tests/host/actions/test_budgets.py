"""Budgets: reserved before and settled after a call, by run, agent, actor and workspace; no amount is spent twice."""

from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.actions.budgets import Budgets, Cost
from bollard.host.agents.policies import BudgetPolicy, Spending
from bollard.host.capabilities.capability import Capability, CapabilityLimits
from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import BudgetExceeded, Overloaded
from bollard.host.scope import Actor

DAY_MS = 24 * 3600 * 1000


def context(run_id: str = "r", agent: str = "a", actor: str = "ann", workspace: str = "w") -> CallContext:
    return CallContext(run_id=run_id, workspace=workspace, agent_id=agent, actor=Actor("user", actor))


def tool(**more: Any) -> Capability:
    fields: dict[str, Any] = {"source": "builtin", **more}
    return Capability(id="tool:t/t", name="t", kind="tool", description="", input_schema={}, **fields)


@pytest.mark.parametrize(
    ("policy", "same", "other"),
    [
        (BudgetPolicy(per_run=Spending(calls=2)), context(), context(run_id="r2")),
        (BudgetPolicy(per_day=Spending(calls=2)), context(run_id="r2", actor="bob"), context(agent="b")),
        (BudgetPolicy(per_actor_day=Spending(calls=2)), context(run_id="r2"), context(actor="bob")),
    ],
)
def test_each_budget_applies_to_its_own_scope(policy: BudgetPolicy, same: CallContext, other: CallContext) -> None:
    budgets = Budgets(ManualClock(DAY_MS * 5))
    for _ in range(2):
        budgets.call(context(), policy, tool(), 1.0).settle(Cost(calls=1))
    with pytest.raises(BudgetExceeded) as refused:
        budgets.call(same, policy, tool(), 1.0)
    assert refused.value.hint
    assert budgets.call(other, policy, tool(), 1.0)


def test_a_workspace_has_one_budget_for_all_its_agents_and_a_new_one_tomorrow() -> None:
    clock = ManualClock(DAY_MS * 5)
    budgets = Budgets(clock, lambda workspace: Spending(calls=1) if workspace == "w" else Spending())
    budgets.call(context(), BudgetPolicy(), tool(), 1.0)
    with pytest.raises(BudgetExceeded, match="workspace"):
        budgets.call(context(run_id="r2", agent="b"), BudgetPolicy(), tool(), 1.0)
    assert budgets.call(context(workspace="other"), BudgetPolicy(), tool(), 1.0)
    clock.advance(24 * 3600)
    assert budgets.call(context(), BudgetPolicy(), tool(), 1.0)


def test_a_reservation_blocks_its_amount_and_returns_the_unused_part() -> None:
    budgets, policy = Budgets(ManualClock(0)), BudgetPolicy(per_run=Spending(cost=1.0, time_s=100.0))
    dear = tool(limits=CapabilityLimits(cost=0.6))
    first = budgets.call(context(), policy, dear, 60.0)
    with pytest.raises(BudgetExceeded):
        budgets.call(context(), policy, dear, 10.0)
    first.release()
    second = budgets.call(context(), policy, dear, 60.0)
    second.settle(Cost(calls=1, cost=0.1, time_s=1.0))
    second.settle(Cost(calls=1, cost=0.1, time_s=1.0))
    assert budgets.call(context(), policy, dear, 60.0), "it cost less than was set aside, and was settled once"
    with pytest.raises(BudgetExceeded):
        budgets.reserve(context(), BudgetPolicy(per_run=Spending(tokens=5)), Cost(tokens=6))


def test_a_capability_has_a_limit_of_calls_per_run_and_an_ended_run_is_forgotten() -> None:
    budgets, twice = Budgets(ManualClock(0)), tool(limits=CapabilityLimits(calls_per_run=2))
    for _ in range(2):
        budgets.call(context(), BudgetPolicy(), twice, 1.0)
    with pytest.raises(BudgetExceeded, match="2 times"):
        budgets.call(context(), BudgetPolicy(), twice, 1.0)
    budgets.forget("r")
    assert budgets.call(context(), BudgetPolicy(), twice, 1.0)


def test_an_external_source_is_called_within_its_rate() -> None:
    clock = ManualClock(0)
    budgets, outside = Budgets(clock, calls_per_minute=2), tool(source="mcp:github")
    for _ in range(2):
        budgets.call(context(), BudgetPolicy(), outside, 1.0)
    with pytest.raises(Overloaded) as refused:
        budgets.call(context(), BudgetPolicy(), outside, 1.0)
    assert refused.value.details["retry_after_s"] > 0  # type: ignore[operator]
    assert budgets.call(context(workspace="other"), BudgetPolicy(), outside, 1.0)
    clock.advance(31)
    assert budgets.call(context(), BudgetPolicy(), outside, 1.0)
