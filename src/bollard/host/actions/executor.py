"""The one way to do anything: every effect of every run passes here, whatever its kind.

Resolve, validate, gate, record, route, bound, record. It knows no transport (`adapters`) and asks no person itself
(`approver`); what must not be forgotten about any call is here, and nowhere else.
"""

from dataclasses import dataclass

from bollard.host.actions.argument_validation import Validators
from bollard.host.actions.budgets import Budgets, Cost, Reservation
from bollard.host.actions.call import Call, CallRegistry, Outcome, operation_of, refused_outcome
from bollard.host.actions.call_policy import flow_of_call, judge_flow, reasons_to_ask, refused_words
from bollard.host.actions.call_records import CallEntry, DetachedLedger, Recorder
from bollard.host.actions.ports import Adapters, Approver, Artifacts, Ledger, NoApprover, NoSecrets, Redactor
from bollard.host.actions.wrappers import OutputLimit, Redaction, Retry, TimeLimit, clean_error
from bollard.host.approvals.approval import Approval, Permission, Proposal, Why
from bollard.host.approvals.detached_calls import DetachedOutcome
from bollard.host.capabilities.capability import Capability, Flow
from bollard.host.capabilities.sources import Adapter, CallOrder, Progress
from bollard.host.clock import Clock
from bollard.host.errors import CapabilityDenied, HostError, ToolFailed
from bollard.host.grants.session import RunSession
from bollard.host.log.journal import Journal
from bollard.host.store.store import Store
from bollard.host.telemetry.counts import RunCounts
from bollard.trust import canonical_sha256


@dataclass(slots=True, kw_only=True)
class _PendingCall:
    """One call with everything around it."""

    session: RunSession
    call: Call
    call_id: str
    ledger: Ledger
    arguments_sha256: str
    progress: Progress | None
    begun: bool = False
    """Whether it may have had its effect."""


class Executor:
    """One per host."""

    def __init__(
        self,
        *,
        adapters: Adapters,
        store: Store,
        artifacts: Artifacts,
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
        self._redactor = redactor or NoSecrets()
        self._budgets = budgets or Budgets(clock)
        self._counts = counts or RunCounts()
        self._book = CallRegistry(store)
        self._validators = Validators()
        self._recorder = Recorder(self._redactor, clock)

    async def execute(
        self,
        session: RunSession,
        call: Call,
        ledger: Ledger,
        *,
        progress: Progress | None = None,
    ) -> Outcome:
        """What came of the call: now, or when it was made before. Raises `InvalidRequest` for the id of another
        call."""
        digest = canonical_sha256(call.arguments)
        calls = await self._book.of(session.run_id, ledger)
        call_id = call.call_id or calls.new_id()
        named = session.graph.get(call.name)
        known = await calls.entered(call_id, call.name[:256] if named is None else named.id, digest)
        if known is not None:
            return known
        asked = _PendingCall(
            session=session,
            call=call,
            call_id=call_id,
            ledger=ledger,
            arguments_sha256=digest,
            progress=progress,
        )
        outcome: Outcome | None = None
        try:
            outcome = await self._act(asked)
        finally:
            outcome = outcome or _given_up(asked)
            self._counts.act(outcome.status)
            calls.end(call_id, outcome)
        return outcome

    def forget(self, run_id: str) -> None:
        """The run is over: whoever asks about its calls reads them from the store."""
        self._book.forget(run_id)
        self._budgets.forget(run_id)

    # --- the seven steps ---

    async def _act(self, asked: _PendingCall) -> Outcome:
        entry = CallEntry(
            name=asked.call.name,
            arguments_sha256=asked.arguments_sha256,
            explanation=asked.call.explanation,
        )
        capability_id, reserved = asked.call.name[:256], None
        try:
            graph = asked.session.graph
            capability = graph.require(asked.call.name, operation_of(graph, asked.call.name))
            capability_id = capability.id
            self._validators.check(capability, asked.call.arguments)
            timeout_s = _time_for(capability, asked.ledger)
            reserved = self._budgets.call(asked.session.context, asked.session.policy.budget, capability, timeout_s)
            permission = await self._gate(asked, capability)
            entry = _with_permission(entry, permission)
            adapter = self._adapter(asked, capability)
            order = CallOrder(
                call_id=asked.call_id,
                capability=capability,
                arguments=asked.call.arguments,
                context=asked.session.context,
                timeout_s=_time_for(capability, asked.ledger),
                progress=asked.progress,
            )
            asked.begun = True
            outcome = await self._recorder.carry_out(adapter, order, entry, asked.ledger)
        except HostError as error:
            _release(reserved)
            refused = refused_outcome(
                asked.call_id,
                capability_id,
                "rejected",
                clean_error(self._redactor, asked.session.context.workspace, error),
                flow=asked.ledger.flow.bits,
            )
            if error.code != "audit_unavailable":  # that one is written already, behind its beginning
                self._recorder.reject(asked.ledger, refused, entry)
            return refused
        except BaseException:
            # One that waited for a person leaves no record: the question may outlive its run. What was begun may have
            # had its effect, and has cost what it may cost: nobody calls for nothing by giving up in time.
            if not asked.begun:
                _release(reserved)
            raise
        _settle(reserved, outcome, capability)
        return outcome

    async def _gate(self, asked: _PendingCall, capability: Capability) -> Permission | None:
        """Whether it may be done: by what would flow together, by its risk, and by who was asked. What the run touches
        by it counts from here on, before anything else can be judged."""
        session, ledger = asked.session, asked.ledger
        policy = session.policy
        permission: Permission | None = None
        told_of_flow = False
        flow = flow_of_call(capability, asked.call.arguments, ledger.answers)
        while True:
            verdict = judge_flow(ledger.flow, flow, unattended=policy.unattended)
            if verdict == "refuse":
                raise CapabilityDenied(
                    refused_words(capability.name, ledger.flow, flow, session.context.locale),
                    hint="let the agent do one of these in a run of its own, or in a conversation with a person",
                )
            whys = reasons_to_ask(capability, policy.approval, flow=verdict == "ask")
            if not whys or (permission is not None and (told_of_flow or "flow" not in whys)):
                ledger.check(capability)  # what was taken away while somebody thought about it
                ledger.touch(flow)
                return permission
            permission = await self._approver.ask(session, self._proposal(asked, capability, whys))
            told_of_flow = "flow" in whys

    def _proposal(self, asked: _PendingCall, capability: Capability, whys: tuple[Why, ...]) -> Proposal:
        session, call = asked.session, asked.call
        return Proposal(
            call_id=asked.call_id,
            capability=capability,
            name=session.graph.name_of(capability.id) or capability.name,
            arguments=call.arguments,
            context=session.context,
            grant_sha256=session.grant.sha256,
            policy=session.policy.approval,
            why=whys,
            flow=asked.ledger.flow | flow_of_call(capability, call.arguments, asked.ledger.answers),
            target=call.target,
            explanation=call.explanation,
        )

    def _adapter(self, asked: _PendingCall, capability: Capability) -> Adapter:
        """Who carries it out, with what every call gets around it."""
        workspace = asked.session.context.workspace
        adapter = self._adapters.adapter(workspace, capability.id)
        if adapter is None or not self._adapters.stands(workspace, capability):
            raise ToolFailed(
                f"{capability.name} is not there any more as it was granted",
                hint="look at `bollard capabilities explain`, and begin a new run",
            )
        bounded = Retry(TimeLimit(adapter), self._clock)
        return OutputLimit(Redaction(bounded, self._redactor), self._artifacts, asked.session, asked.ledger)


def _time_for(capability: Capability, ledger: Ledger) -> float:
    """The smaller of the capability's own limit and what the run has left."""
    if ledger.left_s <= 0:
        raise ToolFailed("the run has no time left for another call", hint="give the agent's runs more time")
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


def _given_up(asked: _PendingCall) -> Outcome:
    """What is left of a call whose caller went away in the middle."""
    return Outcome(
        call_id=asked.call_id,
        capability=asked.call.name[:256],
        status="unknown" if asked.begun else "rejected",
        code="outcome_unknown" if asked.begun else "cancelled",
        message=f"the call was given up before {'its outcome was known' if asked.begun else 'it was begun'}",
        flow=asked.ledger.flow.bits,
    )


# Makes a call that was allowed after its run had ended: through the same executor, written without the run.


class DetachedCalls:
    """One per host. The executor asks for the yes like for any other call; it is there already."""

    def __init__(self, executor: Executor, journal: Journal, clock: Clock) -> None:
        self._executor = executor
        self._journal = journal
        self._clock = clock

    async def execute(self, session: RunSession, approval: Approval) -> DetachedOutcome:
        """Exactly what was shown, once: its id is the one that it had in its run."""
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
        )
        try:
            outcome = _detached_outcome(await self._executor.execute(session, call, ledger))
            await ledger.written()  # whoever asks next reads it from the store
            return outcome
        finally:
            self._executor.forget(approval.run_id)


def _detached_outcome(outcome: Outcome) -> DetachedOutcome:
    result = outcome.result() if outcome.status == "completed" else None
    return DetachedOutcome(
        status=outcome.status, code=outcome.code, error=outcome.message, result=result, flow=outcome.flow
    )
