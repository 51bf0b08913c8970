"""Whether what would flow together may: private data, content that nobody vouches for, and a way out. Pure.

Whether content is an attack is never guessed. A run that has touched two of the three may do the third only if a
person, who is told so, says yes. Answering in the conversation that the event came from is no way out.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec.structs import replace

from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.approvals.approval import Why
from bollard.host.capabilities.capability import ALL_FLOW, Approval, Capability, Flow, Risk
from bollard.host.log.records import DeliverTo
from bollard.protocol import JsonObject

# What is said of things that would flow together, in both languages. Holds no decision.


_EN_US: Final = {
    "had.reads_private": "has private data",
    "had.brings_untrusted": "has seen content from outside",
    "had.sends_out": "has sent data out",
    "does.reads_private": "reads private data",
    "does.brings_untrusted": "brings content from outside",
    "does.sends_out": "sends data out",
    "and": " and ",
    "nothing": "the run has touched nothing yet",
    "before": "the run {had}",
    "both": "{before}, and this call {does}",
    "refused": "{name} may not be called: {together}; that needs a yes, and nobody attends to this run",
}
_ZH_HANS: Final = {
    "had.reads_private": "已有私密数据",
    "had.brings_untrusted": "已看到外部内容",
    "had.sends_out": "已向外发送数据",
    "does.reads_private": "会读取私密数据",
    "does.brings_untrusted": "会带入外部内容",
    "does.sends_out": "会向外发送数据",
    "and": "，且",
    "nothing": "运行尚未接触任何数据",
    "before": "运行{had}",
    "both": "{before}，而此调用{does}",
    "refused": "不能调用 {name}：{together}；这需要有人同意，而此运行无人值守",
}

LANGUAGES: Final = ("en_US", "zh_Hans")
FLOW_WORDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({"en_US": _EN_US, "zh_Hans": _ZH_HANS})


Verdict = Literal["allow", "ask", "refuse"]

_BITS: Final = ("reads_private", "brings_untrusted", "sends_out")


def judge_flow(touched: Flow, capability: Flow, *, unattended: bool) -> Verdict:
    """What a run that `touched` this much may do without being asked.

    A call that makes the three complete is asked about, and so is each later one that sends something out: the yes to
    the first was to that one alone.
    """
    if (touched | capability) != ALL_FLOW:
        return "allow"
    if touched == ALL_FLOW and not capability.sends_out:
        return "allow"
    return "refuse" if unattended else "ask"


def flow_of_call(capability: Capability, arguments: JsonObject, answers: DeliverTo | None) -> Flow:
    """What a call does with data: what its capability does, unless it only speaks where the run's answers go anyway."""
    if capability.kind != "channel" or answers is None:
        return capability.flow
    there = capability.id.startswith(f"channel:{answers.channel}/") and arguments.get("target") == answers.target
    return replace(capability.flow, sends_out=False) if there else capability.flow


def missing_words(touched: Flow, does: Flow, locale: str | None = None) -> str:
    """What comes together, for whoever is refused."""
    words = _words(locale)
    had = [words[f"had.{bit}"] for bit in _BITS if getattr(touched, bit)]
    now = [words[f"does.{bit}"] for bit in _BITS if getattr(does, bit)]
    before = words["before"].format(had=words["and"].join(had)) if had else words["nothing"]
    return words["both"].format(before=before, does=words["and"].join(now))


def refused_words(name: str, touched: Flow, does: Flow, locale: str | None = None) -> str:
    """Why a run that nobody attends to may not make a call."""
    return _words(locale)["refused"].format(name=name, together=missing_words(touched, does, locale))


def _words(locale: str | None) -> Mapping[str, str]:
    return FLOW_WORDS[locale if locale in LANGUAGES else "en_US"]


# Whether a person is asked before a call. Pure: the stricter of what the capability demands and what the agent's
# policy says.


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
