"""The lanes of conversations: active runs, waiting runs, and the next one. In memory; decides nothing.

A waiting run starts when every earlier run has left. Later runs can only be parallel and block none, so every run gets
its turn. A redispatched message is ordered by its arrival, so its run goes before runs that were queued since.

Changes are synchronous. A run enters its lane when it is decided on, before its commit, and leaves it if the commit
fails, so that two messages never get the same place. The turn of a run may therefore come before its commit.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import dropwhile

import msgspec
from msgspec.structs import replace

from bollard.host.agents.admission import LaneRun, LaneView
from bollard.host.errors import Conflict
from bollard.host.scope import Place


class LaneKey(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation or thread of one agent."""

    workspace: str
    agent_id: str
    bot: str | None
    conversation: str
    thread: str | None


def lane_of(agent_id: str, place: Place) -> LaneKey | None:
    """The lane of an agent in a conversation. `None` without a conversation."""
    if not place.conversation:
        return None
    return LaneKey(
        workspace=place.workspace,
        agent_id=agent_id,
        bot=place.bot or None,
        conversation=place.conversation,
        thread=place.thread or None,
    )


@dataclass(slots=True)
class _Lane:
    active: dict[str, tuple[int, LaneRun]] = field(default_factory=dict[str, tuple[int, LaneRun]])
    """Active runs by id, each with its arrival number."""
    queue: OrderedDict[str, tuple[int, LaneRun]] = field(default_factory=OrderedDict[str, tuple[int, LaneRun]])
    """Waiting runs by id, each with its arrival number."""

    def enqueue(self, number: int, run: LaneRun, *, in_order: bool) -> None:
        """Append a run; or, `in_order`, insert it before the first run with a later event and renumber the rest."""
        behind = [run]
        if in_order:
            waiting = (queued for _, queued in self.queue.values())
            behind += dropwhile(lambda queued: queued.event_id < run.event_id, waiting)
        numbers = [self.queue.pop(queued.run_id)[0] for queued in behind[1:]]
        for place, queued in zip([*numbers, number], behind, strict=True):
            self.queue[queued.run_id] = (place, queued)

    def start_next(self) -> str | None:
        """Start the first waiting run, if no earlier run is active."""
        if not self.queue:
            return None
        run_id, (number, run) = next(iter(self.queue.items()))
        if any(earlier < number for earlier, _ in self.active.values()):
            return None
        del self.queue[run_id]
        self.active[run_id] = (number, run)
        return run_id


class Lanes:
    """All lanes that have runs. A lane with waiting runs always has an active one."""

    def __init__(self) -> None:
        self._lanes: dict[LaneKey, _Lane] = {}
        self._came = 0

    def __len__(self) -> int:
        """The number of lanes."""
        return len(self._lanes)

    def view(self, key: LaneKey) -> LaneView | None:
        """The runs of a lane. `None` if it has none."""
        lane = self._lanes.get(key)
        if lane is None:
            return None
        active = sorted(lane.active.values(), key=lambda entry: entry[0])
        return LaneView(active=tuple(run for _, run in active), queued=tuple(run for _, run in lane.queue.values()))

    def enter_active(self, key: LaneKey, run: LaneRun, *, parallel: bool = False) -> None:
        """Add an active run. If the lane has other runs, it must be `parallel`."""
        lane = self._lanes.get(key)
        if lane is not None:
            self._refuse_twice(lane, run)
            if not parallel:
                message = f"run {run.run_id} cannot start: its conversation is busy"
                raise Conflict(message, reason="lane_busy", hint="queue the run", run=run.run_id)
        self._came += 1
        self._lanes.setdefault(key, _Lane()).active[run.run_id] = (self._came, run)

    def enter_queue(self, key: LaneKey, run: LaneRun, *, given_back: bool = False) -> str | None:
        """Add a waiting run. Returns its id if its turn is now. A `given_back` run is ordered by its event, which is
        older than the run."""
        lane = self._lanes.setdefault(key, _Lane())
        self._refuse_twice(lane, run)
        self._came += 1
        lane.enqueue(self._came, run, in_order=given_back)
        return lane.start_next()

    def awaited(self, key: LaneKey) -> bool:
        """Whether the lane has waiting runs."""
        lane = self._lanes.get(key)
        return lane is not None and bool(lane.queue)

    def leave(self, key: LaneKey, run_id: str) -> str | None:
        """Remove an active run and return the next one, which becomes active. A no-op if the run is not active."""
        lane = self._lanes.get(key)
        if lane is None or lane.active.pop(run_id, None) is None:
            return None
        following = lane.start_next()
        if not lane.active:
            del self._lanes[key]
        return following

    def cancel_queued(self, key: LaneKey, run_id: str) -> bool:
        """Remove a waiting run. Returns False if it does not wait."""
        lane = self._lanes.get(key)
        return lane is not None and lane.queue.pop(run_id, None) is not None

    def set_waiting_messages(self, key: LaneKey, run_id: str, count: int) -> None:
        """Set the number of unread messages of an active run."""
        lane = self._lanes.get(key)
        if lane is not None and run_id in lane.active:
            number, run = lane.active[run_id]
            lane.active[run_id] = (number, replace(run, waiting_messages=count))

    def _refuse_twice(self, lane: _Lane, run: LaneRun) -> None:
        if run.run_id in lane.active or run.run_id in lane.queue:
            message = f"run {run.run_id} is in its conversation already"
            raise Conflict(message, reason="run_in_lane", hint="enter a run once", run=run.run_id)
