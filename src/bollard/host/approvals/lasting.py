"""How long questions last: until their time is over, or their run ends because it wanted to. A run that was lost leaves
its questions open, and a yes that was not carried out before a crash is carried out after it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from bollard.host.approvals.approval import Approval, approval_of, said_of
from bollard.host.approvals.approval_log import ApprovalLog
from bollard.host.approvals.book import Book, Open
from bollard.host.approvals.proposal import Permission
from bollard.host.approvals.sentences import expired, gone
from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.limits import REPLAY_PAGE
from bollard.host.runs.live import LiveRun
from bollard.host.runs.machine import Ending
from bollard.host.store.boundary import Store
from bollard.host.store.rows import ENDED, RunRow
from bollard.protocol import JsonObject

__all__ = ["OUTLIVED", "Detach", "Lasting"]

_log = structlog.get_logger("bollard.approvals")
Detach = Callable[[Open], None]
"""Carries out a yes for a run that has ended."""
OUTLIVED: Final = frozenset({"host.lost", "runner.crashed"})
"""Why a run may have ended whose questions stay open: it did not want to."""
_AGAIN_MS: Final = 5_000
"""Time until the end of a question is tried again that could not be written."""


class Lasting:
    """One per host."""

    def __init__(
        self,
        *,
        book: Book,
        log: ApprovalLog,
        clock: Clock,
        store: Store,
        live: Mapping[str, LiveRun],
        detach: Detach,
    ) -> None:
        self._book = book
        self._log = log
        self._clock = clock
        self._store = store
        self._live = live
        self._detach = detach
        self._background = Background()

    def sweep(self) -> None:
        """Called about once a second: what nobody answered in time is over."""
        for open_one in self._book.due(self._clock.now_ms()):
            if not open_one.carried:  # or its yes came in time, and it is being done
                self._background.begin(self._expire(open_one))

    async def _expire(self, open_one: Open) -> None:
        approval = open_one.approval
        if open_one.deciding or open_one.status == "granted":
            self._book.look_again(approval, self._clock.now_ms() + _AGAIN_MS)
        else:
            await self._end(open_one, "expired")

    async def withdraw(self, open_one: Open, reason: str) -> None:
        """It is over without an answer, and whoever waits is told."""
        approval = open_one.approval
        data: JsonObject = {"approval_id": approval.approval_id, "call_id": approval.call_id, "reason": reason}

        def settled() -> None:
            open_one.deciding = False
            self._book.remove(approval)
            open_one.tell(expired(approval))

        def lost() -> None:
            open_one.deciding = False

        open_one.deciding = True  # also when it takes too long: it may be on disk yet
        run = self._live.get(approval.run_id)
        if run is not None and not run.ending and open_one.waits:
            await self._log.into_run(run, "approval.expired", data, settled, lost)
        else:
            await self._log.beside(approval, "approval.expired", data, settled, lost)

    def run_over(self, run: LiveRun) -> None:
        """A run that had questions has ended: they stay where it did not want to, and go where it did."""
        for open_one in self._book.of_run(run.facts.run_id):
            open_one.tell(gone(open_one.approval))  # whoever still waits for it waits for nobody's sake
            if run.outcome is None:
                self._book.remove(open_one.approval)  # another owner has the run, and its questions
            elif not _was_lost(run.outcome):
                self._background.begin(self._end(open_one, "run_ended"))
            elif open_one.status == "granted":
                self._detach(open_one)

    async def _end(self, open_one: Open, reason: str) -> None:
        try:
            await self.withdraw(open_one, reason)
        except HostError as error:
            approval = open_one.approval
            _log.warning("an approval could not be ended yet", approval=approval.approval_id, problem=error.message)
            self._book.look_again(approval, self._clock.now_ms() + _AGAIN_MS)

    # --- after a start ---

    async def load(self, recovered: asyncio.Event) -> None:
        """What an earlier incarnation left open; and, once its runs have ended, what it had a yes for goes on."""
        after = ""
        while rows := await asyncio.to_thread(self._store.open_approvals, after, REPLAY_PAGE):
            after = rows[-1].approval_id
            for row in rows:
                try:
                    approval = approval_of(row)
                except HostError as error:
                    _log.error("an approval cannot be read", approval=row.approval_id, problem=error.message)
                    continue
                by = said_of(row).by
                granted = row.status == "granted" and by is not None
                self._book.add(
                    Open(
                        approval=approval,
                        status="granted" if granted else "requested",
                        size=len(row.body),
                        permission=_permission(approval, by) if granted and by is not None else None,
                    )
                )
        if len(self._book):
            self._background.begin(self._go_on(recovered))

    async def _go_on(self, recovered: asyncio.Event) -> None:
        await recovered.wait()
        for open_one in self._book:
            if open_one.approval.run_id in self._live or open_one.deciding:
                continue
            if not self.outlives(await asyncio.to_thread(self._store.run, open_one.approval.run_id)):
                await self._end(open_one, "run_ended")
            elif open_one.status == "granted" and not open_one.carried:
                self._detach(open_one)

    @staticmethod
    def outlives(row: RunRow | None) -> bool:
        """Whether a question of a run that has ended stays open."""
        return row is not None and row.status in ENDED and row.reason in OUTLIVED

    async def close(self) -> None:
        await self._background.close()


def _permission(approval: Approval, by: str) -> Permission:
    """A yes of before the start. It was for one call, whatever it was for: the run that it might have lasted for has
    ended."""
    return Permission(approval_id=approval.approval_id, decision="allow_once", by=by, digest=approval.digest)


def _was_lost(outcome: Ending) -> bool:
    return outcome.code in OUTLIVED
