"""An agent: one runner, its configuration, and how long it may take. One agent per runner until people edit them."""

import asyncio
import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from bollard.host.errors import InvalidRequest
from bollard.host.limits import RUN_DEADLINE_MAX_S
from bollard.protocol import AgentRunnerDiscovery, JsonObject, JsonValue, limits

__all__ = ["Agent", "AgentBook", "agent_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """What an event is run with. Validated when it is made: a time that cannot work is refused here."""

    agent_id: str
    runner_id: str
    runner_name: str
    plugin: str
    """`author/name` of the plugin that has the runner."""
    label: dict[str, str]
    description: dict[str, str] | None = None
    permissions: frozenset[str] = frozenset()
    config: JsonObject = field(default_factory=dict[str, JsonValue])
    deadline_s: float = limits.RUN_DEADLINE_S
    idle_s: float = limits.RUN_IDLE_S
    repeatable: bool = False
    """Whether a run that was lost may be dispatched again."""

    def __post_init__(self) -> None:
        for name in ("deadline_s", "idle_s"):
            value = getattr(self, name)
            if not math.isfinite(value) or not 0 < value <= RUN_DEADLINE_MAX_S:
                raise InvalidRequest(
                    f"{name} of agent {self.agent_id} is {value}",
                    hint=f"use seconds between 0 and {RUN_DEADLINE_MAX_S:g}",
                    field=name,
                )


def agent_of(discovery: AgentRunnerDiscovery) -> Agent:
    """The agent a runner gets by itself: its plugin's name, and its own where the plugin has several."""
    manifest = discovery.manifest
    alone = discovery.runner_name == "default"
    permissions = manifest.permissions.model_dump()
    return Agent(
        agent_id=discovery.plugin_name if alone else f"{discovery.plugin_name}.{discovery.runner_name}",
        runner_id=manifest.id,
        runner_name=discovery.runner_name,
        plugin=f"{discovery.plugin_author}/{discovery.plugin_name}",
        label=dict(manifest.label),
        description=None if manifest.description is None else dict(manifest.description),
        permissions=frozenset(f"{key}.{value}" for key, values in permissions.items() for value in values),
        config={item.name: item.default for item in manifest.config_schema if item.default is not None},
    )


class AgentBook:
    """The agents this host knows, and who waits for one that is not there yet."""

    def __init__(self) -> None:
        self._agents: dict[str, Agent] = {}
        self._changed = asyncio.Event()

    def put(self, agent: Agent) -> None:
        self._agents[agent.agent_id] = agent
        self.stir()

    def get(self, agent_id: str) -> Agent | None:
        return self._agents.get(agent_id)

    def stir(self) -> None:
        """Something about plugins changed: whoever waits for an agent looks again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_for(self, agent_id: str, timeout_s: float, *, hopeful: Callable[[], bool]) -> Agent | None:
        """The agent, as soon as it is there; `None` when there is no more hope for it, or it took too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while agent_id not in self._agents and hopeful():
                    await self._changed.wait()
        return self._agents.get(agent_id)

    def all(self) -> list[Agent]:
        return sorted(self._agents.values(), key=lambda agent: agent.agent_id)
