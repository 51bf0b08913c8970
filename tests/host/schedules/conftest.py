"""Schedules over a host in memory, or over a real store, with a clock that the test moves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.events.acceptance import Accepted, EventRejection, read_rejection
from bollard.host.log.saved_resources import Saved, SavedChanges
from bollard.host.runs.event import NewEvent
from bollard.host.schedules.dispatch import TickDispatcher
from bollard.host.schedules.planner import read_utc, utc_text
from bollard.host.schedules.repository import ScheduleRepository
from bollard.host.schedules.schedule import Schedule
from bollard.host.schedules.tick import source_of
from bollard.host.schedules.ticker import Ticker
from bollard.host.store.rows import EventRow
from bollard.host.store.store import Store
from bollard.wire import WorkerRun

START = "2026-11-18T09:00:00.000Z"


class Crash(BaseException):
    """Ends a dispatch like the death of the host."""


class Intake:
    """The intake of a stage. A test lets it crash before or after its n-th commit, or fail with an error."""

    def __init__(self, stage: Any) -> None:
        self._stage = stage
        self.crash_at: int | None = None
        self.error: Exception | None = None
        self.drop_error: Exception | None = None
        self._points = 0

    def _point(self) -> None:
        self._points += 1
        if self._points == self.crash_at:
            raise Crash

    async def accept(self, event: NewEvent, agent_id: str | None = None) -> Accepted:
        self._point()
        if self.error is not None:
            raise self.error
        accepted = await self._stage.intake.accept(event, agent_id)
        self._point()
        return accepted

    async def drop(self, event: NewEvent, reason: EventRejection) -> Accepted:
        self._point()
        if self.drop_error is not None:
            raise self.drop_error
        accepted = await self._stage.intake.deduplication.drop(event, reason)
        self._point()
        return accepted


class Times:
    """One start of a host with its schedules."""

    def __init__(self, stage: Any, clock: ManualClock) -> None:
        self.stage = stage
        self.clock = clock
        self.store: Store = stage.store
        self.repository = ScheduleRepository(SavedChanges(stage.journal, clock), clock)
        self.intake = Intake(stage)
        self.open_workspaces = {"default"}
        self.crashed = False
        asyncio.get_running_loop().set_exception_handler(self._note)
        dispatcher = TickDispatcher(
            intake=self.intake,
            drop=self.intake,
            reply=lambda _: None,
            clock=clock,
            is_open=self.open_workspaces.__contains__,
        )
        self.ticker = Ticker(self.repository, dispatcher=dispatcher, store=stage.store, clock=clock)

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), Crash):
            loop.default_exception_handler(context)

    async def open(self) -> None:
        await self.repository.load(self.store)
        self.ticker.open()

    async def save(self, schedule_id: str = "s", **body: Any) -> Saved[Schedule]:
        given: dict[str, Any] = {"agent_id": "parrot", "text": "hello", **body}
        return await self.repository.save(given, "default", schedule_id, by="test")

    async def turn(self) -> None:
        """Everything that is due now is dispatched."""
        await self.ticker.turn()
        while self.ticker.dispatching:  # noqa: ASYNC110 -- the ticker is looked at from outside
            await asyncio.sleep(0)
        await self.ticker.turn()

    async def go(self, seconds: float, step_s: float = 10.0) -> None:
        """Time passes in steps."""
        passed = 0.0
        while passed < seconds:
            self.clock.advance(min(step_s, seconds - passed))
            passed += step_s
            await self.turn()

    def rows(self, schedule_id: str = "s") -> list[EventRow]:
        source = source_of(schedule_id)
        rows = [row for row in self.store.events("default", None, 10_000) if row.source == source]
        return sorted(rows, key=lambda row: row.source_id)

    def started(self, schedule_id: str = "s") -> list[str]:
        """The instants with a run, as times of a day."""
        return [row.source_id[11:19] for row in self.rows(schedule_id) if row.run_id is not None]

    def rejected(self, schedule_id: str = "s") -> list[tuple[str, str]]:
        """Time and code of the ticks without a run."""
        found = [(row, read_rejection(self.store, row)) for row in self.rows(schedule_id)]
        return [(row.source_id[11:23], reason.code) for row, reason in found if reason is not None]


async def _complete(worker: Any, run: WorkerRun) -> None:
    await worker.complete(run)


@pytest.fixture
def at_nine(clock: ManualClock) -> ManualClock:
    clock.jump((read_utc(START) - clock.now_ms()) / 1000)
    assert utc_text(clock.now_ms()) == START
    return clock


@pytest.fixture
async def open_times(stages: Callable[..., Awaitable[Any]], at_nine: ManualClock) -> Callable[..., Awaitable[Times]]:
    """`await open_times(store)` starts a host with its schedules; a second call restarts it on the same store."""
    starts = 0

    async def open_one(store: Store) -> Times:
        nonlocal starts
        starts += 1
        times = Times(await stages(store, _complete, incarnation=f"i{starts}"), at_nine)
        await times.open()
        return times

    return open_one


@pytest.fixture
def make_store(at_nine: ManualClock) -> Callable[[], Store]:
    return lambda: MemoryStore(at_nine)
