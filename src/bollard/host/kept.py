"""What people save at a host, put together: agents and bindings, plugins, what runs can do, runtimes."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from bollard import __version__
from bollard.host.abilities import Abilities, open_abilities
from bollard.host.agents.agent import AgentBook, RunnerKey
from bollard.host.agents.binding_book import BindingBook
from bollard.host.agents.keeping import Keeper
from bollard.host.capabilities.registry import Sources
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.knowledge.library import Library
from bollard.host.log.journal import Journal
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.keeping import PluginKeeper
from bollard.host.plugins.shelf import Shelf
from bollard.host.plugins.workbench import Workbench
from bollard.host.runtimes.opening import RemoteRuntimes, open_runtimes
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import Vault
from bollard.host.store.boundary import Store
from bollard.protocol import AgentRunnerDiscovery

__all__ = ["Kept", "open_kept"]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Who keeps what."""

    agents: Keeper
    plugins: PluginKeeper
    workbench: Workbench
    abilities: Abilities
    runtimes: RemoteRuntimes

    async def load(self, store: Store) -> None:
        await self.agents.load()  # before any runner brings an agent that a saved one stands over
        await self.plugins.load()
        await self.abilities.load(store)
        await self.runtimes.load(store)


def open_kept(
    sources: Sources,
    *,
    core: Core,
    library: Library,
    journal: Journal,
    store: Store,
    clock: Clock,
    data: Path,
    fleet: PluginFleet,
    agents: AgentBook,
    bindings: BindingBook,
    runners: dict[RunnerKey, AgentRunnerDiscovery],
    vault: Vault,
    redactor: Redactor,
    host_id: str,
    is_open: Callable[[str], bool],
) -> Kept:
    """Built, and not filled yet. What offers something to runs is added to `sources`."""
    plugins = PluginKeeper(
        fleet=fleet,
        shelf=Shelf(data / "plugins"),
        journal=journal,
        store=store,
        clock=clock,
        agents=agents,
        bindings=bindings,
    )
    return Kept(
        agents=Keeper(
            journal=journal,
            store=store,
            agents=agents,
            bindings=bindings,
            clock=clock,
            gates=core.gates,
            runners=runners,
            has_file=core.files.has,
            vault=vault,
        ),
        plugins=plugins,
        workbench=Workbench(fleet=fleet, keeper=plugins, journal=journal, clock=clock),
        abilities=open_abilities(
            sources,
            core=core,
            library=library,
            journal=journal,
            clock=clock,
            data=data,
            fleet=fleet,
            agents=agents,
            vault=vault,
            redactor=redactor,
            is_open=is_open,
        ),
        runtimes=open_runtimes(
            journal=journal,
            clock=clock,
            fleet=fleet,
            plugins=plugins,
            host_id=host_id,
            host_version=__version__,
            is_open=is_open,
        ),
    )
