"""Decides questions: whether one is still open and still the same, and what a yes and a no do. Who may was settled
before.

A decision counts when its record is on disk, and the first one there is the only one. Whoever decides what is not open
any more is told so: nobody is left in the belief that a click did something.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from bollard.host.approvals.approval import (
    Approval,
    Decision,
    Permission,
    approval_of,
    denied,
    expired,
    gone,
    no_approval,
    said_of,
    stale,
)
from bollard.host.approvals.display import display
from bollard.host.approvals.registry import ApprovalLog, ApprovalRegistry, OpenApproval
from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, InvalidRequest
from bollard.host.limits import AUDIT_S, REPLAY_PAGE
from bollard.host.log.records import encode_data
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.machine import Ending
from bollard.host.store.rows import ENDED, RunRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

# How long questions last: until their time is over, or their run ends because it wanted to. A run that was lost leaves
# its questions open, and a yes that was not carried out before a crash is carried out after it.


_log = structlog.get_logger("bollard.approvals")
Detach = Callable[[OpenApproval], None]
"""Carries out a yes for a run that has ended."""
OUTLIVED: Final = frozenset({"host.lost", "runner.crashed"})
"""Why a run may have ended whose questions stay open: it did not want to."""
_AGAIN_MS: Final = 5_000
"""Time until the end of a question is tried again that could not be written."""


class OpenApprovals:
    """One per host."""

    def __init__(
        self,
        *,
        book: ApprovalRegistry,
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

    async def _expire(self, open_one: OpenApproval) -> None:
        approval = open_one.approval
        if open_one.deciding or open_one.status == "granted":
            self._book.look_again(approval, self._clock.now_ms() + _AGAIN_MS)
        else:
            await self._end(open_one, "expired")

    async def withdraw(self, open_one: OpenApproval, reason: str) -> None:
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

    async def _end(self, open_one: OpenApproval, reason: str) -> None:
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
                    OpenApproval(
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


_SMALL_BYTES: Final = 4096
"""A question of so much takes no time to show."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says about a question they saw. That they may is settled."""

    decision: Decision
    digest: str
    """Of the question that they saw."""
    by: str
    inspected: bool | None = None
    """Of attached content: whether they opened it. A yes needs one or the other to be said."""

    @property
    def allows(self) -> bool:
        return self.decision in ("allow_once", "allow_run")


class ApprovalDecisions:
    """One per host."""

    def __init__(
        self,
        *,
        book: ApprovalRegistry,
        log: ApprovalLog,
        clock: Clock,
        store: Store,
        live: Mapping[str, LiveRun],
        lasting: OpenApprovals,
        cover: Callable[[Approval, Permission], None],
        detach: Detach,
        refused: Callable[[Approval], None],
    ) -> None:
        """`cover` remembers a yes for a whole run, `detach` carries out a yes for a run that has ended, `refused` hears
        of a no for one."""
        self._book = book
        self._log = log
        self._clock = clock
        self._store = store
        self._live = live
        self._lasting = lasting
        self._cover = cover
        self._detach = detach
        self._refused = refused

    async def decide(self, workspace: str, approval_id: str, verdict: Verdict) -> None:
        """On disk when it returns. Raises `Conflict` for what is decided, expired, withdrawn or another question."""
        open_one = await self._found(workspace, approval_id)
        self._check(open_one, verdict, await _attached(open_one.approval) if verdict.allows else ())
        open_one.deciding = True  # from here until its fate is known nobody else decides it
        try:
            run = await self._still_waits(open_one)
        except BaseException:
            open_one.deciding = False
            raise
        await self._write(open_one, verdict, run)

    async def _found(self, workspace: str, approval_id: str) -> OpenApproval:
        if (open_one := self._book.get(workspace, approval_id)) is not None:
            return open_one
        row = await asyncio.to_thread(self._store.approval, workspace, approval_id)
        if row is None:
            raise no_approval()
        if row.status == "requested" and (run := self._live.get(row.run_id)) is not None:
            # It reached the disk a moment ago, where it was read, and whoever asked is about to hear of that.
            with suppress(TimeoutError):
                async with asyncio.timeout(AUDIT_S):
                    await run.written()
            if (open_one := self._book.get(workspace, approval_id)) is not None:
                return open_one
        raise stale(row.status)

    def _check(self, open_one: OpenApproval, verdict: Verdict, attached: Sequence[int]) -> None:
        approval = open_one.approval
        if open_one.deciding or open_one.status != "requested":
            raise stale(open_one.status)
        if verdict.digest != approval.digest:
            raise Conflict(
                "this decides nothing: it is another question than the one you saw",
                hint="read the approval again and decide what it says now",
                digest=approval.digest,
            )
        if self._clock.now_ms() >= approval.expires_ms:
            raise stale("expired")
        if attached:
            _check_inspected(open_one, verdict, attached)

    async def _still_waits(self, open_one: OpenApproval) -> LiveRun | None:
        """The run that waits for it; nothing where it has ended and its question outlives it."""
        approval = open_one.approval
        run = self._live.get(approval.run_id)
        if run is not None and not run.ending and run.state.cancel is None:
            if not open_one.waits:
                raise stale("expired")  # it was given up a moment ago
            return run
        row = None if run is not None else await asyncio.to_thread(self._store.run, approval.run_id)
        if row is None or row.status not in ENDED:
            raise Conflict("this decides nothing yet: its run is just ending", hint="try again in a moment")
        if not OpenApprovals.outlives(row):
            await self._lasting.withdraw(open_one, "run_ended")
            raise stale("expired")
        return None

    async def _write(self, open_one: OpenApproval, verdict: Verdict, run: LiveRun | None) -> None:
        """Raises when it takes too long; then it may be on disk yet, and until that is known nobody else decides."""
        approval = open_one.approval
        data: JsonObject = {
            "approval_id": approval.approval_id,
            "call_id": approval.call_id,
            "digest": approval.digest,
            "decision": verdict.decision,
            "by": verdict.by,
        }
        if verdict.inspected is not None:
            data["inspected"] = verdict.inspected
        kind = "approval.granted" if verdict.allows else "approval.denied"

        def settled() -> None:
            open_one.deciding = False
            self._settled(open_one, verdict, run)

        def lost() -> None:
            open_one.deciding = False

        if run is not None:
            await self._log.into_run(run, kind, data, settled, lost)
        else:
            data["detached"] = True
            await self._log.beside(approval, kind, data, settled, lost)

    def _settled(self, open_one: OpenApproval, verdict: Verdict, run: LiveRun | None) -> None:
        """A decision is on disk."""
        approval = open_one.approval
        if verdict.allows:
            self._allow(open_one, verdict, run)
            return
        self._book.remove(approval)
        open_one.tell(denied(approval, verdict.by))
        if run is not None and verdict.decision == "deny_stop":
            run.cancel("cancelled")
        elif run is None and verdict.decision == "deny":
            self._refused(approval)

    def _allow(self, open_one: OpenApproval, verdict: Verdict, run: LiveRun | None) -> None:
        approval = open_one.approval
        lasts = verdict.decision == "allow_run" and run is not None
        permission = Permission(
            approval_id=approval.approval_id,
            decision="allow_run" if lasts else "allow_once",
            by=verdict.by,
            digest=approval.digest,
        )
        open_one.status, open_one.permission = "granted", permission
        if run is None:
            self._detach(open_one)
            return
        if lasts:
            self._cover(approval, permission)
        open_one.tell(permission)


async def _attached(approval: Approval) -> Sequence[int]:
    """The numbers of what is attached. Every character is looked at, so what is large is not shown on the loop."""
    size = len(encode_data(approval.sent_arguments)) + len(approval.explanation or "")
    shown = display(approval) if size <= _SMALL_BYTES else await asyncio.to_thread(display, approval)
    return [each.number for each in shown.attached]


def _check_inspected(open_one: OpenApproval, verdict: Verdict, attached: Sequence[int]) -> None:
    """A yes to what is attached says whether it was read: all of it."""
    if verdict.inspected is None:
        raise InvalidRequest(
            "it has attached content, and you do not say whether you opened it",
            hint="open it and send inspected: true, or send inspected: false to allow what you have not seen",
            field="inspected",
        )
    unseen = [number for number in attached if (verdict.by, number) not in open_one.opened_by]
    if verdict.inspected and unseen:
        raise InvalidRequest(
            f"you say that you opened its attached content, and you have not opened number {unseen[0]} since the host "
            "started",
            hint="open it (`bollard approvals show` does), or send inspected: false",
            field="inspected",
        )
