"""Decisions on approvals, and the lifetime of open ones. The caller has checked who may decide.

A decision takes effect when its record is on disk, and only the first one does. A decision on a closed approval fails
with `Conflict`, so an approver always learns that it had no effect.
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
    denied_error,
    expired_error,
    no_approval,
    outcome_of,
    run_ended_error,
    stale_error,
)
from bollard.host.approvals.display import display
from bollard.host.approvals.registry import ApprovalLog, ApprovalRegistry, OpenApproval
from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, InvalidRequest
from bollard.host.limits import AUDIT_S, REPLAY_PAGE
from bollard.host.log.records import encode_data
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.rows import ENDED, RunRow
from bollard.host.store.store import Store

_log = structlog.get_logger("bollard.approvals")
Detach = Callable[[OpenApproval], None]
"""Makes an approved call whose run has ended."""
OUTLIVED: Final = frozenset({"host.lost", "runner.crashed"})
"""Run outcomes that keep the approvals of the run open: the run was lost, it did not finish."""
_RETRY_MS: Final = 5_000
"""Delay before the host retries to close an approval."""


class OpenApprovals:
    """Closes approvals that expire or whose run finishes. Approvals of a lost run stay open, and a granted call that a
    crash prevented is made after the restart."""

    def __init__(
        self,
        *,
        registry: ApprovalRegistry,
        log: ApprovalLog,
        clock: Clock,
        store: Store,
        live: Mapping[str, LiveRun],
        detach: Detach,
    ) -> None:
        self._registry = registry
        self._log = log
        self._clock = clock
        self._store = store
        self._live = live
        self._detach = detach
        self._background = Background()

    def sweep(self) -> None:
        """Expire overdue approvals. Called about once a second."""
        for pending in self._registry.due(self._clock.now_ms()):
            if not pending.detached:  # a granted one whose call is being made does not expire
                self._background.begin(self._expire(pending))

    async def _expire(self, pending: OpenApproval) -> None:
        approval = pending.approval
        if pending.deciding or pending.status == "granted":
            self._registry.postpone(approval, self._clock.now_ms() + _RETRY_MS)
        else:
            await self._end(pending, "expired")

    async def withdraw(self, pending: OpenApproval, reason: str) -> None:
        """Close an approval without a decision and resume the parked call with an error."""
        approval = pending.approval
        data = approval.closing(reason=reason)
        if pending.status == "granted":
            data.pop("interaction", None)  # the grant has closed it

        def settled() -> None:
            pending.deciding = False
            self._registry.remove(approval)
            pending.resolve(expired_error(approval))

        def lost() -> None:
            pending.deciding = False

        pending.deciding = True  # until the write is settled: after a timeout the record may still reach the disk
        run = self._live.get(approval.run_id)
        if run is not None and not run.ending and pending.has_waiter:
            await self._log.into_run(run, "approval.expired", data, settled, lost)
        else:
            await self._log.beside(approval, "approval.expired", data, settled, lost)

    def run_ended(self, run: LiveRun) -> None:
        """Close the approvals of a finished run; keep those of a lost one."""
        for pending in self._registry.of_run(run.facts.run_id):
            pending.resolve(run_ended_error(pending.approval))
            if run.outcome is None:
                self._registry.remove(pending.approval)  # another host owns the run and its approvals
            elif run.outcome.code not in OUTLIVED:
                self._background.begin(self._end(pending, "run_ended"))
            elif pending.status == "granted":
                self._detach(pending)

    async def _end(self, pending: OpenApproval, reason: str) -> None:
        try:
            await self.withdraw(pending, reason)
        except HostError as error:
            approval = pending.approval
            _log.warning("an approval could not be closed yet", approval=approval.approval_id, problem=error.message)
            self._registry.postpone(approval, self._clock.now_ms() + _RETRY_MS)

    # --- after a start ---

    async def load(self, recovered: asyncio.Event) -> None:
        """Load the approvals that an earlier incarnation left open. Granted calls are made once its runs have ended."""
        after = ""
        while rows := await asyncio.to_thread(self._store.open_approvals, after, REPLAY_PAGE):
            after = rows[-1].approval_id
            for row in rows:
                try:
                    approval = approval_of(row)
                except HostError as error:
                    _log.error("an approval cannot be read", approval=row.approval_id, problem=error.message)
                    continue
                by = outcome_of(row).by
                granted = row.status == "granted" and by is not None
                self._registry.add(
                    OpenApproval(
                        approval=approval,
                        status="granted" if granted else "requested",
                        size=len(row.body),
                        permission=_permission(approval, by) if granted and by is not None else None,
                    )
                )
        if len(self._registry):
            self._background.begin(self._resume_granted(recovered))

    async def _resume_granted(self, recovered: asyncio.Event) -> None:
        await recovered.wait()
        for pending in self._registry:
            if pending.approval.run_id in self._live or pending.deciding:
                continue
            if not self.outlives(await asyncio.to_thread(self._store.run, pending.approval.run_id)):
                await self._end(pending, "run_ended")
            elif pending.status == "granted" and not pending.detached:
                self._detach(pending)

    @staticmethod
    def outlives(row: RunRow | None) -> bool:
        """Whether the approvals of an ended run stay open."""
        return row is not None and row.status in ENDED and row.reason in OUTLIVED

    async def close(self) -> None:
        await self._background.close()


def _permission(approval: Approval, by: str) -> Permission:
    """A permission from before the start. Always for one call: a run it might have covered has ended."""
    return Permission(approval_id=approval.approval_id, decision="allow_once", by=by, digest=approval.digest)


_SMALL_BYTES: Final = 4096
"""Approvals up to this size are rendered on the event loop."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The decision of an authorised approver on the approval they saw."""

    decision: Decision
    digest: str
    """The digest of the approval they saw."""
    by: str
    inspected: bool | None = None
    """Whether they opened the attached content. Required to allow a call with attachments."""
    via: str | None = None
    """The actor of a channel whose click it was."""

    @property
    def allows(self) -> bool:
        return self.decision in ("allow_once", "allow_run")


class ApprovalDecisions:
    """Records decisions and applies them."""

    def __init__(
        self,
        *,
        registry: ApprovalRegistry,
        log: ApprovalLog,
        clock: Clock,
        store: Store,
        live: Mapping[str, LiveRun],
        open_approvals: OpenApprovals,
        allow_for_run: Callable[[Approval, Permission], None],
        detach: Detach,
        denied: Callable[[Approval], None],
    ) -> None:
        """`allow_for_run` stores a permission for a whole run. `detach` makes a granted call whose run has ended, and
        `denied` is called for a denied one."""
        self._registry = registry
        self._log = log
        self._clock = clock
        self._store = store
        self._live = live
        self._open_approvals = open_approvals
        self._allow_for_run = allow_for_run
        self._detach = detach
        self._denied = denied

    async def decide(self, workspace: str, approval_id: str, verdict: Verdict) -> None:
        """Record a decision; it is on disk on return. Raises `Conflict` if the approval is decided, expired or
        withdrawn, or differs from the one the approver saw."""
        pending = await self._find(workspace, approval_id)
        self._check(pending, verdict, await _attached(pending.approval) if verdict.allows else ())
        pending.deciding = True  # no other decision until the write is settled
        try:
            run = await self._waiting_run(pending)
        except BaseException:
            pending.deciding = False
            raise
        await self._write(pending, verdict, run)

    async def _find(self, workspace: str, approval_id: str) -> OpenApproval:
        if (pending := self._registry.get(workspace, approval_id)) is not None:
            return pending
        row = await asyncio.to_thread(self._store.approval, workspace, approval_id)
        if row is None:
            raise no_approval()
        if row.status == "requested" and (run := self._live.get(row.run_id)) is not None:
            # The request is on disk, but the callback that registers it has not run yet.
            with suppress(TimeoutError):
                async with asyncio.timeout(AUDIT_S):
                    await run.written()
            if (pending := self._registry.get(workspace, approval_id)) is not None:
                return pending
        raise stale_error(row.status)

    def _check(self, pending: OpenApproval, verdict: Verdict, attached: Sequence[int]) -> None:
        approval = pending.approval
        if pending.deciding or pending.status != "requested":
            raise stale_error(pending.status)
        if verdict.digest != approval.digest:
            raise Conflict(
                "the approval is not the one you saw: its digest differs",
                reason="digest_mismatch",
                hint="read the approval again, then decide",
                digest=approval.digest,
            )
        if self._clock.now_ms() >= approval.expires_ms:
            raise stale_error("expired")
        if attached:
            _check_inspected(pending, verdict, attached)

    async def _waiting_run(self, pending: OpenApproval) -> LiveRun | None:
        """The run that waits for the decision; none if the run was lost and the approval outlives it."""
        approval = pending.approval
        run = self._live.get(approval.run_id)
        if run is not None and not run.ending and run.state.cancel is None:
            if not pending.has_waiter:
                raise stale_error("expired")  # the call was cancelled a moment ago
            return run
        row = None if run is not None else await asyncio.to_thread(self._store.run, approval.run_id)
        if row is None or row.status not in ENDED:
            raise Conflict(
                "the run of the approval is ending", reason="approval_run_ending", hint="try again in a moment"
            )
        if not OpenApprovals.outlives(row):
            await self._open_approvals.withdraw(pending, "run_ended")
            raise stale_error("expired")
        return None

    async def _write(self, pending: OpenApproval, verdict: Verdict, run: LiveRun | None) -> None:
        """Raises after a timeout. The record may still reach the disk, so `deciding` stays set until it is settled."""
        approval = pending.approval
        data = approval.closing(digest=approval.digest, decision=verdict.decision, by=verdict.by)
        if verdict.inspected is not None:
            data["inspected"] = verdict.inspected
        if verdict.via is not None:
            data["via"] = verdict.via
        kind = "approval.granted" if verdict.allows else "approval.denied"

        def settled() -> None:
            pending.deciding = False
            self._apply(pending, verdict, run)

        def lost() -> None:
            pending.deciding = False

        if run is not None:
            await self._log.into_run(run, kind, data, settled, lost)
        else:
            data["detached"] = True
            await self._log.beside(approval, kind, data, settled, lost)

    def _apply(self, pending: OpenApproval, verdict: Verdict, run: LiveRun | None) -> None:
        """Apply a decision that is on disk."""
        approval = pending.approval
        if verdict.allows:
            self._allow(pending, verdict, run)
            return
        self._registry.remove(approval)
        pending.resolve(denied_error(approval, verdict.by))
        if run is not None and verdict.decision == "deny_stop":
            run.cancel("cancelled")
        elif run is None and verdict.decision == "deny":
            self._denied(approval)

    def _allow(self, pending: OpenApproval, verdict: Verdict, run: LiveRun | None) -> None:
        approval = pending.approval
        for_run = verdict.decision == "allow_run" and run is not None
        permission = Permission(
            approval_id=approval.approval_id,
            decision="allow_run" if for_run else "allow_once",
            by=verdict.by,
            digest=approval.digest,
        )
        pending.status, pending.permission = "granted", permission
        if run is None:
            self._detach(pending)
            return
        if for_run:
            self._allow_for_run(approval, permission)
        pending.resolve(permission)


async def _attached(approval: Approval) -> Sequence[int]:
    """The numbers of the attachments. Rendering looks at every character, so large approvals render in a thread."""
    size = len(encode_data(approval.sent_arguments)) + len(approval.explanation or "")
    rendered = display(approval) if size <= _SMALL_BYTES else await asyncio.to_thread(display, approval)
    return [each.number for each in rendered.attached]


def _check_inspected(pending: OpenApproval, verdict: Verdict, attached: Sequence[int]) -> None:
    """An approver who allows a call with attachments states whether they opened all of them."""
    if verdict.inspected is None:
        raise InvalidRequest(
            "the approval has attached content, and inspected is missing",
            reason="inspected_missing",
            hint="open it and send inspected: true, or send inspected: false to allow content you have not seen",
            field="inspected",
        )
    unseen = [number for number in attached if (verdict.by, number) not in pending.opened_by]
    if verdict.inspected and unseen:
        raise InvalidRequest(
            f"inspected is true, but you have not opened attachment {unseen[0]} since the host started",
            reason="attachment_not_opened",
            hint="open it with `bollard approvals show`, or send inspected: false",
            field="inspected",
            number=unseen[0],
        )
