"""Messages that go into a run which is active already: given to it, pulled by its runner, or dispatched anew (§9).

The event is on disk before it is given to a run. The claim is a record of that run, written under its epoch while it
has not ended: claim and end are decided by the same commits, so a message is in a run or it is not.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.agents.lanes import LaneKey
from bollard.host.clock import Clock
from bollard.host.events.acceptance import Accepted
from bollard.host.events.conversation_queue import ConversationQueue
from bollard.host.log.entries import Duplicate, Entry, ExpectationResult
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.api_call import ConditionalAnswer
from bollard.host.runs.batches import into
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.event import NewEvent
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.start_request import as_given
from bollard.host.store.rows import EventRow
from bollard.protocol import JsonObject, SteeringPull, SteeringPullResult, limits

_ENVELOPE_BYTES: Final = 4096
"""What stands around the messages of one answer, and around each message, at most."""


class SteeringItem(msgspec.Struct, frozen=True, kw_only=True):
    """One message that was given to a run."""

    event_id: str
    event: NewEvent
    claimed_ms: int

    def to_wire(self, run: LiveRun) -> JsonObject:
        """As the runner gets it: what a run of its own would have been told of it, and who claimed it."""
        facts = run.facts
        return {
            "claimed_run_id": facts.run_id,
            "runner_id": facts.runner_id,
            "claimed_at": self.claimed_ms / 1000,
            **as_given(self.event_id, self.event, facts.workspace),
            "metadata": {},
        }


class Claims:
    """The messages that live runs were given, with their contents. Which of them wait, each run's state knows."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, SteeringItem]] = {}

    def put(self, run_id: str, item: SteeringItem) -> None:
        self._items.setdefault(run_id, {})[item.event_id] = item

    def drop(self, run_id: str, event_id: str) -> None:
        items = self._items.get(run_id, {})
        items.pop(event_id, None)
        if not items:
            self._items.pop(run_id, None)

    def unread(self, run_id: str, live: LiveRun | None) -> int:
        """How many the runner has not pulled, with those that are on their way to it. A run that has not begun has
        pulled none."""
        items = self._items.get(run_id, {})
        if live is None:
            return len(items)
        return sum(1 for event_id in items if live.state.claims.get(event_id) != "injected")

    def waiting(self, run: LiveRun) -> list[SteeringItem]:
        """What the runner has not pulled, oldest first."""
        items = self._items.get(run.facts.run_id, {})
        queued = (event_id for event_id, claim in run.state.claims.items() if claim == "queued")
        return [items[event_id] for event_id in queued if event_id in items]

    def forget(self, run_id: str) -> dict[str, SteeringItem]:
        """The run is over: what it had been given."""
        return self._items.pop(run_id, {})

    async def pull(self, run: LiveRun, limit: int) -> list[SteeringItem]:
        """Give waiting messages to the runner: on disk as injected before it sees them. Nothing of a run that ends."""
        if run.state.terminal is not None:
            return []  # it has said its last word: nobody would answer them there
        items = _that_fit(self.waiting(run)[:limit], run)
        landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
        last = len(items) - 1
        for index, item in enumerate(items):
            run.take_in(item.event.flow)
            told = into(landed) if index == last else None
            if not run.note("steering.injected", {"event_id": item.event_id}, told, pressing=index == last):
                return []
        back = partial(self.give_back, run, items)
        run.lending.add(back)
        try:
            if items and await landed is None:
                return []
        except asyncio.CancelledError:
            back()
            raise
        finally:
            run.lending.discard(back)
        return [item for item in items if run.state.claims.get(item.event_id) == "injected"]

    @staticmethod
    def give_back(run: LiveRun, items: list[SteeringItem]) -> None:
        """The runner has not got them: they wait again in their place, for the next pull or the run's end."""
        for item in items:
            if run.state.claims.get(item.event_id) == "injected":
                run.note("steering.queued", {"event_id": item.event_id})


def _that_fit(items: list[SteeringItem], run: LiveRun) -> list[SteeringItem]:
    """As many as one answer holds; the rest waits for the next pull."""
    fitting: list[SteeringItem] = []
    room = limits.CALL_BYTES - _ENVELOPE_BYTES
    for item in items:
        room -= len(encode_data(item.to_wire(run))) + 1
        if room < 0:
            break
        fitting.append(item)
    return fitting


def fits_a_run(event: NewEvent) -> bool:
    """Whether a message can be given to a run at all: one that no answer could hold needs a run of its own."""
    return len(event.record("", None)) <= limits.CALL_BYTES - _ENVELOPE_BYTES


def can_pull(run: LiveRun) -> bool:
    """Whether the runner may still read what came for its run: not once that was taken from it."""
    return not run.revoked.takes("steering.pull", "steering", None)


async def claim(run: LiveRun, event_id: str) -> tuple[int, int] | None:
    """Write into the run that the message is its own: epoch and number of that. `None` when the run ends, is stopped,
    or may not read it any more: then it is not."""
    if run.state.cancel is not None or run.state.terminal is not None or not can_pull(run):
        return None
    landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
    if not run.note("steering.queued", {"event_id": event_id}, into(landed)):
        return None
    place = run.place  # now: by the time it is on disk, others have numbers that no reader knows yet
    return place if await landed is not None else None


# One message on its way into a run that is active: to the disk first, then into the run, or into a run of its own.
#
# While one is on its way, nobody else of its conversation gets a run of their own: it may still need one, and it came
# before them.


KnownBefore = Callable[[EventRow], Awaitable[Accepted]]
"""What the sender of an event is told that is there already."""
Redispatch = Callable[[SteeringItem, Agent], Awaitable[Accepted]]
"""Gives a message that waits on disk a run of its own."""


@dataclass(slots=True)
class _PendingMessages:
    """Messages of one conversation that are on their way."""

    count: int = 0
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class MessageListener(Protocol):
    """Hears of every message that a live run was given. Open questions are answered this way."""

    def message_came(self, run: LiveRun, messages: "SteeringDelivery") -> None: ...


class SteeringDelivery:
    """Gives messages to runs that are active."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        maker: RunMaker,
        dispatcher: Dispatcher,
        claims: Claims,
        places: ConversationQueue,
        redispatch: Redispatch,
        known_before: KnownBefore,
        questions: MessageListener | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._maker = maker
        self._dispatcher = dispatcher
        self._claims = claims
        self._places = places
        self._redispatch = redispatch
        self._known_before = known_before
        self._underway: dict[LaneKey, _PendingMessages] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._questions = questions

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
        self._underway.setdefault(lane, _PendingMessages()).count += 1
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
            if self._questions is not None:
                self._questions.message_came(live, self)
            return Accepted(event_id=item.event_id, run_id=run_id, first=True, steered=True, place=place)
        return await self._redispatch(item, agent)

    def count_unread(self, run_id: str) -> None:
        self._places.unread(run_id, self._claims.unread(run_id, self._dispatcher.live.get(run_id)))

    async def pull(self, live: LiveRun, limit: int) -> list[SteeringItem]:
        """What a runner asks for at a turn of its own."""
        items = await self._claims.pull(live, limit)
        self.count_unread(live.facts.run_id)
        return items

    async def oldest(self, run: LiveRun) -> tuple[str, str] | None:
        """Pull the oldest message for the runner: the id of its event, and its text."""
        items = await self.pull(run, 1)
        return (items[0].event_id, items[0].event.text or "") if items else None

    def give_back(self, live: LiveRun, items: list[SteeringItem]) -> None:
        """What a runner pulled and gave up before it got it."""
        self._claims.give_back(live, items)
        self.count_unread(live.facts.run_id)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


# `steering.pull`: the messages that came for a run while it ran.


class SteeringCalls:
    """Gives what waits to the runner: leased to it until its run completes."""

    def __init__(self, giving: SteeringDelivery) -> None:
        self._giving = giving

    async def pull(self, run: LiveRun, params: SteeringPull) -> SteeringPullResult | ConditionalAnswer:
        limit = 1 if params.mode == "one-at-a-time" else params.limit or limits.STEERING_QUEUE
        items = await self._giving.pull(run, limit)
        answer = SteeringPullResult.from_wire({"items": [item.to_wire(run) for item in items]})
        return ConditionalAnswer(answer, partial(self._giving.give_back, run, items)) if items else answer
