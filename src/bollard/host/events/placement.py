"""What becomes of an event now, and why it is not taken. Everything here is decided at once, on what is in memory."""

from collections.abc import Mapping
from typing import Final

from bollard.host.agents.admission import Admission, Queue, Reject, Start, Steer, admit
from bollard.host.agents.agent import Agent
from bollard.host.agents.gates import FrontGates, Refused
from bollard.host.agents.lanes import LaneKey, lane_of
from bollard.host.agents.routing import Resolution
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, Draining, HostError, Overloaded, StorageFull
from bollard.host.events.acceptance import Preview, error_of
from bollard.host.events.conversation_queue import ConversationQueue, actor_of
from bollard.host.events.steering import can_pull, fits_a_run
from bollard.host.limits import QUEUE_RETRY_S
from bollard.host.log.journal import Journal
from bollard.host.runs.backlog import RunLimits, ShareKind
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.event import NewEvent

_PLURAL: Final[Mapping[ShareKind, str]] = {"conversation": "conversations", "caller": "callers", "agent": "agents"}


class EventPlacement:
    """One per host."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        dispatcher: Dispatcher,
        gates: FrontGates,
        places: ConversationQueue,
        maker: RunMaker,
        limits: RunLimits,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._dispatcher = dispatcher
        self._gates = gates
        self._places = places
        self._maker = maker
        self._limits = limits

    def decide(self, agent: Agent, event: NewEvent, lane: LaneKey | None, *, external: bool = False) -> Admission:
        """Whether it starts, waits, or goes into a run that is active. `external`: a program outside wants to execute
        it, so that it needs a run of its own."""
        decision = admit(
            agent.policy.concurrency,
            steering="steering" in agent.capabilities,
            lane=self._places.view(lane),
            actor=actor_of(event),
            message=event.is_message,
            unread=self._limits.unread,
        )
        if isinstance(decision, Steer) and (external or not self._can_take(agent, event, decision)):
            return Queue()  # decided here, so that the gates know that it makes a run
        return decision

    def _can_take(self, agent: Agent, event: NewEvent, decision: Steer) -> bool:
        """Whether the sender may steer, and the run could still read it. One that has not begun has lost nothing
        yet."""
        run = self._dispatcher.live.get(decision.run_id)
        return self._gates.may_steer(agent, event) and (run is None or can_pull(run)) and fits_a_run(event)

    def refusal(self, agent: Agent, event: NewEvent, decision: Admission, *, takes: bool = True) -> HostError | None:
        """Why this event is not taken now; `takes` is false for who only asks. Front gates are the same for a message
        that steers (§9)."""
        if (closed := self._closed()) is not None:
            return closed
        if isinstance(decision, Reject):
            return Conflict(decision.sentence, hint="try again when its run has ended", agent=agent.agent_id)
        if (crowded := self._crowded(agent, event, decision)) is not None:
            return crowded
        lane = lane_of(agent.workspace, agent.agent_id, event)
        return self.gated(agent, event, lane=lane, new_run=not isinstance(decision, Steer), takes=takes)

    def _crowded(self, agent: Agent, event: NewEvent, decision: Admission) -> HostError | None:
        """Why there is no place in the queue for an event that would have to wait."""
        if isinstance(decision, Steer) or (isinstance(decision, Start) and self._dispatcher.room.left):
            return None
        shares = self._dispatcher.backlog.shares
        full = shares.full(agent.workspace, agent.agent_id, event)
        if full is None:
            return None
        limit = shares.limits.of(full)
        return Overloaded(
            f"this {full} has {limit} runs waiting, which is its share of the queue",
            hint=f"wait until some of them have ended, or cancel them; other {_PLURAL[full]} are not affected",
            share=full,
            limit=limit,
            retry_after_s=QUEUE_RETRY_S,
        )

    def _closed(self) -> HostError | None:
        """Why nothing at all is taken now."""
        if self._dispatcher.draining or self._dispatcher.closing:
            return Draining("the host takes nothing new: it is being stopped", hint="try again in a moment")
        if self._dispatcher.backlog.size >= (most := self._limits.queued_runs):
            return Overloaded("the host takes no runs now", hint="try again in a moment", limit=most)
        if self._journal.full:
            return StorageFull("the disk is full, so nothing new is taken", hint="free space in the data directory")
        return None

    def gated(
        self, agent: Agent, event: NewEvent, *, lane: LaneKey | None, new_run: bool, takes: bool = True
    ) -> HostError | None:
        """The front gates; `takes` is false for who only asks. A run that waits for others of its conversation is not
        beside them."""
        judged = self._gates.judge(
            agent,
            event,
            self._clock.monotonic(),
            self._clock.now_ms(),
            self._places.beside(agent, lane),
            new_run=new_run,
            uncounted=self._places.uncounted(agent),
            takes=takes,
        )
        return error_of(judged) if isinstance(judged, Refused) else None

    def preview(self, event: NewEvent, found: Resolution) -> Preview:
        """What would become of an event that was resolved like this. Nothing is written, nothing is counted."""
        if found.agent is None:
            return Preview(resolution=found)
        agent = found.agent
        lane = lane_of(agent.workspace, agent.agent_id, event)
        decision = self.decide(agent, event, lane)
        rejected = isinstance(decision, Reject)  # which the decision says itself
        refused = self._closed() if rejected else self.refusal(agent, event, decision, takes=False)
        grant = self._maker.grant(event, agent, "run_preview")
        return Preview(resolution=found, decision=decision, refused=refused, grant=grant)
