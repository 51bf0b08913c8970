"""An agent: one runner, its configuration and its policies. Each runner has a built-in agent; people save others."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from bollard.host.agents.commands import AgentCommand
from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ConcurrencyPolicy
from bollard.host.errors import InvalidRequest
from bollard.host.limits import RUN_DEADLINE_MAX_S
from bollard.protocol import AgentRunnerDiscovery, FormItem, JsonObject, JsonValue, limits
from bollard.protocol.form import default_config, with_locked_values

AgentKey = tuple[str, str]
"""Workspace and agent id."""
RunnerKey = tuple[str, str]
"""Workspace and runner id. Plugins of two workspaces are separate."""
_KNOWN_AS: Final = {"plugin:bollard/local-agent/default": "assistant"}
"""Bundled runners whose built-in agents have another name than their plugin."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """The agent that executes an event. Its times are validated on creation."""

    agent_id: str
    workspace: str = "default"
    runner_id: str
    runner_name: str
    plugin: str
    """`author/name` of the plugin of the runner."""
    label: dict[str, str]
    description: dict[str, str] | None = None
    permissions: frozenset[str] = frozenset()
    """Operations in the manifest of the runner. The grant never exceeds them."""
    capabilities: frozenset[str] = frozenset()
    """Features that the runner declares. They grant nothing."""
    form: tuple[FormItem, ...] = ()
    """The form of the configuration."""
    config: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    policy: AgentPolicy = msgspec.field(default_factory=AgentPolicy)
    deadline_s: float = limits.RUN_DEADLINE_S
    idle_s: float = limits.RUN_IDLE_S
    repeatable: bool = False
    """Whether a run that was lost may be dispatched again."""
    commands: tuple[AgentCommand, ...] = ()
    """Chat commands that the agent adds."""
    enabled: bool = True
    """A disabled agent gets no events."""
    revision: int = 0
    """The saved revision. 0 is a built-in agent."""

    def __post_init__(self) -> None:
        for name in ("deadline_s", "idle_s"):
            value = getattr(self, name)
            if not math.isfinite(value) or not 0 < value <= RUN_DEADLINE_MAX_S:
                raise InvalidRequest(
                    f"{name} of agent {self.agent_id} is {value}",
                    reason="agent_time",
                    hint=f"use seconds between 0 and {RUN_DEADLINE_MAX_S:g}",
                    field=name,
                    agent=self.agent_id,
                    value=str(value),
                    limit=f"{RUN_DEADLINE_MAX_S:g}",
                )


def agent_of(discovery: AgentRunnerDiscovery, workspace: str = "default") -> Agent:
    """The built-in agent of a runner: named after its plugin, and after the runner if the plugin has several."""
    manifest = discovery.manifest
    alone = discovery.runner_name == "default"
    offered = {family: operations for family, operations in manifest.permissions.model_dump().items() if operations}
    capabilities = frozenset(name for name, able in manifest.capabilities.model_dump().items() if able)
    return Agent(
        agent_id=_KNOWN_AS.get(manifest.id)
        or (discovery.plugin_name if alone else f"{discovery.plugin_name}.{discovery.runner_name}"),
        workspace=workspace,
        runner_id=manifest.id,
        runner_name=discovery.runner_name,
        plugin=f"{discovery.plugin_author}/{discovery.plugin_name}",
        label=dict(manifest.label),
        description=None if manifest.description is None else dict(manifest.description),
        permissions=frozenset(f"{family}.{name}" for family, names in offered.items() for name in names),
        capabilities=capabilities,
        form=manifest.config_schema,
        config=default_config(manifest.config_schema),
        policy=AgentPolicy(
            access=AccessPolicy(permissions={family: tuple(names) for family, names in offered.items()}),
            concurrency=ConcurrencyPolicy(mode="steer" if "steering" in capabilities else "queue"),
        ),
    )


def agent_on(agent: Agent, own: Agent) -> Agent:
    """A saved agent with the current manifest values of its runner, taken from the built-in agent."""
    return replace(
        agent,
        runner_id=own.runner_id,
        runner_name=own.runner_name,
        plugin=own.plugin,
        permissions=own.permissions,
        capabilities=own.capabilities,
        form=own.form,
        config=with_locked_values(agent.config, own.form),
    )


class AgentRegistry:
    """The agents of this host, and the waiters for absent ones.

    A saved agent overrides the built-in agent with its id. It is available as soon as its runner is there, with the
    permissions that the runner requests now.
    """

    def __init__(self) -> None:
        self._own: dict[AgentKey, Agent] = {}
        self._runners: dict[RunnerKey, Agent] = {}
        self._saved: dict[AgentKey, Agent] = {}
        self._agents: dict[AgentKey, Agent] = {}
        self._changed = asyncio.Event()
        self.changes = 0
        """Increases whenever an agent is added, changed or removed."""

    def put(self, agent: Agent) -> None:
        """Add the built-in agent of a discovered runner."""
        self._own[agent.workspace, agent.agent_id] = agent
        self._runners[agent.workspace, agent.runner_id] = agent
        self._settle_runner(agent)
        self.stir()

    def withdraw(self, runner_id: str, workspace: str = "default") -> None:
        """Remove the built-in agent of a runner that is gone. Saved agents wait for the runner."""
        agent = self._runners.pop((workspace, runner_id), None)
        if agent is not None:
            self._own.pop((workspace, agent.agent_id), None)
            self._settle_runner(agent)
            self.stir()

    def save(self, agent: Agent) -> None:
        """Add or replace a saved agent."""
        self._saved[agent.workspace, agent.agent_id] = agent
        self._settle(agent.workspace, agent.agent_id)
        self.stir()

    def remove(self, agent_id: str, workspace: str = "default") -> bool:
        """Remove a saved agent, which uncovers a built-in agent with its id. Returns whether it existed."""
        removed = self._saved.pop((workspace, agent_id), None) is not None
        self._settle(workspace, agent_id)
        self.stir()
        return removed

    def get(self, agent_id: str, workspace: str = "default") -> Agent | None:
        """An agent whose runner is available."""
        return self._agents.get((workspace, agent_id))

    def own(self, agent_id: str, workspace: str = "default") -> Agent | None:
        """The built-in agent with this id, even if a saved agent overrides it."""
        return self._own.get((workspace, agent_id))

    def saved_one(self, agent_id: str, workspace: str) -> Agent | None:
        """A saved agent, even if its runner is absent."""
        return self._saved.get((workspace, agent_id))

    def is_known(self, agent_id: str, workspace: str) -> bool:
        """Whether an agent has this id, with or without its runner."""
        return (self.get(agent_id, workspace) or self.saved_one(agent_id, workspace)) is not None

    def saved(self, workspace: str = "default") -> list[Agent]:
        """All saved agents, including those whose runner is absent."""
        return _in_order(agent for agent in self._saved.values() if agent.workspace == workspace)

    def is_gone(self, agent_id: str, runner_id: str, workspace: str) -> bool:
        """Whether the runner is there without an agent of this id, so that the agent will not appear by itself."""
        key = (workspace, agent_id)
        return key not in self._agents and key not in self._saved and (workspace, runner_id) in self._runners

    def stir(self) -> None:
        """Wake all waiters after a change of plugins."""
        self.changes += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed(self) -> None:
        """Wait for the next change of agents or plugins."""
        await self._changed.wait()

    async def wait_for(
        self, agent_id: str, timeout_s: float | None, *, hopeful: Callable[[], bool], workspace: str = "default"
    ) -> Agent | None:
        """Wait for an agent. `None` after the timeout, or if it is not expected any more."""
        key = (workspace, agent_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while key not in self._agents and hopeful():
                    await self._changed.wait()
        return self._agents.get(key)

    def all(self) -> list[Agent]:
        """All agents whose runner is available."""
        return _in_order(self._agents.values())

    def of(self, workspace: str) -> list[Agent]:
        """The available agents of one workspace."""
        return _in_order(agent for agent in self._agents.values() if agent.workspace == workspace)

    def _settle_runner(self, own: Agent) -> None:
        """Whatever goes by a runner that came, changed or went."""
        self._settle(own.workspace, own.agent_id)
        for saved in self._saved.values():
            if (saved.workspace, saved.runner_id) == (own.workspace, own.runner_id):
                self._settle(saved.workspace, saved.agent_id)

    def _settle(self, workspace: str, agent_id: str) -> None:
        """Resolve an id. A saved agent without its runner resolves to none, never to a built-in agent."""
        key = (workspace, agent_id)
        agent = self._own.get(key)
        if saved := self._saved.get(key):
            own = self._runners.get((workspace, saved.runner_id))
            agent = None if own is None else agent_on(saved, own)
        if agent is None:
            self._agents.pop(key, None)
        else:
            self._agents[key] = agent


def _in_order(agents: Iterable[Agent]) -> list[Agent]:
    return sorted(agents, key=lambda agent: (agent.workspace, agent.agent_id))
