"""Schedules that agents propose through a tool. The instants that a person approved are part of the call."""

import asyncio
from typing import Final

import msgspec

from bollard.host.capabilities.sources import CallContext
from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest
from bollard.host.log.records import RunFacts
from bollard.host.schedules.planner import SECOND_MS, Plan, read_utc
from bollard.host.schedules.repository import ScheduleRepository
from bollard.host.schedules.schedule import ScheduleTiming
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_facts: Final = msgspec.json.Decoder(RunFacts).decode


class ScheduleProposals:
    """Previews schedules, and saves those of a run. A schedule runs the agent of its run, in the same conversation, and
    its answers go to the same place."""

    def __init__(self, repository: ScheduleRepository, store: Store, clock: Clock) -> None:
        self._repository = repository
        self._store = store
        self._clock = clock

    def preview(self, timing: JsonObject) -> list[str]:
        """Raises `InvalidRequest`."""
        checked, now_ms = ScheduleTiming.read(timing), self._clock.now_ms()
        checked.check_times(now_ms)
        return checked.upcoming(now_ms)

    async def propose(self, context: CallContext, schedule_id: str, body: JsonObject, instants: list[str]) -> None:
        """Raises `InvalidRequest` and `Conflict`."""
        if "every_s" in body:  # the steps begin at the approved instant
            body = {"start": instants[0], **body}
        timing = {name: value for name, value in body.items() if name != "text"}
        self._check_instants(ScheduleTiming.read(timing), instants)
        place = await asyncio.to_thread(self._place, context.run_id)
        await self._repository.propose(
            {**body, **place, "agent_id": context.agent_id},
            context.workspace,
            schedule_id,
            run_id=context.run_id,
            by=f"run:{context.run_id}",
        )

    def _check_instants(self, timing: ScheduleTiming, instants: list[str]) -> None:
        """Refuse a schedule that fires at other instants than those that were approved. Some of them may be over."""
        now_ms = self._clock.now_ms()
        try:
            approved = [read_utc(each) for each in instants]
        except (ValueError, OverflowError, OSError):
            approved = []
        if not approved or not _fires_at(timing.plan(min(now_ms, approved[0] - SECOND_MS)), approved, now_ms):
            raise InvalidRequest(
                "next: the schedule has other instants",
                reason="schedule_next",
                hint="call schedule_preview, and pass the instants that it returns",
                field="next",
            )

    def _place(self, run_id: str) -> JsonObject:
        """The conversation of the run, and where its answers go. Blocks."""
        row = self._store.run(run_id)
        if row is None:
            return {}
        place: JsonObject = {name: getattr(row, name) for name in ("bot", "conversation", "thread")}
        target = _facts(row.facts).deliver_to
        if target is not None:
            place["reply_target"] = f"{target.channel}:{target.target}"
        return {name: value for name, value in place.items() if value is not None}


def _fires_at(plan: Plan, approved: list[int], now_ms: int) -> bool:
    return plan.upcoming(approved[0] - SECOND_MS, len(approved)) == approved and (
        approved[0] <= now_ms or plan.after(now_ms) == approved[0]
    )
