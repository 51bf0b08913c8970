"""Startup recovery: ends runs that were active, requeues runs that waited, and retries until the store takes it."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import msgspec
import structlog

from bollard.host.agents.agent import AgentRegistry
from bollard.host.errors import HostError
from bollard.host.events.intake import Intake
from bollard.host.limits import WORKER_START_S
from bollard.host.log.entries import CommitResult, Committed, Entry
from bollard.host.log.journal import Journal, passes
from bollard.host.recovery import WENT_AWAY, Recovery, WaitingMessage, facts_of
from bollard.host.runs.backlog import Backlog
from bollard.host.runs.hub import Hub, stream_records
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.machine import RunState
from bollard.host.store.rows import RunRow
from bollard.host.telemetry.counts import RunCounts

_log = structlog.get_logger("bollard.recovery")
_RETRY_S: Final = 1.0
"""Time before a step that the store refused is retried."""
_RECOVERED_AT_ONCE: Final = 64
"""Lost runs that are ended concurrently, so that they share commits."""
T = TypeVar("T")


class _Ended(msgspec.Struct):
    """The part of `run.ended` that is counted."""

    status: str
    code: str | None = None


async def insist(step: Callable[[], Awaitable[T]], *, passing: bool = False) -> T:
    """Retry a step until it succeeds. With `passing` a permanent error is raised instead of retried."""
    tries = 0
    while True:
        try:
            return await step()
        except HostError as error:
            tries += 1
            if passing and not passes(error, tries):
                raise
            _log.warning("a run could not be recovered yet", problem=error.message)
            await asyncio.sleep(_RETRY_S)


class LostRuns:
    """Ends runs on disk: those of an earlier incarnation, and live ones whose records the store refuses."""

    def __init__(self, recovery: Recovery, *, journal: Journal, hub: Hub, counts: RunCounts | None = None) -> None:
        self._recovery = recovery
        self._journal = journal
        self._hub = hub
        self._counts = counts or RunCounts()

    async def end(self, run_id: str) -> RunState | None:
        """End a live run whose records the store refuses, and return its state on disk. `None` if that fails too; then
        the next start ends it."""
        try:
            row = await insist(lambda: asyncio.to_thread(self._recovery.row, run_id), passing=True)
            if row is None:
                return None
            entry, outcome = await insist(lambda: self._try_to_end(row, "host.lost", WENT_AWAY), passing=True)
            self._report_end(row, entry, outcome)
            return await insist(lambda: asyncio.to_thread(self._recovery.replay, row), passing=True)
        except HostError as error:
            _log.error("a run could not be ended", run=run_id, problem=error.message)
            return None

    async def finish(self, row: RunRow, reason: str, detail: str, *, again: bool = False) -> None:
        self._journal.remember(facts_of(row))
        entry, outcome = await insist(lambda: self._try_to_end(row, reason, detail, again=again))
        self._report_end(row, entry, outcome)

    async def stop(self, row: RunRow, reason: str) -> None:
        """Cancel a queued run whose agent is absent. Raises if the store rejects the write."""
        self._journal.remember(facts_of(row))
        self._report_end(row, *await self._try_to_end(row, reason, "the run was cancelled in the queue"))

    def _report_end(self, row: RunRow, entry: Entry, outcome: CommitResult) -> None:
        if isinstance(outcome, Committed):
            ended = msgspec.json.decode(entry.records[-1].data, type=_Ended)
            self._counts.end(ended.status, ended.code)
            self._hub.publish(row.run_id, stream_records(entry.records))
        self._hub.end(row.run_id)

    async def _try_to_end(
        self, row: RunRow, reason: str, detail: str, *, again: bool = False
    ) -> tuple[Entry, CommitResult]:
        """Reads the run again on each try: its former owner may have written once more."""
        for fold in await asyncio.to_thread(self._recovery.folds, row):
            await self._journal.commit(fold)
        entry = await asyncio.to_thread(self._recovery.lost_entry, row, reason, detail, again=again)
        return entry, await self._journal.commit(entry)


class StartupRecovery:
    """Recovers the runs of earlier incarnations. Runs once at startup, concurrently with the first requests."""

    def __init__(
        self,
        recovery: Recovery,
        lost: LostRuns,
        *,
        journal: Journal,
        agents: AgentRegistry,
        intake: Intake,
        backlog: Backlog,
        ids: IdMaker,
    ) -> None:
        self._recovery = recovery
        self._lost = lost
        self._journal = journal
        self._agents = agents
        self._intake = intake
        self._backlog = backlog
        self._ids = ids
        self.lost_are_ended = asyncio.Event()
        """Set when all runs that were active in an earlier incarnation have ended."""

    async def run(self) -> None:
        """End active runs at once. Requeue waiting runs when their agent is there."""
        gate = self._intake.return_gate
        gate.begin()
        left = await insist(lambda: asyncio.to_thread(lambda: list(self._recovery.unfinished())))
        lost = [row for row in left if row.status != "queued"]
        for first in range(0, len(lost), _RECOVERED_AT_ONCE):
            batch = lost[first : first + _RECOVERED_AT_ONCE]
            await asyncio.gather(*(self._lost.finish(row, "host.lost", WENT_AWAY, again=True) for row in batch))
        self.lost_are_ended.set()
        await self._end_calls()
        rows: dict[tuple[str, str], list[RunRow]] = {}
        for row in left:
            if row.status == "queued":
                rows.setdefault((row.workspace, row.agent_id), []).append(row)
        messages: dict[tuple[str, str], list[WaitingMessage]] = {}
        pending = await insist(lambda: asyncio.to_thread(self._recovery.pending))
        # Ids order waiting events, so new ids must be larger even if the clock was set back.
        self._ids.go_behind(waiting.event_id for waiting in (*left, *pending))
        for message in pending:
            messages.setdefault((message.workspace, message.agent_id), []).append(message)
        agents = dict.fromkeys([*rows, *messages])
        gate.known(agents)
        # Concurrently, because an absent agent must not block the runs of another.
        await asyncio.gather(*(self._go_on(*each, rows.get(each, []), messages.get(each, [])) for each in agents))

    async def _end_calls(self) -> None:
        for call in await insist(lambda: asyncio.to_thread(self._recovery.open_calls)):
            entry = self._recovery.unknown_entry(call)
            await insist(lambda entry=entry: self._journal.commit(entry))

    async def _go_on(self, workspace: str, agent_id: str, rows: list[RunRow], messages: list[WaitingMessage]) -> None:
        """Requeue the waiting runs and messages of an agent in order of arrival, as soon as the agent is there. Its
        plugin may be slow, switched off, or on a machine that is offline."""
        for row in rows:
            self._backlog.expect(row.run_id, row.workspace, partial(self._lost.stop, row))
        await self._wait_for(workspace, agent_id, rows)
        arrivals = await insist(lambda: asyncio.to_thread(self._recovery.arrivals, rows))

        def order(waiting: RunRow | WaitingMessage) -> tuple[int, str]:
            record = waiting.record_id if isinstance(waiting, WaitingMessage) else arrivals[waiting.run_id]
            return record, waiting.event_id

        for waiting in sorted([*rows, *messages], key=order):
            if isinstance(waiting, WaitingMessage):
                await self._dispatch(waiting)
            elif await self._backlog.returns(waiting.run_id):
                await self._queue_again(waiting)
        self._intake.return_gate.done(workspace, agent_id)

    async def _wait_for(self, workspace: str, agent_id: str, rows: list[RunRow]) -> None:
        """Wait until the agent is there, or is not expected any more."""

        def is_expected() -> bool:
            if self._agents.saved_one(agent_id, workspace) is not None:
                return True
            return bool(rows) and not any(self._agents.is_gone(agent_id, row.runner_id, workspace) for row in rows)

        agent = await self._agents.wait_for(agent_id, WORKER_START_S, workspace=workspace, hopeful=lambda: True)
        if agent is None and is_expected():
            _log.warning("runs and messages wait for an absent agent", agent=agent_id, workspace=workspace)
            await self._agents.wait_for(agent_id, None, workspace=workspace, hopeful=is_expected)

    async def _dispatch(self, message: WaitingMessage) -> None:
        agent = self._agents.get(message.agent_id, message.workspace)
        if agent is None:
            self._intake.wait_for_agent(message.event, message.event_id, message.agent_id)
            return
        await insist(lambda: self._intake.redispatch(message.event, message.event_id, agent, message.binding_id))

    async def _queue_again(self, row: RunRow) -> None:
        queued = await insist(lambda: asyncio.to_thread(self._recovery.queued, row))
        if queued is None:
            await self._lost.finish(row, "host.lost", "the agent or the event of the run is gone")
        else:
            self._intake.enter_again(queued)
