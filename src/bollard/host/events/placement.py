"""The decision about an event: start, queue, steer or refuse. It uses what is in memory and never waits."""

from collections.abc import Mapping
from typing import Final

from bollard.host.agents.admission import Admission, Queue, Reject, Start, Steer, admit
from bollard.host.agents.agent import Agent
from bollard.host.agents.gates import FrontGates, Refused
from bollard.host.agents.lanes import LaneKey, lane_of
from bollard.host.agents.routing import Resolution
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, Draining, HostError, Overloaded
from bollard.host.events.acceptance import Preview, disk_full, gate_error
from bollard.host.events.conversation_queue import ConversationQueue, known_actor
from bollard.host.events.steering import MessageListener, can_pull, fits_a_run
from bollard.host.limits import QUEUE_RETRY_S
from bollard.host.log.journal import Journal
from bollard.host.runs.backlog import RunLimits, ShareKind
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.event import NewEvent

_PLURAL: Final[Mapping[ShareKind, str]] = {"conversation": "conversations", "caller": "callers", "agent": "agents"}


class EventPlacement:
    """Decides where events go, and why they are refused."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        dispatcher: Dispatcher,
        gates: FrontGates,
        conversations: ConversationQueue,
        maker: RunMaker,
        limits: RunLimits,
        questions: MessageListener | None = None,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._dispatcher = dispatcher
        self._gates = gates
        self._conversations = conversations
        self._maker = maker
        self._limits = limits
        self._questions = questions

    def decide(self, agent: Agent, event: NewEvent, lane: LaneKey | None, *, external: bool = False) -> Admission:
        """Whether the event starts a run, queues one, or steers an active run. An `external` run is never steered
        into another one. An answer to a question goes into the run that asks, whatever the policy."""
        if (asking := self._asking(event, lane)) is not None:
            return Steer(asking)
        decision = admit(
            agent.policy.concurrency,
            steering="steering" in agent.capabilities,
            lane=self._conversations.view(lane),
            actor=known_actor(event),
            message=event.is_spoken,
            unread=self._limits.unread,
        )
        if isinstance(decision, Steer) and (external or not self._can_take(agent, event, decision)):
            return Queue()  # before the gates, which must know that this is a new run
        return decision

    def _asking(self, event: NewEvent, lane: LaneKey | None) -> str | None:
        """The active run of the conversation with a question that this message answers."""
        view = self._conversations.view(lane)
        if view is None or self._questions is None or not event.is_message or not event.text or not fits_a_run(event):
            return None
        actor, text = event.scope.actor, event.text
        return next((run.run_id for run in view.active if self._questions.awaits(run.run_id, actor, text)), None)

    def _can_take(self, agent: Agent, event: NewEvent, decision: Steer) -> bool:
        """Whether the sender may steer, and the run can still read the message."""
        run = self._dispatcher.live.get(decision.run_id)
        return self._gates.may_steer(agent, event.scope.actor) and (run is None or can_pull(run)) and fits_a_run(event)

    def refusal(self, agent: Agent, event: NewEvent, decision: Admission, *, takes: bool = True) -> HostError | None:
        """Why this event is refused now. A preview sets `takes` to false and consumes no rate. The front gates also
        apply to a message that steers (§9)."""
        if (closed := self._closed()) is not None:
            return closed
        if isinstance(decision, Reject):
            return conversation_busy(decision.sentence, agent.agent_id)
        if (crowded := self._crowded(agent, event, decision)) is not None:
            return crowded
        lane = lane_of(agent.agent_id, event.scope)
        return self.gated(agent, event, lane=lane, new_run=not isinstance(decision, Steer), takes=takes)

    def _crowded(self, agent: Agent, event: NewEvent, decision: Admission) -> HostError | None:
        """Why the queue has no room for an event that would have to wait."""
        if isinstance(decision, Steer) or (isinstance(decision, Start) and self._dispatcher.room.left):
            return None
        shares = self._dispatcher.backlog.shares
        full = shares.full(agent.agent_id, event)
        if full is None:
            return None
        limit = shares.limits.of(full)
        return Overloaded(
            f"this {full} has {limit} runs waiting, which is its share of the queue",
            reason=f"{full}_share_full",
            hint=f"wait until some of them have ended, or cancel them; other {_PLURAL[full]} are not affected",
            share=full,
            limit=limit,
            retry_after_s=QUEUE_RETRY_S,
        )

    def _closed(self) -> HostError | None:
        """Why the host accepts no events now."""
        if self._dispatcher.draining or self._dispatcher.closing:
            message = "the host accepts no new work: it is stopping or draining"
            return Draining(message, reason="host_draining", hint="retry in a moment, or use another host")
        if self._dispatcher.backlog.size >= (limit := self._limits.queued_runs):
            return Overloaded(f"{limit} runs are queued", reason="queue_full", hint="retry in a moment", limit=limit)
        return disk_full() if self._journal.full else None

    def gated(
        self, agent: Agent, event: NewEvent, *, lane: LaneKey | None, new_run: bool, takes: bool = True
    ) -> HostError | None:
        """The error of the front gates, if they refuse the event. A preview sets `takes` to false."""
        verdict = self._gates.judge(
            agent,
            event.scope.actor,
            self._clock.monotonic(),
            self._clock.now_ms(),
            self._conversations.beside(agent, lane),
            new_run=new_run,
            uncounted=self._conversations.uncounted(agent),
            takes=takes,
        )
        return gate_error(verdict) if isinstance(verdict, Refused) else None

    def preview(self, event: NewEvent, resolution: Resolution) -> Preview:
        """How an event with this resolution would be handled. Writes and counts nothing."""
        if resolution.agent is None:
            return Preview(resolution=resolution)
        agent = resolution.agent
        lane = lane_of(agent.agent_id, event.scope)
        decision = self.decide(agent, event, lane)
        rejected = isinstance(decision, Reject)  # the decision has the reason
        refused = self._closed() if rejected else self.refusal(agent, event, decision, takes=False)
        grant = self._maker.grant(event, agent, "run_preview")
        return Preview(resolution=resolution, decision=decision, refused=refused, grant=grant)


def conversation_busy(message: str, agent_id: str) -> Conflict:
    return Conflict(message, reason="conversation_busy", hint="retry when its run has ended", agent=agent_id)
