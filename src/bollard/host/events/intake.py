"""The path of an event from the sender's request to the disk: one binding, and one run or a place in an active run.

Gates and the turn of the conversation are decided without an await in between. Then the event is committed, and only
committed runs start. A sender who disconnects meanwhile changes nothing.
"""

from typing import Final, Protocol

import msgspec
import structlog
from msgspec.structs import replace

from bollard.host.agents.admission import Admission, Interrupt, LaneView, Queue, Reject, Start, Steer
from bollard.host.agents.agent import Agent
from bollard.host.agents.gates import FrontGates
from bollard.host.agents.lanes import LaneKey, lane_of
from bollard.host.agents.routing import AgentDirectory, Resolution, resolve
from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import Forbidden, HostError, Overloaded
from bollard.host.events.acceptance import Accepted, AgentResolver, EventDeduplication, NoRoute, Preview
from bollard.host.events.conversation_queue import ConversationQueue, Placement
from bollard.host.events.placement import EventPlacement, conversation_busy
from bollard.host.events.redispatch_queue import RedispatchQueue, ReturnGate
from bollard.host.events.steering import Claims, MessageListener, SteeringDelivery, SteeringItem
from bollard.host.log.entries import CommitResult, Committed, Duplicate
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import NewRecord, RunFacts
from bollard.host.runs.backlog import RunLimits
from bollard.host.runs.creation import QueuedRun, RunMaker
from bollard.host.runs.dispatcher import Dispatcher, Prepared
from bollard.host.runs.event import NewEvent
from bollard.host.runs.hub import Hub, stream_records
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.machine import RunState
from bollard.host.scope import Place
from bollard.host.store.store import Store

_log = structlog.get_logger("bollard.intake")
CALL: Final = "call:"
"""Prefix of the binding id of a run that another run called."""


class ReplyFollower(Protocol):
    """The outbox, as the intake sees it."""

    def follow(self, facts: RunFacts) -> None:
        """Follow a run that is on disk and has no output yet."""
        ...

    def wake(self) -> None:
        """Send what a record outside of a followed run has queued."""
        ...


class IntakeListeners(msgspec.Struct, frozen=True):
    """The parts of the host that are notified of runs and messages."""

    replies: ReplyFollower | None = None
    questions: MessageListener | None = None


class Intake:
    """Turns events into runs, or steers the active run that they belong to."""

    def __init__(
        self,
        *,
        journal: Journal,
        store: Store,
        clock: Clock,
        hub: Hub,
        directory: AgentDirectory,
        maker: RunMaker,
        dispatcher: Dispatcher,
        gates: FrontGates,
        limits: RunLimits,
        listeners: IntakeListeners,
    ) -> None:
        self._journal = journal
        self._hub = hub
        self._clock = clock
        self._agents = directory.agents
        self._bindings = directory.bindings
        self._bot_agent = directory.bot_agent
        self._maker = maker
        self._dispatcher = dispatcher
        self._gates = gates
        self._replies = listeners.replies
        self._claims = Claims()
        self.deduplication = EventDeduplication(journal, store, clock, maker)
        self._resolver = AgentResolver(directory, self.deduplication)
        self._conversations = ConversationQueue()
        self._placement = EventPlacement(
            journal=journal,
            clock=clock,
            dispatcher=dispatcher,
            gates=gates,
            conversations=self._conversations,
            maker=maker,
            limits=limits,
            questions=listeners.questions,
        )
        self.return_gate = ReturnGate()
        """Holds new messages while runs of an earlier incarnation return to the queue."""
        self.steering = SteeringDelivery(
            journal=journal,
            clock=clock,
            maker=maker,
            dispatcher=dispatcher,
            claims=self._claims,
            conversations=self._conversations,
            redispatch=self._redispatch,
            first_outcome=self.deduplication.first_outcome,
            questions=listeners.questions,
        )
        self.redispatch_queue = RedispatchQueue(
            agents=directory.agents,
            dispatch=self.redispatch,
            drop=self.deduplication.give_up,
            expected=self._resolver.expected,
            stopped=lambda: dispatcher.closing,
        )
        self._background = Background()
        self._children: dict[str, set[str]] = {}
        dispatcher.watch(self)

    # --- an event from outside ---

    async def accept(
        self,
        event: NewEvent,
        agent_id: str | None = None,
        *,
        watch: bool = False,
        external: bool = False,
        keep: bool = False,
        fresh: bool = False,
    ) -> Accepted:
        """Commit an event with its run, or into the run that it steers. If it raises a `HostError`, nothing happened.

        With `watch` the caller gets a reader that sees the run from its first record. With `keep` an event that can
        never get a run is stored with the reason instead of refused. An event is `fresh` if its id was made here, so
        that it cannot be a duplicate.
        """
        route = await self._resolver.find(event, agent_id)
        if isinstance(route, NoRoute):
            return await self._resolver.reject(event, route.error, route.code, keep=keep)
        agent, binding_id = route
        lane = lane_of(agent.agent_id, event.scope)
        decision = await self._decide(agent, event, lane, external=external)
        refusal = self._placement.refusal(agent, event, decision)
        if refusal is not None or isinstance(decision, Reject):
            refusal = refusal or conversation_busy("the conversation is busy", agent.agent_id)
            # Only a Forbidden is final. After every other refusal the sender should retry.
            final = keep and isinstance(refusal, Forbidden)
            return await self._resolver.reject(event, refusal, refusal.code, keep=final)
        if isinstance(decision, Steer) and lane is not None:
            return await self.steering.give(event, agent, decision.run_id, lane)
        placement = Placement(
            agent=agent,
            binding_id=binding_id,
            lane=lane,
            decision=Queue() if isinstance(decision, Steer) else decision,
            external=external,
            fresh=fresh,
        )
        return await self._create(event, placement, watch=watch)

    async def _decide(self, agent: Agent, event: NewEvent, lane: LaneKey | None, *, external: bool) -> Admission:
        """The decision about an event, after all earlier messages of its conversation are placed."""
        if lane is None:
            return self._placement.decide(agent, event, lane)
        await self.return_gate.wait(agent.workspace, agent.agent_id)
        while True:
            await self.redispatch_queue.settled(lane)
            decision = self._placement.decide(agent, event, lane, external=external)
            # A steering message that is being written may still need a run of its own, and it came first.
            if isinstance(decision, Steer) or not self.steering.busy(lane):
                return decision
            await self.steering.settled(lane)

    async def raise_event(self, event: NewEvent, agent_id: str) -> Accepted:
        """Accept an event of the host itself. An event that gets no run is stored with the reason."""
        return await self.accept(event, agent_id, keep=True)

    def preview(self, event: NewEvent, agent_id: str | None = None) -> Preview:
        """How this event would be routed now, and why. Writes and counts nothing."""
        return self._placement.preview(event, self.resolution(event, agent_id))

    def resolution(self, event: NewEvent, agent_id: str | None = None) -> Resolution:
        """The binding and the agent that this event would get now, with a step for every binding."""
        workspace = event.scope.workspace
        agents = {agent.agent_id: agent for agent in self._agents.of(workspace)}
        bot_agent = self._bot_agent(workspace, event.scope.bot)
        return resolve(event, self._bindings.all(workspace), agents, agent=agent_id, bot_agent=bot_agent)

    def runs_in(self, agent_id: str, place: Place) -> LaneView | None:
        """The active and queued runs of an agent in a conversation."""
        return self._conversations.view(lane_of(agent_id, place))

    # --- new runs ---

    async def call(self, event: NewEvent, agent: Agent, parent: LiveRun) -> Accepted:
        """Start a child run. It is in no conversation and never queues; its grant never exceeds its parent's."""
        if (refusal := self._placement.gated(agent, event, lane=None, new_run=True)) is not None:
            raise refusal
        if self._dispatcher.closing or self._dispatcher.room.crowded:
            raise Overloaded("the host starts no more runs now", reason="no_room", hint="retry in a moment")
        placement = Placement(
            agent=agent, binding_id=f"{CALL}{agent.agent_id}", lane=None, decision=Start(), parent=parent, fresh=True
        )
        return await self._create(event, placement, watch=False)

    async def _create(
        self, event: NewEvent, placement: Placement, *, watch: bool, event_id: str | None = None
    ) -> Accepted:
        parent, fresh = placement.parent, placement.fresh
        run = self._maker.make(
            event, placement.agent, placement.binding_id, event_id=event_id, parent=parent, external=placement.external
        )
        facts = run.facts
        turn = self._conversations.enter(placement, run)
        now = turn and (self._dispatcher.room.left or parent is not None)
        run = replace(run, epoch=1) if now else run
        entry = self._maker.first_entry(run, fresh=fresh)
        subscription = self._hub.subscribe(facts.run_id) if watch else None
        prepared: Prepared | None = None
        shares = self._dispatcher.backlog.shares
        if now:
            self._dispatcher.room.coming += 1
        else:
            shares.add(run)

        def decided(outcome: CommitResult | HostError) -> None:
            # A callback, because a committed run starts even if its caller was cancelled meanwhile.
            if now:
                self._dispatcher.room.coming -= 1
            else:
                shares.remove(run)
            self._conversations.counted(facts)
            if isinstance(outcome, Committed):
                self._maker.written(run)
                self._created(run, entry.records, prepared, turn=turn)
                if isinstance(placement.decision, Interrupt):
                    self._background.begin(self._stop(*placement.decision.run_ids, superseded=True))
            else:
                if prepared is not None:
                    prepared.drop()
                self._leave(facts)

        outcome: CommitResult | None = None
        try:
            commit = self._journal.submit(entry, decided)
            if now and not commit.done():
                prepared = self._dispatcher.prepare(run, early=fresh and parent is None)
            outcome = await commit
        finally:
            if subscription is not None and not isinstance(outcome, Committed):
                subscription.close()
        if isinstance(outcome, Duplicate):
            return await self.deduplication.first_outcome(outcome.first)
        if not isinstance(outcome, Committed):  # the waiting message has got another run meanwhile
            return Accepted(event_id=facts.event_id, run_id=None, first=False)
        return Accepted(event_id=facts.event_id, run_id=facts.run_id, first=True, subscription=subscription)

    def _created(self, run: QueuedRun, records: list[NewRecord], prepared: Prepared | None, *, turn: bool) -> None:
        """Publish a committed run, then start or queue it."""
        kill_point("dispatcher.after_accept")
        facts = run.facts
        self._gates.count(facts.agent_id, self._clock.now_ms(), workspace=facts.workspace)
        self._hub.publish(facts.run_id, stream_records(record for record in records if record.seq is not None))
        if self._replies is not None:
            self._replies.follow(facts)
        if run.epoch:
            self._dispatcher.begin(prepared or self._dispatcher.prepare(run))
            self._adopt(facts)
        elif turn or self._conversations.came_early(facts.run_id):
            self._dispatcher.backlog.wait(run)
        else:
            self._dispatcher.backlog.hold(run)

    async def _stop(self, *run_ids: str, superseded: bool = False) -> None:
        for run_id in run_ids:
            try:
                await self._dispatcher.cancel(run_id, "cancelled", superseded=superseded)
            except HostError as error:
                _log.warning("a run could not be stopped", run=run_id, problem=error.message)

    # --- redispatch ---

    async def _redispatch(self, item: SteeringItem, agent: Agent) -> Accepted:
        """Dispatch a message on disk as a new run. It is never refused; if that fails now, it is retried."""
        lane = lane_of(agent.agent_id, item.event.scope)
        try:
            if lane is not None:
                await self.redispatch_queue.settled(lane)  # earlier messages of its run come first
            return await self.redispatch(item.event, item.event_id, agent)
        except HostError as error:
            _log.warning("a message could not be dispatched yet", event_id=item.event_id, problem=error.message)
            self.wait_for_agent(item.event, item.event_id, agent.agent_id)
            return Accepted(event_id=item.event_id, run_id=None, first=True)

    async def redispatch(self, event: NewEvent, event_id: str, agent: Agent, binding_id: str | None = None) -> Accepted:
        """Give a message on disk a run of its own, in its turn. It passed the gates when it came."""
        lane = lane_of(agent.agent_id, event.scope)
        busy = self._conversations.view(lane) is not None and agent.policy.concurrency.mode != "parallel"
        placement = Placement(
            agent=agent,
            binding_id=binding_id or f"steering:{agent.agent_id}",
            lane=lane,
            decision=Queue() if busy else Start(),
        )
        return await self._create(event, placement, watch=False, event_id=event_id)

    def wait_for_agent(self, event: NewEvent, event_id: str, agent_id: str) -> None:
        """Queue a message on disk for a run of its own, before any message that comes later."""
        lane = lane_of(agent_id, event.scope)
        if lane is not None:
            self.redispatch_queue.add(lane, event_id, event)
        else:  # without a conversation it is the event of a lost run whose agent is gone
            self._background.begin(self._give_up(event.scope.workspace, event_id, agent_id))

    async def _give_up(self, workspace: str, event_id: str, agent_id: str) -> None:
        try:
            await self.deduplication.give_up(workspace, event_id, agent_id)
        except HostError as error:
            _log.warning("an event could not be dropped", event_id=event_id, problem=error.message)

    # --- runs that return after a restart, and runs that end ---

    def enter_again(self, run: QueuedRun) -> None:
        """Queue a run of an earlier incarnation that has not started."""
        self._journal.remember(run.facts)
        placement = Placement(
            agent=run.agent,
            binding_id=run.facts.binding_id,
            lane=lane_of(run.facts.agent_id, run.event.scope),
            decision=Start() if run.agent.policy.concurrency.mode == "parallel" else Queue(),
        )
        turn = self._conversations.enter(placement, run)
        self._conversations.counted(run.facts)
        if self._replies is not None:
            self._replies.follow(run.facts)
        if turn:
            self._dispatcher.backlog.wait(run)
        else:
            self._dispatcher.backlog.hold(run)

    def _adopt(self, facts: RunFacts) -> None:
        """Link a child run to its parent, and stop it if the parent has ended meanwhile."""
        parent_id = facts.parent_run_id
        if parent_id is None:
            return
        self._children.setdefault(parent_id, set()).add(facts.run_id)
        parent = self._dispatcher.live.get(parent_id)
        if parent is None or parent.ending or parent.state.cancel is not None:
            self._background.begin(self._stop(facts.run_id))

    def run_stopping(self, facts: RunFacts) -> None:
        for run_id in sorted(self._children.get(facts.run_id, ())):
            self._background.begin(self._stop(run_id))

    def run_left(self, facts: RunFacts, state: RunState | None) -> None:
        """Start the next run of the conversation, and redispatch the messages that the run did not read."""
        items = self._claims.forget(facts.run_id)
        self.run_stopping(facts)
        self._children.pop(facts.run_id, None)
        if facts.parent_run_id in self._children:
            self._children[facts.parent_run_id].discard(facts.run_id)
        unread = [items[event_id] for event_id in (() if state is None else state.redispatched) if event_id in items]
        for item in unread:
            self.wait_for_agent(item.event, item.event_id, facts.agent_id)
        lane = self._conversations.lane_awaited(facts.run_id) if unread else None
        if lane is None:
            self._leave(facts)
        else:
            self._background.begin(self._leave_later(facts, lane))

    async def _leave_later(self, facts: RunFacts, lane: LaneKey) -> None:
        """Leave the lane after the unread messages are placed: they may be older than the runs that wait."""
        await self.redispatch_queue.placed(lane)
        self._leave(facts)

    def _leave(self, facts: RunFacts) -> None:
        following = self._conversations.leave(facts)
        if following is not None and not self._dispatcher.backlog.turn_of(following):
            self._conversations.not_yet(following)

    async def close(self) -> None:
        await self.steering.close()
        await self.redispatch_queue.close()
        await self._background.close()
