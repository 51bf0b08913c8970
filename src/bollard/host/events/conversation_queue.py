"""The position of each run in its conversation, and the run counts of each agent. In memory; decides nothing."""

from collections import Counter

import msgspec

from bollard.host.agents.admission import Interrupt, LaneRun, LaneView, Queue, Start
from bollard.host.agents.agent import Agent
from bollard.host.agents.lanes import LaneKey, Lanes
from bollard.host.log.records import RunFacts
from bollard.host.runs.creation import QueuedRun
from bollard.host.runs.event import NewEvent
from bollard.host.runs.live_run import LiveRun
from bollard.host.scope import Actor


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about one event, before its run enters the queue."""

    agent: Agent
    binding_id: str
    lane: LaneKey | None
    decision: Start | Queue | Interrupt
    parent: LiveRun | None = None
    external: bool = False
    fresh: bool = False
    """Whether the event id was made here, so that the runner may start while the run is being committed."""


class ConversationQueue:
    """The lanes of all conversations, and the counts that the gates need."""

    def __init__(self) -> None:
        self._lanes = Lanes()
        self._lane_of_run: dict[str, LaneKey] = {}
        self._runs_of_agent: Counter[tuple[str, str]] = Counter()
        self._waiting: Counter[tuple[str, str]] = Counter()
        """Runs that wait for other runs of their conversation."""
        self._uncounted: Counter[tuple[str, str]] = Counter()
        self._early: set[str] = set()
        """Runs whose turn came before their commit."""

    def view(self, lane: LaneKey | None) -> LaneView | None:
        """The runs of a conversation. `None` if it has none, or for no conversation."""
        return None if lane is None else self._lanes.view(lane)

    def beside(self, agent: Agent, lane: LaneKey | None) -> int:
        """Runs of the agent that would execute beside a new one. Excludes the runs of its own conversation and runs
        that wait for others of theirs, because each of those starts only when another one ends."""
        view = None if agent.policy.concurrency.mode == "parallel" else self.view(lane)
        waits_for = 0 if view is None else len(view.active)
        key = (agent.workspace, agent.agent_id)
        return self._runs_of_agent[key] - self._waiting[key] - waits_for

    def uncounted(self, agent: Agent) -> int:
        """Runs of the agent that passed the gates and are not committed yet."""
        return self._uncounted[agent.workspace, agent.agent_id]

    def enter(self, placement: Placement, run: QueuedRun) -> bool:
        """Add a run. Returns whether its turn is now."""
        facts = run.facts
        key = (facts.workspace, facts.agent_id)
        self._runs_of_agent[key] += 1
        self._uncounted[key] += 1
        if placement.lane is None:
            return True
        # An external run cannot pull, so messages for it would wait until it ends.
        steerable = run.grant.steerable and not facts.external
        entry = LaneRun(
            run_id=facts.run_id,
            event_id=facts.event_id,
            actor=known_actor(run.event),
            steerable=steerable,
            on_message=run.event.is_spoken,
        )
        self._lane_of_run[facts.run_id] = placement.lane
        if isinstance(placement.decision, Start):
            parallel = placement.agent.policy.concurrency.mode == "parallel"
            self._lanes.enter_active(placement.lane, entry, parallel=parallel)
            return True
        turn = self._lanes.enter_queue(placement.lane, entry, given_back=facts.adopts) is not None
        self._waiting[key] += not turn
        return turn

    def counted(self, facts: RunFacts) -> None:
        """The first commit of the run succeeded or failed."""
        self._uncounted[facts.workspace, facts.agent_id] -= 1

    def came_early(self, run_id: str) -> bool:
        """Whether the turn of the run came before its commit."""
        if run_id not in self._early:
            return False
        self._early.discard(run_id)
        return True

    def leave(self, facts: RunFacts) -> str | None:
        """Remove a run that has ended or was never committed. Returns the next run of its conversation."""
        key = (facts.workspace, facts.agent_id)
        self._runs_of_agent[key] -= 1
        if not self._runs_of_agent[key]:
            del self._runs_of_agent[key], self._uncounted[key]
        self._early.discard(facts.run_id)
        lane = self._lane_of_run.pop(facts.run_id, None)
        if lane is None:
            return None
        waited = self._lanes.cancel_queued(lane, facts.run_id)
        following = None if waited else self._lanes.leave(lane, facts.run_id)
        self._waiting[key] -= waited or following is not None
        if not self._waiting[key]:
            del self._waiting[key]
        return following

    def lane_awaited(self, run_id: str) -> LaneKey | None:
        """The conversation of a run, if other runs wait for it."""
        lane = self._lane_of_run.get(run_id)
        return lane if lane is not None and self._lanes.awaited(lane) else None

    def not_yet(self, run_id: str) -> None:
        """The turn of the run came before its commit. The run starts once it is committed."""
        self._early.add(run_id)

    def unread(self, run_id: str, count: int) -> None:
        """Set how many messages wait for the runner of this run."""
        if (lane := self._lane_of_run.get(run_id)) is not None:
            self._lanes.set_waiting_messages(lane, run_id, count)


def known_actor(event: NewEvent) -> Actor | None:
    """The actor, if it has an id: unknown actors need not be the same person."""
    actor = event.scope.actor
    return actor if actor is not None and actor.type and actor.id else None
