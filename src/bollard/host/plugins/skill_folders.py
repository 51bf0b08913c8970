"""Where the plugins of a workspace have their skills: in the folder `skills` beside their manifest."""

from bollard.host.plugins.fleet import PluginFleet
from bollard.host.skills.brought import BroughtFolder

__all__ = ["PluginSkillFolders"]


class PluginSkillFolders:
    """Over the fleet. Code on another machine has no folder here."""

    def __init__(self, fleet: PluginFleet) -> None:
        self._fleet = fleet

    def of(self, workspace: str) -> list[BroughtFolder]:
        """Of the plugins that are in use and known by name and code."""
        return [
            BroughtFolder(plugin_id=each.plugin_id, folder=each.source.path / "skills", digest=each.digest)
            for each in self._fleet.of(workspace)
            if each.plugin_id is not None and each.digest is not None and each.origin != "remote"
        ]

    def revision(self) -> int:
        return self._fleet.changes
