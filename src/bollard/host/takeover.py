"""Carries recovery out at start: ends what was running, puts what waited back into the queue, and does not give up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec
import structlog

from bollard.host.agents.agent import AgentBook
from bollard.host.errors import HostError
from bollard.host.intake.intake import Intake
from bollard.host.limits import WORKER_START_S
from bollard.host.log.entries import Committed, Entry, Outcome
from bollard.host.log.journal import Journal
from bollard.host.recovery import Recovery, Waiting, facts_of
from bollard.host.runs.hub import Hub
from bollard.host.runs.stream_records import stream_record
from bollard.host.store.rows import RunRow
from bollard.host.telemetry.counts import RunCounts

__all__ = ["Takeover"]

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


class Takeover:
    """Runs once, beside the first requests."""

    def __init__(
        self,
        recovery: Recovery,
        *,
        journal: Journal,
        hub: Hub,
        agents: AgentBook,
        intake: Intake,
        counts: RunCounts | None = None,
    ) -> None:
        self._recovery = recovery
        self._journal = journal
        self._hub = hub
        self._agents = agents
        self._intake = intake
        self._counts = counts or RunCounts()
        self.lost_are_ended = asyncio.Event()
        """Set when no run of an earlier incarnation counts as running any more."""

    async def run(self) -> None:
        """Runs that were running end at once; those that waited go on when their agent is there."""
        returning = self._intake.returning
        returning.begin()
        left = await self._insist(lambda: asyncio.to_thread(lambda: list(self._recovery.unfinished())))
        lost = [row for row in left if row.status != "queued"]
        for first in range(0, len(lost), _RECOVERED_AT_ONCE):
            await asyncio.gather(*(self._end_lost(row) for row in lost[first : first + _RECOVERED_AT_ONCE]))
        self.lost_are_ended.set()
        await self._end_calls()
        rows: dict[tuple[str, str], list[RunRow]] = {}
        for row in left:
            if row.status == "queued":
                rows.setdefault((row.workspace, row.agent_id), []).append(row)
        messages: dict[tuple[str, str], list[Waiting]] = {}
        for message in await self._insist(lambda: asyncio.to_thread(self._recovery.pending)):
            messages.setdefault((message.workspace, message.agent_id), []).append(message)
        agents = dict.fromkeys([*rows, *messages])
        returning.known(agents)
        # An agent that does not come must not hold up the runs of another.
        await asyncio.gather(*(self._go_on(*each, rows.get(each, []), messages.get(each, [])) for each in agents))

    async def _end_calls(self) -> None:
        for call in await self._insist(lambda: asyncio.to_thread(self._recovery.open_calls)):
            entry = self._recovery.unknown_entry(call)
            await self._insist(lambda entry=entry: self._journal.commit(entry))

    async def _go_on(self, workspace: str, agent_id: str, rows: list[RunRow], messages: list[Waiting]) -> None:
        """Runs that waited and what lost runs gave back, in the order the messages came."""
        await self._agents.wait_for(agent_id, WORKER_START_S, workspace=workspace, hopeful=lambda: True)
        for waiting in sorted([*rows, *messages], key=lambda waiting: waiting.event_id):  # ids are in order of arrival
            if isinstance(waiting, Waiting):
                await self._dispatch(waiting)
            else:
                await self._queue_again(waiting)
        self._intake.returning.done(workspace, agent_id)

    async def _dispatch(self, message: Waiting) -> None:
        agent = self._agents.get(message.agent_id, message.workspace)
        if agent is None:
            _log.warning("a message waits for an agent that is gone", event_id=message.event_id, agent=message.agent_id)
            return
        await self._insist(lambda: self._intake.redispatch(message.event, message.event_id, agent))

    async def _queue_again(self, row: RunRow) -> None:
        queued = await self._insist(lambda: asyncio.to_thread(self._recovery.queued, row))
        if queued is None:
            await self._end_lost(row)
        else:
            self._intake.enter_again(queued)

    async def _end_lost(self, row: RunRow) -> None:
        self._journal.remember(facts_of(row))
        entry, outcome = await self._insist(lambda: self._try_to_end(row))
        if isinstance(outcome, Committed):
            ended = msgspec.json.decode(entry.records[-1].data, type=_Ended)
            self._counts.end(ended.status, ended.code)
            self._hub.publish(row.run_id, [stream_record(record) for record in entry.records])
        self._hub.end(row.run_id)

    async def _try_to_end(self, row: RunRow) -> tuple[Entry, Outcome]:
        """Read anew each time: an owner that is not quite gone may have written once more before it lost the run."""
        entry = await asyncio.to_thread(self._recovery.lost_entry, row, "host.lost")
        return entry, await self._journal.commit(entry)

    async def _insist(self, step: Callable[[], Awaitable[T]]) -> T:
        """Recovery is not given up: a run that nobody ends would stay open until the next start."""
        while True:
            try:
                return await step()
            except HostError as error:
                _log.warning("a run could not be recovered yet", problem=error.message)
                await asyncio.sleep(_RETRY_S)
