"""Periodic work of a host: idle runs, leases, expiring questions, retention and unused blobs."""

import asyncio
import random
from typing import Final

import msgspec
import structlog

from bollard.host.errors import HostError
from bollard.host.identity.caller import DEFAULT_WORKSPACE
from bollard.host.limits import HOUSEKEEPING_FIRST_S, LEASE_RENEW_S, REPLAY_PAGE
from bollard.host.log.retention import Retention, purge
from bollard.host.parts import HostParts
from bollard.host.plugins.placement import QuarantineLog

_log = structlog.get_logger("bollard.host")
_SWEEP_S: Final = 1.0


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
        quarantines = QuarantineLog(self.parts.storage.journal, self.parts.storage.clock)
        renewed_at = self.parts.storage.clock.monotonic()
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.parts.core.dispatcher.check_idle()
            self.parts.core.approvals.sweep()
            quarantines.update(self.parts.fleet.placements)
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
