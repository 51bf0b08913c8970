"""One event, one binding, one run, or a place in a run that is active: from the sender's request to the disk.

Everything that is decided here is decided between two awaits: routing, gates, the conversation's turn. Then it is
written, and only what is on disk is begun. A sender who goes away meanwhile changes nothing.
"""

from typing import Protocol

import msgspec
import structlog
from msgspec.structs import replace

from bollard.host.agents.admission import Admission, Interrupt, Queue, Reject, Start, Steer
from bollard.host.agents.agent import Agent
from bollard.host.agents.gates import FrontGates
from bollard.host.agents.lanes import LaneKey, lane_of
from bollard.host.agents.routing import AgentDirectory, resolve
from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, Forbidden, HostError, Overloaded
from bollard.host.events.acceptance import Accepted, AgentResolver, EventDeduplication, NoRoute, Preview
from bollard.host.events.conversation_queue import ConversationQueue, Placement
from bollard.host.events.placement import EventPlacement
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
from bollard.host.runs.hub import Hub, Subscription, stream_record
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.machine import RunState
from bollard.host.store.store import Store

_log = structlog.get_logger("bollard.intake")


class ReplyFollower(Protocol):
    """The outbox, as the intake sees it."""

    def follow(self, facts: RunFacts) -> None:
        """Follow a run that is on disk and has not said anything yet."""
        ...


class IntakeListeners(msgspec.Struct, frozen=True):
    """The parts of the host that hear of runs and messages."""

    replies: ReplyFollower | None = None
    questions: MessageListener | None = None


class Intake:
    """Turns events into runs, or gives them to the run that they belong to."""

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
        self._maker = maker
        self._dispatcher = dispatcher
        self._gates = gates
        self._replies = listeners.replies
        self._claims = Claims()
        self.known = EventDeduplication(journal, store, clock, maker)
        self._finding = AgentResolver(directory, self.known)
        self._places = ConversationQueue()
        self._deciding = EventPlacement(
            journal=journal,
            clock=clock,
            dispatcher=dispatcher,
            gates=gates,
            places=self._places,
            maker=maker,
            limits=limits,
        )
        self._returning = ReturnGate()
        self._giving = SteeringDelivery(
            journal=journal,
            clock=clock,
            maker=maker,
            dispatcher=dispatcher,
            claims=self._claims,
            places=self._places,
            redispatch=self._redispatch,
            known_before=self.known.told,
            questions=listeners.questions,
        )
        self.given_back = RedispatchQueue(
            agents=directory.agents,
            dispatch=self.redispatch,
            drop=self.known.give_up,
            expected=self._finding.expected,
            stopped=lambda: dispatcher.closing,
        )
        self._background = Background()
        self._children: dict[str, set[str]] = {}
        dispatcher.watch(self)

    # --- an event from outside ---

    async def accept(
        self,
        event: NewEvent,
        workspace: str,
        agent_id: str | None = None,
        *,
        watch: bool = False,
        external: bool = False,
        keep: bool = False,
        fresh: bool = False,
    ) -> Accepted:
        """Make an event durable with its run, or in the run it belongs to. Raises `HostError`; then nothing happened.

        With `watch` the caller gets a reader that was there before the first record, and need not read the log. With
        `keep` an event that leads to no run, and would not later either, is kept with the reason instead of refused.
        An event is `fresh` when its id was made here, so that nobody can have sent it before.
        """
        route = await self._finding.find(event, workspace, agent_id)
        if isinstance(route, NoRoute):
            return await self._finding.turn_away(event, workspace, route.error, route.code, keep=keep)
        agent, binding_id = route
        lane = lane_of(workspace, agent.agent_id, event)
        decision = await self._decided(agent, event, lane, external=external)
        refusal = self._deciding.refusal(agent, event, decision)
        if refusal is not None or isinstance(decision, Reject):
            refusal = refusal or Conflict("the conversation is busy", hint="try again when its run has ended")
            # Everything else may be over in a while, so that the sender should try again.
            for_good = keep and isinstance(refusal, Forbidden)
            return await self._finding.turn_away(event, workspace, refusal, refusal.code, keep=for_good)
        if isinstance(decision, Steer) and lane is not None:
            return await self._giving.give(event, agent, decision.run_id, lane)
        chosen = Queue() if isinstance(decision, Steer) else decision
        way = Placement(agent=agent, binding_id=binding_id, lane=lane, decision=chosen, external=external, fresh=fresh)
        return await self._create(event, way, watch=watch)

    async def _decided(self, agent: Agent, event: NewEvent, lane: LaneKey | None, *, external: bool) -> Admission:
        """What becomes of an event, once everything of its conversation that came before it has its place."""
        if lane is None:
            return self._deciding.decide(agent, event, lane)
        await self._returning.wait(agent.workspace, agent.agent_id)
        while True:
            await self.given_back.settled(lane)
            decision = self._deciding.decide(agent, event, lane, external=external)
            # A message that is on its way into a run may still need a run of its own: nobody gets one before it.
            if isinstance(decision, Steer) or not self._giving.busy(lane):
                return decision
            await self._giving.settled(lane)

    async def raise_event(self, event: NewEvent, workspace: str, agent_id: str) -> Accepted:
        """Accept an event of the host itself. An event that leads to no run is kept with the reason."""
        return await self.accept(event, workspace, agent_id, keep=True)

    def preview(self, event: NewEvent, workspace: str, agent_id: str | None = None) -> Preview:
        """What would become of this event now, and why. Nothing is written, nothing is counted."""
        agents = {agent.agent_id: agent for agent in self._agents.of(workspace)}
        found = resolve(event, self._bindings.all(workspace), agents, agent=agent_id)
        return self._deciding.preview(event, found)

    # --- a run of its own ---

    async def call(self, event: NewEvent, agent: Agent, parent: LiveRun) -> Accepted:
        """A child run: it is in no conversation, waits for nobody, and has its parent's rights at most."""
        if (refusal := self._deciding.gated(agent, event, lane=None, new_run=True)) is not None:
            raise refusal
        if self._dispatcher.closing or self._dispatcher.room.crowded:
            raise Overloaded("the host takes no runs now", hint="try again in a moment")
        way = Placement(
            agent=agent, binding_id=f"call:{agent.agent_id}", lane=None, decision=Start(), parent=parent, fresh=True
        )
        return await self._create(event, way, watch=False)

    async def _create(self, event: NewEvent, way: Placement, *, watch: bool, event_id: str | None = None) -> Accepted:
        run = self._maker.make(
            event, way.agent, way.binding_id, event_id=event_id, parent=way.parent, external=way.external
        )
        facts = run.facts
        turn = self._places.enter(way, run)
        now = turn and (self._dispatcher.room.left or way.parent is not None)
        run = replace(run, epoch=1) if now else run
        entry = self._maker.first_entry(run, fresh=way.fresh)
        subscription = self._hub.subscribe(facts.run_id) if watch else None
        prepared: Prepared | None = None
        shares = self._dispatcher.backlog.shares
        if now:
            self._dispatcher.room.coming += 1
        else:
            shares.add(run)

        def decided(outcome: CommitResult | HostError) -> None:
            # Here, and not behind the wait: a run that is on disk begins, also when its caller went away meanwhile.
            if now:
                self._dispatcher.room.coming -= 1
            else:
                shares.remove(run)
            self._places.counted(facts)
            if isinstance(outcome, Committed):
                self._maker.written(run)
                self._created(run, entry.records, prepared, turn=turn)
                if isinstance(way.decision, Interrupt):
                    self._background.begin(self._stop(*way.decision.run_ids, superseded=True))
            else:
                if prepared is not None:
                    prepared.drop()
                self._leave(facts)

        outcome: CommitResult | None = None
        try:
            fate = self._journal.submit(entry, decided)
            if now and not fate.done():
                prepared = self._dispatcher.prepare(run, early=way.fresh and way.parent is None)
            outcome = await fate
        finally:
            if subscription is not None and not isinstance(outcome, Committed):
                subscription.close()
        if isinstance(outcome, Duplicate):
            return await self.known.told(outcome.first)
        if not isinstance(outcome, Committed):  # somebody else was quicker to dispatch a message that waited
            return Accepted(event_id=facts.event_id, run_id=None, first=False)
        return _new(facts, subscription)

    def _created(self, run: QueuedRun, records: list[NewRecord], prepared: Prepared | None, *, turn: bool) -> None:
        """A new run is on disk: show it and start it, or let it wait."""
        kill_point("dispatcher.after_accept")
        facts = run.facts
        self._gates.count(facts.agent_id, self._clock.now_ms(), workspace=facts.workspace)
        self._hub.publish(facts.run_id, [stream_record(record) for record in records if record.seq is not None])
        if self._replies is not None:
            self._replies.follow(facts)
        if run.epoch:
            self._dispatcher.begin(prepared or self._dispatcher.prepare(run))
            self._adopt(facts)
        elif turn or self._places.came_early(facts.run_id):
            self._dispatcher.backlog.wait(run)
        else:
            self._dispatcher.backlog.hold(run)

    async def _stop(self, *run_ids: str, superseded: bool = False) -> None:
        for run_id in run_ids:
            try:
                await self._dispatcher.cancel(run_id, "cancelled", superseded=superseded)
            except HostError as error:
                _log.warning("a run could not be stopped", run=run_id, problem=error.message)

    # --- messages that were meant for a run that is active ---

    async def _redispatch(self, item: SteeringItem, agent: Agent) -> Accepted:
        """A message that is on disk is not refused any more: what cannot be dispatched now is dispatched later."""
        lane = lane_of(agent.workspace, agent.agent_id, item.event)
        try:
            if lane is not None:
                await self.given_back.settled(lane)  # what its run had been given before comes first
            return await self.redispatch(item.event, item.event_id, agent)
        except HostError as error:
            _log.warning("a message could not be dispatched yet", event_id=item.event_id, problem=error.message)
            self.wait_for_agent(item.event, item.event_id, agent.agent_id, agent.workspace)
            return Accepted(event_id=item.event_id, run_id=None, first=True)

    async def redispatch(self, event: NewEvent, event_id: str, agent: Agent, binding_id: str | None = None) -> Accepted:
        """A message that waits on disk gets a run of its own, in its turn. Its gates were passed when it came."""
        lane = lane_of(agent.workspace, agent.agent_id, event)
        busy = self._places.view(lane) is not None and agent.policy.concurrency.mode != "parallel"
        way = Placement(
            agent=agent,
            binding_id=binding_id or f"steering:{agent.agent_id}",
            lane=lane,
            decision=Queue() if busy else Start(),
        )
        return await self._create(event, way, watch=False, event_id=event_id)

    def wait_for_agent(self, event: NewEvent, event_id: str, agent_id: str, workspace: str) -> None:
        """A message that waits on disk gets a run of its own as soon as that can be, before any that comes later."""
        lane = lane_of(workspace, agent_id, event)
        if lane is not None:
            self.given_back.add(lane, event_id, event)
        else:  # in no conversation are only events of lost runs: nobody has their agent any more
            self._background.begin(self._give_up(workspace, event_id, agent_id))

    async def _give_up(self, workspace: str, event_id: str, agent_id: str) -> None:
        try:
            await self.known.give_up(workspace, event_id, agent_id)
        except HostError as error:
            _log.warning("an event could not be dropped", event_id=event_id, problem=error.message)

    # --- runs that leave, and runs that come back ---

    def enter_again(self, run: QueuedRun) -> None:
        """A run of an earlier incarnation that still waits."""
        self._journal.remember(run.facts)
        way = Placement(
            agent=run.agent,
            binding_id=run.facts.binding_id,
            lane=lane_of(run.facts.workspace, run.facts.agent_id, run.event),
            decision=Start() if run.agent.policy.concurrency.mode == "parallel" else Queue(),
        )
        turn = self._places.enter(way, run)
        self._places.counted(run.facts)
        if self._replies is not None:
            self._replies.follow(run.facts)
        if turn:
            self._dispatcher.backlog.wait(run)
        else:
            self._dispatcher.backlog.hold(run)

    def _adopt(self, facts: RunFacts) -> None:
        """A child run has begun: it ends with its parent, which may have gone meanwhile."""
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
        """A run is over: the next of its conversation starts, and what it did not answer is dispatched anew."""
        items = self._claims.forget(facts.run_id)
        self.run_stopping(facts)
        self._children.pop(facts.run_id, None)
        if facts.parent_run_id in self._children:
            self._children[facts.parent_run_id].discard(facts.run_id)
        again = [items[event_id] for event_id in (() if state is None else state.redispatched) if event_id in items]
        for item in again:
            self.wait_for_agent(item.event, item.event_id, facts.agent_id, facts.workspace)
        lane = self._places.lane_awaited(facts.run_id) if again else None
        if lane is None:
            self._leave(facts)
        else:
            self._background.begin(self._leave_behind(facts, lane))

    async def _leave_behind(self, facts: RunFacts, lane: LaneKey) -> None:
        """Its place is kept until what it gave back has places too: those who wait came after some of that."""
        await self.given_back.placed(lane)
        self._leave(facts)

    def _leave(self, facts: RunFacts) -> None:
        following = self._places.leave(facts)
        if following is not None and not self._dispatcher.backlog.turn_of(following):
            self._places.not_yet(following)

    @property
    def returning(self) -> ReturnGate:
        """Whose runs of an earlier incarnation have not taken their places yet."""
        return self._returning

    @property
    def giving(self) -> SteeringDelivery:
        """Messages on their way into runs, and runners that pull them."""
        return self._giving

    async def close(self) -> None:
        await self._giving.close()
        await self.given_back.close()
        await self._background.close()


def _new(facts: RunFacts, subscription: Subscription | None) -> Accepted:
    return Accepted(event_id=facts.event_id, run_id=facts.run_id, first=True, subscription=subscription)
