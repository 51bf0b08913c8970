"""The parts of approvals, put together: asking, deciding, lasting, carrying out."""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.policies import AudienceRule
from bollard.host.approvals.approval import Approval, Permission, Proposal, Why, asked, gone
from bollard.host.approvals.decisions import ApprovalDecisions, OpenApprovals, Verdict
from bollard.host.approvals.detached_calls import DetachedApprovals, DetachedExecutor, Offered, Raise
from bollard.host.approvals.registry import Answer, ApprovalLog, ApprovalRegistry, OpenApproval
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
from bollard.protocol import JsonValue

# Asks people and parks the call until somebody answers: the run waits, its clock stands still, the question is on disk
# before anybody can see it. Who may answer, and what an answer does, is decided in `deciding`.


HoldsSecret = Callable[[str, JsonValue], bool]
"""Whether a value holds what is registered as a secret in a workspace."""


class ApprovalRequests:
    """The one who asks. One per host."""

    def __init__(
        self,
        *,
        journal: Journal,
        clock: Clock,
        live: Mapping[str, LiveRun],
        parked: WaitingRuns,
        agents: AgentRegistry,
        holds_secret: HoldsSecret,
    ) -> None:
        self.book = ApprovalRegistry()
        self.log = ApprovalLog(journal, clock)
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
        """A yes to exactly this call. Raises `ApprovalRequired`, `ApprovalDenied`, `ApprovalExpired`, or what kept the
        question from being asked; then nothing may be done."""
        context = proposal.context
        if (given := self._given(proposal)) is not None:
            return given
        run = self._live.get(context.run_id)
        if run is None or _ends(run):
            raise ApprovalDenied("the run is over, so nobody is asked", hint="start another run")
        if (covered := self._covered(proposal)) is not None:
            _use(run, covered.approval_id, proposal.call_id, proposal.digest)
            return covered
        size = len(encode_data(proposal.arguments)) + len(proposal.explanation or "")
        self._check(session, proposal, size)
        approval = asked(proposal, f"apr_{self._ids.next(self._clock.now_ms())}", self._clock.now_ms())
        open_one = OpenApproval(approval=approval, size=size)
        found = await self._park(run, open_one)
        if isinstance(found, HostError):
            raise found
        if open_one.carried:  # its run was lost in the moment of the yes: it is done without it
            raise gone(approval)
        self.book.remove(approval)
        _use(run, found.approval_id, proposal.call_id, found.digest)
        return found

    def watch(self, run_over: Callable[[LiveRun], None]) -> None:
        """Call `run_over` with every run that asked for an approval, when the run has ended."""
        self._watchers.append(run_over)

    def cover(self, approval: Approval, permission: Permission) -> None:
        """A yes for the rest of the run: to this capability as it is defined, and for the reasons it was asked for."""
        yes = self._for_run.setdefault(approval.run_id, {})
        yes[approval.capability, approval.definition_sha256] = (permission, frozenset(approval.why))

    # --- without asking ---

    def _given(self, proposal: Proposal) -> Permission | None:
        """The yes to a call of a run that has ended, which is being carried out now: to these bytes and no others."""
        found = self.book.of_call(proposal.context.run_id, proposal.call_id)
        if found is None or not found.carried or found.permission is None:
            return None
        if proposal.digest != found.approval.digest or not set(proposal.why).issubset(found.approval.why):
            raise ApprovalRequired(
                "what would be done now is not what somebody said yes to", hint="let the agent ask again"
            )
        return found.permission

    def _covered(self, proposal: Proposal) -> Permission | None:
        if "flow" in proposal.why:
            return None  # what flows together is asked about each time
        key = (proposal.capability.id, proposal.capability.definition_sha256)
        yes = self._for_run.get(proposal.context.run_id, {}).get(key)
        return yes[0] if yes is not None and yes[1].issuperset(proposal.why) else None

    def _check(self, session: RunSession, proposal: Proposal, size: int) -> None:
        """Raises where nobody can be asked."""
        context = proposal.context
        agent = self._agents.get(context.agent_id, context.workspace)
        if agent is None or _is_nobody(agent.policy.audience.approve) or _is_nobody(session.policy.approve):
            raise ApprovalDenied(
                f"{proposal.name} needs a yes, and agent {context.agent_id} has nobody who may give it",
                hint="name who may approve in policy.audience.approve of the agent",
                agent=context.agent_id,
            )
        if proposal.policy.when_asked == "fail_fast":
            raise ApprovalRequired(
                f"{proposal.name} needs a yes, and the agent's policy does not let its runs wait for one",
                hint="set policy.approval.when_asked of the agent to park",
                agent=context.agent_id,
            )
        if self._holds_secret(context.workspace, proposal.arguments):
            raise InvalidRequest(
                "the arguments hold the value of a secret, which nobody may be shown",
                hint="pass it by reference, as secret:NAME",
                field="arguments",
            )
        of_run, of_workspace = self._parked.count(context.run_id), self.book.in_workspace(context.workspace)
        if of_run >= APPROVALS_OF_RUN or of_workspace >= APPROVALS_OF_WORKSPACE:
            raise Overloaded(
                "too many questions are open already",
                hint="decide those first: `bollard approvals` lists them",
                limit=APPROVALS_OF_RUN if of_run >= APPROVALS_OF_RUN else APPROVALS_OF_WORKSPACE,
            )
        if self.book.bytes_in(context.workspace) + size > APPROVAL_BYTES_OF_WORKSPACE:
            raise Overloaded(
                "the questions that are open already hold too much",
                hint="decide those first: `bollard approvals` lists them",
                limit=APPROVAL_BYTES_OF_WORKSPACE,
            )

    # --- parking ---

    async def _park(self, run: LiveRun, open_one: OpenApproval) -> Answer:
        approval = open_one.approval
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        open_one.waiter = waiter
        self._watch(run)
        # Before the question: whoever sees it finds the run waiting.
        with self._parked.waiting(run, {"approval_id": approval.approval_id}):
            try:
                await self.log.into_run(run, "approval.requested", approval.data(), lambda: self._asked(run, open_one))
                return await waiter
            except asyncio.CancelledError:
                self._given_up(run, open_one)
                raise
            finally:
                open_one.waiter = None

    def _asked(self, run: LiveRun, open_one: OpenApproval) -> None:
        """The question is on disk: from now on it can be answered."""
        if open_one.waiter is None and not _ends(run):
            self._withdraw(run, open_one.approval)  # it took too long, and nobody waits for it any more
        else:
            self.book.add(open_one)

    def _given_up(self, run: LiveRun, open_one: OpenApproval) -> None:
        """The runner does not wait any more. Where it lives on, it does not want the call any more; where it has gone,
        its end decides what becomes of the question."""
        approval = open_one.approval
        if _ends(run) or self.book.get(approval.workspace, approval.approval_id) is None:
            return  # or it is not on disk yet
        self._withdraw(run, approval)

    def _withdraw(self, run: LiveRun, approval: Approval) -> None:
        self.book.remove(approval)
        data = {"approval_id": approval.approval_id, "call_id": approval.call_id, "reason": "given_up"}
        run.note("approval.expired", {**data})

    def _watch(self, run: LiveRun) -> None:
        run_id = run.facts.run_id
        if run_id not in self._watched:
            self._watched.add(run_id)
            run.done.add_done_callback(lambda _: self._left(run))

    def _left(self, run: LiveRun) -> None:
        self._watched.discard(run.facts.run_id)
        self._for_run.pop(run.facts.run_id, None)
        for run_over in self._watchers:
            run_over(run)


def _is_nobody(rule: AudienceRule) -> bool:
    return rule.who == "listed" and not rule.actors


def _ends(run: LiveRun) -> bool:
    return run.ending or run.state.cancel is not None


def _use(run: LiveRun, approval_id: str, call_id: str, digest: str) -> None:
    """Behind the yes, and with the record of the call that comes next: nobody waits for it alone."""
    run.note("approval.used", {"approval_id": approval_id, "call_id": call_id, "digest": digest}, pressing=False)


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """What the executor asks, and what people answer through."""

    book: ApprovalRegistry
    parking: ApprovalRequests
    deciding: ApprovalDecisions
    lasting: OpenApprovals
    detached: DetachedApprovals

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        """A yes to exactly this call, or an error that says why there is none."""
        return await self.parking.ask(session, proposal)

    async def decide(self, workspace: str, approval_id: str, verdict: Verdict) -> None:
        await self.deciding.decide(workspace, approval_id, verdict)

    async def load(self, recovered: asyncio.Event) -> None:
        """What was left open at the last stop. `recovered`: no run of before counts as running any more."""
        await self.lasting.load(recovered)

    def sweep(self) -> None:
        """About once a second."""
        self.lasting.sweep()

    async def close(self) -> None:
        await self.lasting.close()
        await self.detached.close()


def open_approvals(
    parking: ApprovalRequests,
    *,
    store: Store,
    clock: Clock,
    live: Mapping[str, LiveRun],
    agents: AgentRegistry,
    carry: DetachedExecutor,
    raises: Raise,
    offered: Offered,
) -> Approvals:
    """Approvals over the one who asks. `carry` executes a call whose run has ended."""
    book, log = parking.book, parking.log
    detached = DetachedApprovals(
        book=book,
        log=log,
        clock=clock,
        store=store,
        agents=agents,
        control=RunControl(store, live),
        carry=carry,
        raises=raises,
        offered=offered,
    )
    lasting = OpenApprovals(book=book, log=log, clock=clock, store=store, live=live, detach=detached.begin)
    parking.watch(lasting.run_over)
    deciding = ApprovalDecisions(
        book=book,
        log=log,
        clock=clock,
        store=store,
        live=live,
        lasting=lasting,
        cover=parking.cover,
        detach=detached.begin,
        refused=detached.refused,
    )
    return Approvals(book=book, parking=parking, deciding=deciding, lasting=lasting, detached=detached)
