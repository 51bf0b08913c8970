"""The runs of this host that are under way: gives them to workers, and stops them.

Which runs there are, and whose turn it is in a conversation, is decided before (`intake`); those that wait are in the
`backlog`. All of them are on disk, also one that was accepted a moment ago: nothing here is lost by a crash.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, Literal, Protocol

import msgspec
import structlog
from msgspec.structs import replace

from bollard.host.background import Background
from bollard.host.engine.boundary import Engine, Signal
from bollard.host.errors import HostError, WorkerUnavailable
from bollard.host.limits import JOURNAL_GIVE_UP_S, WORKER_START_S
from bollard.host.log.records import RunFacts
from bollard.host.runs.backlog import Backlog, Room, RunLimits
from bollard.host.runs.creation import QueuedRun, is_repeatable
from bollard.host.runs.early_start import EarlyStart, see_out
from bollard.host.runs.live_run import LiveRun, RunEnvironment
from bollard.host.runs.machine import Ending, RunState
from bollard.host.runs.runner_output import RunnerOutput
from bollard.host.runs.start_request import StartRequestBuilder
from bollard.host.telemetry.tracer import RunTrace, Tracer, run_span
from bollard.host.workers.boundary import RunSlot, WorkerPool
from bollard.protocol.limits import CANCEL_GRACE_S
from bollard.wire import WireError

_log = structlog.get_logger("bollard.runs")
EARLY_AMONG: Final = 24
"""Runs under way and coming among which a runner begins early. More of them go together, in few large steps."""
LAST_WORDS_S: Final = 3.0
"""Time that runs have to end when the host stops, beyond the grace of a cancelled runner."""
EndOnDisk = Callable[[str], Awaitable[RunState | None]]
"""Ends this run, and says how it stands then; `None` where that cannot be done."""


class RunListener(Protocol):
    """The intake, as the dispatcher sees it."""

    def run_left(self, facts: RunFacts, state: RunState | None) -> None:
        """A run is over here. `state` is its last state, or `None` if the run never began."""
        ...

    def run_stopping(self, facts: RunFacts) -> None:
        """A run is being stopped."""
        ...


class Prepared(msgspec.Struct, frozen=True):
    """A run that can be begun."""

    queued: QueuedRun
    live: LiveRun
    trace: RunTrace
    early: EarlyStart | None = None

    def drop(self) -> None:
        """It will not be begun."""
        if self.early is not None:
            self.early.drop()


class Dispatcher:
    """One per host."""

    def __init__(
        self,
        environment: RunEnvironment,
        *,
        pools: Mapping[tuple[str, str], WorkerPool],
        engine: Engine,
        opening: StartRequestBuilder,
        tracer: Tracer,
        end_on_disk: EndOnDisk,
        limits: RunLimits,
    ) -> None:
        """`end_on_disk` ends a run whose records the store refuses."""
        self._environment = environment
        self._clock = environment.clock
        self._counts = environment.counts
        self._pools = pools
        self._engine = engine
        self._opening = opening
        self._tracer = tracer
        self._end_run = end_on_disk
        self._live: dict[str, LiveRun] = {}
        self._slots: dict[str, tuple[WorkerPool, RunSlot]] = {}
        self.room = Room(limits.runs_at_once, self._live)
        self._background = Background()
        self._listener: RunListener | None = None
        self.draining = False
        """Whether nothing new is taken: what runs may end, what waits stays on disk."""
        self._stopping_all = False
        self.closing = False
        self.backlog = Backlog(engine, environment.hub, self._clock, self._counts, self.room, self, limits.queue)
        engine.subscribe(self._offered, self._signalled)

    def watch(self, listener: RunListener) -> None:
        """Tell `listener` of every run that is over here, and of each that is being stopped."""
        self._listener = listener

    @property
    def live(self) -> Mapping[str, LiveRun]:
        return self._live

    # --- the backlog's owner ---

    @property
    def takes_runs(self) -> bool:
        """Whether anything begins now."""
        return not self.draining and not self.closing

    def claimed(self, queued: QueuedRun) -> None:
        """Begin a queued run that this host has claimed."""
        self.begin(self.prepare(queued))

    def not_claimed(self, facts: RunFacts) -> None:
        """A queued run does not begin here."""
        self._tell_left(facts, None)

    def background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._background.begin(work)

    # --- starting ---

    def prepare(self, queued: QueuedRun, *, early: bool = False) -> Prepared:
        """Whatever a start needs and nobody can see: it can be made while the run is on its way to the disk.

        With `early` its runner begins too where it can, and is heard once the run is there.
        """
        live = LiveRun(
            queued.facts,
            queued.grant,
            epoch=queued.epoch,
            seq=queued.seq,
            environment=self._environment,
            owner=self,
            session=queued.session,
        )
        live.repeatable = is_repeatable(queued.agent, queued.facts)
        live.trace = trace = self._tracer.run(queued.facts.run_id, queued.event.traceparent)
        if not queued.facts.external:
            live.request = self._opening.at_once(queued, trace) or {}
        early = early and len(self._live) + self.room.coming <= EARLY_AMONG
        return Prepared(queued, live, trace, self._start_early(live, queued.agent.plugin) if early else None)

    def _start_early(self, live: LiveRun, plugin: str) -> EarlyStart | None:
        pool = self._pools.get((live.facts.workspace, plugin))
        slot = pool.pick() if live.request and pool is not None else None
        if pool is None or slot is None:
            return None
        try:
            return EarlyStart(pool, slot, live.facts.run_id, live.request)
        except WireError:
            return None  # its worker has just gone: it gets another one when it is on disk

    def begin(self, prepared: Prepared) -> None:
        """A run that is on disk and owned by this host: start it."""
        queued, live, trace = prepared.queued, prepared.live, prepared.trace
        self._live[queued.facts.run_id] = live
        self._counts.begun += 1
        live.span = self._tracer.open_run(trace)
        live.reassign = partial(self._reassign, live, queued)
        if queued.facts.external:
            live.begin(_nobody)
            live.flush()
        elif prepared.early is not None:
            self._slots[queued.facts.run_id] = (prepared.early.pool, prepared.early.slot)
            live.begin(prepared.early.give_to, prepared.early.tell)
            live.request = {}
        elif live.request:
            self._choose_worker(live, queued.agent.plugin)
        else:
            self._background.begin(self._open(live, queued, trace))

    async def _open(self, live: LiveRun, queued: QueuedRun, trace: RunTrace) -> None:
        try:
            opened = await self._opening.read(queued, trace)
        except HostError as error:
            live.give_up("no_worker", error.message)
            return
        live.request = opened.request
        live.take_in(opened.flow)
        if not live.ending:
            self._choose_worker(live, queued.agent.plugin)

    def _choose_worker(self, live: LiveRun, plugin: str) -> None:
        pool = self._pools.get((live.facts.workspace, plugin))
        slot = pool.pick() if pool is not None else None
        if pool is None:
            live.give_up("no_worker", f"the plugin {plugin} is not installed")
        elif slot is None:
            self._background.begin(self._start_later(live, plugin, pool))
        else:
            self._start_on(live, pool, slot)

    async def _start_later(self, live: LiveRun, plugin: str, pool: WorkerPool) -> None:
        try:
            slot = await pool.wait_ready(WORKER_START_S)
        except WorkerUnavailable as error:
            if self._pools.get((live.facts.workspace, plugin), pool) is pool:
                live.give_up("no_worker", error.message)
            else:
                self._choose_worker(live, plugin)  # another version took its place meanwhile
            return
        self._start_on(live, pool, slot)

    def _start_on(self, live: LiveRun, pool: WorkerPool, slot: RunSlot) -> None:
        def start(run: LiveRun) -> None:
            run.attach(slot.start_run(run.facts.run_id, run.request, RunnerOutput(run)), slot.touch)
            run.request = {}

        if live.facts.run_id not in self._live or live.ending:
            return  # it was stopped while it waited for a worker
        self._slots[live.facts.run_id] = (pool, slot)
        try:
            live.begin(start)
        except WireError as error:
            live.give_up("lost", str(error))

    def _reassign(self, live: LiveRun, queued: QueuedRun, unread: Literal["certain", "likely"]) -> bool:
        """Give a run to another worker when the one it had ended without reading it; false when it must end.

        It stays the same run under the same epoch: its runner has not begun, so nothing was said or done in its name.
        Its deadline goes on. Where nobody can be sure, only an agent that may be repeated is, and once: a run that ends
        its runtime without a word would end each of them (decision 0082).
        """
        if live.ending or live.state.cancel is not None or (unread == "likely" and not queued.agent.repeatable):
            return False
        if unread == "likely":
            live.reassign = None
        self._slots.pop(live.facts.run_id, None)
        _log.warning("a run is given to another worker: the one it had did not read it", run=live.facts.run_id)
        left = replace(queued.facts, deadline_s=max(0.001, live.left_s))
        trace = live.trace or self._tracer.run(live.facts.run_id, queued.event.traceparent)
        self._background.begin(self._open(live, replace(queued, facts=left), trace))
        return True

    def _offered(self, run_id: str) -> None:
        """A run waits for an owner; this host takes what it knows while it has room."""
        del run_id
        self.backlog.fill()

    async def renew(self) -> None:
        """Keep the leases of what runs here; a run whose lease was lost is dropped without a word to the log."""
        for run_id in await self._engine.renew(list(self._live)):
            if live := self._live.get(run_id):
                live.fenced()

    # --- stopping ---

    async def cancel(self, run_id: str, reason: str, *, superseded: bool = False) -> bool:
        """Stop a run that is live or waits; false when it is neither here. `superseded`: for a newer message."""
        return await self.backlog.cancel(run_id, reason, superseded=superseded)

    async def stop(self, run_id: str) -> bool:
        """The same for somebody who is told: it is on disk by then. A store that takes nothing does not keep them
        waiting for long, since what runs is stopped all the same."""
        stopped = await self.cancel(run_id, "cancelled")
        if live := self._live.get(run_id):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(JOURNAL_GIVE_UP_S):
                    await live.written()
        return stopped

    async def cancel_all(self, workspace: str) -> None:
        """Stop every run of a workspace that is live or waits."""
        live = [run_id for run_id, run in self._live.items() if run.facts.workspace == workspace]
        for run_id in (*self.backlog.of(workspace), *live):
            await self.backlog.stop(run_id, "cancelled")

    def _signalled(self, run_id: str, signal: Signal) -> bool:
        live = self._live.get(run_id)
        if live is None or live.ending:
            return False
        live.cancel(signal.reason, superseded=signal.superseded)
        return True

    def check_idle(self) -> None:
        now = self._clock.monotonic()
        for live in list(self._live.values()):
            live.check_idle(now)
        self.backlog.fill()  # a claim that the store refused is tried again, also when nothing else happens

    def drain(self, on: bool) -> None:
        """Take nothing new from now on, or again. A host that is closing does not come back."""
        self.draining = on or self._stopping_all
        self.backlog.fill()

    async def close(self, grace_s: float) -> None:
        """Take nothing new, let runs end, stop the rest."""
        self.draining = self._stopping_all = True
        # One that waits for a person does not end in time; what it asked for outlives it.
        pending = [live.done for live in self._live.values() if live.state.status != "waiting"]
        if pending and grace_s:
            await asyncio.wait(pending, timeout=grace_s)
        self.closing = True
        for live in list(self._live.values()):
            live.lose()
        pending = [live.done for live in self._live.values()]
        if pending:
            await asyncio.wait(pending, timeout=CANCEL_GRACE_S + LAST_WORDS_S)
        self._background.cancel()

    def stopping(self, run: LiveRun) -> None:
        if self._listener is not None:
            self._listener.run_stopping(run.facts)

    def misbehaved(self, run: LiveRun) -> None:
        if found := self._slots.pop(run.facts.run_id, None):
            pool, slot = found
            pool.drain(slot, run.facts.run_id)

    def overstays(self, run: LiveRun) -> None:
        """Its run is over here, or about to be: a worker that still has it was told to stop it."""
        found, worker = self._slots.pop(run.facts.run_id, None), run.working
        if found is not None and worker is not None:
            see_out(worker, *found)

    def unwritable(self, run: LiveRun, error: HostError) -> None:
        _log.error("a run is ended: the store does not take its records", run=run.facts.run_id, problem=error.message)
        self._background.begin(self._end_on_disk(run))

    async def _end_on_disk(self, live: LiveRun) -> None:
        state = await self._end_run(live.facts.run_id)
        live.replaced(state or live.state)  # where that failed too, the next start ends it

    def released(self, run: LiveRun) -> None:
        self._live.pop(run.facts.run_id, None)
        self.overstays(run)
        if run.outcome is not None and run.state.over:
            self._tell_of_end(run, run.outcome)
        self._tell_left(run.facts, run.state)
        self.backlog.fill()

    def _tell_of_end(self, live: LiveRun, ending: Ending) -> None:
        """For those who watch: how it ended, and its span."""
        self._counts.end(ending.status, ending.code)
        if live.span is not None:
            name, attributes = run_span(live.facts, ending.status)
            error = ending.code if ending.status in ("failed", "timeout") else None
            self._tracer.end(live.span, name, "internal", attributes, error)

    def _tell_left(self, facts: RunFacts, state: RunState | None) -> None:
        if self._listener is not None:
            self._listener.run_left(facts, state)


def _nobody(run: LiveRun) -> None:
    """No worker: a program outside executes the run."""
    del run
