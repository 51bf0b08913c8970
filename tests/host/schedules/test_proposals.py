"""Schedules that agents propose: only those that fire at the approved instants are saved."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.doubles.memory_store import MemoryStore
from tests.host.schedules.conftest import Times
from tests.tables import for_each

from bollard.host.capabilities.sources import CallContext
from bollard.host.errors import InvalidRequest
from bollard.host.schedules.planner import read_utc
from bollard.host.schedules.proposals import ScheduleProposals
from bollard.host.store.store import Store

Open = Callable[[Store], Awaitable[Times]]
THOUGHT_S = 20 * 60 + 1
"""How long a person thinks about an approval."""
CONTEXT = CallContext(run_id="run_1", workspace="default", agent_id="parrot")


@pytest.fixture
async def times(memory_store: MemoryStore, open_times: Open) -> Times:
    return await open_times(memory_store)


@pytest.fixture
def proposals(times: Times) -> ScheduleProposals:
    return ScheduleProposals(times.repository, times.store, times.clock)


@for_each(
    "number, timing",
    enumerate(
        (
            {"cron": "30 9 * * *", "zone": "Asia/Shanghai"},
            {"every_s": 900},
            {"every_s": 900, "start": "2026-11-19T00:00:00Z"},
            {"at": "2026-11-18T10:00:00Z"},
            {"cron": "*/20 * * * *", "until": "2026-11-18T10:00:00Z"},
        )
    ),
)
async def test_a_schedule_fires_at_the_approved_instants_that_are_left(
    times: Times, proposals: ScheduleProposals, number: int, timing: dict[str, Any]
) -> None:
    instants = proposals.preview(timing)
    times.clock.advance(THOUGHT_S)
    await proposals.propose(CONTEXT, f"s{number}", {**timing, "text": "report"}, instants)
    saved, now_ms = times.repository.get("default", f"s{number}").value, times.clock.now_ms()
    left = [each for each in instants if read_utc(each) > now_ms]
    assert saved.upcoming(now_ms, saved.since_ms)[: len(left)] == left
    times.clock.advance(-THOUGHT_S)


@for_each(
    "instants",
    (
        ["2026-11-18T09:15:01+00:00"],
        ["2026-11-18T09:15:00+00:00", "2026-11-18T09:31:00+00:00"],
        ["2026-11-18T09:30:00+00:00"],  # the first one is hidden
        ["soon"],
        ["0001-01-01T00:00:00"],
        ["9999-12-31T23:59:59+00:00"],
    ),
)
async def test_a_schedule_with_other_instants_is_refused(
    times: Times, proposals: ScheduleProposals, instants: list[str]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await proposals.propose(CONTEXT, "s", {"cron": "*/15 * * * *", "text": "report"}, instants)
    assert caught.value.reason == "schedule_next"
    assert times.repository.everywhere() == []
