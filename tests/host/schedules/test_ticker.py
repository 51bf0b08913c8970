"""The ticker: each tick has one run over restarts, clock jumps and errors, and a missed tick follows its policy."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.doubles.failing_store import FailurePlan, failing
from tests.doubles.memory_store import MemoryStore
from tests.host.schedules.conftest import Times

from bollard.host.errors import Draining, InvalidRequest, Overloaded, StorageUnavailable
from bollard.host.store.store import Store

Open = Callable[[Store], Awaitable[Times]]


async def test_a_schedule_fires_at_each_of_its_instants(store: Store, open_times: Open) -> None:
    times = await open_times(store)
    await times.save(cron="*/2 * * * *")
    await times.go(300)
    assert times.started() == ["09:02:00", "09:04:00"]
    row = times.rows()[0]
    assert (row.type, row.actor_type, row.actor_id) == ("schedule.triggered", "schedule", "s")


async def test_a_tick_and_its_run_are_in_the_place_of_the_schedule(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(at="2026-11-18T09:01:00Z", bot="helper", conversation="team", thread="t1")
    await times.go(60)
    row = times.rows()[0]
    run = memory_store.run(row.run_id or "")
    assert run is not None
    place = ("helper", "team", "t1")
    assert [(each.bot, each.conversation, each.thread) for each in (row, run)] == [place, place]


async def test_an_interval_fires_from_its_save_on_and_ends_at_until(
    open_times: Open, memory_store: MemoryStore
) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60, until="2026-11-18T09:02:30Z")
    await times.go(600)
    assert times.started() == ["09:01:00", "09:02:00"]


async def test_one_instant_fires_once(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(at="2026-11-18T17:01:00+08:00")
    await times.go(600)
    assert times.started() == ["09:01:00"]
    with pytest.raises(InvalidRequest, match="past"):
        await times.save(at="2026-11-18T17:02:00+08:00")


async def test_a_paused_schedule_never_fires_and_its_pause_has_no_missed_ticks(
    open_times: Open, memory_store: MemoryStore
) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60, paused=True)
    await times.go(300)
    assert times.rows() == []
    await times.save(every_s=60, missed="all")
    await times.go(120)
    assert times.started() == ["09:06:00", "09:07:00"]
    assert times.rejected() == []


async def test_a_deleted_schedule_never_fires(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    await times.go(30)
    await times.repository.delete("default", "s", by="test")
    await times.go(300)
    assert times.rows() == []


async def test_an_edit_of_the_text_keeps_the_ticks(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    await times.go(90)
    await times.save(every_s=60, text="another")
    await times.go(60)
    assert times.started() == ["09:01:00", "09:02:00"]


async def test_a_schedule_of_a_closed_workspace_waits(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    times.open_workspaces.clear()
    await times.go(150)
    times.open_workspaces.add("default")
    await times.go(60)
    assert times.started() == ["09:03:00"]
    assert times.rejected() == []


# --- downtime ---


@pytest.mark.parametrize(
    ("policy", "started", "rejected"),
    [
        ({"missed": "skip"}, ["09:01:00", "09:10:00"], [("09:08:59.999", "missed")]),
        ({"missed": "last"}, ["09:01:00", "09:08:00", "09:09:00", "09:10:00"], [("09:07:59.999", "missed")]),
        (
            {"missed": "all", "missed_limit": 3},
            ["09:01:00", "09:06:00", "09:07:00", "09:08:00", "09:09:00", "09:10:00"],
            [("09:05:59.999", "missed")],
        ),
        ({"missed": "all", "missed_limit": 50}, ["09:01:00", *(f"09:{m:02}:00" for m in range(2, 11))], []),
    ],
)
async def test_missed_ticks_follow_the_policy_and_are_recorded(
    open_times: Open, memory_store: MemoryStore, policy: dict[str, Any], started: list[str], rejected: Any
) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60, grace_s=60, **policy)
    await times.go(60)
    times.clock.advance(9 * 60)
    again = await open_times(memory_store)
    if policy["missed"] == "skip":
        started = [*started[:1], "09:09:00", *started[1:]]
    await again.turn()
    assert again.started() == started
    assert again.rejected() == rejected
    third = await open_times(memory_store)  # nothing is decided twice
    await third.turn()
    assert (third.started(), third.rejected()) == (started, rejected)


async def test_a_long_downtime_leaves_one_record_and_one_run(store: Store, open_times: Open) -> None:
    times = await open_times(store)
    await times.save(cron="* * * * *")
    times.clock.advance(20 * 24 * 3600 + 30)
    again = await open_times(store)
    await again.turn()
    assert len(again.started()) == 2  # the newest missed tick, and the one of this minute
    assert len(again.rejected()) == 1


async def test_a_restart_at_every_point_neither_loses_nor_repeats_a_tick(
    open_times: Open, make_store: Callable[[], Store]
) -> None:
    """The host dies before and after each commit in turn. Then it starts again and completes."""
    for crash_at in range(1, 9):
        store = make_store()
        times = await open_times(store)
        await times.save(every_s=60, missed="all", missed_limit=3, grace_s=1)
        begin_ms = times.clock.now_ms()
        times.clock.advance(5 * 60 + 0.5)
        first = await open_times(store)
        first.intake.crash_at = crash_at
        await first.turn()
        again = await open_times(store)
        await again.turn()
        runs = [row for row in again.rows() if row.run_id is not None]
        minutes = [round((row.event_ms - begin_ms) / 60_000) for row in runs if row.event_ms is not None]
        # Four missed ticks, of which three start, and the one of now. A crash after the record of the skipped tick
        # changes nothing: the others are still the newest three.
        assert minutes == [2, 3, 4, 5], f"crash at {crash_at}"
        assert [code for _, code in again.rejected()] == ["missed"], f"crash at {crash_at}"
        assert len({row.source_id for row in again.rows()}) == len(again.rows())


# --- clock jumps ---


async def test_a_clock_that_is_set_back_repeats_no_tick(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    await times.go(180)
    times.clock.jump(-150)
    await times.go(210)
    assert times.started() == ["09:01:00", "09:02:00", "09:03:00", "09:04:00"]


async def test_a_clock_that_is_set_back_at_a_restart_repeats_no_tick(
    open_times: Open, memory_store: MemoryStore
) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    await times.go(180)
    times.clock.jump(-150)
    again = await open_times(memory_store)
    await again.go(210)
    assert again.started() == ["09:01:00", "09:02:00", "09:03:00", "09:04:00"]


async def test_a_clock_that_jumps_forward_and_back_leaves_no_silent_schedule(
    open_times: Open, memory_store: MemoryStore
) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60, missed="skip", grace_s=30)
    await times.go(60)
    times.clock.jump(24 * 3600)
    await times.turn()
    assert [code for _, code in times.rejected()] == ["missed"]
    times.clock.jump(-24 * 3600)
    await times.go(120)
    assert times.started()[:3] == ["09:01:00", "09:02:00", "09:03:00"]


# --- errors ---


async def test_a_tick_that_cannot_start_is_visible_and_retried(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    times.intake.error = Overloaded("the queue is full", reason="queue_full", hint="wait")
    await times.go(65)
    problem = times.ticker.problem("default", "s")
    assert problem is not None
    shown = problem.to_wire()
    assert (shown["planned_at"], shown["message"]) == ("2026-11-18T09:01:00.000Z", "the queue is full")
    times.intake.error = None
    await times.go(30, step_s=1)
    assert times.started() == ["09:01:00"]
    assert times.ticker.problem("default", "s") is None


@pytest.mark.parametrize("missed", ["skip", "last", "all"])
async def test_a_tick_that_cannot_start_in_its_grace_period_is_recorded_with_the_reason(
    open_times: Open, memory_store: MemoryStore, missed: str
) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=600, grace_s=30, agent_id="nobody", missed=missed)
    await times.go(700, step_s=1)
    assert times.rejected() == [("09:10:00.000", "not_started")]
    again = await open_times(memory_store)
    await again.turn()
    assert times.rejected() == [("09:10:00.000", "not_started")]


async def test_a_draining_host_gives_no_tick_up(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=600, grace_s=10)
    times.intake.error = Draining("the host is draining", reason="host_draining", hint="retry")
    await times.go(700, step_s=5)
    assert times.rows() == []
    assert times.ticker.problem("default", "s") is not None
    again = await open_times(memory_store)
    await again.turn()
    assert again.started() == ["09:10:00"]


async def test_a_tick_that_is_retried_over_a_restart_starts_once(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    times.intake.error = Overloaded("the queue is full", reason="queue_full", hint="wait")
    await times.go(70)
    again = await open_times(memory_store)
    await again.turn()
    assert again.started() == ["09:01:00"]


async def test_a_skipped_tick_does_not_start_because_its_record_failed_first(
    open_times: Open, memory_store: MemoryStore
) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60, missed="skip", grace_s=1)
    times.clock.advance(330)
    times.intake.drop_error = StorageUnavailable("the store is away", reason="test")
    await times.turn()
    assert times.ticker.problem("default", "s") is not None
    times.intake.drop_error = None
    await times.go(20, step_s=1)
    assert times.started() == []
    assert [code for _, code in times.rejected()] == ["missed"]
    assert times.ticker.problem("default", "s") is None


async def test_a_retry_does_not_wait_for_a_clock_that_was_set_back(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    await times.go(50)
    times.intake.error = Overloaded("the queue is full", reason="queue_full", hint="wait")
    await times.go(15)
    times.clock.jump(-4)
    times.intake.error = None
    await times.turn()
    assert times.started() == ["09:01:00"]


async def test_schedules_that_cannot_be_read_at_the_start_are_read_later(
    open_times: Open, memory_store: MemoryStore
) -> None:
    plan = FailurePlan(fail_at=1, only="read.last_of_source")
    times = await open_times(failing(memory_store, plan))
    await times.save(every_s=60)
    await times.ticker.turn()
    assert plan.calls == ["read.last_of_source"]
    await times.go(60)
    assert times.started() == ["09:01:00"]


async def test_two_hosts_on_one_store_fire_a_tick_once(open_times: Open, memory_store: MemoryStore) -> None:
    one = await open_times(memory_store)
    await one.save(every_s=60)
    other = await open_times(memory_store)
    one.clock.advance(61)
    await asyncio.gather(one.turn(), other.turn())
    assert one.started() == ["09:01:00"]


# --- the task ---


async def test_the_task_fires_on_time_and_ends_when_it_is_cancelled(
    open_times: Open, memory_store: MemoryStore, loop_time: Any
) -> None:
    times = await open_times(memory_store)
    task = asyncio.create_task(times.ticker.run())
    await times.save(every_s=60)

    def passed() -> bool:
        times.clock.advance(1)
        return bool(times.started())

    await loop_time.until(passed, 1.0)
    assert times.started()[0] == "09:01:00"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()


async def test_a_schedule_that_is_saved_often_leaves_a_small_heap(open_times: Open, memory_store: MemoryStore) -> None:
    times = await open_times(memory_store)
    for number in range(200):
        await times.save(cron="0 0 1 1 *", text=str(number))
        await times.turn()
    assert len(times.ticker._heap) < 100
