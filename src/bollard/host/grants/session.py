"""The session of a run: its grant, graph, context, and policies for approvals and budgets. Never changed; a revocation
is separate from it."""

from typing import Final

import msgspec

from bollard.host.agents.policies import AgentPolicy, ApprovalPolicy, AudienceRule, BudgetPolicy, DelegationPolicy
from bollard.host.capabilities.graph import EMPTY_GRAPH, CapabilityGraph
from bollard.host.capabilities.sources import CallContext
from bollard.host.grants.grant import Grant


class SessionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of the executor."""

    approval: ApprovalPolicy
    approve: AudienceRule
    """Who may approve calls."""
    budget: BudgetPolicy
    delegation: DelegationPolicy
    unattended: bool
    """Whether no person waits for this run. Calls that would need one are refused."""


_DEFAULT_POLICY: Final = AgentPolicy()


class RunSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session that planner and executor share."""

    run_id: str
    grant: Grant
    graph: CapabilityGraph
    context: CallContext
    policy: SessionPolicy


def policy_of(policy: AgentPolicy, *, unattended: bool) -> SessionPolicy:
    """The session's part of an agent's policy."""
    return SessionPolicy(
        approval=policy.approval,
        approve=policy.audience.approve,
        budget=policy.budget,
        delegation=policy.delegation,
        unattended=unattended,
    )


def open_session(
    grant: Grant,
    graph: CapabilityGraph | None = None,
    policy: SessionPolicy | None = None,
    *,
    locale: str | None = None,
    traceparent: str | None = None,
) -> RunSession:
    """Open the session of a grant. Without a graph it has no capabilities; without a policy it is unattended."""
    scope = grant.scope
    return RunSession(
        run_id=grant.run_id,
        grant=grant,
        graph=EMPTY_GRAPH if graph is None else graph,
        context=CallContext(
            run_id=grant.run_id,
            workspace=scope.workspace,
            agent_id=grant.access.rights.agent_id,
            actor=scope.actor,
            conversation=scope.conversation,
            thread=scope.thread,
            locale=locale,
            traceparent=traceparent,
        ),
        policy=policy or policy_of(_DEFAULT_POLICY, unattended=True),
    )
