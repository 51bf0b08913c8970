"""Which agent a chat talks to. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bollard.cli.errors import UsageProblem

ASSISTANT: Final = "assistant"
DEMO: Final = "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """An agent, and the text that says why it was chosen; none for an agent that the person named. The text has the
    `model`, or the workspace without one."""

    agent: str
    reason: str | None = None
    model: str = ""


def choose_agent(known: Sequence[str], asked: str | None, model: str | None, *, starting: bool) -> AgentChoice | None:
    """The agent that was asked for, if available. Otherwise `assistant` with a real model, `demo`, or the only one.

    None if there is no such agent, or if `assistant` may still be `starting`.
    """
    if asked is not None:
        return AgentChoice(agent=asked) if asked in known else None
    if model is not None and ASSISTANT in known:
        return AgentChoice(agent=ASSISTANT, reason="chat.because_model", model=model)
    if model is not None and starting:
        return None
    if DEMO in known:
        return AgentChoice(agent=DEMO, reason="chat.because_demo" if model is None else "chat.because_no_assistant")
    return AgentChoice(agent=known[0], reason="chat.because_only") if len(known) == 1 else None


def real_model(models: Sequence[Mapping[str, Any]]) -> str | None:
    """The default model, unless it is the built-in one."""
    for model in models:
        if model.get("is_default") and model.get("model_type") == "llm" and model.get("style") != "demo":
            return str(model["model_id"])
    return None


def no_agent(known: Sequence[str], asked: str | None, absent: Mapping[str, str]) -> UsageProblem:
    """Why no agent could be chosen. `absent` has the missing runner of each unavailable agent."""
    if asked is not None and asked in absent:
        return UsageProblem("error.agent_absent", "hint.agent_absent", agent=asked, runner=absent[asked])
    if not known:
        return UsageProblem("error.no_agents", "hint.no_agents")
    names = ", ".join(known)
    if asked is None:
        return UsageProblem("error.which_agent", "hint.which_agent", known=names)
    return UsageProblem("error.no_agent", "hint.which_agent", agent=asked, known=names)
