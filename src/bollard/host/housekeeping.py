"""What a host does by itself, in turns: runs that are idle, leases, questions that expire, what is past its time."""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from bollard.host.audit.trail import Trail
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.errors import HostError
from bollard.host.identity.caller import DEFAULT_WORKSPACE
from bollard.host.limits import LEASE_RENEW_S, REPLAY_PAGE
from bollard.host.log.journal import Journal
from bollard.host.log.retention import Retention, purge
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.tools.builtin import BuiltinTools

__all__ = ["Housekeeping"]

_log = structlog.get_logger("bollard.host")
_SWEEP_S: Final = 1.0


class Housekeeping(msgspec.Struct, frozen=True, kw_only=True):
    """One per host."""

    core: Core
    journal: Journal
    store: Store
    blobs: BlobStore
    clock: Clock
    tools: BuiltinTools
    trail: Trail
    retention: Retention
    every_s: float
    """Time between two rounds through what is stored."""
    look: Callable[[], None]
    """Whatever else is looked at once a second."""

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._sweep()), asyncio.create_task(self._keep_house())]

    async def _sweep(self) -> None:
        """Once a second: idle runs and questions; now and then: leases."""
        renewed_at = self.clock.monotonic()
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.core.dispatcher.check_idle()
            self.core.approvals.sweep()
            self.look()
            if self.clock.monotonic() - renewed_at >= LEASE_RENEW_S:
                renewed_at = self.clock.monotonic()
                await self._renew()

    async def _renew(self) -> None:
        try:
            await self.core.dispatcher.renew()
        except HostError as error:
            _log.warning("leases could not be renewed", problem=error.message)

    async def _keep_house(self) -> None:
        """Now and then: what has expired goes, and blobs that nothing refers to."""
        while True:
            await asyncio.sleep(self.every_s)
            try:
                await self.trail.keep_house()
                await purge(self.journal, self.clock, self.retention, DEFAULT_WORKSPACE)
                await asyncio.to_thread(self._sweep_blobs)
                await asyncio.to_thread(self.tools.sweep, self.core.dispatcher.live.__contains__)
            except HostError as error:
                _log.warning("housekeeping failed", problem=error.message)

    def _sweep_blobs(self) -> None:
        digests: list[str] = []
        while page := self.store.artifact_digests(digests[-1] if digests else "", REPLAY_PAGE):
            digests.extend(page)
        self.blobs.sweep(digests)
