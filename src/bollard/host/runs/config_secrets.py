"""The secrets in an agent's configuration, filled in when a run begins and not before."""

from msgspec.structs import replace

from bollard.host.agents.agent import Agent
from bollard.host.agents.form_values import secret_fields
from bollard.host.runs.creation import QueuedRun
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.references import is_reference, referred
from bollard.host.secrets.vault import Vault

__all__ = ["ConfigSecrets"]


class ConfigSecrets:
    """One per host."""

    def __init__(self, vault: Vault, redactor: Redactor) -> None:
        self._vault = vault
        self._redactor = redactor

    def to_fill(self, agent: Agent) -> bool:
        """Whether the agent refers to secrets. What an earlier version saved as it is, is kept out of sight from
        now on."""
        found = False
        for name in secret_fields(agent.form):
            value = agent.config.get(name)
            if is_reference(value):
                found = True
            elif isinstance(value, str) and value:
                self._redactor.add(agent.workspace, value)
        return found

    @staticmethod
    def any_for(agent: Agent) -> bool:
        """Whether a run of the agent is given a secret."""
        return any(agent.config.get(name) for name in secret_fields(agent.form))

    async def filled(self, queued: QueuedRun) -> QueuedRun:
        """The same with the values. Raises where one of them cannot be had."""
        agent = queued.agent
        names = {
            field: referred(value)
            for field in secret_fields(agent.form)
            if isinstance(value := agent.config.get(field), str) and is_reference(value)
        }
        if not names:
            return queued
        values = await self._vault.use_all(
            agent.workspace, names.values(), purpose=f"agent:{agent.agent_id}", by=f"run:{queued.facts.run_id}"
        )
        config = {**agent.config, **{field: values[name] for field, name in names.items()}}
        return replace(queued, agent=replace(agent, config=config))
