"""Accepts events, gives runs to workers, and keeps those that wait. The owner of every live run of this host."""

import asyncio
import secrets
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from bollard.host.agents.agent import Agent, AgentBook
from bollard.host.clock import Clock
from bollard.host.errors import HostError, NotFound, Overloaded, WorkerUnavailable
from bollard.host.limits import LEASE_S, QUEUED_RUNS, RUNS_AT_ONCE, WORKER_START_S
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Committed, Duplicate, Entry, Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.context import run_request
from bollard.host.runs.event import NewEvent
from bollard.host.runs.grant import issue_grant
from bollard.host.runs.hub import Hub
from bollard.host.runs.live import LiveRun, RunPorts
from bollard.host.runs.stream_records import stream_record
from bollard.host.store.boundary import Lease
from bollard.host.workers.pool import PluginPool
from bollard.host.workers.slot import WorkerSlot
from bollard.wire import WireError

__all__ = ["Accepted", "Dispatcher", "QueuedRun"]

_log = structlog.get_logger("bollard.runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """An event is on disk and has its run. `first` is false when it was accepted before."""

    event_id: str
    run_id: str | None
    first: bool


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
        incarnation: str,
        host_version: str,
        runs_at_once: int = RUNS_AT_ONCE,
    ) -> None:
        self._journal = journal
        self._hub = hub
        self._clock = clock
        self._agents = agents
        self._pools = pools
        self._incarnation = incarnation
        self._host_version = host_version
        self._runs_at_once = runs_at_once
        self._live: dict[str, LiveRun] = {}
        self._slots: dict[str, tuple[PluginPool, WorkerSlot]] = {}
        self._queue: deque[QueuedRun] = deque()
        self._accepting = 0
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

    @property
    def live(self) -> Mapping[str, LiveRun]:
        return self._live

    @property
    def queued(self) -> int:
        return len(self._queue)

    # --- accepting ---

    async def accept(self, event: NewEvent, agent_id: str, workspace: str) -> Accepted:
        """Make an event and its run durable, then start it. Raises `HostError`; then nothing happened."""
        agent = self._agents.get(agent_id)
        if agent is None:
            raise NotFound(
                f"there is no agent {agent_id[:64]!r}", hint="`bollard agents` lists them", agent=agent_id[:64]
            )
        if self.closing or len(self._queue) >= QUEUED_RUNS:
            raise Overloaded("the host takes no runs now", hint="try again in a moment", limit=QUEUED_RUNS)
        room = len(self._live) + self._accepting < self._runs_at_once
        queued = self._new_run(event, agent, workspace, epoch=1 if room else 0)
        records = self._first_records(queued)
        self._accepting += 1
        try:
            outcome = await self._journal.commit(
                Entry(
                    records=records,
                    dedupe=(workspace, event.source, event.source_id),
                    size=sum(len(record.data) for record in records),
                )
            )
        finally:
            self._accepting -= 1
        if isinstance(outcome, Duplicate):
            return Accepted(event_id=outcome.first.event_id, run_id=outcome.first.run_id, first=False)
        facts = queued.facts
        if room:
            self._start(queued)
        else:
            self._queue.append(queued)
        self._hub.publish(facts.run_id, [stream_record(record) for record in records[1:]])
        return Accepted(event_id=facts.event_id, run_id=facts.run_id, first=True)

    def _new_run(self, event: NewEvent, agent: Agent, workspace: str, *, epoch: int) -> QueuedRun:
        stamp = f"{self._clock.now_ms():011x}{secrets.token_hex(8)}"
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
        return QueuedRun(facts=facts, agent=agent, event=event, epoch=epoch, seq=2)

    def _first_records(self, queued: QueuedRun) -> list[NewRecord]:
        """Event, run and grant share one commit."""
        facts, now_ms = queued.facts, self._clock.now_ms()
        grant = issue_grant(
            queued.agent, run_id=facts.run_id, workspace=facts.workspace, conversation=facts.conversation
        )

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
        self._queue.append(queued)
        self._fill()

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

        self._slots[live.facts.run_id] = (pool, slot)
        try:
            live.begin(start)
        except WireError as error:
            live.give_up("lost", str(error))

    def _fill(self) -> None:
        """Claim what waits while there is room."""
        while self._queue and len(self._live) + self._accepting < self._runs_at_once and not self.closing:
            self._accepting += 1
            self._task(self._claim(self._queue.popleft()))

    async def _claim(self, queued: QueuedRun) -> None:
        epoch, facts = queued.epoch + 1, queued.facts
        now_ms = self._clock.now_ms()
        claimed = NewRecord(
            workspace=facts.workspace,
            type="run.claimed",
            data=b"{}",
            created_ms=now_ms,
            run_id=facts.run_id,
            seq=queued.seq + 1,
            epoch=epoch,
        )
        lease = Lease(owner=self._incarnation, epoch=epoch, until_ms=now_ms + round(LEASE_S * 1000))
        try:
            outcome = await self._journal.commit(Entry(records=[claimed], lease=(facts.run_id, lease)))
        except HostError as error:
            _log.warning("a queued run could not be claimed", run=facts.run_id, problem=error.message)
            self._queue.append(queued)
            return
        finally:
            self._accepting -= 1
        if isinstance(outcome, Committed):
            self._hub.publish(facts.run_id, [stream_record(claimed)])
            self._start(QueuedRun(facts=facts, agent=queued.agent, event=queued.event, epoch=epoch, seq=queued.seq + 1))

    # --- stopping ---

    def cancel(self, run_id: str, reason: str) -> bool:
        """Stop a live run; false when it is not live here."""
        live = self._live.get(run_id)
        if live is None:
            return False
        live.cancel(reason)
        return True

    def check_idle(self) -> None:
        now = self._clock.monotonic()
        for live in list(self._live.values()):
            live.check_idle(now)

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
            pool.drain(slot)

    def _released(self, live: LiveRun) -> None:
        self._live.pop(live.facts.run_id, None)
        self._slots.pop(live.facts.run_id, None)
        if self._queue:
            self._fill()

    def _task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
