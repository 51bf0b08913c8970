"""The runs of this host that are on disk: gives them to workers when there is room, and stops them.

Which runs there are, and whose turn it is in a conversation, is decided before (`intake`). A run that waits is on disk;
so is one that was accepted a moment ago: nothing here is lost by a crash.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from bollard.host.clock import Clock
from bollard.host.engine.boundary import Cancel, Engine, Signal
from bollard.host.errors import HostError, WorkerUnavailable
from bollard.host.limits import RUNS_AT_ONCE, WORKER_START_S
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.creation import QueuedRun, claimed
from bollard.host.runs.hub import Hub
from bollard.host.runs.live import ApiOfRuns, LiveRun, RunPorts
from bollard.host.runs.machine import RunState
from bollard.host.runs.opening import Opening
from bollard.host.runs.stream_records import stream_record
from bollard.host.workers.pool import PluginPool
from bollard.host.workers.slot import WorkerSlot
from bollard.protocol import JsonObject, status_of_failure
from bollard.wire import WireError

__all__ = ["Dispatcher", "Left"]

_log = structlog.get_logger("bollard.runs")
_RETRY_S: Final = 1.0
"""Time between two tries to claim a queued run that the store refused."""

Left = Callable[[RunFacts, RunState | None], None]
"""Told when a run is over here: how it stood, or `None` when it never began."""


@dataclass(slots=True)
class _Claiming:
    """A queued run that is being claimed."""

    stop: str | None = None
    """The reason why it must stop as soon as it is this host's."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)


class Dispatcher:
    """One per host."""

    def __init__(
        self,
        *,
        journal: Journal,
        hub: Hub,
        clock: Clock,
        pools: Mapping[str, PluginPool],
        engine: Engine,
        opening: Opening,
        api: ApiOfRuns,
        runs_at_once: int = RUNS_AT_ONCE,
    ) -> None:
        self._journal = journal
        self._hub = hub
        self._clock = clock
        self._pools = pools
        self._engine = engine
        self._opening = opening
        self._runs_at_once = runs_at_once
        self._live: dict[str, LiveRun] = {}
        self._slots: dict[str, tuple[PluginPool, WorkerSlot]] = {}
        self._queue: dict[str, QueuedRun] = {}
        self._held: dict[str, QueuedRun] = {}
        """On disk, and not their turn in their conversation."""
        self._claiming: dict[str, _Claiming] = {}
        """On their way from the queue into this host's hands."""
        self._stopped: dict[str, bool] = {}
        """Being stopped while they waited, and whether their turn came meanwhile."""
        self._coming = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._left: Left | None = None
        self._stops: Callable[[RunFacts], None] | None = None
        self._ports = RunPorts(
            journal=journal,
            hub=hub,
            clock=clock,
            api=api,
            released=self._released,
            stopping=self._stopping,
            misbehaved=self._misbehaved,
        )
        self.closing = False
        engine.subscribe(self._offered, self._signalled)

    def watch(self, left: Left, stops: Callable[[RunFacts], None]) -> None:
        """Hear of every run that is over here, and of each that is being stopped."""
        self._left = left
        self._stops = stops

    @property
    def live(self) -> Mapping[str, LiveRun]:
        return self._live

    @property
    def queued(self) -> int:
        return len(self._queue) + len(self._held)

    @property
    def has_room(self) -> bool:
        return len(self._live) + self._coming < self._runs_at_once

    @property
    def crowded(self) -> bool:
        """Whether even a run that another one waits for must be refused."""
        return len(self._live) + self._coming >= 2 * self._runs_at_once

    def expect(self, change: int) -> None:
        """A run is about to come, or did not: its place is kept while its commit is under way."""
        self._coming += change

    # --- starting ---

    def begin(self, queued: QueuedRun) -> None:
        """A run that is on disk and owned by this host: start it."""
        live = LiveRun(queued.facts, queued.grant, epoch=queued.epoch, seq=queued.seq, ports=self._ports)
        self._live[queued.facts.run_id] = live
        if queued.facts.external:
            live.begin(_nobody)
            live.flush()
            return
        request = self._opening.at_once(queued)
        if request is None:
            self._task(self._open(live, queued))
            return
        live.request = request
        self._choose_worker(live, queued.agent.plugin)

    async def _open(self, live: LiveRun, queued: QueuedRun) -> None:
        try:
            live.request = await self._opening.read(queued)
        except HostError as error:
            live.give_up("no_worker", error.message)
            return
        if not live.ending:
            self._choose_worker(live, queued.agent.plugin)

    def _choose_worker(self, live: LiveRun, plugin: str) -> None:
        pool = self._pools.get(plugin)
        slot = pool.pick() if pool is not None else None
        if pool is None:
            live.give_up("no_worker", f"the plugin {plugin} is not installed")
        elif slot is None:
            self._task(self._start_later(live, pool))
        else:
            self._start_on(live, pool, slot)

    async def _start_later(self, live: LiveRun, pool: PluginPool) -> None:
        try:
            slot = await pool.wait_ready(WORKER_START_S)
        except WorkerUnavailable as error:
            live.give_up("no_worker", error.message)
            return
        self._start_on(live, pool, slot)

    def _start_on(self, live: LiveRun, pool: PluginPool, slot: WorkerSlot) -> None:
        def start(run: LiveRun) -> None:
            run.attach(slot.start_run(run.facts.run_id, run.request, run), slot.touch)
            run.request = {}

        if live.facts.run_id not in self._live or live.ending:
            return  # it was stopped while it waited for a worker
        self._slots[live.facts.run_id] = (pool, slot)
        try:
            live.begin(start)
        except WireError as error:
            live.give_up("lost", str(error))

    # --- waiting ---

    def wait(self, queued: QueuedRun) -> None:
        """A run that is on disk, whose turn it is: it starts as soon as there is room."""
        self._queue[queued.facts.run_id] = queued
        self._engine.submit(queued.facts.run_id)

    def hold(self, queued: QueuedRun) -> None:
        """A run that is on disk and must wait for others of its conversation."""
        self._held[queued.facts.run_id] = queued

    def turn_of(self, run_id: str) -> bool:
        """Its conversation is free for it; false when it is not on disk yet."""
        if run_id in self._stopped:
            self._stopped[run_id] = True
            return True
        held = self._held.pop(run_id, None)
        if held is None:
            return False
        self.wait(held)
        return True

    def _offered(self, run_id: str) -> None:
        """A run waits for an owner; this host takes what it knows while it has room."""
        del run_id
        self._fill()

    def _fill(self) -> None:
        while self._queue and self.has_room and not self.closing:
            self._coming += 1
            run_id = next(iter(self._queue))
            self._claiming[run_id] = _Claiming()
            self._task(self._claim(self._queue.pop(run_id)))

    async def _claim(self, queued: QueuedRun) -> None:
        won, mine = False, claimed(queued)
        record = self._records(mine, [("run.claimed", {})])
        try:
            won = await self._engine.claim(queued.facts.run_id, mine.epoch, record)
        except HostError as error:
            _log.warning("a queued run could not be claimed", run=queued.facts.run_id, problem=error.message)
            self._queue[queued.facts.run_id] = queued
            asyncio.get_running_loop().call_later(_RETRY_S, self._fill)  # nothing else may come that would
            claiming = self._claiming.pop(queued.facts.run_id)
            claiming.settled.set()
            if claiming.stop is not None:
                self._task(self._stop_again(queued.facts.run_id, claiming.stop))
            return
        finally:
            self._coming -= 1
        claiming = self._claiming.pop(queued.facts.run_id)
        if won:
            self._hub.publish(queued.facts.run_id, [stream_record(one) for one in record])
            self.begin(mine)
            if claiming.stop is not None:
                self._live[queued.facts.run_id].cancel(claiming.stop)
        else:
            self._tell_left(queued.facts, None)
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

    async def renew(self) -> None:
        """Keep the leases of what runs here; a run whose lease was lost is dropped without a word to the log."""
        for run_id in await self._engine.renew(list(self._live)):
            if live := self._live.get(run_id):
                live.fenced()

    # --- stopping ---

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Stop a run that is live or waits; false when it is neither here."""
        if run_id in self._claiming:
            claiming = self._claiming[run_id]
            claiming.stop = claiming.stop or reason
            await claiming.settled.wait()
            return True
        queued = self._queue.pop(run_id, None) or self._held.get(run_id)
        if queued is None:
            return self._engine.signal(run_id, Cancel(reason))
        held = self._held.pop(run_id, None) is not None
        self._stopped[run_id] = not held
        await asyncio.shield(self._task(self._cancel_queued(queued, reason)))
        return True

    async def _stop_again(self, run_id: str, reason: str) -> None:
        """A stop that was promised while the run was being claimed, and the store did not take the claim."""
        try:
            await self.cancel(run_id, reason)
        except HostError as error:
            _log.warning("a queued run could not be stopped", run=run_id, problem=error.message)

    async def _cancel_queued(self, queued: QueuedRun, reason: str) -> None:
        """A run that never started ends under an epoch of its own, so that nobody can start it any more."""
        mine = claimed(queued)
        ended: JsonObject = {
            "status": status_of_failure(reason),
            "code": reason,
            "error": "it was stopped in the queue",
        }
        records = self._records(mine, [("run.cancelled", {"reason": reason}), ("run.ended", ended)])
        try:
            won = await self._engine.claim(queued.facts.run_id, mine.epoch, records)
        except HostError:
            # It waits as before, and whoever stops it is told.
            if not self._stopped[queued.facts.run_id]:
                self.hold(queued)
            else:
                self._queue[queued.facts.run_id] = queued
                self._fill()
            raise
        finally:
            del self._stopped[queued.facts.run_id]
        if won:
            self._hub.publish(queued.facts.run_id, [stream_record(record) for record in records])
            self._hub.end(queued.facts.run_id)
        self._tell_left(queued.facts, None)

    def _signalled(self, run_id: str, signal: Signal) -> bool:
        live = self._live.get(run_id)
        if live is None:
            return False
        live.cancel(signal.reason)
        return True

    def check_idle(self) -> None:
        now = self._clock.monotonic()
        for live in list(self._live.values()):
            live.check_idle(now)
        if self._queue:
            self._fill()  # a claim that the store refused is tried again, also when nothing else happens

    async def close(self, grace_s: float) -> None:
        """Take nothing new, let runs end, stop the rest."""
        self.closing = True
        pending = [live.done for live in self._live.values()]
        if pending and grace_s:
            await asyncio.wait(pending, timeout=grace_s)
        for live in list(self._live.values()):
            live.cancel("host.lost")
        pending = [live.done for live in self._live.values()]
        if pending:
            await asyncio.wait(pending, timeout=grace_s + 6.0)
        for task in list(self._tasks):
            task.cancel()

    def _stopping(self, live: LiveRun) -> None:
        if self._stops is not None:
            self._stops(live.facts)

    def _misbehaved(self, live: LiveRun) -> None:
        if found := self._slots.get(live.facts.run_id):
            pool, slot = found
            pool.drain(slot, live.facts.run_id)

    def _released(self, live: LiveRun) -> None:
        self._live.pop(live.facts.run_id, None)
        self._slots.pop(live.facts.run_id, None)
        self._tell_left(live.facts, live.state)
        if self._queue:
            self._fill()

    def _tell_left(self, facts: RunFacts, state: RunState | None) -> None:
        if self._left is not None:
            self._left(facts, state)

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _nobody(run: LiveRun) -> None:
    """No worker: a program outside executes the run."""
    del run
