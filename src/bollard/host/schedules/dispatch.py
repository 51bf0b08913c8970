"""Dispatches the due ticks of one schedule: skips, starts and retries them, in order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from bollard.host.clock import Clock
from bollard.host.errors import Draining, HostError
from bollard.host.events.acceptance import Accepted, EventRejection
from bollard.host.log.kill_points import kill_point
from bollard.host.log.saved_resources import Saved
from bollard.host.runs.event import NewEvent, ReplyRoute
from bollard.host.schedules import limits
from bollard.host.schedules.planner import SECOND_MS, DueTicks, Plan, due_ticks, utc_text
from bollard.host.schedules.schedule import Schedule
from bollard.host.schedules.tick import skipped_event, skipped_reason, tick_event
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
class ScheduleTimer:
    """How far a schedule is settled, and the tick that could not start."""

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

    def due(self, now_ms: int) -> DueTicks:
        return due_ticks(self.plan, self.saved.value.rule, self.settled_ms, now_ms)


class TickDispatcher:
    """Turns due ticks into events."""

    def __init__(
        self,
        *,
        intake: TickIntake,
        drop: TickDrop,
        reply: Callable[[Saved[Schedule]], ReplyRoute | None],
        clock: Clock,
        is_open: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`is_open` says whether a workspace is open: a closed one has no ticks."""
        self._intake = intake
        self._drop = drop
        self._reply = reply
        self._clock = clock
        self._is_open = is_open

    async def settle(self, timer: ScheduleTimer, is_current: Callable[[], bool]) -> int | None:
        """Settle the due ticks in order. Returns when the timer wakes again; `None` if it has no further tick, or is
        not current any more."""
        while True:
            if not self._is_open(timer.saved.workspace):
                timer.settled_ms = max(timer.settled_ms, self._clock.now_ms())
                timer.retried_ms = timer.problem = None
            # A tick whose start failed is retried before any policy looks at it again.
            due = timer.due(self._clock.now_ms()) if timer.retried_ms is None else DueTicks(ticks=(timer.retried_ms,))
            if not due.any:
                return due.wake_ms
            try:
                if due.skipped is not None:
                    await self._drop.drop(skipped_event(timer.saved, due.skipped), skipped_reason(due.skipped))
                    kill_point("schedules.after_skip")
                    timer.settled_ms, timer.problem = due.skipped.through_ms, None
                for instant in due.ticks:
                    if not is_current():
                        return None  # changed meanwhile: its new timer goes on
                    await self._start(timer, instant)
                    timer.settled_ms, timer.retried_ms, timer.problem = instant, None, None
            except HostError as error:
                timer.problem = self._failed(timer, error)
                return timer.problem.retry_ms

    async def _start(self, timer: ScheduleTimer, instant: int) -> None:
        """Raises `HostError` if the tick cannot start now and its grace period is not over. A draining host never gives
        a tick up: the next start decides."""
        saved = timer.saved
        event = tick_event(saved, instant, self._reply(saved))
        kill_point("schedules.before_tick")
        try:
            await self._intake.accept(event, saved.value.agent_id)
        except HostError as error:
            now_ms = self._clock.now_ms()
            if timer.retried_ms is None or isinstance(error, Draining):
                timer.retried_ms, timer.retry_until_ms = instant, now_ms + saved.value.rule.grace_ms
            if now_ms < timer.retry_until_ms:
                raise
            await self._drop.drop(event, _rejection(error))
        kill_point("schedules.after_tick")

    def _failed(self, timer: ScheduleTimer, error: HostError) -> DispatchProblem:
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
