"""When a call needs approval: by risk, by policy, and by the combination of data flows. Pure.

A run that combines two of private data, untrusted content and sending data out needs approval for the third. Content
is never inspected for attacks. An answer in the conversation of the event does not count as sending data out.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec.structs import replace

from bollard.host.agents.approval_rules import decide
from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.approvals.approval import Why
from bollard.host.capabilities.capability import ALL_FLOW, ASKED_RISKS, Approval, Capability, Flow
from bollard.host.log.records import DeliverTo
from bollard.host.texts import LOCALES, read_texts
from bollard.protocol import JsonObject

FLOW_WORDS: Final = read_texts("flow")

Verdict = Literal["allow", "ask", "refuse"]

_BITS: Final = ("reads_private", "brings_untrusted", "sends_out")


def judge_flow(touched: Flow, capability: Flow, *, unattended: bool) -> Verdict:
    """Whether a run with the flow `touched` may make a call with the flow `capability`.

    A call that completes the three flows needs approval, and so does each later call that sends data out: the first
    approval covered that call alone.
    """
    if (touched | capability) != ALL_FLOW:
        return "allow"
    if touched == ALL_FLOW and not capability.sends_out:
        return "allow"
    return "refuse" if unattended else "ask"


def flow_of_call(capability: Capability, arguments: JsonObject, answers: DeliverTo | None) -> Flow:
    """The data flow of a call. A message to the conversation that gets the run's answers does not send data out."""
    if capability.kind != "channel" or answers is None:
        return capability.flow
    there = capability.id.startswith(f"channel:{answers.channel}/") and arguments.get("target") == answers.target
    return replace(capability.flow, sends_out=False) if there else capability.flow


def missing_words(touched: Flow, does: Flow, locale: str | None = None) -> str:
    """The combination of flows, as a sentence."""
    words = _words(locale)
    had = [words[f"had.{bit}"] for bit in _BITS if getattr(touched, bit)]
    now = [words[f"does.{bit}"] for bit in _BITS if getattr(does, bit)]
    before = words["before"].format(had=words["and"].join(had)) if had else words["nothing"]
    return words["both"].format(before=before, does=words["and"].join(now))


def refused_words(name: str, touched: Flow, does: Flow, locale: str | None = None) -> str:
    """Why an unattended run may not make a call."""
    return _words(locale)["refused"].format(name=name, together=missing_words(touched, does, locale))


def _words(locale: str | None) -> Mapping[str, str]:
    return FLOW_WORDS[locale if locale in LOCALES else "en_US"]


_STRICTNESS: Final[tuple[Approval, ...]] = ("never", "on_risk", "always")


def stricter(one: Approval, other: Approval) -> Approval:
    """The stricter of two modes: a policy may tighten the mode of a capability, never loosen it."""
    return one if _STRICTNESS.index(one) >= _STRICTNESS.index(other) else other


def reasons_to_ask(
    capability: Capability, policy: ApprovalPolicy, arguments: JsonObject | None = None, *, flow: bool
) -> tuple[Why, ...]:
    """Why a call needs approval; empty if it does not. `flow`: its combination of data flows needs one. A rule of the
    policy replaces its mode, and never the mode of the capability."""
    reasons: list[Why] = []
    ruled = decide(policy.rules, capability.id, arguments or {})
    match stricter(capability.approval, policy.mode if ruled is None else ruled):
        case "always":
            reasons.append("rule" if ruled == "always" and capability.approval != "always" else "always")
        case "on_risk" if capability.risk in ASKED_RISKS:
            reasons.append("risk")
        case _:
            pass
    if flow:
        reasons.append("flow")
    return tuple(reasons)
