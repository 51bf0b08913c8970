"""Builds the parts that serve remote runtimes: their repository, the challenges and the connections."""

from collections.abc import Callable

import msgspec

from bollard.host.clock import Clock
from bollard.host.log.journal import Journal
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.repository import PluginRepository
from bollard.host.runtimes.connections import Connections
from bollard.host.runtimes.enrolment import Challenges
from bollard.host.runtimes.pool import RemotePlugins
from bollard.host.runtimes.repository import RuntimeRepository
from bollard.host.store.store import Store


class RemoteRuntimes(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that serve remote runtimes."""

    repository: RuntimeRepository
    challenges: Challenges
    connections: Connections

    async def load(self, store: Store) -> None:
        """Load the enrolled runtimes and place their plugins. Call after the installed plugins are loaded."""
        await self.repository.load(store)
        self.connections.begin()


def build_runtimes(
    *,
    journal: Journal,
    clock: Clock,
    fleet: PluginFleet,
    plugins: PluginRepository,
    host_id: str,
    host_version: str,
    is_open: Callable[[str], bool],
) -> RemoteRuntimes:
    """Build the parts, not loaded yet. Runtimes know this host by `host_id`; `is_open` says whether a workspace is
    open."""
    repository, challenges = RuntimeRepository(journal, clock), Challenges(host_id, clock)
    connections = Connections(
        repository=repository,
        challenges=challenges,
        plugins=RemotePlugins(fleet, plugins, clock),
        fleet=fleet,
        clock=clock,
        host_version=host_version,
        is_open=is_open,
    )
    return RemoteRuntimes(repository=repository, challenges=challenges, connections=connections)
