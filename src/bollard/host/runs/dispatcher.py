"""Starts the runs of this host on workers, and stops them.

The intake creates runs and decides whose turn it is; the backlog holds those that wait. Every run is on disk before it
starts, so a crash loses none.
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
from bollard.host.engine import Engine, Signal
from bollard.host.errors import HostError, WorkerUnavailable
from bollard.host.limits import JOURNAL_GIVE_UP_S, WORKER_START_S
from bollard.host.log.records import RunFacts
from bollard.host.reason import Why, why, why_error
from bollard.host.runs.backlog import Backlog, Room, RunLimits
from bollard.host.runs.creation import QueuedRun, is_repeatable
from bollard.host.runs.live_run import LiveRun, RunEnvironment
from bollard.host.runs.machine import Ending, RunState
from bollard.host.runs.runner_output import EarlyStart, RunnerOutput, drain_if_overdue
from bollard.host.runs.start_request import StartRequestBuilder
from bollard.host.telemetry.tracer import RunTrace, Tracer, run_span
from bollard.host.workers.boundary import RunSlot, WorkerPool
from bollard.protocol.form import prompts_in
from bollard.protocol.limits import CANCEL_GRACE_S
from bollard.wire import WireError

_log = structlog.get_logger("bollard.runs")
EARLY_AMONG: Final = 24
"""The number of concurrent runs up to which runners start early. With more, large batches are faster."""
LAST_WORDS_S: Final = 3.0
"""Time that runs have to end when the host stops, beyond the grace of a cancelled runner."""
EndOnDisk = Callable[[str], Awaitable[RunState | None]]
"""Ends this run on disk and returns its state, or `None` if that fails."""


class RunListener(Protocol):
    """The intake, as the dispatcher sees it."""

    def run_left(self, facts: RunFacts, state: RunState | None) -> None:
        """A run is over here. `state` is its last state, or `None` if the run never began."""
        ...

    def run_stopping(self, facts: RunFacts) -> None:
        """A run is being stopped."""
        ...


class Prepared(msgspec.Struct, frozen=True):
    """A run that is ready to start."""

    queued: QueuedRun
    live: LiveRun
    trace: RunTrace
    early: EarlyStart | None = None

    def drop(self) -> None:
        """The run does not start."""
        if self.early is not None:
            self.early.drop()


class Dispatcher:
    """The live runs of one host."""

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
        """Whether no new runs start. Active runs go on, queued runs stay on disk."""
        self._stopping_all = False
        self.closing = False
        self.backlog = Backlog(engine, environment.hub, self._clock, self._counts, self.room, self, limits.queue)
        engine.subscribe(self._offered, self._signalled)

    def watch(self, listener: RunListener) -> None:
        """Notify `listener` of every run that ends here or is being stopped."""
        self._listener = listener

    @property
    def live(self) -> Mapping[str, LiveRun]:
        return self._live

    # --- the backlog's owner ---

    @property
    def takes_runs(self) -> bool:
        """Whether runs start now."""
        return not self.draining and not self.closing

    def claimed(self, queued: QueuedRun) -> None:
        """Begin a queued run that this host has claimed."""
        self.begin(self.prepare(queued))

    def not_claimed(self, facts: RunFacts) -> None:
        """A queued run does not begin here."""
        self._notify_left(facts, None)

    def background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._background.begin(work)

    # --- starting ---

    def prepare(self, queued: QueuedRun, *, early: bool = False) -> Prepared:
        """Prepare the start of a run while it is being committed. With `early` the runner starts too, if a worker is
        free; its output is buffered until the run is on disk."""
        live = LiveRun(
            queued.facts,
            queued.grant,
            epoch=queued.epoch,
            seq=queued.seq,
            environment=self._environment,
            owner=self,
            session=queued.session,
        )
        live.prompts = prompts_in(queued.agent.form, queued.agent.config)
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
            return None  # the worker has just ended; the run gets another one after its commit

    def begin(self, prepared: Prepared) -> None:
        """Start a run that is on disk and owned by this host."""
        queued, live, trace = prepared.queued, prepared.live, prepared.trace
        self._live[queued.facts.run_id] = live
        self._counts.begun += 1
        live.span = self._tracer.open_run(trace)
        live.reassign = partial(self._reassign, live, queued)
        if queued.facts.external:
            live.begin(_no_worker)
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
            live.give_up("no_worker", why_error(error))
            return
        live.request = opened.request
        live.take_in(opened.flow)
        if not live.ending:
            self._choose_worker(live, queued.agent.plugin)

    def _choose_worker(self, live: LiveRun, plugin: str) -> None:
        pool = self._pools.get((live.facts.workspace, plugin))
        slot = pool.pick() if pool is not None else None
        if pool is None:
            missing = why(f"the plugin {plugin} is not installed", "run.plugin_missing", plugin=plugin)
            live.give_up("no_worker", missing)
        elif slot is None:
            self._background.begin(self._start_later(live, plugin, pool))
        else:
            self._start_on(live, pool, slot)

    async def _start_later(self, live: LiveRun, plugin: str, pool: WorkerPool) -> None:
        try:
            slot = await pool.wait_ready(WORKER_START_S)
        except WorkerUnavailable as error:
            if self._pools.get((live.facts.workspace, plugin), pool) is pool:
                live.give_up("no_worker", why_error(error))
            else:
                self._choose_worker(live, plugin)  # another version of the plugin replaced the pool
            return
        self._start_on(live, pool, slot)

    def _start_on(self, live: LiveRun, pool: WorkerPool, slot: RunSlot) -> None:
        def start(run: LiveRun) -> None:
            output = RunnerOutput(run, slot.explain_failure)
            run.attach(slot.start_run(run.facts.run_id, run.request, output), slot.touch)
            run.request = {}

        if live.facts.run_id not in self._live or live.ending:
            return  # cancelled while it waited for a worker
        self._slots[live.facts.run_id] = (pool, slot)
        try:
            live.begin(start)
        except WireError as error:
            live.give_up("lost", Why(str(error)))

    def _reassign(self, live: LiveRun, queued: QueuedRun, unread: Literal["certain", "likely"]) -> bool:
        """Give a run to another worker if its worker ended without reading it. Returns False if the run must end.

        Run, epoch and deadline stay the same, because the runner has not started. If that is only likely, a repeatable
        agent is reassigned once: a run that crashes its worker would crash each of them (ADR 0082).
        """
        if live.ending or live.state.cancel is not None or (unread == "likely" and not queued.agent.repeatable):
            return False
        if unread == "likely":
            live.reassign = None
        self._slots.pop(live.facts.run_id, None)
        _log.warning("a run moves to another worker, because its worker did not read it", run=live.facts.run_id)
        left = replace(queued.facts, deadline_s=max(0.001, live.left_s))
        trace = live.trace or self._tracer.run(live.facts.run_id, queued.event.traceparent)
        self._background.begin(self._open(live, replace(queued, facts=left), trace))
        return True

    def _offered(self, run_id: str) -> None:
        """The engine offers a queued run. The backlog claims runs while there is room."""
        del run_id
        self.backlog.fill()

    async def renew(self) -> None:
        """Renew the leases of live runs. A run whose lease is lost is dropped without a record."""
        for run_id in await self._engine.renew(list(self._live)):
            if live := self._live.get(run_id):
                live.fenced()

    # --- stopping ---

    async def cancel(self, run_id: str, reason: str, *, superseded: bool = False) -> bool:
        """Cancel a live or waiting run. Returns False if it is neither. `superseded`: a newer message replaces it."""
        return await self.backlog.cancel(run_id, reason, superseded=superseded)

    async def stop(self, run_id: str) -> bool:
        """Cancel a run and wait until the cancel is on disk, for at most `JOURNAL_GIVE_UP_S`: a live run is stopped
        even if the store is down."""
        stopped = await self.cancel(run_id, "cancelled")
        if live := self._live.get(run_id):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(JOURNAL_GIVE_UP_S):
                    await live.written()
        return stopped

    async def cancel_all(self, workspace: str) -> None:
        """Cancel every live or waiting run of a workspace."""
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
        self.backlog.fill()  # retries claims that the store refused

    def drain(self, on: bool) -> None:
        """Stop or resume starting runs. A closing host does not resume."""
        self.draining = on or self._stopping_all
        self.backlog.fill()

    async def close(self, grace_s: float) -> None:
        """Start no more runs, give live runs `grace_s` to end, then stop the rest."""
        self.draining = self._stopping_all = True
        # A run that waits for a person does not end in time. Its approval or question outlives it.
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
        """Watch a worker that was told to stop the code of a run that is over."""
        found, worker = self._slots.pop(run.facts.run_id, None), run.working
        if found is not None and worker is not None:
            drain_if_overdue(worker, *found)

    def unwritable(self, run: LiveRun, error: HostError) -> None:
        _log.error("a run is ended: the store does not take its records", run=run.facts.run_id, problem=error.message)
        self._background.begin(self._end_on_disk(run))

    async def _end_on_disk(self, live: LiveRun) -> None:
        state = await self._end_run(live.facts.run_id)
        live.replaced(state or live.state)  # if that failed too, startup recovery ends the run

    def released(self, run: LiveRun) -> None:
        self._live.pop(run.facts.run_id, None)
        self.overstays(run)
        if run.outcome is not None and run.state.over:
            self._report_end(run, run.outcome)
        self._notify_left(run.facts, run.state)
        self.backlog.fill()

    def _report_end(self, live: LiveRun, ending: Ending) -> None:
        """Count the end, and close the span of the run."""
        self._counts.end(ending.status, ending.code)
        if live.span is not None:
            name, attributes = run_span(live.facts, ending.status)
            error = ending.code if ending.status in ("failed", "timeout") else None
            self._tracer.end(live.span, name, "internal", attributes, error)

    def _notify_left(self, facts: RunFacts, state: RunState | None) -> None:
        if self._listener is not None:
            self._listener.run_left(facts, state)


def _no_worker(run: LiveRun) -> None:
    """An external run has no worker."""
    del run
