"""The backlog: runs on disk that have not started. It claims them when there is room, and cancels them in the queue."""

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
from bollard.host.engine import Cancel, Engine
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
from bollard.host.runs.hub import Hub, stream_records
from bollard.host.runs.ids import made_ms
from bollard.host.runs.live_run import LiveRun
from bollard.host.telemetry.counts import RunCounts
from bollard.protocol import JsonObject, status_of_failure
from bollard.protocol.limits import STEERING_QUEUE

ShareKind = Literal["conversation", "caller", "agent"]
_KINDS: Final[tuple[ShareKind, ...]] = get_args(ShareKind)
_Key = tuple[ShareKind, object]


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of one conversation, caller or agent may wait."""

    conversation: int = QUEUED_RUNS_OF_CONVERSATION
    caller: int = QUEUED_RUNS_OF_CALLER
    agent: int = QUEUED_RUNS_OF_AGENT

    def of(self, kind: ShareKind) -> int:
        return getattr(self, kind)


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs a host executes, queues and steers."""

    runs_at_once: int = RUNS_AT_ONCE
    run_output_mib: int = RUN_OUTPUT_MIB
    """MiB that a run may record, unless its agent allows less."""
    queued_runs: int = QUEUED_RUNS
    queue: QueueLimits = QueueLimits()
    unread: int = STEERING_QUEUE
    """Steering messages that may wait for one run."""


class QueueShares:
    """Counts the waiting runs of each conversation, caller and agent, including those that are being committed."""

    def __init__(self, limits: QueueLimits | None = None) -> None:
        self.limits = limits or QueueLimits()
        self._counts: Counter[_Key] = Counter()

    def add(self, run: QueuedRun) -> None:
        for key in _keys(run.facts.agent_id, run.event):
            self._counts[key] += 1

    def remove(self, run: QueuedRun) -> None:
        for key in _keys(run.facts.agent_id, run.event):
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def full(self, agent_id: str, event: NewEvent) -> ShareKind | None:
        """The first share that has no room for a run of this event, smallest kind first."""
        for key in _keys(agent_id, event):
            if self._counts[key] >= self.limits.of(key[0]):
                return key[0]
        return None

    def largest(self) -> dict[ShareKind, int]:
        """The size of the fullest share of each kind."""
        sizes: dict[ShareKind, int] = dict.fromkeys(_KINDS, 0)
        for (kind, _), count in self._counts.items():
            sizes[kind] = max(sizes[kind], count)
        return sizes


def _keys(agent_id: str, event: NewEvent) -> Iterator[_Key]:
    if (lane := lane_of(agent_id, event.scope)) is not None:
        yield "conversation", replace(lane, thread=None)  # a sender may open as many threads as it likes
    workspace = event.scope.workspace
    if event.caller is not None:
        yield "caller", (workspace, event.caller)
    yield "agent", (workspace, agent_id)


_log = structlog.get_logger("bollard.runs")
_RETRY_S: Final = 1.0
"""Time before a claim that the store refused is retried."""


class Room:
    """The limit on concurrent runs. Runs that wait for a person do not count, up to the same number again, so that
    unanswered questions cannot block a host."""

    def __init__(self, runs_at_once: int, live: Mapping[str, LiveRun]) -> None:
        self._runs_at_once = runs_at_once
        self._live = live
        self.coming = 0
        """Runs whose commit is under way."""

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
        """Whether even child runs must be refused."""
        return len(self._live) + self.coming >= 2 * self._runs_at_once


@dataclass(slots=True)
class _Claiming:
    """A queued run that is being claimed."""

    stop: str | None = None
    """Why the run must stop once it is claimed."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class _Away(msgspec.Struct, frozen=True):
    """A run of an earlier incarnation whose agent is not there yet."""

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
    """The queue of one host."""

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
        """Runs that wait for other runs of their conversation."""
        self._claiming: dict[str, _Claiming] = {}
        self._stopped: dict[str, bool] = {}
        """Waiting runs that are being cancelled, and whether their turn has come."""
        self._stops: dict[str, asyncio.Task[None]] = {}
        self._away: dict[str, _Away] = {}

    @property
    def size(self) -> int:
        return len(self._queue) + len(self._held)

    @property
    def since_ms(self) -> int | None:
        """The creation time of the oldest waiting run."""
        oldest = min((*self._queue, *self._held), default=None)  # ids sort by creation time
        return None if oldest is None else made_ms(oldest)

    def of(self, workspace: str) -> list[str]:
        """The waiting runs of a workspace."""
        waiting = (*self._queue.items(), *self._held.items())
        away = [run_id for run_id, run in self._away.items() if run.workspace == workspace]
        return [*(run_id for run_id, run in waiting if run.facts.workspace == workspace), *away]

    def expect(self, run_id: str, workspace: str, stop: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Add a run that waits for its agent. `stop` ends it with a reason."""
        self._away[run_id] = _Away(workspace, stop)

    async def returns(self, run_id: str) -> bool:
        """The agent of a run is there. Returns False if the run was cancelled; waits for a cancel that is under way."""
        while (stop := self._stops.get(run_id)) is not None:
            await asyncio.wait([stop])
        return self._away.pop(run_id, None) is not None

    def wait(self, queued: QueuedRun) -> None:
        """Queue a run whose turn it is. It starts when there is room."""
        self._enter(self._queue, queued)
        self._engine.submit(queued.facts.run_id)

    def hold(self, queued: QueuedRun) -> None:
        """Add a run that waits for other runs of its conversation."""
        self._enter(self._held, queued)

    def _enter(self, runs: dict[str, QueuedRun], queued: QueuedRun) -> None:
        runs[queued.facts.run_id] = queued
        self.shares.add(queued)

    def _leave(self, runs: dict[str, QueuedRun], run_id: str) -> QueuedRun | None:
        queued = runs.pop(run_id, None)
        if queued is not None:
            self.shares.remove(queued)
        return queued

    def turn_of(self, run_id: str) -> bool:
        """The turn of the run has come in its conversation. Returns False if the run is not on disk yet."""
        if run_id in self._stopped:
            self._stopped[run_id] = True
            return True
        held = self._leave(self._held, run_id)
        if held is None:
            return False
        self.wait(held)
        return True

    def fill(self) -> None:
        """Claim queued runs while there is room."""
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
            asyncio.get_running_loop().call_later(_RETRY_S, self.fill)  # no other event may trigger it
            claiming = self._claiming.pop(run_id)
            claiming.settled.set()
            if claiming.stop is not None:
                self._owner.background(self.stop(run_id, claiming.stop))
            return
        finally:
            self._room.coming -= 1
        claiming = self._claiming.pop(run_id)
        if won:
            self._hub.publish(run_id, stream_records(record))
            self._owner.claimed(mine)
            if claiming.stop is not None:
                self._engine.signal(run_id, Cancel(claiming.stop))
        else:
            self._owner.not_claimed(queued.facts)
        claiming.settled.set()

    def _records(self, queued: QueuedRun, bodies: list[tuple[str, JsonObject]]) -> list[NewRecord]:
        """Records of a run that is not live, numbered from `queued.seq`."""
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

    # --- cancelling ---

    async def cancel(self, run_id: str, reason: str, *, superseded: bool = False) -> bool:
        """Cancel a waiting or live run. Returns False if it is neither. If the store rejects the write, the run stays
        queued and this raises."""
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
        """The coroutine that cancels a waiting run."""
        if (away := self._away.get(run_id)) is not None:
            return self._cancel_away(run_id, away, reason)
        held = self._leave(self._held, run_id)
        queued = held or self._leave(self._queue, run_id)
        if queued is None:
            return None
        self._stopped[run_id] = held is None
        return self._cancel_queued(queued, reason)

    async def stop(self, run_id: str, reason: str) -> None:
        """Cancel a run in the background. A failure is logged."""
        try:
            await self.cancel(run_id, reason)
        except HostError as error:
            _log.warning("a queued run could not be stopped", run=run_id, problem=error.message)

    async def _cancel_away(self, run_id: str, away: _Away, reason: str) -> None:
        await away.stop(reason)
        del self._away[run_id]

    async def _cancel_queued(self, queued: QueuedRun, reason: str) -> None:
        """End a queued run under a new epoch, so that no other host can start it."""
        mine, run_id = claimed(queued), queued.facts.run_id
        ended: JsonObject = {
            "status": status_of_failure(reason),
            "code": reason,
            "error": "the run was cancelled in the queue",
        }
        records = self._records(mine, [("run.cancelled", {"reason": reason}), ("run.ended", ended)])
        try:
            won = await self._engine.claim(run_id, mine.epoch, records)
        except HostError:
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
            self._hub.publish(run_id, stream_records(records))
            self._hub.end(run_id)
        self._owner.not_claimed(queued.facts)
