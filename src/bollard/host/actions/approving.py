"""Whether a person is asked before a call. Pure: the stricter of what the capability demands and what the agent's
policy says."""

from typing import Final

from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.approvals.proposal import Why
from bollard.host.capabilities.capability import Approval, Capability, Risk

__all__ = ["reasons_to_ask", "stricter"]

_STRICTNESS: Final[tuple[Approval, ...]] = ("never", "on_risk", "always")
_ASKED_ABOUT: Final = frozenset[Risk]({"high", "critical"})


def stricter(one: Approval, other: Approval) -> Approval:
    """A policy may tighten what a capability demands, and never loosen it."""
    return one if _STRICTNESS.index(one) >= _STRICTNESS.index(other) else other


def reasons_to_ask(capability: Capability, policy: ApprovalPolicy, *, flow: bool) -> tuple[Why, ...]:
    """Why somebody must say yes; none where nobody must. `flow`: what would come together needs a yes of its own."""
    found: list[Why] = []
    match stricter(capability.approval, policy.mode):
        case "always":
            found.append("always")
        case "on_risk" if capability.risk in _ASKED_ABOUT:
            found.append("risk")
        case _:
            pass
    if flow:
        found.append("flow")
    return tuple(found)
