"""What people saved that needs a plugin: why it is not removed. Pure."""

from collections.abc import Iterable

from bollard.host.agents.agent import Agent
from bollard.host.agents.binding import Binding
from bollard.host.errors import Conflict
from bollard.host.plugins.installed import Installed

__all__ = ["refuse_used"]


def refuse_used(installed: Installed, saved: Iterable[Agent], bindings: Iterable[Binding]) -> None:
    """Raise `Conflict` where a saved agent runs on the plugin, or a binding names an agent that it brings itself."""
    if names := ", ".join(each.agent_id for each in saved if each.plugin == installed.plugin_id):
        raise Conflict(
            f"the plugin {installed.plugin_id} is used by {names}",
            hint="delete these agents first, or give them another runner",
            agents=names,
        )
    own = {_agent_id(installed.name, runner) for runner, _ in installed.current.asked.runners}
    if bound := ", ".join(each.binding_id for each in bindings if each.agent_id in own):
        raise Conflict(
            f"the agents of the plugin {installed.plugin_id} get the events of {bound}",
            hint="delete these bindings first, or bind them to another agent",
            bindings=bound,
        )


def _agent_id(plugin_name: str, runner: str) -> str:
    """The agent that a runner has by itself."""
    return plugin_name if runner == "default" else f"{plugin_name}.{runner}"
