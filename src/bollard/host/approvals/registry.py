"""The questions that are open on this host: asked and not decided, or allowed and not carried out. In memory; the log
has them too, and every change here follows a record there."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from bollard.host.approvals.approval import Approval, Permission
from bollard.host.clock import Clock
from bollard.host.errors import AuditUnavailable, Conflict, HostError
from bollard.host.limits import AUDIT_S
from bollard.host.log.entries import CommitResult, Committed, Entry, ExpectationResult
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import JsonObject

Answer = Permission | HostError
"""What whoever waits is told."""


@dataclass(slots=True, kw_only=True)
class OpenApproval:
    """One question."""

    approval: Approval
    waiter: "asyncio.Future[Answer] | None" = None
    """The call that is parked; nobody where its run has gone."""
    status: Literal["requested", "granted"] = "requested"
    permission: Permission | None = None
    deciding: bool = False
    """A decision is on its way to the disk: there is no second one."""
    carried: bool = False
    """It is being carried out for a run that has ended."""
    opened_by: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Callers who had attached content before them, each with its number."""
    size: int = 0
    """Bytes of the question."""

    def tell(self, answer: Answer) -> bool:
        """Give the parked call its answer; false when none waits."""
        if self.waiter is None or self.waiter.done():
            return False
        self.waiter.set_result(answer)
        return True

    @property
    def waits(self) -> bool:
        return self.waiter is not None and not self.waiter.done()


class ApprovalRegistry:
    """One per host."""

    def __init__(self) -> None:
        self._open: dict[str, OpenApproval] = {}
        self._of_run: dict[str, dict[str, OpenApproval]] = {}
        self._in_workspace: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._due: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenApproval]:
        return iter([*self._open.values()])

    def add(self, open_one: OpenApproval) -> None:
        approval = open_one.approval
        self._open[approval.approval_id] = open_one
        self._of_run.setdefault(approval.run_id, {})[approval.approval_id] = open_one
        self._in_workspace[approval.workspace] += 1
        self._bytes[approval.workspace] += open_one.size
        heapq.heappush(self._due, (approval.expires_ms, approval.approval_id))

    def remove(self, approval: Approval) -> None:
        if (open_one := self._open.pop(approval.approval_id, None)) is None:
            return
        of_run = self._of_run[approval.run_id]
        del of_run[approval.approval_id]
        if not of_run:
            del self._of_run[approval.run_id]
        self._in_workspace[approval.workspace] -= 1
        self._bytes[approval.workspace] -= open_one.size

    def get(self, workspace: str, approval_id: str) -> OpenApproval | None:
        """What belongs to another workspace is not there."""
        found = self._open.get(approval_id)
        return found if found is not None and found.approval.workspace == workspace else None

    def of_run(self, run_id: str) -> list[OpenApproval]:
        return [*self._of_run.get(run_id, {}).values()]

    def of_call(self, run_id: str, call_id: str) -> OpenApproval | None:
        return next((one for one in self.of_run(run_id) if one.approval.call_id == call_id), None)

    def in_workspace(self, workspace: str) -> int:
        return self._in_workspace[workspace]

    def bytes_in(self, workspace: str) -> int:
        """What the open questions of a workspace hold together."""
        return self._bytes[workspace]

    def due(self, now_ms: int) -> list[OpenApproval]:
        """Those whose time is over; each is told of once."""
        found: list[OpenApproval] = []
        while self._due and self._due[0][0] <= now_ms:
            _, approval_id = heapq.heappop(self._due)
            if (one := self._open.get(approval_id)) is not None:
                found.append(one)
        return found

    def look_again(self, approval: Approval, at_ms: int) -> None:
        """One whose time is over and that could not be ended: it is due again."""
        heapq.heappush(self._due, (at_ms, approval.approval_id))


# Writes what happens to questions: into the run that waits, or beside it into its workspace once it has ended.
#
# Nothing is believed before it is on disk: whoever asks for a record is told when it landed.


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

        def told(found: ExpectationResult | None) -> None:
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

        def told(outcome: CommitResult | HostError) -> None:
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
