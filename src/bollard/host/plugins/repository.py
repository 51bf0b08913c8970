"""Keeps the plugins that people install: what was consented to is on disk before any of its code runs.

A change is one after the other for each plugin: the new code is proved beside the old, then saved, then put in its
place. Code that cannot work changes nothing.
"""

import asyncio
from collections import defaultdict
from typing import Final

import msgspec
from msgspec.structs import replace

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.routing import BindingRegistry
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, InvalidRequest, NotFound
from bollard.host.limits import PLUGINS_PER_WORKSPACE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.saved_resources import SavedChange, SavedChanges, check_revision, unreadable
from bollard.host.plugins.code_store import CodeStore, StoredCode
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.installation import (
    Installed,
    SourceKind,
    Version,
    check_consent,
    compare,
    lookalike,
    pinned,
    refuse_used,
)
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.plugins.uploads import PluginUploads
from bollard.host.store.store import Store
from bollard.host.workers.boundary import PluginSource
from bollard.protocol import JsonObject

_WORKERS: Final = 64
"""Worker processes that one plugin may have in a workspace."""
_decode: Final = msgspec.json.Decoder().decode
_Key = tuple[str, str]


class PluginRepository:
    """One per host."""

    def __init__(
        self,
        *,
        fleet: PluginFleet,
        shelf: CodeStore,
        journal: Journal,
        store: Store,
        clock: Clock,
        agents: AgentRegistry,
        bindings: BindingRegistry,
    ) -> None:
        self._fleet = fleet
        self._shelf = shelf
        self._journal = journal
        self._store = store
        self._clock = clock
        self._agents = agents
        self._bindings = bindings
        self._changes = SavedChanges(journal, clock)
        self._installed: dict[_Key, Installed] = {}
        self._unusable: dict[_Key, str] = {}
        """Why the code of a plugin could not be used at the start."""
        self._coming: set[_Key] = set()
        """Being installed: their names are taken."""
        self._locks: defaultdict[_Key, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.taking = PluginUploads(shelf, self._digests)
        self._sweeping: set[asyncio.Task[None]] = set()
        fleet.watch(self._sweep)

    async def load(self) -> None:
        """Bring back what was installed, in every workspace; its workers start with the fleet. What cannot be read
        stops the start; code that is gone or was changed does not, it is not run."""
        await asyncio.to_thread(self._shelf.open)
        for row in await asyncio.to_thread(self._store.policies_everywhere, "plugin"):
            try:
                installed = Installed.from_wire(_decode(row.body), row.workspace, row.revision)
            except (KeyError, TypeError, AttributeError) as error:
                raise unreadable("plugin", row, HostError(f"{type(error).__name__}: {error}")) from error
            key = (installed.workspace, installed.plugin_id)
            self._installed[key] = installed
            if installed.enabled and self._fleet.is_open(row.workspace):
                try:
                    shelved = await asyncio.to_thread(self._shelf.find, installed.current.digest)
                except HostError as error:
                    self._unusable[key] = error.message
                else:
                    self._fleet.place(self._fit(installed, shelved))
        await self.taking.sweep()

    # --- reading ---

    def of(self, workspace: str) -> list[Installed]:
        found = [each for (there, _), each in self._installed.items() if there == workspace]
        return sorted(found, key=lambda each: each.plugin_id)

    def find(self, workspace: str, plugin_id: str) -> Installed | None:
        return self._installed.get((workspace, plugin_id))

    def get(self, workspace: str, plugin_id: str) -> Installed:
        """Raises `NotFound`, or `Conflict` for a plugin that is not installed but there."""
        installed = self.find(workspace, plugin_id)
        if installed is not None:
            return installed
        there = self._fleet.find(workspace, plugin_id)
        if there is not None and there.origin == "remote":
            raise Conflict(
                f"the plugin {plugin_id} is brought by a runtime of another machine",
                hint="disable or revoke the runtime instead: `bollard runtimes`",
            )
        if there is not None:
            raise Conflict(
                f"the plugin {plugin_id} comes with the host or its settings, and is in every workspace",
                hint="change the settings `plugins` and `builtin_plugins` instead",
            )
        raise NotFound("there is no such plugin", hint="`bollard plugin list` names them")

    def unusable(self, workspace: str, plugin_id: str) -> str | None:
        """Why an installed plugin has no worker, where its code could not be used."""
        return self._unusable.get((workspace, plugin_id))

    # --- changing ---

    async def install(
        self,
        workspace: str,
        shelved: StoredCode,
        *,
        by: str,
        consent: str | None,
        source: str,
        source_kind: SourceKind = "upload",
        workers: int = 1,
    ) -> Installed:
        """Take a plugin that is not there yet. Raises `Conflict`, `ConsentNeeded`, `PluginUnusable`."""
        described, key = shelved.described, (workspace, shelved.described.plugin_id)
        async with self._locks[key]:
            self._check_new(workspace, described.plugin_id)
            change = check_consent(shelved.digest, described, None, consent)
            installed = Installed(
                workspace=workspace,
                author=described.author,
                name=described.name,
                current=Version.of(shelved, by, self._clock.now_ms()),
                workers=_check_workers(workers),
                source=source,
                source_kind=source_kind,
            )
            self._coming.add(key)
            try:
                return await self._bring(installed, shelved, by, ("plugin.installed", {"change": change.to_wire()}))
            finally:
                self._coming.discard(key)

    async def update(
        self,
        workspace: str,
        plugin_id: str,
        shelved: StoredCode,
        *,
        by: str,
        consent: str | None,
        source: str,
        source_kind: SourceKind = "upload",
        revision: int | None = None,
    ) -> Installed:
        """Another version of a plugin that is there: needs consent only for what it asks beyond the one before."""
        async with self._locks[workspace, plugin_id]:
            before = self.get(workspace, plugin_id)
            check_revision("plugin", plugin_id, before.revision, revision)
            if shelved.described.plugin_id != plugin_id:
                raise InvalidRequest(
                    f"the archive holds {shelved.described.plugin_id}, not {plugin_id}",
                    hint="install it as a plugin of its own",
                    field="body",
                )
            if shelved.digest == before.current.digest and (workspace, plugin_id) not in self._unusable:
                return before  # where its code was gone, it is there again now
            change = check_consent(shelved.digest, shelved.described, before.current.asked, consent)
            moved = before.moved_to(Version.of(shelved, by, self._clock.now_ms()))
            moved = replace(moved, source=source, source_kind=source_kind)
            told: JsonObject = {"before": before.current.digest, "change": change.to_wire()}
            known = None if consent is not None else before.current
            return await self._bring(moved, shelved, by, ("plugin.updated", told), known)

    async def rollback(self, workspace: str, plugin_id: str, digest: str | None, by: str) -> Installed:
        """Go back to a version that was consented to before; to the last one where none is named."""
        async with self._locks[workspace, plugin_id]:
            before = self.get(workspace, plugin_id)
            wanted = [each for each in before.earlier if digest is None or each.digest.startswith(digest)]
            if not wanted or (digest is not None and len(wanted) > 1):
                raise NotFound("there is no such earlier version", hint="`bollard plugin show` names them")
            version = wanted[0]
            async with self.taking.again(version.digest) as shelved:
                change = compare(before.current.asked, version.asked)
                told: JsonObject = {"before": before.current.digest, "change": change.to_wire(), "rollback": True}
                moved = before.moved_to(version)
                return await self._bring(moved, shelved, by, ("plugin.updated", told))

    async def change(
        self,
        workspace: str,
        plugin_id: str,
        *,
        by: str,
        enabled: bool | None = None,
        workers: int | None = None,
        revision: int | None = None,
    ) -> Installed:
        """Switch a plugin on or off, or give it more or fewer workers. What runs may end."""
        async with self._locks[workspace, plugin_id]:
            before = self.get(workspace, plugin_id)
            check_revision("plugin", plugin_id, before.revision, revision)
            after = replace(
                before,
                enabled=before.enabled if enabled is None else enabled,
                workers=before.workers if workers is None else _check_workers(workers),
            )
            if after == before and (workspace, plugin_id) not in self._unusable:
                return before
            after = replace(after, revision=before.revision + 1)
            if after.enabled:
                async with self.taking.again(after.current.digest) as shelved:
                    return await self._bring(after, shelved, by, None)
            await self._changes.write(self._saved(after, by), lambda: self._switched_off(after))
            return after

    async def remove(self, workspace: str, plugin_id: str, by: str, revision: int | None = None) -> None:
        """Forget a plugin. Refused while something that people saved needs it."""
        async with self._locks[workspace, plugin_id]:
            installed = self.get(workspace, plugin_id)
            check_revision("plugin", plugin_id, installed.revision, revision)
            refuse_used(installed, self._agents.saved(workspace), self._bindings.all(workspace))
            change = SavedChange(
                kind="plugin", workspace=workspace, thing=plugin_id, revision=installed.revision + 1, by=by
            )
            told: JsonObject = {"plugin": plugin_id, "digest": installed.current.digest, "by": by}
            await self._changes.write(change, lambda: self._gone(installed), beside=[("plugin.removed", told)])
        await self.taking.sweep()

    # --- the parts of a change ---

    def _check_new(self, workspace: str, plugin_id: str) -> None:
        if self.find(workspace, plugin_id) is not None:
            raise Conflict(
                f"the plugin {plugin_id} is installed already",
                hint="an update is asked for by name: `bollard plugin update`, or PUT",
                plugin=plugin_id,
            )
        if len(self.of(workspace)) >= PLUGINS_PER_WORKSPACE:
            raise Conflict(f"the workspace has {PLUGINS_PER_WORKSPACE} plugins", hint="remove one that is not needed")
        self.check_name(workspace, plugin_id)
        present = self._fleet.find(workspace, plugin_id)
        if present is not None and present.origin != "dev":
            raise Conflict(
                f"the plugin {plugin_id} comes with the host or its settings",
                hint="give yours another author or name",
                plugin=plugin_id,
            )

    def check_name(self, workspace: str, plugin_id: str) -> None:
        """Refuse a name that people would take for that of another plugin here."""
        others = {each.plugin_id for each in self.of(workspace)}
        others |= {each.plugin_id for each in self._fleet.of(workspace) if each.plugin_id is not None}
        others |= {coming for there, coming in self._coming if there == workspace}
        if (other := lookalike(plugin_id, sorted(others))) is not None:
            raise Conflict(
                f"the plugin {plugin_id} could be taken for {other}, which is there",
                hint="remove that one first, or give this one a name of its own",
                plugin=plugin_id,
                other=other,
            )

    async def _bring(
        self,
        installed: Installed,
        shelved: StoredCode,
        by: str,
        event: tuple[str, JsonObject] | None,
        known: Version | None = None,
    ) -> Installed:
        """Prove the code, save it, put it in its place; or nothing of it. Tools that are defined otherwise than in the
        version that is `known` need a yes of their own, which is asked for when the code has said it."""
        if not installed.enabled:
            await self._changes.write(self._saved(installed, by), lambda: self._known(installed), beside=_beside(event))
            return installed
        if event is not None:
            await self._consented(installed, by)
        fitting = self._fit(installed, shelved)
        await self._fleet.prove(fitting)
        try:
            installed = pinned(installed, fitting, shelved, known)
        except HostError:
            await fitting.pool.stop(0)
            raise
        told = None if event is None else (event[0], {**_told(installed, by), **event[1]})
        try:
            await self._changes.write(
                self._saved(installed, by), lambda: self._placed(installed, fitting), beside=_beside(told)
            )
        except HostError:
            await fitting.pool.stop(0)
            raise
        return installed

    async def _consented(self, installed: Installed, by: str) -> None:
        """On disk before the code runs: who said yes to what."""
        data = encode_data({**_told(installed, by), "asks": installed.current.asked.to_wire()})
        record = NewRecord(
            workspace=installed.workspace, type="plugin.consented", data=data, created_ms=self._clock.now_ms()
        )
        await self._journal.commit(Entry(records=[record], size=len(data)))

    def _fit(self, installed: Installed, shelved: StoredCode) -> PoolPlacement:
        current = installed.current
        source = PluginSource(
            name=installed.name,
            path=shelved.path,
            workers=installed.workers,
            plugin_id=installed.plugin_id,
            digest=current.digest,
            env=current.asked.env,
        )
        pins = None if current.definitions is None else dict(current.definitions)
        return self._fleet.fit(
            installed.workspace, source, "installed", asked=current.asked, version=current.version, pins=pins
        )

    def _saved(self, installed: Installed, by: str) -> SavedChange:
        return SavedChange(
            kind="plugin",
            workspace=installed.workspace,
            thing=installed.plugin_id,
            revision=installed.revision,
            by=by,
            body=installed.to_wire(),
        )

    def _known(self, installed: Installed) -> None:
        self._installed[installed.workspace, installed.plugin_id] = installed

    def _placed(self, installed: Installed, fitting: PoolPlacement) -> None:
        self._known(installed)
        self._unusable.pop((installed.workspace, installed.plugin_id), None)
        self._fleet.place(fitting)

    def _switched_off(self, installed: Installed) -> None:
        self._known(installed)
        self._unusable.pop((installed.workspace, installed.plugin_id), None)
        self._fleet.take_away(installed.workspace, installed.plugin_id, "installed")

    def _gone(self, installed: Installed) -> None:
        key = (installed.workspace, installed.plugin_id)
        self._installed.pop(key, None)
        self._unusable.pop(key, None)
        self._fleet.take_away(*key, "installed")
        self._fleet.forget_log(*key)

    def _sweep(self) -> None:
        task = asyncio.create_task(self.taking.sweep())
        self._sweeping.add(task)
        task.add_done_callback(self._sweeping.discard)

    def _digests(self) -> frozenset[str]:
        """The code that must stay: in use, to go back to, or still running."""
        kept = {digest for each in self._installed.values() for digest in each.digests}
        return frozenset(kept | self._fleet.digests)


def _check_workers(workers: int) -> int:
    if not 1 <= workers <= _WORKERS:
        raise InvalidRequest(f"workers is {workers}", hint=f"use a number from 1 to {_WORKERS}", field="workers")
    return workers


def _told(installed: Installed, by: str) -> JsonObject:
    return {
        "plugin": installed.plugin_id,
        "version": installed.current.version,
        "digest": installed.current.digest,
        "source": installed.source,
        "by": by,
    }


def _beside(event: tuple[str, JsonObject] | None) -> list[tuple[str, JsonObject]]:
    return [] if event is None else [event]
