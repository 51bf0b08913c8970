"""An agent that asks for everything, a workspace that offers it, and the grants made of the two."""

from dataclasses import dataclass

import pytest
from tests.replacement import replace

from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import (
    OPERATIONS,
    AccessPolicy,
    AgentPolicy,
    ConcurrencyPolicy,
    ResourceRule,
    StatePolicy,
)
from bollard.host.grants.access import compile_access
from bollard.host.grants.grant import Grant, issue_grant, limits_of
from bollard.host.grants.offer import (
    Offer,
    OfferedAction,
    OfferedAgent,
    OfferedFile,
    OfferedKnowledgeBase,
    OfferedModel,
    OfferedSkill,
    OfferedTool,
)
from bollard.host.scope import Scope

OFFER = Offer.of(
    OfferedModel(model_id="chat", model_type="llm", provider="acme", context_window=8192),
    OfferedModel(model_id="sorter", model_type="rerank"),
    OfferedModel(model_id="vectors", model_type="embedding"),
    OfferedModel(model_id="painter", model_type="image"),
    OfferedTool(tool_name="clock", tool_type="builtin", risk="low", definition_sha256="a" * 64, description="Time."),
    OfferedKnowledgeBase(kb_id="manual", kb_name="The manual"),
    OfferedFile(file_id="logo", source="config", file_name="logo.png", mime_type="image/png"),
    OfferedFile(file_id="book", source="knowledge"),
    OfferedAgent(agent_id="researcher", name="Researcher"),
    OfferedSkill(skill_name="report", display_name="Report"),
    OfferedAction(action="message.edit"),
)
RULES = {
    "models": ResourceRule(add=("chat", "sorter", "vectors")),
    "tools": ResourceRule(add=("clock",)),
    "knowledge_bases": ResourceRule(add=("manual",)),
    "files": ResourceRule(add=("logo", "book")),
    "agents": ResourceRule(add=("researcher",)),
    "skills": ResourceRule(add=("report",)),
}
SCOPE = Scope(
    workspace="default",
    bot="bot-1",
    conversation="here",
    thread="t-1",
    actor_type="user",
    actor_id="u-1",
    subject_type="order",
    subject_id="o-1",
)


@dataclass(frozen=True, slots=True)
class Granting:
    """Makes agents and grants; every default is the maximum."""

    offer: Offer = OFFER
    scope: Scope = SCOPE

    def everything(self) -> dict[str, tuple[str, ...]]:
        return dict(OPERATIONS)

    def policy(self, **access: object) -> AgentPolicy:
        settings = {"permissions": self.everything(), "resources": RULES, "conversations": ("elsewhere",), **access}
        return AgentPolicy(
            access=AccessPolicy(**settings),  # type: ignore[arg-type]
            state=StatePolicy(scopes=("conversation", "actor", "subject", "runner")),
            concurrency=ConcurrencyPolicy(mode="steer"),
        )

    def agent(self, **changes: object) -> Agent:
        settings: dict[str, object] = {
            "agent_id": "helper",
            "runner_id": "plugin:acme/helper/default",
            "runner_name": "default",
            "plugin": "acme/helper",
            "label": {"en_US": "Helper"},
            "permissions": frozenset(f"{family}.{name}" for family, names in OPERATIONS.items() for name in names),
            "capabilities": frozenset({"steering"}),
            "policy": self.policy(),
        }
        return Agent(**(settings | changes))  # type: ignore[arg-type]

    def grant(self, agent: Agent | None = None, scope: Scope | None = None, offer: Offer | None = None) -> Grant:
        agent = agent or self.agent()
        access = compile_access(agent, offer or self.offer)
        return issue_grant(run_id="run-1", access=access, scope=scope or self.scope, limits=limits_of(agent))

    def with_state(self, agent: Agent, state: StatePolicy) -> Agent:
        return replace(agent, policy=replace(agent.policy, state=state))


@pytest.fixture(scope="session")
def granting() -> Granting:
    return Granting()
