"""Plugins under development: code that covers what is installed for as long as its developer's command is there.

Nothing of it is saved. A restart of the host, or a developer who is not heard of, ends it, and what it covered is in
use again. Each save is proved beside the one before: a broken one leaves the last good one where it is.
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
    """One per host."""

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

    async def put(self, workspace: str, shelved: StoredCode, *, by: str, consent: str | None) -> AccessChange:
        """Put code in use in the place of what is there. Raises `Conflict`, `ConsentNeeded`, `PluginUnusable`."""
        described = shelved.described
        key = (workspace, described.plugin_id)
        async with self._locks[key]:
            self._repository.check_name(workspace, described.plugin_id)
            there = self._fleet.find(workspace, described.plugin_id)
            before = None if there is None else there.asked
            change = check_consent(shelved.digest, described, before, consent)
            if there is None or (there.origin, there.source.digest) != ("dev", shelved.digest):
                told: JsonObject = {"plugin": described.plugin_id, "digest": shelved.digest, "by": by}
                await self._record(workspace, "plugin.developed", {**told, "asks": described.asked.to_wire()})
                fitting = self._fit(workspace, shelved)
                await self._fleet.prove(fitting)
                self._fleet.place(fitting)
            self._wait_for(key)
        return change

    def touch(self, workspace: str, plugin_id: str) -> None:
        """The developer is still there. Raises `NotFound`."""
        self._find(workspace, plugin_id)
        self._wait_for((workspace, plugin_id))

    async def remove(self, workspace: str, plugin_id: str, by: str) -> None:
        """The developer is done: what was there before is in use again. Raises `NotFound`."""
        async with self._locks[workspace, plugin_id]:
            self._find(workspace, plugin_id)
            await self._record(workspace, "plugin.undeveloped", {"plugin": plugin_id, "by": by})
            self._end((workspace, plugin_id))

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _find(self, workspace: str, plugin_id: str) -> PoolPlacement:
        fitting = self._fleet.find(workspace, plugin_id)
        if fitting is None or fitting.origin != "dev":
            raise NotFound("no such plugin is under development here", hint="`bollard plugin dev` begins it")
        return fitting

    def _fit(self, workspace: str, shelved: StoredCode) -> PoolPlacement:
        described = shelved.described
        source = PluginSource(
            name=described.name,
            path=shelved.path,
            plugin_id=described.plugin_id,
            digest=shelved.digest,
            env=described.asked.env,
        )
        return self._fleet.fit(workspace, source, "dev", asked=described.asked, version=described.version)

    def _wait_for(self, key: _Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(self._patience_s, self._given_up, key)

    def _given_up(self, key: _Key) -> None:
        _log.warning("a plugin under development is ended: its developer is gone", workspace=key[0], plugin=key[1])
        self._end(key)

    def _end(self, key: _Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._fleet.take_away(*key, "dev")
        if self._repository.find(*key) is None:
            self._fleet.forget_log(*key)

    async def _record(self, workspace: str, kind: str, body: JsonObject) -> None:
        data = encode_data(body)
        record = NewRecord(workspace=workspace, type=kind, data=data, created_ms=self._clock.now_ms())
        await self._journal.commit(Entry(records=[record], size=len(data)))
