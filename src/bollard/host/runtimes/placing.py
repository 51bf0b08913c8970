"""The plugins that runtimes bring, in the places of the fleet: one pool for each plugin, of the code that somebody said
yes to last. Runtimes with other code wait."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bollard.host.clock import Clock
from bollard.host.log.shelf import Saved
from bollard.host.plugins.fitting import Fitting
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.keeping import PluginKeeper
from bollard.host.runtimes.enrolled import Consented, Enrolled
from bollard.host.runtimes.pool import RemotePool
from bollard.host.workers.plugin import PluginSource
from bollard.protocol import PluginIdentity
from bollard.wire import RunnerCatalogue, ToolCatalogue

__all__ = ["RemotePlaces", "newest_consents"]

_NOWHERE: Final = Path("remote")
"""Where its code is: on another machine."""
_Key = tuple[str, str]


def newest_consents(enrolled: Iterable[Saved[Enrolled]]) -> dict[str, Consented]:
    """For each plugin the code that was said yes to last, by runtimes that may come in. Pure."""
    found: dict[str, Consented] = {}
    for saved in enrolled:
        consented = saved.thing.consented
        if consented is None or not saved.thing.enabled:
            continue
        known = found.get(consented.plugin)
        if known is None or known.at_ms < consented.at_ms:
            found[consented.plugin] = consented
    return found


class RemotePlaces:
    """One per host."""

    def __init__(self, fleet: PluginFleet, plugins: PluginKeeper, clock: Clock) -> None:
        self._fleet = fleet
        self._plugins = plugins
        self._clock = clock
        self._placed: dict[_Key, tuple[Consented, RemotePool]] = {}

    def settle(self, workspace: str, enrolled: Iterable[Saved[Enrolled]]) -> None:
        """Make the fleet have what these runtimes may bring, and no more."""
        wanted = newest_consents(enrolled)
        for key in [key for key in self._placed if key[0] == workspace and key[1] not in wanted]:
            del self._placed[key]
            self._fleet.take_away(*key, "remote")
            self._fleet.forget_log(*key)
        for plugin, consented in wanted.items():
            there = self._placed.get((workspace, plugin))
            if there is not None and there[0].is_same(consented):
                continue
            if self.taken_by(workspace, plugin) is None:
                self._place(workspace, consented)

    def forget(self, workspace: str) -> None:
        """The workspace was closed; the fleet has ended its pools."""
        for key in [key for key in self._placed if key[0] == workspace]:
            del self._placed[key]

    def pool_of(self, workspace: str, consented: Consented) -> RemotePool | None:
        """Where a runtime with this code belongs; nowhere while other code has the place."""
        there = self._placed.get((workspace, consented.plugin))
        return there[1] if there is not None and there[0].is_same(consented) else None

    def taken_by(self, workspace: str, plugin: str) -> str | None:
        """Why no runtime can bring this plugin: it is here already, from elsewhere."""
        there = self._fleet.find(workspace, plugin)
        if there is not None and there.origin == "dev":
            there = there.under
        if there is not None and there.origin != "remote":
            return f"the plugin {plugin} is here already ({there.origin}), and one name is one plugin"
        if self._plugins.find(workspace, plugin) is not None:
            return f"the plugin {plugin} is installed here, and one name is one plugin"
        return None

    def check_name(self, workspace: str, plugin: str) -> None:
        """Raises `Conflict` for a name that people would take for another."""
        self._plugins.check_name(workspace, plugin)

    def _place(self, workspace: str, consented: Consented) -> None:
        def discovered(identity: PluginIdentity, catalogue: RunnerCatalogue, tools: ToolCatalogue) -> None:
            self._fleet.discovered(fitting, identity, catalogue, tools)

        source = PluginSource(
            name=consented.plugin.partition("/")[2],
            path=_NOWHERE,
            plugin_id=consented.plugin,
            digest=consented.digest,
        )
        pool = RemotePool(source, self._clock, discovered=discovered, changed=self._fleet.stir)
        fitting = Fitting(
            workspace=workspace,
            origin="remote",
            source=source,
            pool=pool,
            log=self._fleet.log_of(workspace, consented.plugin),
            plugin_id=consented.plugin,
            version=consented.version,
            asked=consented.asked,
            pins=dict(consented.definitions),
        )
        self._placed[workspace, consented.plugin] = (consented, pool)
        self._fleet.place(fitting)
