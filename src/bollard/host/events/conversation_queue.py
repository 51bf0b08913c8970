"""Where each run stands: in its conversation, and among the runs of its agent. In memory; no decisions."""

from collections import Counter

import msgspec

from bollard.host.agents.admission import Actor, Interrupt, LaneRun, LaneView, Queue, Start
from bollard.host.agents.agent import Agent
from bollard.host.agents.lanes import LaneKey, Lanes
from bollard.host.log.records import RunFacts
from bollard.host.runs.creation import QueuedRun
from bollard.host.runs.event import NewEvent
from bollard.host.runs.live_run import LiveRun


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where an event goes: decided, and its place not taken yet."""

    agent: Agent
    binding_id: str
    lane: LaneKey | None
    decision: Start | Queue | Interrupt
    parent: LiveRun | None = None
    external: bool = False
    fresh: bool = False
    """Whether its event cannot have come before, so that its runner may begin while the run goes to the disk."""


class ConversationQueue:
    """One per host."""

    def __init__(self) -> None:
        self._lanes = Lanes()
        self._lane_of_run: dict[str, LaneKey] = {}
        self._runs_of_agent: Counter[tuple[str, str]] = Counter()
        self._waiting: Counter[tuple[str, str]] = Counter()
        """Those of them that only wait for others of their conversation."""
        self._uncounted: Counter[tuple[str, str]] = Counter()
        self._early: set[str] = set()
        """Runs whose turn came before they were on disk."""

    def view(self, lane: LaneKey | None) -> LaneView | None:
        """A conversation now; `None` for one that has no runs, and for none."""
        return None if lane is None else self._lanes.view(lane)

    def beside(self, agent: Agent, lane: LaneKey | None) -> int:
        """Runs of the agent that a new one would run beside, so without those of its conversation, and without those
        that wait for others of theirs: each of these begins in the place of one that ends."""
        view = None if agent.policy.concurrency.mode == "parallel" else self.view(lane)
        waits_for = 0 if view is None else len(view.active)
        key = (agent.workspace, agent.agent_id)
        return self._runs_of_agent[key] - self._waiting[key] - waits_for

    def uncounted(self, agent: Agent) -> int:
        """Runs of the agent that passed the gates and are not on disk yet."""
        return self._uncounted[agent.workspace, agent.agent_id]

    def enter(self, way: Placement, run: QueuedRun) -> bool:
        """Take the run's place; whether its turn is now."""
        facts = run.facts
        key = (facts.workspace, facts.agent_id)
        self._runs_of_agent[key] += 1
        self._uncounted[key] += 1
        if way.lane is None:
            return True
        # A program outside cannot pull, so what it was given would only wait for its end.
        steerable = run.grant.steerable and not facts.external
        entry = LaneRun(
            run_id=facts.run_id,
            event_id=facts.event_id,
            actor=actor_of(run.event),
            steerable=steerable,
            on_message=run.event.is_message,
        )
        self._lane_of_run[facts.run_id] = way.lane
        if isinstance(way.decision, Start):
            parallel = way.agent.policy.concurrency.mode == "parallel"
            self._lanes.enter_active(way.lane, entry, parallel=parallel)
            return True
        turn = self._lanes.enter_queue(way.lane, entry, given_back=facts.adopts) is not None
        self._waiting[key] += not turn
        return turn

    def counted(self, facts: RunFacts) -> None:
        """The fate of its first commit is known."""
        self._uncounted[facts.workspace, facts.agent_id] -= 1

    def came_early(self, run_id: str) -> bool:
        """Whether its turn came while it was on its way to the disk."""
        if run_id not in self._early:
            return False
        self._early.discard(run_id)
        return True

    def leave(self, facts: RunFacts) -> str | None:
        """The run is over, or never was; the run of its conversation whose turn is next."""
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
        """The conversation of a run, if others wait there for it to leave."""
        lane = self._lane_of_run.get(run_id)
        return lane if lane is not None and self._lanes.awaited(lane) else None

    def not_yet(self, run_id: str) -> None:
        """Its turn has come and it is not on disk: it starts as soon as it is."""
        self._early.add(run_id)

    def unread(self, run_id: str, count: int) -> None:
        """So many messages wait for the runner of this run."""
        if (lane := self._lane_of_run.get(run_id)) is not None:
            self._lanes.set_waiting_messages(lane, run_id, count)


def actor_of(event: NewEvent) -> Actor | None:
    return (event.actor_type, event.actor_id) if event.actor_type and event.actor_id else None
