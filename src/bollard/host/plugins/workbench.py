"""Plugins under development: `bollard plugin dev` covers the installed plugin of the same name while it runs.

Nothing is saved. A restart of the host or a silent developer ends the development, and the covered plugin is in use
again. Each new version is started beside the previous one; a broken one leaves the last good version in use.
"""

import asyncio
from collections import defaultdict

import structlog

from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.limits import PLUGIN_DEV_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.plugins.code_store import StoredCode
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.installation import AccessChange, check_consent
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.plugins.repository import PluginRepository
from bollard.host.workers.boundary import PluginSource
from bollard.protocol import JsonObject

_log = structlog.get_logger("bollard.plugins")
_Key = tuple[str, str]


class Workbench:
    """Adds and removes plugins under development. One per host."""

    def __init__(
        self,
        *,
        fleet: PluginFleet,
        repository: PluginRepository,
        journal: Journal,
        clock: Clock,
        patience_s: float = PLUGIN_DEV_S,
    ) -> None:
        self._fleet = fleet
        self._repository = repository
        self._journal = journal
        self._clock = clock
        self._patience_s = patience_s
        self._timers: dict[_Key, asyncio.TimerHandle] = {}
        self._locks: defaultdict[_Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def put(self, workspace: str, code: StoredCode, *, by: str, consent: str | None) -> AccessChange:
        """Use this code in place of the current plugin. Raises `Conflict`, `ConsentNeeded`, `PluginUnusable`."""
        described = code.described
        key = (workspace, described.plugin_id)
        async with self._locks[key]:
            self._repository.check_name(workspace, described.plugin_id)
            await self._repository.admit_paths(workspace, described, by)
            current = self._fleet.find(workspace, described.plugin_id)
            before = None if current is None else current.access
            change = check_consent(code.digest, described, before, consent)
            if current is None or (current.origin, current.source.digest) != ("dev", code.digest):
                data: JsonObject = {"plugin": described.plugin_id, "digest": code.digest, "by": by}
                await self._record(workspace, "plugin.developed", {**data, "asks": described.access.to_wire()})
                placement = self._build_placement(workspace, code)
                await self._fleet.prove(placement)
                self._fleet.place(placement)
            self._restart_timer(key)
        return change

    def touch(self, workspace: str, plugin_id: str) -> None:
        """Extend the development of a plugin. Raises `NotFound`."""
        self._check(workspace, plugin_id)
        self._restart_timer((workspace, plugin_id))

    async def remove(self, workspace: str, plugin_id: str, by: str) -> None:
        """End the development; the covered plugin is in use again. Raises `NotFound`."""
        async with self._locks[workspace, plugin_id]:
            self._check(workspace, plugin_id)
            await self._record(workspace, "plugin.undeveloped", {"plugin": plugin_id, "by": by})
            self._end((workspace, plugin_id))

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _check(self, workspace: str, plugin_id: str) -> None:
        placement = self._fleet.find(workspace, plugin_id)
        if placement is None or placement.origin != "dev":
            raise NotFound(
                f"the plugin {plugin_id} is not under development",
                reason="plugin_development",
                hint="start it with `bollard plugin dev`",
                plugin=plugin_id,
            )

    def _build_placement(self, workspace: str, code: StoredCode) -> PoolPlacement:
        described = code.described
        source = PluginSource(
            name=described.name,
            path=code.path,
            plugin_id=described.plugin_id,
            version=described.version,
            digest=code.digest,
            env=described.access.env,
            command=described.access.command,
            sandbox=described.access.sandbox,
        )
        return self._fleet.build_placement(workspace, source, "dev", access=described.access, version=described.version)

    def _restart_timer(self, key: _Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(self._patience_s, self._expire, key)

    def _expire(self, key: _Key) -> None:
        _log.warning("the development of a plugin timed out", workspace=key[0], plugin=key[1])
        self._end(key)

    def _end(self, key: _Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._fleet.remove(*key, "dev")
        if self._repository.find(*key) is None:
            self._fleet.forget_log(*key)

    async def _record(self, workspace: str, kind: str, body: JsonObject) -> None:
        data = encode_data(body)
        record = NewRecord(workspace=workspace, type=kind, data=data, created_ms=self._clock.now_ms())
        await self._journal.commit(Entry(records=[record], size=len(data)))
