"""An agent: one runner, its configuration and its policies. Each runner has one by itself; people save others."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from bollard.host.agents.config_form import default_config
from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ConcurrencyPolicy
from bollard.host.errors import InvalidRequest
from bollard.host.limits import RUN_DEADLINE_MAX_S
from bollard.protocol import AgentRunnerDiscovery, FormItem, JsonObject, JsonValue, limits

AgentKey = tuple[str, str]
"""Workspace and agent id."""
RunnerKey = tuple[str, str]
"""Workspace and runner id: a plugin is another one in each workspace."""
_KNOWN_AS: Final = {"plugin:bollard/local-agent/default": "assistant"}
"""Runners that come with the host, whose own agents people know by another name than their plugin's."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """What an event is run with. Validated when it is made: a time that cannot work is refused here."""

    agent_id: str
    workspace: str = "default"
    runner_id: str
    runner_name: str
    plugin: str
    """`author/name` of the plugin that has the runner."""
    label: dict[str, str]
    description: dict[str, str] | None = None
    permissions: frozenset[str] = frozenset()
    """`history.page` and so on: the runner's manifest, so the most that the agent may be granted."""
    capabilities: frozenset[str] = frozenset()
    """What the runner says it can do. Grants nothing."""
    form: tuple[FormItem, ...] = ()
    """The form that the configuration fills in."""
    config: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    policy: AgentPolicy = msgspec.field(default_factory=AgentPolicy)
    deadline_s: float = limits.RUN_DEADLINE_S
    idle_s: float = limits.RUN_IDLE_S
    repeatable: bool = False
    """Whether a run that was lost may be dispatched again."""
    revision: int = 0
    """Counts what people saved; 0 is the agent that a runner gets by itself."""

    def __post_init__(self) -> None:
        for name in ("deadline_s", "idle_s"):
            value = getattr(self, name)
            if not math.isfinite(value) or not 0 < value <= RUN_DEADLINE_MAX_S:
                raise InvalidRequest(
                    f"{name} of agent {self.agent_id} is {value}",
                    hint=f"use seconds between 0 and {RUN_DEADLINE_MAX_S:g}",
                    field=name,
                )


def agent_of(discovery: AgentRunnerDiscovery, workspace: str = "default") -> Agent:
    """The agent a runner gets by itself in a workspace: its plugin's name, and its own where the plugin has several."""
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
    """The agent with what is its runner's to say now, taken from the agent that the runner has by itself."""
    return replace(
        agent,
        runner_id=own.runner_id,
        runner_name=own.runner_name,
        plugin=own.plugin,
        permissions=own.permissions,
        capabilities=own.capabilities,
        form=own.form,
    )


class AgentRegistry:
    """The agents this host knows, and who waits for one that is not there yet.

    A runner brings an agent of its own; people save others. A saved agent stands over a runner's own of the same id,
    and can be run as soon as its runner is there, with the permissions that the runner asks for now.
    """

    def __init__(self) -> None:
        self._own: dict[AgentKey, Agent] = {}
        self._runners: dict[RunnerKey, Agent] = {}
        self._saved: dict[AgentKey, Agent] = {}
        self._agents: dict[AgentKey, Agent] = {}
        self._changed = asyncio.Event()
        self.changes = 0
        """Counts on whenever an agent comes, changes or goes."""

    def put(self, agent: Agent) -> None:
        """The agent that a discovered runner has by itself."""
        self._own[agent.workspace, agent.agent_id] = agent
        self._runners[agent.workspace, agent.runner_id] = agent
        self._settle_runner(agent)
        self.stir()

    def withdraw(self, runner_id: str, workspace: str = "default") -> None:
        """The runner is gone from a workspace: its own agent goes, and saved ones wait for it to come back."""
        agent = self._runners.pop((workspace, runner_id), None)
        if agent is not None:
            self._own.pop((workspace, agent.agent_id), None)
            self._settle_runner(agent)
            self.stir()

    def save(self, agent: Agent) -> None:
        """An agent that a person saved, or that the store brings back."""
        self._saved[agent.workspace, agent.agent_id] = agent
        self._settle(agent.workspace, agent.agent_id)
        self.stir()

    def remove(self, agent_id: str, workspace: str = "default") -> bool:
        """Forget a saved agent, so that a runner's own of that id is back; whether there was one."""
        found = self._saved.pop((workspace, agent_id), None) is not None
        self._settle(workspace, agent_id)
        self.stir()
        return found

    def get(self, agent_id: str, workspace: str = "default") -> Agent | None:
        """An agent that can be run now."""
        return self._agents.get((workspace, agent_id))

    def own(self, agent_id: str, workspace: str = "default") -> Agent | None:
        """The agent that a runner has by itself, even where a saved one stands over it."""
        return self._own.get((workspace, agent_id))

    def saved_one(self, agent_id: str, workspace: str) -> Agent | None:
        """An agent that somebody saved, also where its runner is not there."""
        return self._saved.get((workspace, agent_id))

    def saved(self, workspace: str = "default") -> list[Agent]:
        """Every agent that people saved, also those whose runner is not there."""
        return _in_order(agent for agent in self._saved.values() if agent.workspace == workspace)

    def is_gone(self, agent_id: str, runner_id: str, workspace: str) -> bool:
        """Whether a runner is there and nobody has an agent of this id for it any more: it will not come by itself."""
        key = (workspace, agent_id)
        return key not in self._agents and key not in self._saved and (workspace, runner_id) in self._runners

    def stir(self) -> None:
        """Something about plugins changed: whoever waits for an agent looks again."""
        self.changes += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed(self) -> None:
        """Until the next time that an agent comes, changes or goes, or something about plugins does."""
        await self._changed.wait()

    async def wait_for(
        self, agent_id: str, timeout_s: float | None, *, hopeful: Callable[[], bool], workspace: str = "default"
    ) -> Agent | None:
        """The agent, as soon as it is there; `None` when there is no more hope for it, or it took too long."""
        key = (workspace, agent_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while key not in self._agents and hopeful():
                    await self._changed.wait()
        return self._agents.get(key)

    def all(self) -> list[Agent]:
        """Every agent that can be run now."""
        return _in_order(self._agents.values())

    def of(self, workspace: str) -> list[Agent]:
        """Those of one workspace."""
        return _in_order(agent for agent in self._agents.values() if agent.workspace == workspace)

    def _settle_runner(self, own: Agent) -> None:
        """Whatever goes by a runner that came, changed or went."""
        self._settle(own.workspace, own.agent_id)
        for saved in self._saved.values():
            if (saved.workspace, saved.runner_id) == (own.workspace, own.runner_id):
                self._settle(saved.workspace, saved.agent_id)

    def _settle(self, workspace: str, agent_id: str) -> None:
        """Which agent an id means now. A saved one without its runner means nobody: no other agent answers for it."""
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
