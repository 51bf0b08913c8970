"""The parts of a started host as one value, the work that they repeat, and the order in which they stop."""

import asyncio
import random
from typing import Final

import msgspec
import structlog

from bollard.confine.worker_level import WorkerLevel
from bollard.host.actions.budgets import SavedBudgets
from bollard.host.agents.bot import BotRepository
from bollard.host.agents.routing import AgentDirectory
from bollard.host.audit.trail import AuditTrail
from bollard.host.catalogue.sources import Catalogue
from bollard.host.channels.registry import ChannelRepository
from bollard.host.core import Core, Storage
from bollard.host.delivery.outbox import Delivery
from bollard.host.egress.worker_proxy import WorkerProxy
from bollard.host.errors import HostError
from bollard.host.events.channel_intake import ChannelIntake
from bollard.host.http.auth.callers import AdminToken
from bollard.host.http.resources.health import OperationParts
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import DEFAULT_WORKSPACE
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.limits import HOUSEKEEPING_FIRST_S, LEASE_RENEW_S, REPLAY_PAGE
from bollard.host.log.retention import Retention, purge
from bollard.host.models.source import ModelParts
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.placement import QuarantineLog
from bollard.host.plugins.violations import ViolationLog
from bollard.host.saved import SavedParts
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import Vault
from bollard.host.settings import Settings
from bollard.host.subscriptions.outgoing_events import OutgoingEvents
from bollard.host.tools.builtin import BuiltinTools
from bollard.trust.keys import VerifyKey

_log = structlog.get_logger("bollard.host")
_SWEEP_S: Final = 1.0


class HostKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The admin token, the secret that signs cursors, and the key that verifies the heads of the log."""

    token: AdminToken
    cursor_secret: bytes
    heads: VerifyKey


class HostParts(msgspec.Struct, frozen=True, kw_only=True):
    """Every part of a host. Only the composition root and its modules know all of them."""

    settings: Settings
    keys: HostKeys
    storage: Storage
    directory: AgentDirectory
    identity: IdentityDirectory
    audience: Audience
    vault: Vault
    redactor: Redactor
    fleet: PluginFleet
    catalogue: Catalogue
    violations: ViolationLog
    worker_proxy: WorkerProxy
    worker_level: WorkerLevel
    tools: BuiltinTools
    models: ModelParts
    core: Core
    saved: SavedParts
    channels: ChannelRepository
    bots: BotRepository
    channel_intake: ChannelIntake
    delivery: Delivery
    outgoing: OutgoingEvents
    budgets: SavedBudgets
    trail: AuditTrail
    operating: OperationParts


class Housekeeping(msgspec.Struct, frozen=True, kw_only=True):
    """The periodic tasks of one host."""

    parts: HostParts
    retention: Retention
    every_s: float
    """Seconds between two rounds of retention and blob sweeping."""

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._sweep()), asyncio.create_task(self._keep_house())]

    async def _sweep(self) -> None:
        """Check idle runs and questions once a second, and renew leases when they are due."""
        violations = self.parts.violations
        quarantines = QuarantineLog(self.parts.storage.journal, self.parts.storage.clock)
        renewed_at = self.parts.storage.clock.monotonic()
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.parts.core.dispatcher.check_idle()
            self.parts.core.approvals.sweep()
            quarantines.update(self.parts.fleet.placements)
            violations.update()
            self.parts.budgets.save()
            if self.parts.storage.clock.monotonic() - renewed_at >= LEASE_RENEW_S:
                renewed_at = self.parts.storage.clock.monotonic()
                await self._renew()

    async def _renew(self) -> None:
        try:
            await self.parts.core.dispatcher.renew()
        except HostError as error:
            _log.warning("leases could not be renewed", problem=error.message)

    async def _keep_house(self) -> None:
        """Drop expired data and unreferenced blobs. The first round comes early, at a random time."""
        rest_s = min(self.every_s, HOUSEKEEPING_FIRST_S * random.uniform(1, 2))  # noqa: S311 -- no secret
        while True:
            await asyncio.sleep(rest_s)
            rest_s = self.every_s
            try:
                await self.parts.trail.keep_house()
                await purge(self.parts.storage.journal, self.parts.storage.clock, self.retention, DEFAULT_WORKSPACE)
                await asyncio.to_thread(self._sweep_blobs)
                await asyncio.to_thread(self.parts.tools.sweep, self.parts.core.dispatcher.live.__contains__)
            except HostError as error:
                _log.warning("housekeeping failed", problem=error.message)

    def _sweep_blobs(self) -> None:
        digests: list[str] = []
        while page := self.parts.storage.store.artifact_digests(digests[-1] if digests else "", REPLAY_PAGE):
            digests.extend(page)
        self.parts.storage.blobs.sweep(digests)


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
            self.parts.outgoing.close_streams()

    async def stop(self) -> None:
        """Drain, then close every part. A shutdown that is interrupted here recovers like a crash."""
        await self.drain()
        await self.parts.outgoing.close()
        await self.parts.delivery.close(self.parts.settings.grace_s)
        self._cancel_tasks()
        self.parts.saved.workbench.close()
        await self._disconnect()
        self.parts.budgets.save()
        self.parts.violations.flush()
        self.parts.worker_proxy.flush()
        await self.parts.storage.journal.close()
        await self.parts.trail.close()
        await asyncio.to_thread(self.parts.storage.store.close)
        await asyncio.to_thread(self.parts.operating.close)

    async def abandon(self) -> None:
        """Stop without writing to the log, because the log cannot be written; the next start recovers. Readers are
        notified first, while the server still serves."""
        self.parts.core.hub.close()
        self.parts.outgoing.close_streams()
        self._cancel_tasks()
        await self.parts.outgoing.close()
        await self.parts.delivery.close(0)
        await self._disconnect()

    def close_workspace(self, workspace: str) -> None:
        """Cancel the runs of a workspace, and close its workers and connections."""
        self.tasks.append(asyncio.create_task(self.parts.core.dispatcher.cancel_all(workspace)))
        self.parts.outgoing.refresh(workspace)
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
