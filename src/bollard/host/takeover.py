"""Carries recovery out at start: ends what was running, puts what waited back into the queue, and does not give up."""

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
from bollard.host.runs.hub import Hub, stream_record
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.machine import RunState
from bollard.host.store.rows import RunRow
from bollard.host.telemetry.counts import RunCounts

_log = structlog.get_logger("bollard.recovery")
_RETRY_S: Final = 1.0
"""Time between two tries of a step that the store refused."""
_RECOVERED_AT_ONCE: Final = 64
"""Lost runs that are ended together: they share commits."""
T = TypeVar("T")


class _Ended(msgspec.Struct):
    """The data of `run.ended`, as far as it is counted."""

    status: str
    code: str | None = None


async def insist(step: Callable[[], Awaitable[T]], *, passing: bool = False) -> T:
    """Recovery is not given up: a run that nobody ends would stay open until the next start.

    With `passing` it is given up for a reason that does not pass.
    """
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
        """End a run of this host of which the store takes nothing more, as far as it is on disk; how it stands then.

        `None` where the store does not take that either: then the next start does it.
        """
        try:
            row = await insist(lambda: asyncio.to_thread(self._recovery.row, run_id), passing=True)
            if row is None:
                return None
            entry, outcome = await insist(lambda: self._try_to_end(row, "host.lost", WENT_AWAY), passing=True)
            self._tell_of(row, entry, outcome)
            return await insist(lambda: asyncio.to_thread(self._recovery.replay, row), passing=True)
        except HostError as error:
            _log.error("a run could not be ended", run=run_id, problem=error.message)
            return None

    async def finish(self, row: RunRow, reason: str, detail: str, *, again: bool = False) -> None:
        self._journal.remember(facts_of(row))
        entry, outcome = await insist(lambda: self._try_to_end(row, reason, detail, again=again))
        self._tell_of(row, entry, outcome)

    async def stop(self, row: RunRow, reason: str) -> None:
        """A run whose agent has not come back is stopped in the queue. Raises where the store does not take that."""
        self._journal.remember(facts_of(row))
        self._tell_of(row, *await self._try_to_end(row, reason, "the run was cancelled in the queue"))

    def _tell_of(self, row: RunRow, entry: Entry, outcome: CommitResult) -> None:
        if isinstance(outcome, Committed):
            ended = msgspec.json.decode(entry.records[-1].data, type=_Ended)
            self._counts.end(ended.status, ended.code)
            self._hub.publish(row.run_id, [stream_record(record) for record in entry.records])
        self._hub.end(row.run_id)

    async def _try_to_end(
        self, row: RunRow, reason: str, detail: str, *, again: bool = False
    ) -> tuple[Entry, CommitResult]:
        """Read anew each time: an owner that is not quite gone may have written once more before it lost the run."""
        for fold in await asyncio.to_thread(self._recovery.folds, row):
            await self._journal.commit(fold)
        entry = await asyncio.to_thread(self._recovery.lost_entry, row, reason, detail, again=again)
        return entry, await self._journal.commit(entry)


class Takeover:
    """Runs once, beside the first requests."""

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
        """Set when no run of an earlier incarnation counts as running any more."""

    async def run(self) -> None:
        """Runs that were running end at once; those that waited go on when their agent is there."""
        returning = self._intake.return_gate
        returning.begin()
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
        # What comes now comes behind them, whatever the clock says: of those that wait, the id says who came first.
        self._ids.go_behind(waiting.event_id for waiting in (*left, *pending))
        for message in pending:
            messages.setdefault((message.workspace, message.agent_id), []).append(message)
        agents = dict.fromkeys([*rows, *messages])
        returning.known(agents)
        # An agent that does not come must not hold up the runs of another.
        await asyncio.gather(*(self._go_on(*each, rows.get(each, []), messages.get(each, [])) for each in agents))

    async def _end_calls(self) -> None:
        for call in await insist(lambda: asyncio.to_thread(self._recovery.open_calls)):
            entry = self._recovery.unknown_entry(call)
            await insist(lambda entry=entry: self._journal.commit(entry))

    async def _go_on(self, workspace: str, agent_id: str, rows: list[RunRow], messages: list[WaitingMessage]) -> None:
        """Runs that waited and what lost runs gave back, in the order the messages came, as soon as their agent is
        there: its plugin may be slow, switched off for a while, or on a machine that comes back later."""
        for row in rows:
            self._backlog.expect(row.run_id, row.workspace, partial(self._lost.stop, row))
        await self._wait_for(workspace, agent_id, rows)
        came = await insist(lambda: asyncio.to_thread(self._recovery.arrivals, rows))

        def order(waiting: RunRow | WaitingMessage) -> tuple[int, str]:
            record = waiting.record_id if isinstance(waiting, WaitingMessage) else came[waiting.run_id]
            return record, waiting.event_id

        for waiting in sorted([*rows, *messages], key=order):
            if isinstance(waiting, WaitingMessage):
                await self._dispatch(waiting)
            elif await self._backlog.returns(waiting.run_id):
                await self._queue_again(waiting)
        self._intake.return_gate.done(workspace, agent_id)

    async def _wait_for(self, workspace: str, agent_id: str, rows: list[RunRow]) -> None:
        """Until the agent is there, or nobody can say that it will be."""

        def hopeful() -> bool:
            if self._agents.saved_one(agent_id, workspace) is not None:
                return True
            return bool(rows) and not any(self._agents.is_gone(agent_id, row.runner_id, workspace) for row in rows)

        there = await self._agents.wait_for(agent_id, WORKER_START_S, workspace=workspace, hopeful=lambda: True)
        if there is None and hopeful():
            _log.warning("runs and messages wait for an agent that is not there", agent=agent_id, workspace=workspace)
            await self._agents.wait_for(agent_id, None, workspace=workspace, hopeful=hopeful)

    async def _dispatch(self, message: WaitingMessage) -> None:
        agent = self._agents.get(message.agent_id, message.workspace)
        if agent is None:
            self._intake.wait_for_agent(message.event, message.event_id, message.agent_id, message.workspace)
            return
        await insist(lambda: self._intake.redispatch(message.event, message.event_id, agent, message.binding_id))

    async def _queue_again(self, row: RunRow) -> None:
        queued = await insist(lambda: asyncio.to_thread(self._recovery.queued, row))
        if queued is None:
            await self._lost.finish(row, "host.lost", "its agent or its event is gone")
        else:
            self._intake.enter_again(queued)
