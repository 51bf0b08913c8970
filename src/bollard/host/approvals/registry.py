"""The open approvals of this host in memory, and the log of their changes.

An approval is open until it is decided, and a granted one until its call is made. Each change follows a record on disk.
"""

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
from bollard.host.telemetry.counts import RunCounts
from bollard.protocol import JsonObject

ApprovalAnswer = Permission | HostError
"""The result for the parked call."""


@dataclass(slots=True, kw_only=True)
class OpenApproval:
    """One open approval."""

    approval: Approval
    waiter: "asyncio.Future[ApprovalAnswer] | None" = None
    """The parked call; null after its run has ended."""
    status: Literal["requested", "granted"] = "requested"
    permission: Permission | None = None
    deciding: bool = False
    """A decision is being written. No other decision is accepted."""
    detached: bool = False
    """The call is being made for a run that has ended."""
    opened_by: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """Callers who opened attached content, each with the number of the attachment."""
    size: int = 0
    """Bytes of the arguments and the explanation."""

    def resolve(self, answer: ApprovalAnswer) -> None:
        """Resume the parked call, if there is one."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(answer)

    @property
    def has_waiter(self) -> bool:
        return self.waiter is not None and not self.waiter.done()


class ApprovalRegistry:
    """The open approvals by id, run, workspace and deadline."""

    def __init__(self) -> None:
        self._open: dict[str, OpenApproval] = {}
        self._of_run: dict[str, dict[str, OpenApproval]] = {}
        self._in_workspace: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._due: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._open)

    @property
    def waiting(self) -> int:
        """Approvals without a decision."""
        return sum(pending.status == "requested" for pending in self._open.values())

    def __iter__(self) -> Iterator[OpenApproval]:
        return iter([*self._open.values()])

    def add(self, pending: OpenApproval) -> None:
        approval = pending.approval
        self._open[approval.approval_id] = pending
        self._of_run.setdefault(approval.run_id, {})[approval.approval_id] = pending
        self._in_workspace[approval.workspace] += 1
        self._bytes[approval.workspace] += pending.size
        heapq.heappush(self._due, (approval.expires_ms, approval.approval_id))

    def remove(self, approval: Approval) -> None:
        if (pending := self._open.pop(approval.approval_id, None)) is None:
            return
        of_run = self._of_run[approval.run_id]
        del of_run[approval.approval_id]
        if not of_run:
            del self._of_run[approval.run_id]
        self._in_workspace[approval.workspace] -= 1
        self._bytes[approval.workspace] -= pending.size

    def get(self, workspace: str, approval_id: str) -> OpenApproval | None:
        pending = self._open.get(approval_id)
        return pending if pending is not None and pending.approval.workspace == workspace else None

    def of_run(self, run_id: str) -> list[OpenApproval]:
        return [*self._of_run.get(run_id, {}).values()]

    def of_call(self, run_id: str, call_id: str) -> OpenApproval | None:
        return next((pending for pending in self.of_run(run_id) if pending.approval.call_id == call_id), None)

    def in_workspace(self, workspace: str) -> int:
        return self._in_workspace[workspace]

    def bytes_in(self, workspace: str) -> int:
        """Total size of the open approvals of a workspace."""
        return self._bytes[workspace]

    def due(self, now_ms: int) -> list[OpenApproval]:
        """The overdue approvals. Each is returned once."""
        overdue: list[OpenApproval] = []
        while self._due and self._due[0][0] <= now_ms:
            _, approval_id = heapq.heappop(self._due)
            if (pending := self._open.get(approval_id)) is not None:
                overdue.append(pending)
        return overdue

    def postpone(self, approval: Approval, at_ms: int) -> None:
        """Make an overdue approval that could not be closed due again."""
        heapq.heappush(self._due, (at_ms, approval.approval_id))


def _ignore() -> None:
    """The default callback."""


class ApprovalLog:
    """Writes records of approvals, into the live run or, after its end, into its workspace. A change takes effect
    only when its record is on disk."""

    def __init__(
        self, journal: Journal, clock: Clock, counts: RunCounts, written: Callable[[], None] = _ignore
    ) -> None:
        """`written` is called after each record on disk: its interaction can be sent."""
        self._written = written
        self._journal = journal
        self._clock = clock
        self._counts = counts

    async def into_run(
        self, run: LiveRun, kind: str, data: JsonObject, settled: Callable[[], None], lost: Callable[[], None] = _ignore
    ) -> None:
        """Write a record of the run. `settled` is called when it is on disk, however long that takes, or `lost` if it
        never will be. Raises `AuditUnavailable` after `AUDIT_S`, and `Conflict` if the run ended first."""
        landed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def written(result: ExpectationResult | None) -> None:
            if result is not None:
                self._counts.approval(kind)
                self._written()
            (lost if result is None else settled)()
            if not landed.done():
                landed.set_result(result is not None)

        if not run.note(kind, data, written):
            lost()
            raise _run_ended()
        if not await _in_time(landed):
            raise _run_ended()

    async def beside(
        self,
        approval: Approval,
        kind: str,
        data: JsonObject,
        settled: Callable[[], None],
        lost: Callable[[], None] = _ignore,
    ) -> None:
        """Write a record of the workspace that names the ended run. `settled` and `lost` as in `into_run`."""
        landed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        errors: list[HostError] = []

        def written(outcome: CommitResult | HostError) -> None:
            if isinstance(outcome, HostError):
                errors.append(outcome)
            if isinstance(outcome, Committed):
                self._counts.approval(kind)
                self._written()
            (settled if isinstance(outcome, Committed) else lost)()
            if not landed.done():
                landed.set_result(not isinstance(outcome, HostError))

        body: JsonObject = {**data, "run_id": approval.run_id}
        record = NewRecord(
            workspace=approval.workspace, type=kind, data=encode_data(body), created_ms=self._clock.now_ms()
        )
        try:
            self._journal.append(Entry(records=[record], size=len(record.data)), written)
        except HostError:
            lost()
            raise
        if not await _in_time(landed):
            raise errors[0]


async def _in_time(landed: "asyncio.Future[bool]") -> bool:
    try:
        async with asyncio.timeout(AUDIT_S):
            return await landed
    except TimeoutError:
        raise AuditUnavailable(
            f"the record of the approval was not on disk within {AUDIT_S:g} seconds",
            reason="approval_not_recorded",
            hint="the disk is slow or full; read the approval again before you decide it again",
            seconds=AUDIT_S,
        ) from None


def _run_ended() -> Conflict:
    return Conflict(
        "the run of the approval has ended meanwhile", reason="approval_run_ended", hint="read the approval again"
    )
