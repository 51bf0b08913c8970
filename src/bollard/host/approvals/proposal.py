"""What a person is asked to allow: one call of one run, byte for byte, and the digest that stands for it. Pure."""

from typing import Final, Literal, get_args

import msgspec

from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.capabilities.capability import NO_FLOW, Capability, Flow
from bollard.host.capabilities.sources import CallContext
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import canonical_sha256

__all__ = ["DECISIONS", "Decision", "Permission", "Proposal", "Why", "requester_of"]

Decision = Literal["allow_once", "allow_run", "deny", "deny_stop"]
DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
Why = Literal["risk", "always", "flow"]
"""Why somebody must be asked: the capability's risk, a policy that always asks, or what would flow together."""


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """One call that was resolved and checked and may be done only if somebody says yes."""

    call_id: str
    capability: Capability
    name: str
    """What the model called it."""
    arguments: JsonObject
    context: CallContext
    grant_sha256: str
    policy: ApprovalPolicy
    why: tuple[Why, ...]
    flow: Flow = NO_FLOW
    """What the run has touched, with this call."""
    target: str | None = None
    """Where it acts, where the arguments do not say it all: the conversation of a message, a server's address."""
    explanation: str | None = None
    """The agent's own words. Shown apart, and no part of what is allowed."""

    @property
    def digest(self) -> str:
        """One byte changed, and it is another question."""
        return canonical_sha256(
            {
                "run": self.context.run_id,
                "call_id": self.call_id,
                "capability": self.capability.id,
                "definition_sha256": self.capability.definition_sha256,
                "arguments": self.arguments,
                "target": self.target,
                "grant_sha256": self.grant_sha256,
                "requester": requester_of(self.context),
            }
        )


def requester_of(context: CallContext) -> JsonValue:
    """For whom the run acts; nobody for what no actor caused."""
    if context.actor_type is None:
        return None
    return {"type": context.actor_type, "id": context.actor_id}


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """A yes to one call. Whoever holds it makes that call once."""

    approval_id: str
    decision: Literal["allow_once", "allow_run"]
    by: str
    """Who said yes: the name of the caller."""
    digest: str
