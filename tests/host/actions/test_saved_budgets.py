"""Daily spending survives the process; the spending of a run does not."""

from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.actions.budgets import DAY_MS, Budgets, Cost, SavedBudgets
from bollard.host.agents.policies import BudgetPolicy, Spending
from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import BudgetExceeded
from bollard.host.log.entries import Entry
from bollard.host.scope import Actor

CONTEXT = CallContext(workspace="default", run_id="run_1", agent_id="parrot", actor=Actor("user", "ann"))
POLICY = BudgetPolicy(per_run=Spending(calls=100), per_day=Spending(calls=3), per_actor_day=Spending(tokens=50))


@pytest.fixture
async def journal(store: Any, open_journal: Any) -> Any:
    return open_journal(store)


@pytest.fixture
def books(store: Any, journal: Any) -> Any:
    """Makes the budgets of one process after another, over one store."""

    async def book(clock: ManualClock) -> tuple[Budgets, SavedBudgets]:
        budgets = Budgets(clock)
        kept = SavedBudgets(budgets, journal, clock)
        await kept.load(store)
        return budgets, kept

    return book


async def test_a_restart_does_not_reset_daily_budgets(books: Any, journal: Any) -> None:
    clock = ManualClock()
    budgets, kept = await books(clock)
    for _ in range(2):
        budgets.reserve(CONTEXT, POLICY, Cost(calls=1, tokens=30)).settle(Cost(calls=1, tokens=10))
    kept.save()
    await journal.commit(Entry())  # earlier entries are on disk with it
    budgets, kept = await books(clock)
    budgets.reserve(CONTEXT, POLICY, Cost(calls=1, tokens=30)).settle(Cost(calls=1, tokens=30))
    with pytest.raises(BudgetExceeded) as caught:
        budgets.reserve(CONTEXT, POLICY, Cost(calls=1))
    assert caught.value.details["budget"] == "agent"
    with pytest.raises(BudgetExceeded) as caught:
        budgets.reserve(CONTEXT, POLICY, Cost(tokens=1))
    assert caught.value.details["budget"] == "actor"


async def test_the_next_day_has_a_new_budget_also_after_a_restart(books: Any, journal: Any) -> None:
    clock = ManualClock()
    budgets, kept = await books(clock)
    budgets.reserve(CONTEXT, POLICY, Cost(calls=3))
    kept.save()
    await journal.commit(Entry())
    clock.advance(DAY_MS / 1000)
    budgets, _ = await books(clock)
    budgets.reserve(CONTEXT, POLICY, Cost(calls=3))


async def test_only_changed_budgets_are_saved_and_unsaved_ones_are_saved_again(books: Any, journal: Any) -> None:
    budgets, _ = await books(ManualClock())
    assert budgets.changed(10) == {}
    budgets.reserve(CONTEXT, POLICY, Cost(calls=1)).release()
    found = budgets.changed(10)
    assert {key[0] for key in found} == {"agent", "actor"}
    assert budgets.changed(10) == {}
    budgets.unsaved(found)
    assert budgets.changed(1).keys() | budgets.changed(10).keys() == found.keys()
