"""The conversations that have runs: what is active, what waits, and whose turn is next. In memory; no decisions.

One rule gives the order: a queued run starts when every run that came before it has left. Runs that came later can
only be parallel ones, and those hold nobody up, so nothing waits for ever. What a run gave back came when it was sent:
its own run goes before those that were queued since.

Every change is made at once, between two awaits of the caller. So a run enters when it is decided on, before it is
written, and leaves again if it could not be written: a second message never finds a place free that is taken. A run
whose turn has come may therefore still be on its way to the disk; its owner starts it when it is there.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Protocol

import msgspec
from msgspec.structs import replace

from bollard.host.agents.admission import LaneRun, LaneView
from bollard.host.errors import Conflict


class LaneKey(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of one agent. Threads are conversations of their own."""

    workspace: str
    agent_id: str
    bot: str | None
    conversation: str
    thread: str | None


class Placed(Protocol):
    """An event, as far as its place goes."""

    @property
    def bot(self) -> str | None: ...
    @property
    def conversation(self) -> str | None: ...
    @property
    def thread(self) -> str | None: ...


def lane_of(workspace: str, agent_id: str, event: Placed) -> LaneKey | None:
    """Where an event belongs; `None` for one of no conversation, whose run is in no lane."""
    if not event.conversation:
        return None
    return LaneKey(
        workspace=workspace,
        agent_id=agent_id,
        bot=event.bot or None,
        conversation=event.conversation,
        thread=event.thread or None,
    )


@dataclass(slots=True)
class _Lane:
    active: dict[str, tuple[int, LaneRun]] = field(default_factory=dict[str, tuple[int, LaneRun]])
    """By run id, with the number it came with."""
    queue: OrderedDict[str, tuple[int, LaneRun]] = field(default_factory=OrderedDict[str, tuple[int, LaneRun]])
    """The same, of those that wait."""

    def enqueue(self, number: int, run: LaneRun, *, in_order: bool) -> None:
        """At the end; or, in order, before the first whose event came after its own: all behind move one number on."""
        behind = [run]
        if in_order:
            waiting = (queued for _, queued in self.queue.values())
            behind += dropwhile(lambda queued: queued.event_id < run.event_id, waiting)
        numbers = [self.queue.pop(queued.run_id)[0] for queued in behind[1:]]
        for place, queued in zip([*numbers, number], behind, strict=True):
            self.queue[queued.run_id] = (place, queued)

    def start_next(self) -> str | None:
        """Let the first in the queue start, if nothing that came before it is left."""
        if not self.queue:
            return None
        run_id, (number, run) = next(iter(self.queue.items()))
        if any(earlier < number for earlier, _ in self.active.values()):
            return None
        del self.queue[run_id]
        self.active[run_id] = (number, run)
        return run_id


class Lanes:
    """One per host. A lane is there as long as it has a run; where something waits, something is active."""

    def __init__(self) -> None:
        self._lanes: dict[LaneKey, _Lane] = {}
        self._came = 0

    def __len__(self) -> int:
        """Conversations that have runs."""
        return len(self._lanes)

    def view(self, key: LaneKey) -> LaneView | None:
        """The conversation now; `None` when it has no runs."""
        lane = self._lanes.get(key)
        if lane is None:
            return None
        active = sorted(lane.active.values(), key=lambda entry: entry[0])
        return LaneView(active=tuple(run for _, run in active), queued=tuple(run for _, run in lane.queue.values()))

    def enter_active(self, key: LaneKey, run: LaneRun, *, parallel: bool = False) -> None:
        """A run starts at once. Beside another one, or past those that wait, it must be `parallel`."""
        lane = self._lanes.get(key)
        if lane is not None:
            self._refuse_twice(lane, run)
            if not parallel:
                raise Conflict(
                    f"run {run.run_id} cannot start: its conversation is busy", hint="queue it", run=run.run_id
                )
        self._came += 1
        self._lanes.setdefault(key, _Lane()).active[run.run_id] = (self._came, run)

    def enter_queue(self, key: LaneKey, run: LaneRun, *, given_back: bool = False) -> str | None:
        """A run waits for its turn. Returns its id if its turn is now, because whatever it would wait for has left.

        The event of one that was `given_back` came before the run: it waits where its event stood.
        """
        lane = self._lanes.setdefault(key, _Lane())
        self._refuse_twice(lane, run)
        self._came += 1
        lane.enqueue(self._came, run, in_order=given_back)
        return lane.start_next()

    def awaited(self, key: LaneKey) -> bool:
        """Whether anybody waits in the conversation."""
        lane = self._lanes.get(key)
        return lane is not None and bool(lane.queue)

    def leave(self, key: LaneKey, run_id: str) -> str | None:
        """An active run has ended. Returns the run whose turn is next, which is active from now on.

        A run that is not active here has left already: then nothing changes.
        """
        lane = self._lanes.get(key)
        if lane is None or lane.active.pop(run_id, None) is None:
            return None
        following = lane.start_next()
        if not lane.active:
            del self._lanes[key]
        return following

    def cancel_queued(self, key: LaneKey, run_id: str) -> bool:
        """A run waits no more. False when it does not wait: it is active, or not here."""
        lane = self._lanes.get(key)
        return lane is not None and lane.queue.pop(run_id, None) is not None

    def set_waiting_messages(self, key: LaneKey, run_id: str, count: int) -> None:
        """An active run was given messages, or pulled some."""
        self._replace(key, run_id, waiting_messages=count)

    def close_steering(self, key: LaneKey, run_id: str) -> None:
        """An active run takes no more messages: it is about to end."""
        self._replace(key, run_id, steerable=False)

    def _replace(self, key: LaneKey, run_id: str, **changes: int | bool) -> None:
        lane = self._lanes.get(key)
        if lane is not None and run_id in lane.active:
            number, run = lane.active[run_id]
            lane.active[run_id] = (number, replace(run, **changes))

    def _refuse_twice(self, lane: _Lane, run: LaneRun) -> None:
        if run.run_id in lane.active or run.run_id in lane.queue:
            raise Conflict(f"run {run.run_id} is in its conversation already", hint="enter it once", run=run.run_id)
