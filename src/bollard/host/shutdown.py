"""The end of a host, and of one of its workspaces: what is stopped, and in which order."""

import asyncio

import msgspec

from bollard.host.parts import HostParts


class Shutdown(msgspec.Struct, kw_only=True):
    """Stops the parts of a host in order."""

    parts: HostParts
    tasks: list[asyncio.Task[None]]
    """What the host does by itself."""
    drained: bool = False

    async def drain(self) -> None:
        """Take nothing new, say so, let runs end within their grace, and tell who still reads. Requests are answered
        meanwhile and afterwards."""
        if not self.drained:
            self.drained = True
            await self.parts.core.close(self.parts.settings.grace_s)

    async def stop(self) -> None:
        """Take nothing new, let runs end, then close everything. What is cut off here recovers like a crash."""
        await self.drain()
        await self.parts.delivery.close(self.parts.settings.grace_s)
        self._cancel_tasks()
        self.parts.saved.workbench.close()
        await self._part_with_others()
        self.parts.budgets.save()
        await self.parts.storage.journal.close()
        await self.parts.trail.close()
        await asyncio.to_thread(self.parts.storage.store.close)
        await asyncio.to_thread(self.parts.operating.close)

    async def abandon(self) -> None:
        """Stop without a word to the log, because nothing can be written: the next start recovers. Readers are told
        first, while the server still serves."""
        self.parts.core.hub.close()
        self._cancel_tasks()
        await self.parts.delivery.close(0)
        await self._part_with_others()

    def close_workspace(self, workspace: str) -> None:
        """Nobody gets in any more: what runs there is stopped, and its workers go."""
        self.tasks.append(asyncio.create_task(self.parts.core.dispatcher.cancel_all(workspace)))
        self.parts.fleet.close_workspace(workspace)
        self.parts.saved.mcp.close_workspace(workspace)
        self.parts.saved.runtimes.connections.close_workspace(workspace)

    def _cancel_tasks(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def _part_with_others(self) -> None:
        """Whatever runs or is connected elsewhere: runtimes, servers, providers, workers."""
        self.parts.saved.runtimes.connections.close()
        await self.parts.saved.mcp.stop()
        await self.parts.models.gateway.close()
        await self.parts.saved.library.close()
        await self.parts.fleet.stop()
