"""The shutdown of a host or of one of its workspaces: which parts stop, and in which order."""

import asyncio

import msgspec

from bollard.host.parts import HostParts


class Shutdown(msgspec.Struct, kw_only=True):
    """Stops the parts of a host in order."""

    parts: HostParts
    tasks: list[asyncio.Task[None]]
    """The periodic tasks of the host."""
    drained: bool = False

    async def drain(self) -> None:
        """Stop accepting work, let runs end within the grace period, and notify readers. The host keeps serving
        requests meanwhile and afterwards."""
        if not self.drained:
            self.drained = True
            await self.parts.core.close(self.parts.settings.grace_s)

    async def stop(self) -> None:
        """Drain, then close every part. A shutdown that is interrupted here recovers like a crash."""
        await self.drain()
        await self.parts.delivery.close(self.parts.settings.grace_s)
        self._cancel_tasks()
        self.parts.saved.workbench.close()
        await self._disconnect()
        self.parts.budgets.save()
        await self.parts.storage.journal.close()
        await self.parts.trail.close()
        await asyncio.to_thread(self.parts.storage.store.close)
        await asyncio.to_thread(self.parts.operating.close)

    async def abandon(self) -> None:
        """Stop without writing to the log, because the log cannot be written; the next start recovers. Readers are
        notified first, while the server still serves."""
        self.parts.core.hub.close()
        self._cancel_tasks()
        await self.parts.delivery.close(0)
        await self._disconnect()

    def close_workspace(self, workspace: str) -> None:
        """Cancel the runs of a workspace, and close its workers and connections."""
        self.tasks.append(asyncio.create_task(self.parts.core.dispatcher.cancel_all(workspace)))
        self.parts.fleet.close_workspace(workspace)
        self.parts.saved.mcp.close_workspace(workspace)
        self.parts.saved.runtimes.connections.close_workspace(workspace)

    def _cancel_tasks(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def _disconnect(self) -> None:
        """Close everything outside of this process: runtimes, MCP servers, providers, workers."""
        self.parts.saved.runtimes.connections.close()
        await self.parts.saved.mcp.stop()
        await self.parts.models.gateway.close()
        await self.parts.saved.library.close()
        await self.parts.fleet.stop()
