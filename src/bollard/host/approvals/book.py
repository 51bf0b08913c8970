"""The questions that are open on this host: asked and not decided, or allowed and not carried out. In memory; the log
has them too, and every change here follows a record there."""

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from bollard.host.approvals.approval import Approval
from bollard.host.approvals.proposal import Permission
from bollard.host.errors import HostError

__all__ = ["Answer", "Book", "Open"]

Answer = Permission | HostError
"""What whoever waits is told."""


@dataclass(slots=True, kw_only=True)
class Open:
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


class Book:
    """One per host."""

    def __init__(self) -> None:
        self._open: dict[str, Open] = {}
        self._of_run: dict[str, dict[str, Open]] = {}
        self._in_workspace: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._due: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Open]:
        return iter([*self._open.values()])

    def add(self, open_one: Open) -> None:
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

    def get(self, workspace: str, approval_id: str) -> Open | None:
        """What belongs to another workspace is not there."""
        found = self._open.get(approval_id)
        return found if found is not None and found.approval.workspace == workspace else None

    def of_run(self, run_id: str) -> list[Open]:
        return [*self._of_run.get(run_id, {}).values()]

    def of_call(self, run_id: str, call_id: str) -> Open | None:
        return next((one for one in self.of_run(run_id) if one.approval.call_id == call_id), None)

    def in_workspace(self, workspace: str) -> int:
        return self._in_workspace[workspace]

    def bytes_in(self, workspace: str) -> int:
        """What the open questions of a workspace hold together."""
        return self._bytes[workspace]

    def due(self, now_ms: int) -> list[Open]:
        """Those whose time is over; each is told of once."""
        found: list[Open] = []
        while self._due and self._due[0][0] <= now_ms:
            _, approval_id = heapq.heappop(self._due)
            if (one := self._open.get(approval_id)) is not None:
                found.append(one)
        return found

    def look_again(self, approval: Approval, at_ms: int) -> None:
        """One whose time is over and that could not be ended: it is due again."""
        heapq.heappush(self._due, (at_ms, approval.approval_id))
