"""What one run acts under: its grant, its graph, for whom, and the rules about asking and spending. Made once with the
grant, and never changed; what is taken away later stands beside it as a revocation."""

from typing import Final

import msgspec

from bollard.host.agents.policies import AgentPolicy, ApprovalPolicy, AudienceRule, BudgetPolicy
from bollard.host.capabilities.graph import EMPTY_GRAPH, CapabilityGraph
from bollard.host.capabilities.sources import CallContext
from bollard.host.grants.grant import Grant


class SessionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What the executor goes by beside the graph."""

    approval: ApprovalPolicy
    approve: AudienceRule
    """Who may say yes."""
    budget: BudgetPolicy
    unattended: bool
    """Whether no person waits for this run, so that what would need one is refused."""


_NOTHING_SAID: Final = AgentPolicy()


class RunSession(msgspec.Struct, frozen=True, kw_only=True):
    """The planner's view and the executor's are this one object."""

    run_id: str
    grant: Grant
    graph: CapabilityGraph
    context: CallContext
    policy: SessionPolicy


def policy_of(policy: AgentPolicy, *, unattended: bool) -> SessionPolicy:
    """Of an agent's policy, what a session goes by."""
    return SessionPolicy(
        approval=policy.approval, approve=policy.audience.approve, budget=policy.budget, unattended=unattended
    )


def open_session(
    grant: Grant,
    graph: CapabilityGraph | None = None,
    policy: SessionPolicy | None = None,
    *,
    locale: str | None = None,
    traceparent: str | None = None,
) -> RunSession:
    """The session of a grant. Without its graph nothing can be called; without a policy nobody is there to ask."""
    scope = grant.scope
    return RunSession(
        run_id=grant.run_id,
        grant=grant,
        graph=EMPTY_GRAPH if graph is None else graph,
        context=CallContext(
            run_id=grant.run_id,
            workspace=scope.workspace,
            agent_id=grant.access.rights.agent_id,
            actor_type=scope.actor_type,
            actor_id=scope.actor_id,
            conversation=scope.conversation,
            thread=scope.thread,
            locale=locale,
            traceparent=traceparent,
        ),
        policy=policy or policy_of(_NOTHING_SAID, unattended=True),
    )
