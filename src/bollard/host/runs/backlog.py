"""Runs that are on disk and have not begun: whose turn it is, which are being claimed, and which are stopped there."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, get_args

import msgspec
import structlog
from msgspec.structs import replace

from bollard.host.agents.lanes import lane_of
from bollard.host.clock import Clock
from bollard.host.engine.boundary import Cancel, Engine
from bollard.host.errors import HostError
from bollard.host.limits import (
    QUEUED_RUNS,
    QUEUED_RUNS_OF_AGENT,
    QUEUED_RUNS_OF_CALLER,
    QUEUED_RUNS_OF_CONVERSATION,
    RUN_OUTPUT_MIB,
    RUNS_AT_ONCE,
)
from bollard.host.log.records import NewRecord, RunFacts, encode_data
from bollard.host.runs.creation import QueuedRun, claimed
from bollard.host.runs.event import NewEvent
from bollard.host.runs.hub import Hub, stream_record
from bollard.host.runs.ids import made_ms
from bollard.host.runs.live_run import LiveRun
from bollard.host.telemetry.counts import RunCounts
from bollard.protocol import JsonObject, status_of_failure
from bollard.protocol.limits import STEERING_QUEUE

# Shares of the queue: how many of the waiting runs may be of one conversation, one caller or one agent.
#
# The counts follow the queue, so they are the same after a restart as soon as the waiting runs are back in it. A run
# that is on its way to the disk and will wait counts as well.


ShareKind = Literal["conversation", "caller", "agent"]
_KINDS: Final[tuple[ShareKind, ...]] = get_args(ShareKind)
_Key = tuple[ShareKind, object]


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that may wait, of one of each kind."""

    conversation: int = QUEUED_RUNS_OF_CONVERSATION
    caller: int = QUEUED_RUNS_OF_CALLER
    agent: int = QUEUED_RUNS_OF_AGENT

    def of(self, kind: ShareKind) -> int:
        return getattr(self, kind)


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs a host executes, queues and steers."""

    runs_at_once: int = RUNS_AT_ONCE
    run_output_mib: int = RUN_OUTPUT_MIB
    """MiB that a run may record where its agent allows no less."""
    queued_runs: int = QUEUED_RUNS
    queue: QueueLimits = QueueLimits()
    unread: int = STEERING_QUEUE
    """Steering messages that may wait for one run."""


class QueueShares:
    """The counts of one queue. The queue itself enters and removes its runs."""

    def __init__(self, limits: QueueLimits | None = None) -> None:
        self.limits = limits or QueueLimits()
        self._counts: Counter[_Key] = Counter()

    def add(self, run: QueuedRun) -> None:
        for key in _keys(run.facts.workspace, run.facts.agent_id, run.event):
            self._counts[key] += 1

    def remove(self, run: QueuedRun) -> None:
        for key in _keys(run.facts.workspace, run.facts.agent_id, run.event):
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def full(self, workspace: str, agent_id: str, event: NewEvent) -> ShareKind | None:
        """The share, smallest kind first, that has no room for another run of this event's kind."""
        for key in _keys(workspace, agent_id, event):
            if self._counts[key] >= self.limits.of(key[0]):
                return key[0]
        return None

    def largest(self) -> dict[ShareKind, int]:
        """The runs of the fullest share of each kind."""
        found: dict[ShareKind, int] = dict.fromkeys(_KINDS, 0)
        for (kind, _), count in self._counts.items():
            found[kind] = max(found[kind], count)
        return found


def _keys(workspace: str, agent_id: str, event: NewEvent) -> Iterator[_Key]:
    if (lane := lane_of(workspace, agent_id, event)) is not None:
        yield "conversation", replace(lane, thread=None)  # a sender may open as many threads as it likes
    if event.caller is not None:
        yield "caller", (workspace, event.caller)
    yield "agent", (workspace, agent_id)


_log = structlog.get_logger("bollard.runs")
_RETRY_S: Final = 1.0
"""Time between two tries to claim a queued run that the store refused."""


class Room:
    """How many runs may be under way at once, and how many are or are about to be. One that waits for a person takes
    nobody's place, up to as many again: what nobody answers must not fill a host."""

    def __init__(self, runs_at_once: int, live: Mapping[str, LiveRun]) -> None:
        self._runs_at_once = runs_at_once
        self._live = live
        self.coming = 0
        """Runs whose place is kept while their commit is under way."""

    @property
    def left(self) -> bool:
        taken = len(self._live) + self.coming
        if taken < self._runs_at_once:
            return True
        return not self.crowded and taken - self._parked < self._runs_at_once

    @property
    def _parked(self) -> int:
        return sum(live.state.status == "waiting" for live in self._live.values())

    @property
    def crowded(self) -> bool:
        """Whether even a run that another one waits for must be refused."""
        return len(self._live) + self.coming >= 2 * self._runs_at_once


@dataclass(slots=True)
class _Claiming:
    """A queued run that is being claimed."""

    stop: str | None = None
    """The reason why it must stop as soon as it is this host's."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class _Away(msgspec.Struct, frozen=True):
    """A run of an earlier incarnation whose agent has not come back yet."""

    workspace: str
    stop: Callable[[str], Coroutine[Any, Any, None]]


class BacklogOwner(Protocol):
    """The dispatcher, as the backlog sees it."""

    @property
    def takes_runs(self) -> bool: ...

    def claimed(self, queued: QueuedRun) -> None: ...

    def not_claimed(self, facts: RunFacts) -> None: ...

    def background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...


class Backlog:
    """One per host."""

    def __init__(
        self,
        engine: Engine,
        hub: Hub,
        clock: Clock,
        counts: RunCounts,
        room: Room,
        owner: BacklogOwner,
        limits: QueueLimits | None = None,
    ) -> None:
        self._engine = engine
        self._hub = hub
        self._clock = clock
        self._counts = counts
        self._room = room
        self._owner = owner
        self.shares = QueueShares(limits)
        self._queue: dict[str, QueuedRun] = {}
        self._held: dict[str, QueuedRun] = {}
        """On disk, and not their turn in their conversation."""
        self._claiming: dict[str, _Claiming] = {}
        """On their way from the queue into this host's hands."""
        self._stopped: dict[str, bool] = {}
        """Being stopped while they waited, and whether their turn came meanwhile."""
        self._stops: dict[str, asyncio.Task[None]] = {}
        self._away: dict[str, _Away] = {}

    @property
    def size(self) -> int:
        return len(self._queue) + len(self._held)

    @property
    def since_ms(self) -> int | None:
        """When the run was made that waits the longest."""
        oldest = min((*self._queue, *self._held), default=None)  # ids are in the order they were made in
        return None if oldest is None else made_ms(oldest)

    def of(self, workspace: str) -> list[str]:
        """The runs of a workspace that wait."""
        waiting = (*self._queue.items(), *self._held.items())
        away = [run_id for run_id, run in self._away.items() if run.workspace == workspace]
        return [*(run_id for run_id, run in waiting if run.facts.workspace == workspace), *away]

    def expect(self, run_id: str, workspace: str, stop: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """A run that waits for its agent to come back; `stop` ends it for a reason."""
        self._away[run_id] = _Away(workspace, stop)

    async def returns(self, run_id: str) -> bool:
        """Its agent is there; false when it was stopped meanwhile. A stop that is under way goes first."""
        while (stop := self._stops.get(run_id)) is not None:
            await asyncio.wait([stop])
        return self._away.pop(run_id, None) is not None

    def wait(self, queued: QueuedRun) -> None:
        """A run whose turn it is: it starts as soon as there is room."""
        self._enter(self._queue, queued)
        self._engine.submit(queued.facts.run_id)

    def hold(self, queued: QueuedRun) -> None:
        """A run that must wait for others of its conversation."""
        self._enter(self._held, queued)

    def _enter(self, place: dict[str, QueuedRun], queued: QueuedRun) -> None:
        place[queued.facts.run_id] = queued
        self.shares.add(queued)

    def _leave(self, place: dict[str, QueuedRun], run_id: str) -> QueuedRun | None:
        queued = place.pop(run_id, None)
        if queued is not None:
            self.shares.remove(queued)
        return queued

    def turn_of(self, run_id: str) -> bool:
        """Its conversation is free for it; false when it is not on disk yet."""
        if run_id in self._stopped:
            self._stopped[run_id] = True
            return True
        held = self._leave(self._held, run_id)
        if held is None:
            return False
        self.wait(held)
        return True

    def fill(self) -> None:
        """Take what waits, while there is room."""
        while self._queue and self._room.left and self._owner.takes_runs:
            self._room.coming += 1
            run_id, queued = next(iter(self._queue.items()))
            self._leave(self._queue, run_id)
            self._claiming[run_id] = _Claiming()
            self._owner.background(self._claim(queued))

    async def _claim(self, queued: QueuedRun) -> None:
        won, mine, run_id = False, claimed(queued), queued.facts.run_id
        record = self._records(mine, [("run.claimed", {})])
        try:
            won = await self._engine.claim(run_id, mine.epoch, record)
        except HostError as error:
            _log.warning("a queued run could not be claimed", run=run_id, problem=error.message)
            self._enter(self._queue, queued)
            asyncio.get_running_loop().call_later(_RETRY_S, self.fill)  # nothing else may come that would
            claiming = self._claiming.pop(run_id)
            claiming.settled.set()
            if claiming.stop is not None:
                self._owner.background(self.stop(run_id, claiming.stop))
            return
        finally:
            self._room.coming -= 1
        claiming = self._claiming.pop(run_id)
        if won:
            self._hub.publish(run_id, [stream_record(one) for one in record])
            self._owner.claimed(mine)
            if claiming.stop is not None:
                self._engine.signal(run_id, Cancel(claiming.stop))
        else:
            self._owner.not_claimed(queued.facts)
        claiming.settled.set()

    def _records(self, queued: QueuedRun, bodies: list[tuple[str, JsonObject]]) -> list[NewRecord]:
        """Records of a run that nobody executes: the first has the number that `queued` names."""
        return [
            NewRecord(
                workspace=queued.facts.workspace,
                type=kind,
                data=encode_data(body),
                created_ms=self._clock.now_ms(),
                run_id=queued.facts.run_id,
                seq=queued.seq + index,
                epoch=queued.epoch,
            )
            for index, (kind, body) in enumerate(bodies)
        ]

    # --- stopping ---

    async def cancel(self, run_id: str, reason: str, *, superseded: bool = False) -> bool:
        """Stop a run that waits, or that is live here; false when it is neither."""
        if run_id in self._claiming:
            claiming = self._claiming[run_id]
            claiming.stop = claiming.stop or reason
            await claiming.settled.wait()
            return True
        if (under_way := self._stops.get(run_id)) is not None:
            await asyncio.shield(under_way)
            return True
        stop = self._stop_of(run_id, reason)
        if stop is None:
            return self._engine.signal(run_id, Cancel(reason, superseded))
        task = self._stops[run_id] = self._owner.background(stop)
        task.add_done_callback(lambda _: self._stops.pop(run_id, None))
        await asyncio.shield(task)
        return True

    def _stop_of(self, run_id: str, reason: str) -> Coroutine[Any, Any, None] | None:
        """What ends a run that waits."""
        if (away := self._away.get(run_id)) is not None:
            return self._cancel_away(run_id, away, reason)
        held = self._leave(self._held, run_id)
        queued = held or self._leave(self._queue, run_id)
        if queued is None:
            return None
        self._stopped[run_id] = held is None
        return self._cancel_queued(queued, reason)

    async def stop(self, run_id: str, reason: str) -> None:
        """A stop that nobody waits for: where the store does not take it, it is said."""
        try:
            await self.cancel(run_id, reason)
        except HostError as error:
            _log.warning("a queued run could not be stopped", run=run_id, problem=error.message)

    async def _cancel_away(self, run_id: str, away: _Away, reason: str) -> None:
        """Where the store does not take that, it waits as before, and whoever stops it is told."""
        await away.stop(reason)
        del self._away[run_id]

    async def _cancel_queued(self, queued: QueuedRun, reason: str) -> None:
        """A run that never started ends under an epoch of its own, so that nobody can start it any more."""
        mine, run_id = claimed(queued), queued.facts.run_id
        ended: JsonObject = {
            "status": status_of_failure(reason),
            "code": reason,
            "error": "it was stopped in the queue",
        }
        records = self._records(mine, [("run.cancelled", {"reason": reason}), ("run.ended", ended)])
        try:
            won = await self._engine.claim(run_id, mine.epoch, records)
        except HostError:
            # It waits as before, and whoever stops it is told.
            if not self._stopped[run_id]:
                self.hold(queued)
            else:
                self._enter(self._queue, queued)
                self.fill()
            raise
        finally:
            del self._stopped[run_id]
        if won:
            self._counts.end(status_of_failure(reason), reason)
            self._hub.publish(run_id, [stream_record(record) for record in records])
            self._hub.end(run_id)
        self._owner.not_claimed(queued.facts)
