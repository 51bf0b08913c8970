"""Where the secrets of a configuration go when an agent is saved: into the vault. The configuration says only where.

A field holds `secret:NAME` for a secret that people keep under a name, or a value, which becomes a secret of this agent
alone and goes with it.
"""

from msgspec.structs import replace

from bollard.host.agents.agent import Agent
from bollard.host.agents.form_values import secret_fields
from bollard.host.errors import InvalidRequest
from bollard.host.log.shelf import Along
from bollard.host.secrets.references import is_chosen, is_reference, own_name, reference_to, referred
from bollard.host.secrets.vault import Vault

__all__ = ["agent_with_secrets", "secrets_of_agent"]

_KIND = "agent"


def agent_with_secrets(vault: Vault, agent: Agent, before: Agent | None, by: str) -> tuple[Agent, Along]:
    """The agent as it is saved, and what is written with it. Raises `InvalidRequest` for a name that leads nowhere."""
    workspace, along, config = agent.workspace, Along(), {**agent.config}
    kept: set[str] = set()
    for field in sorted(secret_fields(agent.form)):
        value = config.get(field)
        if not isinstance(value, str) or not value:
            continue
        own = own_name(_KIND, agent.agent_id, field)
        if value == reference_to(own) and _had(before, agent, field, value):
            kept.add(own)
        elif is_reference(value):
            _check(vault, workspace, field, referred(value))
        else:
            along += vault.joining(workspace, own, value, by)
            config[field] = reference_to(own)
            kept.add(own)
    gone = [name for name in secrets_of_agent(vault, workspace, agent.agent_id) if name not in kept]
    return replace(agent, config=config), along + vault.leaving(workspace, gone, by)


def secrets_of_agent(vault: Vault, workspace: str, agent_id: str) -> list[str]:
    """Those that belong to it and go with it."""
    return vault.of_thing(workspace, _KIND, agent_id)


def _had(before: Agent | None, agent: Agent, field: str, value: str) -> bool:
    """Whether it stands there already, for the same runner: nobody gets what was entered for another one."""
    return before is not None and before.runner_id == agent.runner_id and before.config.get(field) == value


def _check(vault: Vault, workspace: str, field: str, name: str) -> None:
    if not is_chosen(name) or vault.find(workspace, name) is None:
        shown = name if is_chosen(name) else "of this name"
        raise InvalidRequest(
            f"config.{field} refers to a secret that is not there: {shown}",
            hint=f"set it first: `bollard secrets set {shown}`" if is_chosen(name) else "enter the value itself",
            field=f"config.{field}",
        )
