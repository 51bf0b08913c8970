"""Whether what would flow together may: private data, content that nobody vouches for, and a way out. Pure.

Whether content is an attack is never guessed. A run that has touched two of the three may do the third only if a
person, who is told so, says yes. Answering in the conversation that the event came from is no way out.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec.structs import replace

from bollard.host.actions.flow_words import FLOW_WORDS, LANGUAGES
from bollard.host.capabilities.capability import ALL_FLOW, Capability, Flow
from bollard.host.log.facts import DeliverTo
from bollard.protocol import JsonObject

__all__ = ["Verdict", "flow_of_call", "judge_flow", "missing_words", "refused_words"]

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
