"""The schedules of a host, put together: repository, ticker, proposals, manual fires and outcomes."""

import asyncio
from collections.abc import Callable
from functools import partial

import msgspec

from bollard.host.channels.registry import ChannelRepository
from bollard.host.clock import Clock
from bollard.host.events.acceptance import Accepted, read_rejection
from bollard.host.events.intake import Intake
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import Saved, SavedChanges
from bollard.host.runs.ids import IdMaker
from bollard.host.schedules.dispatch import TickDispatcher
from bollard.host.schedules.limits import CATCH_UP_S
from bollard.host.schedules.proposals import ScheduleProposals
from bollard.host.schedules.repository import ScheduleRepository
from bollard.host.schedules.schedule import Schedule
from bollard.host.schedules.tick import manual_event, route_of, source_of
from bollard.host.schedules.ticker import Ticker
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class ScheduleParts(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules of a host."""

    repository: ScheduleRepository
    ticker: Ticker
    proposals: ScheduleProposals
    channels: ChannelRepository
    intake: Intake
    store: Store
    clock: Clock
    ids: IdMaker

    async def fire(self, saved: Saved[Schedule]) -> Accepted:
        """Fire a schedule now, also a paused one. Raises `HostError` if no run can start."""
        now_ms = self.clock.now_ms()
        event = manual_event(saved, now_ms, self.ids.next(now_ms), route_of(saved, self.channels))
        return await self.intake.accept(event, saved.value.agent_id, fresh=True)

    async def last(self, saved: Saved[Schedule]) -> JsonObject | None:
        """The outcome of the last tick."""
        return await asyncio.to_thread(self._last, saved)

    def _last(self, saved: Saved[Schedule]) -> JsonObject | None:
        row = self.store.last_of_source(saved.workspace, source_of(saved.id))
        if row is None:
            return None
        rejection = read_rejection(self.store, row)
        return {
            "planned_at": row.source_id,
            "event_id": row.event_id,
            "run_id": row.run_id,
            "outcome": "started" if rejection is None else "missed" if rejection.code == "missed" else "not_started",
            "reason": None if rejection is None else rejection.to_wire(),
        }


def open_schedules(
    *,
    journal: Journal,
    store: Store,
    clock: Clock,
    intake: Intake,
    channels: ChannelRepository,
    is_open: Callable[[str], bool],
    event_days: float | None = None,
) -> ScheduleParts:
    """Build the schedules, not loaded yet. `event_days` is how long events are kept: an older tick may have been fired
    although its event is gone."""
    repository = ScheduleRepository(SavedChanges(journal, clock), clock)
    dispatcher = TickDispatcher(
        intake=intake,
        drop=intake.deduplication,
        reply=partial(route_of, channels=channels),
        clock=clock,
        is_open=is_open,
    )
    ticker = Ticker(
        repository,
        dispatcher=dispatcher,
        store=store,
        clock=clock,
        catch_up_s=CATCH_UP_S if event_days is None else min(CATCH_UP_S, event_days * 24 * 3600),
    )
    return ScheduleParts(
        repository=repository,
        ticker=ticker,
        proposals=ScheduleProposals(repository, store, clock),
        channels=channels,
        intake=intake,
        store=store,
        clock=clock,
        ids=IdMaker(),
    )
