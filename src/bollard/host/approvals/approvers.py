"""Who may decide an approval: the same rule for the API and for clicks in a conversation."""

from contextlib import suppress

from bollard.host.agents.agent import AgentRegistry
from bollard.host.approvals.approval import Approval
from bollard.host.errors import Forbidden
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.identity.users import ActorLinks
from bollard.host.limits import APPROVERS_SHOWN
from bollard.host.scope import Actor
from bollard.host.store.rows import RunRow


class Approvers:
    """Applies the right, the audience of the agent, and the rule that another person decides."""

    def __init__(self, audience: Audience, agents: AgentRegistry, links: ActorLinks) -> None:
        self._audience = audience
        self._agents = agents
        self._links = links

    async def on_channel(self, channel: str, approval: Approval, run: RunRow) -> list[str]:
        """The ids of the channel's linked actors who may decide the approval, at most `APPROVERS_SHOWN`."""
        found: list[str] = []
        for link in self._links.all(run.workspace):
            kind, _, actor_id = link.value.actor.partition(":")
            caller = self._links.caller_of(run.workspace, Actor(kind, actor_id)) if kind == channel else None
            if caller is None:
                continue
            with suppress(Forbidden):
                await self.check(caller, approval, run)
                found.append(actor_id)
            if len(found) == APPROVERS_SHOWN:
                break
        return found

    async def check(self, caller: Caller, approval: Approval, run: RunRow) -> None:
        """Raises `Forbidden` if the caller lacks the right to decide the approval."""
        if not caller.may("approvals.decide"):
            raise Forbidden(
                "you may not decide approvals",
                reason="decide_not_permitted",
                hint="ask an administrator for a role with the right approvals.decide",
            )
        if not await self._audience.may(caller, "approve", run):
            raise Forbidden(
                f"you may not approve calls of agent {run.agent_id}",
                reason="not_an_approver",
                hint="ask the administrator of the agent (policy.audience.approve)",
                agent=run.agent_id,
            )
        agent = self._agents.get(run.agent_id, run.workspace)
        others_only = approval.other_person or (agent is not None and agent.policy.approval.other_person)
        requester = approval.requester
        asks_self = (
            self._audience.is_nobody(caller)
            if requester is None
            else self._audience.is_caller(caller, Actor(requester.type, requester.id))
        )
        if others_only and asks_self:
            raise Forbidden(
                "another person than the requester must decide this approval",
                reason="own_approval",
                hint="ask another person (policy.approval.other_person of the agent)",
                agent=run.agent_id,
            )
