"""Writes what happens to questions: into the run that waits, or beside it into its workspace once it has ended.

Nothing is believed before it is on disk: whoever asks for a record is told when it landed.
"""

import asyncio
from collections.abc import Callable

from bollard.host.approvals.approval import Approval
from bollard.host.clock import Clock
from bollard.host.errors import AuditUnavailable, Conflict, HostError
from bollard.host.limits import AUDIT_S
from bollard.host.log.entries import Committed, Entry, Judgement, Outcome
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.live import LiveRun
from bollard.protocol import JsonObject

__all__ = ["ApprovalLog"]


def _nothing() -> None:
    """Nobody wants to hear of it."""


class ApprovalLog:
    """One per host."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    async def into_run(
        self,
        run: LiveRun,
        kind: str,
        data: JsonObject,
        settled: Callable[[], None],
        lost: Callable[[], None] = _nothing,
    ) -> None:
        """A record of the run. `settled` is called when it is on disk, however long that takes, or else `lost` when it
        never will be; raises `AuditUnavailable` when it takes too long, `Conflict` when the run has ended before
        it."""
        landed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def told(found: Judgement | None) -> None:
            (lost if found is None else settled)()
            if not landed.done():
                landed.set_result(found is not None)

        if not run.note(kind, data, told):
            lost()
            raise _gone()
        if not await _in_time(landed):
            raise _gone()

    async def beside(
        self,
        approval: Approval,
        kind: str,
        data: JsonObject,
        settled: Callable[[], None],
        lost: Callable[[], None] = _nothing,
    ) -> None:
        """A record of the workspace that names the run, whose own ledger is closed. `settled` or `lost` is called as
        above."""
        landed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        failed: list[HostError] = []

        def told(outcome: Outcome | HostError) -> None:
            if isinstance(outcome, HostError):
                failed.append(outcome)
            (settled if isinstance(outcome, Committed) else lost)()
            if not landed.done():
                landed.set_result(not isinstance(outcome, HostError))

        body: JsonObject = {**data, "run_id": approval.run_id}
        record = NewRecord(
            workspace=approval.workspace, type=kind, data=encode_data(body), created_ms=self._clock.now_ms()
        )
        try:
            self._journal.append(Entry(records=[record], size=len(record.data)), told)
        except HostError:
            lost()
            raise
        if not await _in_time(landed):
            raise failed[0]


async def _in_time(landed: "asyncio.Future[bool]") -> bool:
    """Wait as long as something may take that must be written before it counts."""
    try:
        async with asyncio.timeout(AUDIT_S):
            return await landed
    except TimeoutError:
        raise AuditUnavailable(
            "this could not be written down in time",
            hint="the disk is slow or full; read the approval again before you decide it again",
        ) from None


def _gone() -> Conflict:
    return Conflict("the run has ended meanwhile", hint="read the approval again")
