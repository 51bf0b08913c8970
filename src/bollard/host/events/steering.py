"""Steering: messages that go into an active run, are pulled by its runner, or are dispatched as a new run (§9).

The event is on disk before a run claims it. The claim is a record of the run under its epoch. Claim and end of a run
are ordered by the same log, so a message is either in the run or it is not.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.agents.lanes import LaneKey
from bollard.host.approvals.questions import Message
from bollard.host.clock import Clock
from bollard.host.events.acceptance import Accepted
from bollard.host.events.conversation_queue import ConversationQueue
from bollard.host.log.entries import Duplicate, Entry, ExpectationResult
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.api_call import ConditionalAnswer
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.event import NewEvent
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.recorder import into
from bollard.host.runs.start_request import event_context
from bollard.host.scope import Actor
from bollard.host.store.rows import EventRow
from bollard.protocol import JsonObject, SteeringPull, SteeringPullResult, limits

_ENVELOPE_BYTES: Final = 4096
"""The largest envelope of one response, and of one message in it."""


class SteeringItem(msgspec.Struct, frozen=True, kw_only=True):
    """One message for an active run."""

    event_id: str
    event: NewEvent
    claimed_ms: int

    def to_wire(self, run: LiveRun) -> JsonObject:
        """The message in the shape of a start request, with the run that claimed it."""
        facts = run.facts
        return {
            "claimed_run_id": facts.run_id,
            "runner_id": facts.runner_id,
            "claimed_at": self.claimed_ms / 1000,
            **event_context(self.event_id, self.event),
            "metadata": {},
        }


class Claims:
    """The contents of the messages of each live run. The state of the run knows which of them wait."""

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
        """How many messages the runner has not pulled, including those that are being written. A run that is not live
        has pulled none."""
        items = self._items.get(run_id, {})
        if live is None:
            return len(items)
        return sum(1 for event_id in items if live.state.claims.get(event_id) != "injected")

    def waiting(self, run: LiveRun) -> list[SteeringItem]:
        """The messages that the runner has not pulled, oldest first."""
        items = self._items.get(run.facts.run_id, {})
        queued = (event_id for event_id, claim in run.state.claims.items() if claim == "queued")
        return [items[event_id] for event_id in queued if event_id in items]

    def forget(self, run_id: str) -> dict[str, SteeringItem]:
        """Remove and return the messages of a run that is over."""
        return self._items.pop(run_id, {})

    async def pull(self, run: LiveRun, limit: int, only: str | None = None) -> list[SteeringItem]:
        """Pull waiting messages, or `only` the one of this event. They are on disk as injected before the runner sees
        them."""
        if run.state.terminal is not None:
            return []  # after the terminal result nobody would answer them
        waiting = [item for item in self.waiting(run) if only in (None, item.event_id)]
        items = _that_fit(waiting[:limit], run)
        landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
        last = len(items) - 1
        for index, item in enumerate(items):
            run.take_in(item.event.flow)
            callback = into(landed) if index == last else None
            if not run.note("steering.injected", {"event_id": item.event_id}, callback, pressing=index == last):
                return []
        requeue = partial(self.give_back, run, items)
        run.lending.add(requeue)
        try:
            if items and await landed is None:
                return []
        except asyncio.CancelledError:
            requeue()
            raise
        finally:
            run.lending.discard(requeue)
        return [item for item in items if run.state.claims.get(item.event_id) == "injected"]

    @staticmethod
    def give_back(run: LiveRun, items: list[SteeringItem]) -> None:
        """Requeue messages that the runner did not receive, in their old order."""
        for item in items:
            if run.state.claims.get(item.event_id) == "injected":
                run.note("steering.queued", {"event_id": item.event_id})


def _that_fit(items: list[SteeringItem], run: LiveRun) -> list[SteeringItem]:
    """As many messages as fit into one response. The rest waits for the next pull."""
    fitting: list[SteeringItem] = []
    room = limits.CALL_BYTES - _ENVELOPE_BYTES
    for item in items:
        room -= len(encode_data(item.to_wire(run))) + 1
        if room < 0:
            break
        fitting.append(item)
    return fitting


def fits_a_run(event: NewEvent) -> bool:
    """Whether a message fits into a response. A larger one needs a run of its own."""
    return len(event.record("", None)) <= limits.CALL_BYTES - _ENVELOPE_BYTES


def can_pull(run: LiveRun) -> bool:
    """Whether `steering.pull` is not revoked for this run."""
    return not run.revoked.takes("steering.pull", "steering", None)


async def claim(run: LiveRun, event_id: str) -> tuple[int, int] | None:
    """Record that the message belongs to this run. Returns epoch and sequence number of the record, or `None` if the
    run is ending, is stopped, or may not pull."""
    if run.state.cancel is not None or run.state.terminal is not None or not can_pull(run):
        return None
    landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
    if not run.note("steering.queued", {"event_id": event_id}, into(landed)):
        return None
    place = run.place  # read before the wait: later records of the run change it
    return place if await landed is not None else None


FirstOutcome = Callable[[EventRow], Awaitable[Accepted]]
"""Returns the first outcome of an event that was accepted before."""
Redispatch = Callable[[SteeringItem, Agent], Awaitable[Accepted]]
"""Starts a run of its own for a message on disk."""


@dataclass(slots=True)
class _PendingMessages:
    """The messages of one conversation that are being written."""

    count: int = 0
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class MessageListener(Protocol):
    """Is notified of every message for a live run. Open questions are answered this way."""

    def awaits(self, run_id: str, actor: Actor | None, text: str) -> bool:
        """Whether a message with this text would answer a question in the conversation of the run."""
        ...

    def message_came(self, run: LiveRun, message: Message, messages: "SteeringDelivery") -> None: ...


class SteeringDelivery:
    """Writes messages to disk, then into their active run, or into a run of their own if that run has ended.

    While a message is being written, its conversation starts no other run: the message came first and may need one.
    """

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        maker: RunMaker,
        dispatcher: Dispatcher,
        claims: Claims,
        conversations: ConversationQueue,
        redispatch: Redispatch,
        first_outcome: FirstOutcome,
        questions: MessageListener | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._maker = maker
        self._dispatcher = dispatcher
        self._claims = claims
        self._conversations = conversations
        self._redispatch = redispatch
        self._first_outcome = first_outcome
        self._pending: dict[LaneKey, _PendingMessages] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._questions = questions

    def busy(self, lane: LaneKey | None) -> bool:
        """Whether a message of this conversation is being written."""
        return lane in self._pending

    async def settled(self, lane: LaneKey) -> None:
        """Wait until no message of this conversation is being written."""
        await self._pending[lane].settled.wait()

    async def give(self, event: NewEvent, agent: Agent, run_id: str, lane: LaneKey) -> Accepted:
        """Steer this run. The delivery goes on if the caller is cancelled."""
        item = SteeringItem(event_id=f"evt_{self._maker.new_id()}", event=event, claimed_ms=self._clock.now_ms())
        self._claims.put(run_id, item)
        self.count_unread(run_id)
        self._pending.setdefault(lane, _PendingMessages()).count += 1
        task = asyncio.create_task(self._write(item, agent, run_id, lane))
        self._tasks.add(task)
        task.add_done_callback(self._written)
        return await asyncio.shield(task)

    def _written(self, task: "asyncio.Task[Accepted]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the sender got it from the shield, or has disconnected

    async def _write(self, item: SteeringItem, agent: Agent, run_id: str, lane: LaneKey) -> Accepted:
        steered = False
        try:
            accepted = await self._deliver(item, agent, run_id)
            steered = accepted.steered and accepted.event_id == item.event_id
            return accepted
        finally:
            if not steered:
                self._claims.drop(run_id, item.event_id)
                self.count_unread(run_id)
            pending = self._pending[lane]
            pending.count -= 1
            if not pending.count:
                del self._pending[lane]
                pending.settled.set()

    async def _deliver(self, item: SteeringItem, agent: Agent, run_id: str) -> Accepted:
        event = item.event
        data = event.record(item.event_id, None, waits_for=agent.agent_id)
        now_ms = self._clock.now_ms()
        record = NewRecord(workspace=agent.workspace, type="event.received", data=data, created_ms=now_ms)
        records = [record, *event.file_records(item.event_id, None, now_ms)]
        entry = Entry(records=records, dedupe=event.key, size=sum(len(each.data) for each in records))
        outcome = await self._journal.commit(entry)
        if isinstance(outcome, Duplicate):
            return await self._first_outcome(outcome.first)
        kill_point("intake.after_event")
        live = self._dispatcher.live.get(run_id)
        if live is not None and (place := await claim(live, item.event_id)) is not None:
            kill_point("intake.after_claim")
            if self._questions is not None:
                message = Message(event_id=item.event_id, actor=event.scope.actor, text=event.text or "")
                self._questions.message_came(live, message, self)
            return Accepted(event_id=item.event_id, run_id=run_id, first=True, steered=True, place=place)
        return await self._redispatch(item, agent)

    def count_unread(self, run_id: str) -> None:
        self._conversations.unread(run_id, self._claims.unread(run_id, self._dispatcher.live.get(run_id)))

    async def pull(self, live: LiveRun, limit: int) -> list[SteeringItem]:
        """Pull up to `limit` waiting messages for the runner."""
        items = await self._claims.pull(live, limit)
        self.count_unread(live.facts.run_id)
        return items

    async def take(self, run: LiveRun, event_id: str) -> bool:
        """Pull the message of this event. Returns whether it waited."""
        items = await self._claims.pull(run, 1, event_id)
        self.count_unread(run.facts.run_id)
        return bool(items)

    def give_back(self, live: LiveRun, items: list[SteeringItem]) -> None:
        """Requeue messages whose response did not reach the runner."""
        self._claims.give_back(live, items)
        self.count_unread(live.facts.run_id)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class SteeringCalls:
    """The run API action `steering.pull`. Pulled messages are leased to the run until it completes."""

    def __init__(self, steering: SteeringDelivery) -> None:
        self._steering = steering

    async def pull(self, run: LiveRun, params: SteeringPull) -> SteeringPullResult | ConditionalAnswer:
        limit = 1 if params.mode == "one-at-a-time" else params.limit or limits.STEERING_QUEUE
        items = await self._steering.pull(run, limit)
        result = SteeringPullResult.from_wire({"items": [item.to_wire(run) for item in items]})
        return ConditionalAnswer(result, partial(self._steering.give_back, run, items)) if items else result
