"""Approval requests of running calls, and `Approvals`, which combines requests, decisions and detached calls."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.policies import AudienceRule
from bollard.host.approvals.approval import Approval, Permission, Proposal, Why, build_approval, run_ended_error
from bollard.host.approvals.decisions import ApprovalDecisions, OpenApprovals, Verdict
from bollard.host.approvals.detached_calls import DetachedApprovals, DetachedExecutor, IsOffered, SubmitEvent
from bollard.host.approvals.interactions import interaction_route
from bollard.host.approvals.registry import ApprovalAnswer, ApprovalLog, ApprovalRegistry, OpenApproval
from bollard.host.clock import Clock
from bollard.host.errors import ApprovalDenied, ApprovalRequired, HostError, InvalidRequest, Overloaded
from bollard.host.grants.session import RunSession
from bollard.host.limits import APPROVAL_BYTES_OF_WORKSPACE, APPROVALS_OF_RUN, APPROVALS_OF_WORKSPACE
from bollard.host.log.journal import Journal
from bollard.host.log.records import encode_data
from bollard.host.runs.control import RunControl, WaitingRuns
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.store import Store
from bollard.host.telemetry.counts import RunCounts
from bollard.protocol import JsonValue

ContainsSecret = Callable[[str, JsonValue], bool]
"""Whether a value contains a registered secret of the workspace."""


class ApprovalRequests:
    """Requests approvals and parks the calls meanwhile. A parked run waits and its deadline stands still. The request
    is on disk before it is visible."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        live: Mapping[str, LiveRun],
        parked: WaitingRuns,
        agents: AgentRegistry,
        holds_secret: ContainsSecret,
        counts: RunCounts | None = None,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        """`written` is called after each record of an approval."""
        self._counts = counts or RunCounts()
        self.registry = ApprovalRegistry()
        self.log = ApprovalLog(journal, clock, self._counts, written)
        self._clock = clock
        self._live = live
        self._agents = agents
        self._holds_secret = holds_secret
        self._ids = IdMaker()
        self._parked = parked
        self._watched: set[str] = set()
        self._watchers: list[Callable[[LiveRun], None]] = []
        self._for_run: dict[str, dict[tuple[str, str], tuple[Permission, frozenset[Why]]]] = {}

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        """Wait for permission to make exactly this call. Raises `ApprovalRequired`, `ApprovalDenied`,
        `ApprovalExpired`, or the error that prevented the request; then the call must not be made."""
        context = proposal.context
        if (permission := self._detached_permission(proposal)) is not None:
            return permission
        run = self._live.get(context.run_id)
        if run is None or _is_ending(run):
            raise ApprovalDenied(
                "the run has ended, so no approval is requested", reason="run_ended", hint="start another run"
            )
        if (permission := self._run_permission(proposal)) is not None:
            _record_use(run, permission.approval_id, proposal.call_id, proposal.digest)
            return permission
        size = len(encode_data(proposal.arguments)) + len(proposal.explanation or "")
        self._check(session, proposal, size)
        now_ms = self._clock.now_ms()
        approval_id = f"apr_{self._ids.next(now_ms)}"
        approval = build_approval(
            proposal, approval_id, now_ms, interaction_route(self._parked.lineage(run), approval_id)
        )
        pending = OpenApproval(approval=approval, size=size)
        answer = await self._park(run, pending)
        if isinstance(answer, HostError):
            raise answer
        if pending.detached:  # the run was lost while the grant was recorded: the call is made without it
            raise run_ended_error(approval)
        self.registry.remove(approval)
        _record_use(run, answer.approval_id, proposal.call_id, answer.digest)
        return answer

    def watch(self, run_ended: Callable[[LiveRun], None]) -> None:
        """Call `run_ended` with each run that requested an approval, when the run has ended."""
        self._watchers.append(run_ended)

    def allow_for_run(self, approval: Approval, permission: Permission) -> None:
        """Allow further calls of this capability in the run, for the same definition and the same reasons."""
        permissions = self._for_run.setdefault(approval.run_id, {})
        permissions[approval.capability, approval.definition_sha256] = (permission, frozenset(approval.why))

    # --- permissions that exist already ---

    def _detached_permission(self, proposal: Proposal) -> Permission | None:
        """The permission for a detached call that is being made now. It covers the approved bytes only."""
        pending = self.registry.of_call(proposal.context.run_id, proposal.call_id)
        if pending is None or not pending.detached or pending.permission is None:
            return None
        if proposal.digest != pending.approval.digest or not set(proposal.why).issubset(pending.approval.why):
            raise ApprovalRequired(
                f"the call of {proposal.name} differs from the approved call",
                reason="call_changed",
                hint="let the agent request it again",
                tool=proposal.name,
            )
        return pending.permission

    def _run_permission(self, proposal: Proposal) -> Permission | None:
        if "flow" in proposal.why:
            return None  # a combination of data flows is approved for each call
        key = (proposal.capability.id, proposal.capability.definition_sha256)
        allowed = self._for_run.get(proposal.context.run_id, {}).get(key)
        return allowed[0] if allowed is not None and allowed[1].issuperset(proposal.why) else None

    def _check(self, session: RunSession, proposal: Proposal, size: int) -> None:
        """Raises if the approval cannot be requested."""
        context = proposal.context
        agent = self._agents.get(context.agent_id, context.workspace)
        if agent is None or _is_empty(agent.policy.audience.approve) or _is_empty(session.policy.approve):
            raise ApprovalDenied(
                f"{proposal.name} needs approval, and agent {context.agent_id} has no approvers",
                reason="no_approvers",
                hint="name the approvers in policy.audience.approve of the agent",
                agent=context.agent_id,
                tool=proposal.name,
            )
        if proposal.policy.when_asked == "fail_fast":
            raise ApprovalRequired(
                f"{proposal.name} needs approval, and the policy of agent {context.agent_id} does not let runs wait",
                reason="waiting_disallowed",
                hint="set policy.approval.when_asked of the agent to park",
                agent=context.agent_id,
                tool=proposal.name,
            )
        if self._holds_secret(context.workspace, proposal.arguments):
            raise InvalidRequest(
                "the arguments contain the value of a secret, which cannot be displayed",
                reason="secret_in_arguments",
                hint="pass it by reference, as secret:NAME",
                field="arguments",
            )
        of_run, of_workspace = self._parked.count(context.run_id), self.registry.in_workspace(context.workspace)
        if of_run >= APPROVALS_OF_RUN or of_workspace >= APPROVALS_OF_WORKSPACE:
            limit = APPROVALS_OF_RUN if of_run >= APPROVALS_OF_RUN else APPROVALS_OF_WORKSPACE
            raise Overloaded(
                f"{limit} approvals are open already",
                reason="too_many_approvals",
                hint="decide those first: `bollard approvals` lists them",
                limit=limit,
            )
        if self.registry.bytes_in(context.workspace) + size > APPROVAL_BYTES_OF_WORKSPACE:
            raise Overloaded(
                f"the open approvals of the workspace exceed {APPROVAL_BYTES_OF_WORKSPACE} bytes",
                reason="approvals_too_large",
                hint="decide those first: `bollard approvals` lists them",
                limit=APPROVAL_BYTES_OF_WORKSPACE,
            )

    # --- parking ---

    async def _park(self, run: LiveRun, pending: OpenApproval) -> ApprovalAnswer:
        approval = pending.approval
        waiter: asyncio.Future[ApprovalAnswer] = asyncio.get_running_loop().create_future()
        pending.waiter = waiter
        self._watch(run)
        # The run waits before the approval is visible.
        with self._parked.waiting(run, {"approval_id": approval.approval_id}):
            try:
                await self.log.into_run(run, "approval.requested", approval.data(), lambda: self._opened(run, pending))
                return await waiter
            except asyncio.CancelledError:
                self._abandon(run, pending)
                raise
            finally:
                pending.waiter = None

    def _opened(self, run: LiveRun, pending: OpenApproval) -> None:
        """The request is on disk: it can be decided now."""
        if pending.waiter is None and not _is_ending(run):
            self._withdraw(run, pending.approval)  # the write took too long, and the call was abandoned
        else:
            self.registry.add(pending)

    def _abandon(self, run: LiveRun, pending: OpenApproval) -> None:
        """Withdraw the approval of a call that its runner cancelled. If the run is ending, the way it ends decides."""
        approval = pending.approval
        if _is_ending(run) or self.registry.get(approval.workspace, approval.approval_id) is None:
            return  # not on disk yet
        self._withdraw(run, approval)

    def _withdraw(self, run: LiveRun, approval: Approval) -> None:
        self.registry.remove(approval)
        if run.note("approval.expired", approval.closing(reason="given_up")):
            self._counts.approval("approval.expired")

    def _watch(self, run: LiveRun) -> None:
        run_id = run.facts.run_id
        if run_id not in self._watched:
            self._watched.add(run_id)
            run.done.add_done_callback(lambda _: self._run_ended(run))

    def _run_ended(self, run: LiveRun) -> None:
        self._watched.discard(run.facts.run_id)
        self._for_run.pop(run.facts.run_id, None)
        for run_ended in self._watchers:
            run_ended(run)


def _is_empty(rule: AudienceRule) -> bool:
    return rule.who == "listed" and not rule.actors


def _is_ending(run: LiveRun) -> bool:
    return run.ending or run.state.cancel is not None


def _record_use(run: LiveRun, approval_id: str, call_id: str, digest: str) -> None:
    """Not awaited: it is written together with the record of the call that follows."""
    run.note("approval.used", {"approval_id": approval_id, "call_id": call_id, "digest": digest}, pressing=False)


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """All parts of approvals: the executor requests them, the HTTP API decides them."""

    registry: ApprovalRegistry
    requests: ApprovalRequests
    decisions: ApprovalDecisions
    open: OpenApprovals
    detached: DetachedApprovals

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        """Wait for permission to make exactly this call, or raise the reason why there is none."""
        return await self.requests.ask(session, proposal)

    async def decide(self, workspace: str, approval_id: str, verdict: Verdict) -> None:
        await self.decisions.decide(workspace, approval_id, verdict)

    async def load(self, recovered: asyncio.Event) -> None:
        """Load the approvals that the last incarnation left open. `recovered` is set when its runs have ended."""
        await self.open.load(recovered)

    def sweep(self) -> None:
        """Expire overdue approvals. Called about once a second."""
        self.open.sweep()

    async def close(self) -> None:
        await self.open.close()
        await self.detached.close()


def open_approvals(
    requests: ApprovalRequests,
    *,
    store: Store,
    clock: Clock,
    live: Mapping[str, LiveRun],
    agents: AgentRegistry,
    execute: DetachedExecutor,
    submit_event: SubmitEvent,
    is_offered: IsOffered,
) -> Approvals:
    """Build the other parts around `requests`. `execute` makes a call whose run has ended."""
    registry, log = requests.registry, requests.log
    detached = DetachedApprovals(
        registry=registry,
        log=log,
        clock=clock,
        store=store,
        agents=agents,
        control=RunControl(store, live),
        execute=execute,
        submit_event=submit_event,
        is_offered=is_offered,
    )
    open_ones = OpenApprovals(registry=registry, log=log, clock=clock, store=store, live=live, detach=detached.begin)
    requests.watch(open_ones.run_ended)
    decisions = ApprovalDecisions(
        registry=registry,
        log=log,
        clock=clock,
        store=store,
        live=live,
        open_approvals=open_ones,
        allow_for_run=requests.allow_for_run,
        detach=detached.begin,
        denied=detached.denied,
    )
    return Approvals(registry=registry, requests=requests, decisions=decisions, open=open_ones, detached=detached)
