"""The executor: every call of every run passes through it, whatever its kind.

The steps of a call are resolve, validate, reserve, approve, record the start, invoke, record the outcome. Adapters
know the transports, and the approver asks people.
"""

from dataclasses import dataclass
from typing import Final

from bollard.host.actions.argument_validation import Validators
from bollard.host.actions.budgets import Budgets, Cost, Reservation
from bollard.host.actions.call import (
    Adapters,
    Approver,
    Call,
    CallRegistry,
    Ledger,
    NoApprover,
    Outcome,
    operation_of,
    refused_outcome,
)
from bollard.host.actions.call_policy import flow_of_call, judge_flow, reasons_to_ask, refused_words
from bollard.host.actions.call_records import CallEntry, DetachedLedger, Recorder
from bollard.host.actions.wrappers import BlobArtifacts, OutputLimit, Redaction, Retry, TimeLimit, clean_error
from bollard.host.approvals.approval import Approval, Permission, Proposal, Why
from bollard.host.approvals.detached_calls import DetachedOutcome
from bollard.host.capabilities.capability import Capability, Flow
from bollard.host.capabilities.sources import Adapter, CallOrder, Progress
from bollard.host.clock import Clock
from bollard.host.errors import CapabilityDenied, HostError, ToolFailed
from bollard.host.grants.session import RunSession
from bollard.host.log.journal import Journal
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.store import Store
from bollard.host.telemetry.counts import RunCounts
from bollard.trust import canonical_sha256

_UNKNOWN_KIND: Final = "none"
"""The kind of a call whose capability the run does not have."""


@dataclass(slots=True, kw_only=True)
class _PendingCall:
    """One call in progress."""

    session: RunSession
    call: Call
    call_id: str
    ledger: Ledger
    arguments_sha256: str
    progress: Progress | None
    begun: bool = False
    """Whether it may have taken effect."""


class Executor:
    """Executes calls, each call id once."""

    def __init__(
        self,
        *,
        adapters: Adapters,
        store: Store,
        artifacts: BlobArtifacts,
        clock: Clock,
        approver: Approver | None = None,
        redactor: Redactor | None = None,
        budgets: Budgets | None = None,
        counts: RunCounts | None = None,
    ) -> None:
        self._adapters = adapters
        self._artifacts = artifacts
        self._clock = clock
        self._approver = approver or NoApprover()
        self._redactor = redactor or Redactor()
        self._budgets = budgets or Budgets(clock)
        self._counts = counts or RunCounts()
        self._calls = CallRegistry(store)
        self._validators = Validators()
        self._recorder = Recorder(self._redactor, clock)

    async def execute(
        self, session: RunSession, call: Call, ledger: Ledger, *, progress: Progress | None = None
    ) -> Outcome:
        """Execute a call, or return the outcome of an earlier one with this id. Raises `InvalidRequest` if the id
        belongs to a different call."""
        digest = canonical_sha256(call.arguments)
        calls = await self._calls.of(session.run_id, ledger)
        call_id = call.call_id or calls.new_id()
        capability = session.graph.get(call.name)
        known = await calls.enter(call_id, call.name[:256] if capability is None else capability.id, digest)
        if known is not None:
            return known
        pending = _PendingCall(
            session=session, call=call, call_id=call_id, ledger=ledger, arguments_sha256=digest, progress=progress
        )
        outcome: Outcome | None = None
        try:
            outcome = await self._execute(pending)
        finally:
            outcome = outcome or _cancelled(pending)
            self._counts.act(_UNKNOWN_KIND if capability is None else capability.kind, outcome.status)
            calls.end(call_id, outcome)
        return outcome

    def forget(self, run_id: str) -> None:
        """Drop the calls and budgets of an ended run. Its calls are in the store."""
        self._calls.forget(run_id)
        self._budgets.forget(run_id)

    # --- the steps ---

    async def _execute(self, pending: _PendingCall) -> Outcome:
        entry = CallEntry(
            name=pending.call.name, arguments_sha256=pending.arguments_sha256, explanation=pending.call.explanation
        )
        capability_id, reserved = pending.call.name[:256], None
        try:
            graph = pending.session.graph
            capability = graph.require(pending.call.name, operation_of(graph, pending.call.name))
            capability_id = capability.id
            self._validators.check(capability, pending.call.arguments)
            timeout_s = _time_for(capability, pending.ledger)
            reserved = self._budgets.call(pending.session.context, pending.session.policy.budget, capability, timeout_s)
            permission = await self._gate(pending, capability)
            entry = _with_permission(entry, permission)
            adapter = self._adapter(pending, capability)
            order = CallOrder(
                call_id=pending.call_id,
                capability=capability,
                arguments=pending.call.arguments,
                context=pending.session.context,
                timeout_s=_time_for(capability, pending.ledger),
                progress=pending.progress,
            )
            pending.begun = True
            outcome = await self._recorder.carry_out(adapter, order, entry, pending.ledger)
        except HostError as error:
            _release(reserved)
            refused = refused_outcome(
                pending.call_id,
                capability_id,
                "rejected",
                clean_error(self._redactor, pending.session.context.workspace, error),
                flow=pending.ledger.flow.bits,
            )
            if error.code != "audit_unavailable":  # the recorder has recorded that rejection
                self._recorder.reject(pending.ledger, refused, entry)
            return refused
        except BaseException:
            # A call that waited for approval leaves no record: the approval may outlive the run. A call that was begun
            # keeps its reservation: cancelling it in time must not make it free.
            if not pending.begun:
                _release(reserved)
            raise
        _settle(reserved, outcome, capability)
        return outcome

    async def _gate(self, pending: _PendingCall, capability: Capability) -> Permission | None:
        """Check the data flow and get approval where needed. On return the flow of the call counts for the run, so
        that no concurrent call is judged without it."""
        session, ledger = pending.session, pending.ledger
        policy = session.policy
        permission: Permission | None = None
        flow_approved = False
        flow = flow_of_call(capability, pending.call.arguments, ledger.answers)
        while True:
            verdict = judge_flow(ledger.flow, flow, unattended=policy.unattended)
            if verdict == "refuse":
                raise CapabilityDenied(
                    refused_words(capability.name, ledger.flow, flow, session.context.locale),
                    reason="flow_unattended",
                    hint="split the work into separate runs, or do it in a conversation with a person",
                    tool=capability.name,
                )
            whys = reasons_to_ask(capability, policy.approval, pending.call.arguments, flow=verdict == "ask")
            if not whys or (permission is not None and (flow_approved or "flow" not in whys)):
                ledger.check(capability)  # it may have been revoked while the approval was open
                ledger.touch(flow)
                return permission
            permission = await self._approver.ask(session, self._proposal(pending, capability, whys))
            flow_approved = "flow" in whys

    def _proposal(self, pending: _PendingCall, capability: Capability, whys: tuple[Why, ...]) -> Proposal:
        session, call = pending.session, pending.call
        return Proposal(
            call_id=pending.call_id,
            capability=capability,
            name=session.graph.name_of(capability.id) or capability.name,
            arguments=call.arguments,
            context=session.context,
            grant_sha256=session.grant.sha256,
            policy=session.policy.approval,
            why=whys,
            flow=pending.ledger.flow | flow_of_call(capability, call.arguments, pending.ledger.answers),
            target=call.target,
            explanation=call.explanation,
        )

    def _adapter(self, pending: _PendingCall, capability: Capability) -> Adapter:
        """The adapter of a capability in its wrappers."""
        workspace = pending.session.context.workspace
        adapter = self._adapters.adapter(workspace, capability.id)
        if adapter is None or not self._adapters.stands(workspace, capability):
            raise ToolFailed(
                f"{capability.name} is no longer offered as it was granted",
                reason="no_longer_offered",
                hint="see `bollard capabilities explain`, and start a new run",
                tool=capability.name,
            )
        bounded = Retry(TimeLimit(adapter), self._clock)
        return OutputLimit(Redaction(bounded, self._redactor), self._artifacts, pending.session, pending.ledger)


def _time_for(capability: Capability, ledger: Ledger) -> float:
    """The smaller of the capability's time limit and the run's remaining time."""
    if ledger.left_s <= 0:
        raise ToolFailed(
            "the run has no time left for another call", reason="no_time_left", hint="give the agent's runs more time"
        )
    return min(capability.limits.timeout_s, ledger.left_s)


def _with_permission(entry: CallEntry, permission: Permission | None) -> CallEntry:
    if permission is None:
        return entry
    return CallEntry(
        name=entry.name,
        arguments_sha256=entry.arguments_sha256,
        approval_id=permission.approval_id,
        explanation=entry.explanation,
    )


def _release(reserved: Reservation | None) -> None:
    if reserved is not None:
        reserved.release()


def _settle(reserved: Reservation | None, outcome: Outcome, capability: Capability) -> None:
    if reserved is not None:
        cost = 0.0 if outcome.status == "failed" else capability.limits.cost or 0.0
        reserved.settle(Cost(calls=1, cost=cost, time_s=outcome.duration_ms / 1000))


def _cancelled(pending: _PendingCall) -> Outcome:
    """The outcome of a call that was cancelled."""
    return Outcome(
        call_id=pending.call_id,
        capability=pending.call.name[:256],
        status="unknown" if pending.begun else "rejected",
        code="outcome_unknown" if pending.begun else "cancelled",
        message=f"the call was cancelled before {'its outcome was known' if pending.begun else 'it was begun'}",
        flow=pending.ledger.flow.bits,
    )


class DetachedCalls:
    """Makes approved calls whose run has ended, through the same executor."""

    def __init__(self, executor: Executor, journal: Journal, clock: Clock, counts: RunCounts | None = None) -> None:
        self._executor = executor
        self._journal = journal
        self._clock = clock
        self._counts = counts or RunCounts()

    async def execute(self, session: RunSession, approval: Approval) -> DetachedOutcome:
        """Make exactly the approved call, under the id it had in its run, so it is made once."""
        call = Call(
            name=approval.capability,
            arguments=approval.sent_arguments,
            call_id=approval.call_id,
            explanation=approval.explanation,
            target=approval.target,
        )
        ledger = DetachedLedger(
            self._journal,
            self._clock,
            workspace=approval.workspace,
            run_id=approval.run_id,
            flow=Flow.of_bits(approval.flow),
            counts=self._counts,
        )
        try:
            outcome = _detached_outcome(await self._executor.execute(session, call, ledger))
            await ledger.written()  # the next reader finds it in the store
            return outcome
        finally:
            self._executor.forget(approval.run_id)


def _detached_outcome(outcome: Outcome) -> DetachedOutcome:
    result = outcome.result() if outcome.status == "completed" else None
    return DetachedOutcome(
        status=outcome.status, code=outcome.code, error=outcome.message, result=result, flow=outcome.flow
    )
