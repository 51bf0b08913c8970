"""The agents of the simulation: one for each concurrency policy, and one that only other runs call."""

from typing import Final

from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import (
    AccessPolicy,
    AgentPolicy,
    ConcurrencyMode,
    ConcurrencyPolicy,
    ResourceRule,
    StatePolicy,
)

PLUGIN: Final = "sim/scripted"
CALLED: Final = "called"
"""The agent that runs call."""
UNREAD: Final = 4
"""Messages that may wait for one run: few, so that a queue is full now and then."""
WORKSPACES: Final = ("default", "second")
_RUNNER: Final = "plugin:sim/scripted/default"
_MODES: Final[dict[str, ConcurrencyPolicy]] = {
    "steer": ConcurrencyPolicy(mode="steer"),
    "steer_all": ConcurrencyPolicy(mode="steer", steer_from="conversation"),
    "queue": ConcurrencyPolicy(mode="queue"),
    "interrupt": ConcurrencyPolicy(mode="interrupt"),
    "reject": ConcurrencyPolicy(mode="reject"),
    "parallel": ConcurrencyPolicy(mode="parallel"),
    CALLED: ConcurrencyPolicy(mode="parallel"),
}
OPEN_AGENTS: Final = frozenset(agent_id for agent_id, policy in _MODES.items() if policy.steer_from == "conversation")
"""Those whose runs everyone in the conversation may steer."""
AGENTS: Final[dict[str, ConcurrencyMode]] = {agent_id: policy.mode for agent_id, policy in _MODES.items()}
"""The concurrency mode of each agent."""


def simulated_agents(workspace: str) -> list[Agent]:
    """Every agent of one workspace. All have the same runner, and may call one of them."""
    return [
        Agent(
            agent_id=agent_id,
            workspace=workspace,
            runner_id=_RUNNER,
            runner_name="default",
            plugin=PLUGIN,
            label={"en_US": agent_id},
            permissions=frozenset({"agents.call"}),
            capabilities=frozenset({"steering"}),
            policy=AgentPolicy(
                access=AccessPolicy(
                    permissions={"agents": ("call",)}, resources={"agents": ResourceRule(add=(CALLED,))}
                ),
                # What a called agent needs nothing of the store for begins while its run goes to the disk.
                state=StatePolicy(scopes=("conversation",) if agent_id == CALLED else ("conversation", "runner")),
                concurrency=concurrency,
            ),
            deadline_s=20.0,
            idle_s=8.0,
        )
        for agent_id, concurrency in _MODES.items()
    ]
