"""The end of a host, and of one of its workspaces: what is stopped, and in which order."""

import asyncio

import msgspec

from bollard.host.actions.kept_budgets import KeptBudgets
from bollard.host.audit.trail import Trail
from bollard.host.core import Core
from bollard.host.delivery.delivery import Delivery
from bollard.host.http.operating import Operating
from bollard.host.kept import Kept
from bollard.host.knowledge.library import Library
from bollard.host.log.journal import Journal
from bollard.host.models.opening import OpenedModels
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.store.boundary import Store

__all__ = ["Shutdown"]


class Shutdown(msgspec.Struct, kw_only=True):
    """One per host that has started."""

    core: Core
    delivery: Delivery
    kept: Kept
    models: OpenedModels
    library: Library
    fleet: PluginFleet
    budgets: KeptBudgets
    journal: Journal
    trail: Trail
    store: Store
    operating: Operating
    grace_s: float
    """Time that runs get to end."""
    tasks: list[asyncio.Task[None]]
    """What the host does by itself."""
    drained: bool = False

    async def drain(self) -> None:
        """Take nothing new, say so, let runs end within their grace, and tell who still reads. Requests are answered
        meanwhile and afterwards."""
        if not self.drained:
            self.drained = True
            await self.core.close(self.grace_s)

    async def stop(self) -> None:
        """Take nothing new, let runs end, then close everything. What is cut off here recovers like a crash."""
        await self.drain()
        await self.delivery.close(self.grace_s)
        self._cancel_tasks()
        self.kept.workbench.close()
        await self._part_with_others()
        self.budgets.save()
        await self.journal.close()
        await self.trail.close()
        await asyncio.to_thread(self.store.close)
        await asyncio.to_thread(self.operating.close)

    async def abandon(self) -> None:
        """Stop without a word to the log, because nothing can be written: the next start recovers."""
        self._cancel_tasks()
        await self.delivery.close(0)
        await self._part_with_others()

    def close_workspace(self, workspace: str) -> None:
        """Nobody gets in any more: what runs there is stopped, and its workers go."""
        self.tasks.append(asyncio.create_task(self.core.dispatcher.cancel_all(workspace)))
        self.fleet.close_workspace(workspace)
        self.kept.abilities.mcp.close_workspace(workspace)
        self.kept.runtimes.connections.close_workspace(workspace)

    def _cancel_tasks(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def _part_with_others(self) -> None:
        """Whatever runs or is connected elsewhere: runtimes, servers, providers, workers."""
        self.kept.runtimes.connections.close()
        await self.kept.abilities.mcp.stop()
        await self.models.desk.close()
        await self.library.close()
        await self.fleet.stop()
