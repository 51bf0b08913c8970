"""Accepts events, gives runs to workers, and keeps those that wait. The owner of every live run of this host."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from bollard.host.agents.agent import Agent, AgentBook
from bollard.host.clock import Clock
from bollard.host.engine.boundary import Cancel, Engine, Signal
from bollard.host.errors import HostError, NotFound, Overloaded, StorageFull, WorkerUnavailable
from bollard.host.limits import QUEUED_RUNS, RUNS_AT_ONCE, WORKER_START_S
from bollard.host.log.entries import Committed, Duplicate, Entry, Outcome
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Journal
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.context import run_request
from bollard.host.runs.event import NewEvent
from bollard.host.runs.grant import Grant, issue_grant
from bollard.host.runs.hub import Hub, Subscription
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live import LiveRun, RunPorts
from bollard.host.runs.stream_records import stream_record
from bollard.host.store.boundary import WriteTransaction
from bollard.host.store.rows import EventRow
from bollard.host.workers.pool import PluginPool
from bollard.host.workers.slot import WorkerSlot
from bollard.protocol import JsonObject, status_of_failure
from bollard.wire import WireError

__all__ = ["Accepted", "Dispatcher", "QueuedRun"]

_log = structlog.get_logger("bollard.runs")
_RETRY_S: Final = 1.0
"""Time between two tries to claim a queued run that the store refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An event is on disk and has its run. `first` is false when it was accepted before."""

    event_id: str
    run_id: str | None
    first: bool
    subscription: Subscription | None = None
    """A reader that misses nothing, where one was asked for and the event is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run that is on disk and waits for room."""

    facts: RunFacts
    agent: Agent
    event: NewEvent
    epoch: int
    seq: int


class Dispatcher:
    """One per host."""

    def __init__(
        self,
        *,
        journal: Journal,
        hub: Hub,
        clock: Clock,
        agents: AgentBook,
        pools: Mapping[str, PluginPool],
        engine: Engine,
        host_version: str,
        runs_at_once: int = RUNS_AT_ONCE,
        queued_runs: int = QUEUED_RUNS,
        starting: Callable[[], bool] = lambda: False,
        ids: IdMaker | None = None,
    ) -> None:
        self._journal = journal
        self._hub = hub
        self._clock = clock
        self._agents = agents
        self._pools = pools
        self._starting = starting
        self._engine = engine
        self._host_version = host_version
        self._runs_at_once = runs_at_once
        self._queued_runs = queued_runs
        self._live: dict[str, LiveRun] = {}
        self._slots: dict[str, tuple[PluginPool, WorkerSlot]] = {}
        self._queue: dict[str, QueuedRun] = {}
        self._accepting = 0
        self._ids = ids or IdMaker()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ports = RunPorts(
            journal=journal,
            hub=hub,
            clock=clock,
            host_version=host_version,
            released=self._released,
            misbehaved=self._misbehaved,
        )
        self.closing = False
        engine.subscribe(self._offered, self._signalled)

    @property
    def live(self) -> Mapping[str, LiveRun]:
        return self._live

    @property
    def queued(self) -> int:
        return len(self._queue)

    # --- accepting ---

    async def accept(self, event: NewEvent, agent_id: str, workspace: str, *, watch: bool = False) -> Accepted:
        """Make an event and its run durable, then start it. Raises `HostError`; then nothing happened.

        With `watch` the caller gets a reader that was there before the first record, and need not read the log.
        """
        agent = self._agents.get(agent_id)
        if agent is None:
            agent = await self._agents.wait_for(agent_id, WORKER_START_S, hopeful=self._starting)
        if agent is None:
            raise NotFound(
                f"there is no agent {agent_id[:64]!r}", hint="`bollard agents` lists them", agent=agent_id[:64]
            )
        if (refusal := self._refusal()) is not None:
            known = await self._known(event, workspace)
            if known is None:
                raise refusal
            return known
        room = len(self._live) + self._accepting < self._runs_at_once
        queued, grant = self._new_run(event, agent, workspace, epoch=1 if room else 0)
        records = self._first_records(queued, grant)
        subscription = self._hub.subscribe(queued.facts.run_id) if watch else None
        self._accepting += 1

        def decided(outcome: Outcome | HostError) -> None:
            # Here, and not behind the wait: a run that is on disk begins, also when its caller went away meanwhile.
            self._accepting -= 1
            if isinstance(outcome, Committed):
                self._accepted(queued, records, room=room)

        outcome: Outcome | None = None
        try:
            outcome = await self._journal.commit(
                Entry(
                    records=records,
                    dedupe=(workspace, event.source, event.source_id),
                    size=sum(len(record.data) for record in records),
                ),
                decided,
            )
        finally:
            if subscription is not None and not isinstance(outcome, Committed):
                subscription.close()
        if isinstance(outcome, Duplicate):
            return Accepted(event_id=outcome.first.event_id, run_id=outcome.first.run_id, first=False)
        facts = queued.facts
        return Accepted(event_id=facts.event_id, run_id=facts.run_id, first=True, subscription=subscription)

    def _accepted(self, queued: QueuedRun, records: Sequence[NewRecord], *, room: bool) -> None:
        """A new run is on disk: show it and start it, or let it wait."""
        kill_point("dispatcher.after_accept")
        facts = queued.facts
        self._hub.publish(facts.run_id, [stream_record(record) for record in records[1:]])
        if room:
            self._start(queued)
        else:
            self._queue[facts.run_id] = queued
            self._engine.submit(facts.run_id)

    def _refusal(self) -> HostError | None:
        """Why nothing new is taken now."""
        if self.closing or len(self._queue) >= self._queued_runs:
            return Overloaded("the host takes no runs now", hint="try again in a moment", limit=self._queued_runs)
        if self._journal.full:
            return StorageFull("the disk is full, so nothing new is taken", hint="free space in the data directory")
        return None

    async def _known(self, event: NewEvent, workspace: str) -> Accepted | None:
        """An event that was accepted before gets its first outcome, also from a host that takes nothing new."""
        first: EventRow | None = None

        def look(transaction: WriteTransaction) -> int:
            nonlocal first
            first = transaction.find_event(workspace, event.source, event.source_id)
            return 0

        await self._journal.housekeep(look)
        return None if first is None else Accepted(event_id=first.event_id, run_id=first.run_id, first=False)

    def _new_run(self, event: NewEvent, agent: Agent, workspace: str, *, epoch: int) -> tuple[QueuedRun, Grant]:
        stamp = self._ids.next(self._clock.now_ms())
        run_id = f"run_{stamp}"
        grant = issue_grant(agent, run_id=run_id, workspace=workspace, conversation=event.conversation)
        facts = RunFacts(
            run_id=run_id,
            workspace=workspace,
            event_id=f"evt_{stamp}",
            agent_id=agent.agent_id,
            binding_id=f"direct:{agent.agent_id}",
            runner_id=agent.runner_id,
            grant_sha256=grant.sha256,
            bot=event.bot,
            conversation=event.conversation,
            thread=event.thread,
            actor_type=event.actor_type,
            actor_id=event.actor_id,
            subject_type=event.subject_type,
            subject_id=event.subject_id,
            on_message=event.is_message,
            deadline_s=agent.deadline_s,
            idle_s=agent.idle_s,
        )
        return QueuedRun(facts=facts, agent=agent, event=event, epoch=epoch, seq=2), grant

    def _first_records(self, queued: QueuedRun, grant: Grant) -> list[NewRecord]:
        """Event, run and grant share one commit."""
        facts, now_ms = queued.facts, self._clock.now_ms()

        def record(kind: str, data: bytes, seq: int | None) -> NewRecord:
            of_run = seq is not None
            return NewRecord(
                workspace=facts.workspace,
                type=kind,
                data=data,
                created_ms=now_ms,
                run_id=facts.run_id if of_run else None,
                seq=seq,
                epoch=queued.epoch if of_run else None,
            )

        return [
            record("event.received", queued.event.record(facts.event_id, facts.run_id), None),
            record("run.created", encode_data(facts), 1),
            record("grant.issued", grant.json, 2),
        ]

    # --- starting ---

    def enqueue(self, queued: QueuedRun) -> None:
        """A run of an earlier incarnation that still waits."""
        self._journal.remember(queued.facts)
        self._queue[queued.facts.run_id] = queued
        self._engine.submit(queued.facts.run_id)

    def _start(self, queued: QueuedRun) -> None:
        facts = queued.facts
        live = LiveRun(
            facts,
            epoch=queued.epoch,
            seq=queued.seq,
            permissions=queued.agent.permissions,
            ports=self._ports,
        )
        self._live[facts.run_id] = live
        live.request = run_request(
            facts, queued.agent, queued.event, now_ms=self._clock.now_ms(), host_version=self._host_version
        )
        pool = self._pools.get(queued.agent.plugin)
        slot = pool.pick() if pool is not None else None
        if pool is None:
            live.give_up("no_worker", f"the plugin {queued.agent.plugin} is not installed")
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

        if live.facts.run_id not in self._live:
            return  # it was stopped while it waited for a worker
        self._slots[live.facts.run_id] = (pool, slot)
        try:
            live.begin(start)
        except WireError as error:
            live.give_up("lost", str(error))

    def _offered(self, run_id: str) -> None:
        """A run waits for an owner; this host takes what it knows while it has room."""
        del run_id
        self._fill()

    def _fill(self) -> None:
        while self._queue and len(self._live) + self._accepting < self._runs_at_once and not self.closing:
            self._accepting += 1
            self._task(self._claim(self._queue.pop(next(iter(self._queue)))))

    async def _claim(self, queued: QueuedRun) -> None:
        epoch, facts = queued.epoch + 1, queued.facts
        claimed = NewRecord(
            workspace=facts.workspace,
            type="run.claimed",
            data=b"{}",
            created_ms=self._clock.now_ms(),
            run_id=facts.run_id,
            seq=queued.seq + 1,
            epoch=epoch,
        )
        try:
            won = await self._engine.claim(facts.run_id, epoch, [claimed])
        except HostError as error:
            _log.warning("a queued run could not be claimed", run=facts.run_id, problem=error.message)
            self._queue[facts.run_id] = queued
            asyncio.get_running_loop().call_later(_RETRY_S, self._fill)  # nothing else may come that would
            return
        finally:
            self._accepting -= 1
        if won:
            self._hub.publish(facts.run_id, [stream_record(claimed)])
            self._start(replace(queued, epoch=epoch, seq=queued.seq + 1))

    async def renew(self) -> None:
        """Keep the leases of what runs here; a run whose lease was lost is dropped without a word to the log."""
        for run_id in await self._engine.renew(list(self._live)):
            if live := self._live.get(run_id):
                live.fenced()

    # --- stopping ---

    async def cancel(self, run_id: str, reason: str) -> bool:
        """Stop a run that is live or waits; false when it is neither here."""
        queued = self._queue.pop(run_id, None)
        if queued is None:
            return self._engine.signal(run_id, Cancel(reason))
        await asyncio.shield(self._task(self._cancel_queued(queued, reason)))
        return True

    async def _cancel_queued(self, queued: QueuedRun, reason: str) -> None:
        """A run that never started ends under an epoch of its own, so that nobody can start it any more."""
        facts, epoch = queued.facts, queued.epoch + 1
        bodies: list[tuple[str, JsonObject]] = [
            ("run.cancelled", {"reason": reason}),
            (
                "run.ended",
                {"status": status_of_failure(reason), "code": reason, "error": "it was stopped in the queue"},
            ),
        ]
        records = [
            NewRecord(
                workspace=facts.workspace,
                type=kind,
                data=encode_data(body),
                created_ms=self._clock.now_ms(),
                run_id=facts.run_id,
                seq=queued.seq + index + 1,
                epoch=epoch,
            )
            for index, (kind, body) in enumerate(bodies)
        ]
        try:
            won = await self._engine.claim(facts.run_id, epoch, records)
        except HostError:
            self._queue[facts.run_id] = queued  # it waits as before, and whoever stops it is told
            self._fill()
            raise
        if won:
            self._hub.publish(facts.run_id, [stream_record(record) for record in records])
            self._hub.end(facts.run_id)

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

    def _misbehaved(self, live: LiveRun) -> None:
        if found := self._slots.get(live.facts.run_id):
            pool, slot = found
            pool.drain(slot, live.facts.run_id)

    def _released(self, live: LiveRun) -> None:
        self._live.pop(live.facts.run_id, None)
        self._slots.pop(live.facts.run_id, None)
        if self._queue:
            self._fill()

    def _task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
