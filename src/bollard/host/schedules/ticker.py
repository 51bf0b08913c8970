"""Fires the ticks of all schedules from one heap.

The events of ticks are the only memory: the id of the last event says how far a schedule is settled, so that a restart
neither loses nor repeats a tick.
"""

import asyncio
import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Protocol

import msgspec
import structlog

from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import Draining, HostError
from bollard.host.events.acceptance import Accepted, EventRejection
from bollard.host.log.kill_points import kill_point
from bollard.host.log.saved_resources import Saved
from bollard.host.runs.event import NewEvent, ReplyRoute
from bollard.host.schedules import limits
from bollard.host.schedules.planner import SECOND_MS, DueTicks, Plan, due_ticks, read_utc, utc_text
from bollard.host.schedules.repository import ScheduleRepository
from bollard.host.schedules.schedule import Schedule
from bollard.host.schedules.tick import skipped_event, skipped_reason, source_of, tick_event
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_log = structlog.get_logger("bollard.schedules")
Key = tuple[str, str]
"""Workspace and id of a schedule."""


class TickIntake(Protocol):
    """The intake of events, as the ticker sees it."""

    async def accept(self, event: NewEvent, agent_id: str | None = None) -> Accepted: ...


class TickDrop(Protocol):
    async def drop(self, event: NewEvent, reason: EventRejection) -> Accepted:
        """Store an event that never gets a run."""
        ...


class DispatchProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why the oldest due tick of a schedule has not started yet."""

    instant: int
    tries: int
    retry_ms: int
    error: HostError

    def to_wire(self) -> JsonObject:
        error = self.error
        return {
            "planned_at": utc_text(self.instant),
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "details": error.details,
            "retry_at": self.retry_ms / SECOND_MS,
        }


@dataclass(slots=True)
class _Timer:
    """One schedule in the heap."""

    saved: Saved[Schedule]
    plan: Plan
    settled_ms: int
    number: int = 0
    """Of its newest entry in the heap; older entries are void."""
    problem: DispatchProblem | None = None
    retried_ms: int | None = None
    """The tick whose start failed."""
    retry_until_ms: int = 0
    """When this tick is given up."""

    @property
    def key(self) -> Key:
        return self.saved.workspace, self.saved.id


class Ticker:
    """One task for all schedules. `run` returns when it is cancelled."""

    def __init__(
        self,
        repository: ScheduleRepository,
        *,
        intake: TickIntake,
        drop: TickDrop,
        reply: Callable[[Saved[Schedule]], ReplyRoute | None],
        store: Store,
        clock: Clock,
        is_open: Callable[[str], bool] = lambda _: True,
        catch_up_s: float = limits.CATCH_UP_S,
    ) -> None:
        """`is_open` says whether a workspace is open. Ticks that are older than `catch_up_s` are not looked at: their
        events may have been deleted."""
        self._repository = repository
        self._intake = intake
        self._drop = drop
        self._reply = reply
        self._store = store
        self._clock = clock
        self._is_open = is_open
        self._catch_up_ms = round(catch_up_s * SECOND_MS)
        self._timers: dict[Key, _Timer] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._numbers = count(1)
        self._changed: dict[Key, None] = {}
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(limits.DISPATCHES_AT_ONCE)
        self._tasks = Background()
        self._seen_ms = 0
        self._dispatching = 0

    def problem(self, workspace: str, schedule_id: str) -> DispatchProblem | None:
        """Why a due tick has not started yet."""
        timer = self._timers.get((workspace, schedule_id))
        return None if timer is None else timer.problem

    @property
    def dispatching(self) -> int:
        """Schedules whose ticks are being dispatched."""
        return self._dispatching

    def open(self) -> None:
        """Hear of every schedule. Called once, after the repository is loaded."""
        self._repository.on_change = self._note
        for saved in self._repository.everywhere():
            self._note(saved.workspace, saved.id)

    async def run(self) -> None:
        self.open()
        try:
            while True:
                await self.turn()
                await self._rest()
        finally:
            await self._tasks.close()

    # --- the heap ---

    async def turn(self) -> None:
        """Plan what has changed, and begin what is due."""
        now_ms = self._clock.now_ms()
        if now_ms < self._seen_ms:
            for key, timer in self._timers.items():  # the clock was set back: the ids of ticks say which were fired
                if timer.settled_ms > now_ms or timer.problem is not None:
                    self._changed[key] = None
        self._seen_ms = now_ms
        while keys := [*islice(self._changed, limits.PLANS_OF_TURN)]:
            for key in keys:
                del self._changed[key]
            try:
                await self._plan(keys)
            except HostError as error:
                _log.warning("schedules cannot be read yet", problem=error.message)
                self._changed |= dict.fromkeys(keys)
                break  # until the next look at the clock
        while self._heap and self._heap[0][0] <= self._clock.now_ms():
            entry = heapq.heappop(self._heap)
            if self._is_valid(entry):
                self._dispatching += 1
                self._tasks.begin(self._handle(self._timers[entry[2]]))

    async def _rest(self) -> None:
        """Wait for the next tick, a change, or the next look at the clock."""
        wait_s = limits.CLOCK_CHECK_S
        if self._heap:
            wait_s = min(wait_s, max(0.0, (self._heap[0][0] - self._clock.now_ms()) / SECOND_MS))
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _note(self, workspace: str, schedule_id: str) -> None:
        self._changed[workspace, schedule_id] = None
        self._wake.set()

    def _push(self, timer: _Timer, wake_ms: int | None) -> None:
        """Wake the timer at this time, or never again."""
        timer.number = next(self._numbers)
        if wake_ms is None or self._timers.get(timer.key) is not timer:
            return
        if len(self._heap) > 2 * len(self._timers) + limits.PLANS_OF_TURN:  # most entries are void
            self._heap = [each for each in self._heap if self._is_valid(each)]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (wake_ms, timer.number, timer.key))
        self._wake.set()

    def _is_valid(self, entry: tuple[int, int, Key]) -> bool:
        _, number, key = entry
        timer = self._timers.get(key)
        return timer is not None and timer.number == number

    async def _plan(self, keys: list[Key]) -> None:
        """Make the timers of schedules that are new or changed, and forget deleted and paused ones."""
        unknown = [key for key in keys if key not in self._timers and self._repository.find(*key) is not None]
        settled = await asyncio.to_thread(self._read_settled, unknown)
        await asyncio.sleep(0)  # other tasks of the host get a turn
        for key in keys:
            saved, timer = self._repository.find(*key), self._timers.pop(key, None)
            if saved is None or saved.value.paused:
                continue
            try:
                plan = saved.value.own_plan(saved.workspace)
            except HostError as error:
                _log.warning("a schedule cannot be planned", schedule=saved.id, problem=error.message)
                continue
            known_ms = settled.get(key, 0) if timer is None else timer.settled_ms
            timer = self._timers[key] = _Timer(saved, plan, self._settled(saved, known_ms))
            due = self._due(timer)
            self._push(timer, self._clock.now_ms() if due.any else due.wake_ms)

    def _settled(self, saved: Saved[Schedule], known_ms: int) -> int:
        now_ms = self._clock.now_ms()
        return max(min(known_ms, now_ms), saved.value.since_ms, now_ms - self._catch_up_ms)

    def _read_settled(self, keys: list[Key]) -> Mapping[Key, int]:
        """The instants of the last ticks on disk. Blocks."""
        rows = {key: self._store.last_of_source(key[0], source_of(key[1])) for key in keys}
        return {key: read_utc(row.source_id) for key, row in rows.items() if row is not None}

    def _due(self, timer: _Timer) -> DueTicks:
        return due_ticks(timer.plan, timer.saved.value.rule, timer.settled_ms, self._clock.now_ms())

    # --- ticks ---

    async def _handle(self, timer: _Timer) -> None:
        """Settle the due ticks of one schedule, in order. A defect delays it, and does not end it."""
        wake_ms: int | None = self._clock.now_ms() + round(limits.RETRY_MAX_S * SECOND_MS)
        try:
            async with self._slots:
                wake_ms = await self._settle(timer)
        finally:
            self._dispatching -= 1
            self._push(timer, wake_ms)

    async def _settle(self, timer: _Timer) -> int | None:
        """Returns when the timer wakes again."""
        while True:
            if not self._is_open(timer.saved.workspace):
                timer.settled_ms = max(timer.settled_ms, self._clock.now_ms())
                timer.retried_ms = timer.problem = None
            # A tick whose start failed is retried before any policy looks at it again.
            due = self._due(timer) if timer.retried_ms is None else DueTicks(ticks=(timer.retried_ms,))
            if not due.any:
                return due.wake_ms
            try:
                if due.skipped is not None:
                    await self._drop.drop(skipped_event(timer.saved, due.skipped), skipped_reason(due.skipped))
                    kill_point("schedules.after_skip")
                    timer.settled_ms = due.skipped.through_ms
                for instant in due.ticks:
                    if self._timers.get(timer.key) is not timer:
                        return None  # changed meanwhile: its new timer goes on
                    await self._start(timer, instant)
                    timer.settled_ms, timer.retried_ms, timer.problem = instant, None, None
            except HostError as error:
                timer.problem = self._failed(timer, error)
                return timer.problem.retry_ms

    async def _start(self, timer: _Timer, instant: int) -> None:
        """Raises `HostError` if the tick cannot start now and its grace period is not over. A draining host never gives
        a tick up: the next start decides."""
        saved = timer.saved
        event = tick_event(saved, instant, self._reply(saved))
        kill_point("schedules.before_tick")
        try:
            await self._intake.accept(event, saved.value.agent_id)
        except HostError as error:
            is_over = timer.retried_ms is not None and self._clock.now_ms() >= timer.retry_until_ms
            if isinstance(error, Draining) or not is_over:
                if timer.retried_ms is None or isinstance(error, Draining):
                    timer.retry_until_ms = self._clock.now_ms() + saved.value.rule.grace_ms
                timer.retried_ms = instant
                raise
            await self._drop.drop(event, _rejection(error))
        kill_point("schedules.after_tick")

    def _failed(self, timer: _Timer, error: HostError) -> DispatchProblem:
        """The oldest due tick cannot start now."""
        now_ms, before = self._clock.now_ms(), timer.problem
        _log.warning("a schedule could not fire", schedule=timer.saved.id, problem=error.message)
        tries = 0 if before is None else before.tries + 1
        wait_s = min(limits.RETRY_MIN_S * 2 ** min(tries, 10), limits.RETRY_MAX_S)
        last_ms = max(timer.retry_until_ms, now_ms + SECOND_MS)
        return DispatchProblem(
            instant=timer.plan.after(timer.settled_ms) or now_ms,
            tries=tries,
            retry_ms=min(now_ms + round(wait_s * SECOND_MS), last_ms),
            error=error,
        )


def _rejection(error: HostError) -> EventRejection:
    message = f"the tick could not start in its grace period: {error.message}"
    return EventRejection(code="not_started", message=message, hint=error.hint)
