"""Fires the ticks of all schedules from one heap.

The events of ticks are the only memory: the id of the last event says how far a schedule is settled, so that a restart
neither loses nor repeats a tick.
"""

import asyncio
import heapq
from collections.abc import Mapping
from itertools import count, islice

import structlog

from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.saved_resources import Saved
from bollard.host.schedules import limits
from bollard.host.schedules.dispatch import DispatchProblem, Key, ScheduleTimer, TickDispatcher
from bollard.host.schedules.planner import SECOND_MS, read_utc
from bollard.host.schedules.repository import ScheduleRepository
from bollard.host.schedules.schedule import Schedule
from bollard.host.schedules.tick import source_of
from bollard.host.store.store import Store

_log = structlog.get_logger("bollard.schedules")


class Ticker:
    """One task for all schedules. `run` returns when it is cancelled."""

    def __init__(
        self,
        repository: ScheduleRepository,
        *,
        dispatcher: TickDispatcher,
        store: Store,
        clock: Clock,
        catch_up_s: float = limits.CATCH_UP_S,
    ) -> None:
        """Ticks that are older than `catch_up_s` are not looked at: their events may have been deleted."""
        self._repository = repository
        self._dispatcher = dispatcher
        self._store = store
        self._clock = clock
        self._catch_up_ms = round(catch_up_s * SECOND_MS)
        self._timers: dict[Key, ScheduleTimer] = {}
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
                self._tasks.begin(self._dispatch(self._timers[entry[2]]))

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

    def _push(self, timer: ScheduleTimer, wake_ms: int | None) -> None:
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
            timer = self._timers[key] = ScheduleTimer(saved, plan, self._settled(saved, known_ms))
            due = timer.due(self._clock.now_ms())
            self._push(timer, self._clock.now_ms() if due.any else due.wake_ms)

    def _settled(self, saved: Saved[Schedule], known_ms: int) -> int:
        now_ms = self._clock.now_ms()
        return max(min(known_ms, now_ms), saved.value.since_ms, now_ms - self._catch_up_ms)

    def _read_settled(self, keys: list[Key]) -> Mapping[Key, int]:
        """The instants of the last ticks on disk. Blocks."""
        rows = {key: self._store.last_of_source(key[0], source_of(key[1])) for key in keys}
        return {key: read_utc(row.source_id) for key, row in rows.items() if row is not None}

    # --- ticks ---

    async def _dispatch(self, timer: ScheduleTimer) -> None:
        """A defect delays a schedule, and does not end it."""
        wake_ms: int | None = self._clock.now_ms() + round(limits.RETRY_MAX_S * SECOND_MS)
        try:
            async with self._slots:
                wake_ms = await self._dispatcher.settle(timer, lambda: self._timers.get(timer.key) is timer)
        finally:
            self._dispatching -= 1
            self._push(timer, wake_ms)
