"""One message on its way into a run that is active: to the disk first, then into the run, or into a run of its own.

While one is on its way, nobody else of its conversation gets a run of their own: it may still need one, and it came
before them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from bollard.host.agents.agent import Agent
from bollard.host.agents.lanes import LaneKey
from bollard.host.clock import Clock
from bollard.host.intake.accepted import Accepted
from bollard.host.intake.places import Places
from bollard.host.intake.steering import Claims, SteeringItem, claim
from bollard.host.log.entries import Duplicate, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import NewRecord
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.event import NewEvent
from bollard.host.runs.live import LiveRun
from bollard.host.store.rows import EventRow

__all__ = ["Giving", "Redispatch"]

KnownBefore = Callable[[EventRow], Awaitable[Accepted]]
"""What the sender of an event is told that is there already."""
Redispatch = Callable[[SteeringItem, Agent], Awaitable[Accepted]]
"""Gives a message that waits on disk a run of its own."""


@dataclass(slots=True)
class _Underway:
    """Messages of one conversation that are on their way."""

    count: int = 0
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Giving:
    """One per host."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        maker: RunMaker,
        dispatcher: Dispatcher,
        claims: Claims,
        places: Places,
        redispatch: Redispatch,
        known_before: KnownBefore,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._maker = maker
        self._dispatcher = dispatcher
        self._claims = claims
        self._places = places
        self._redispatch = redispatch
        self._known_before = known_before
        self._underway: dict[LaneKey, _Underway] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.claimed: Callable[[LiveRun], None] | None = None
        """Told of a run that has got a message."""

    def busy(self, lane: LaneKey | None) -> bool:
        """Whether a message of this conversation is on its way."""
        return lane in self._underway

    async def settled(self, lane: LaneKey) -> None:
        """Wait until none is."""
        await self._underway[lane].settled.wait()

    async def give(self, event: NewEvent, agent: Agent, run_id: str, lane: LaneKey) -> Accepted:
        """Into this run. A sender who goes away meanwhile changes nothing."""
        item = SteeringItem(event_id=f"evt_{self._maker.new_id()}", event=event, claimed_ms=self._clock.now_ms())
        self._claims.put(run_id, item)
        self.count_unread(run_id)
        self._underway.setdefault(lane, _Underway()).count += 1
        task = asyncio.create_task(self._write(item, agent, run_id, lane))
        self._tasks.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: "asyncio.Task[Accepted]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its sender was told, or has gone away and does not want to know

    async def _write(self, item: SteeringItem, agent: Agent, run_id: str, lane: LaneKey) -> Accepted:
        given = False
        try:
            accepted = await self._into(item, agent, run_id)
            given = accepted.steered and accepted.event_id == item.event_id
            return accepted
        finally:
            if not given:
                self._claims.drop(run_id, item.event_id)
                self.count_unread(run_id)
            underway = self._underway[lane]
            underway.count -= 1
            if not underway.count:
                del self._underway[lane]
                underway.settled.set()

    async def _into(self, item: SteeringItem, agent: Agent, run_id: str) -> Accepted:
        event = item.event
        data = event.record(item.event_id, None, waits_for=agent.agent_id)
        record = NewRecord(workspace=agent.workspace, type="event.received", data=data, created_ms=self._clock.now_ms())
        entry = Entry(records=[record], dedupe=(agent.workspace, event.source, event.source_id), size=len(data))
        outcome = await self._journal.commit(entry)
        if isinstance(outcome, Duplicate):
            return await self._known_before(outcome.first)
        kill_point("intake.after_event")
        live = self._dispatcher.live.get(run_id)
        if live is not None and (place := await claim(live, item.event_id)) is not None:
            kill_point("intake.after_claim")
            if self.claimed is not None:
                self.claimed(live)
            return Accepted(event_id=item.event_id, run_id=run_id, first=True, steered=True, place=place)
        return await self._redispatch(item, agent)

    def count_unread(self, run_id: str) -> None:
        self._places.unread(run_id, self._claims.unread(run_id, self._dispatcher.live.get(run_id)))

    async def pull(self, live: LiveRun, limit: int) -> list[SteeringItem]:
        """What a runner asks for at a turn of its own."""
        items = await self._claims.pull(live, limit)
        self.count_unread(live.facts.run_id)
        return items

    def give_back(self, live: LiveRun, items: list[SteeringItem]) -> None:
        """What a runner pulled and gave up before it got it."""
        self._claims.give_back(live, items)
        self.count_unread(live.facts.run_id)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
