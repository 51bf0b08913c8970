"""Installs, updates, rolls back and removes plugins.

Changes of one plugin run one after the other. The consent is recorded before any of the code runs; the new code is
started beside the old, then saved, then put in use. Code that fails to start changes nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
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
from bollard.host.plugins.description import Description
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.installation import (
    Installed,
    SourceKind,
    Version,
    check_consent,
    check_unused,
    compare,
    lookalike,
    pin_definitions,
)
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.plugins.sandbox_access import check_roots
from bollard.host.plugins.uploads import PluginUploads
from bollard.host.reason import Why, why_error
from bollard.host.store.store import Store
from bollard.host.workers.boundary import PluginSource
from bollard.protocol import JsonObject

_WORKERS: Final = 64
"""Worker processes that one plugin may have in a workspace."""
_decode: Final = msgspec.json.Decoder().decode
_Key = tuple[str, str]


class PluginRepository:
    """The installed plugins of every workspace. One per host."""

    def __init__(
        self,
        *,
        fleet: PluginFleet,
        code_store: CodeStore,
        journal: Journal,
        store: Store,
        clock: Clock,
        agents: AgentRegistry,
        bindings: BindingRegistry,
        sandbox_roots: Iterable[Path] = (),
    ) -> None:
        self._fleet = fleet
        self._code_store = code_store
        self._journal = journal
        self._store = store
        self._clock = clock
        self._agents = agents
        self._bindings = bindings
        self._sandbox_roots = tuple(sandbox_roots)
        self._changes = SavedChanges(journal, clock)
        self._installed: dict[_Key, Installed] = {}
        self._unusable: dict[_Key, Why] = {}
        """Why the code of an installed plugin could not be loaded at the start."""
        self._installing: set[_Key] = set()
        """Plugins being installed; their names are reserved."""
        self._locks: defaultdict[_Key, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.uploads = PluginUploads(code_store, self._digests)
        self._sweeps: set[asyncio.Task[None]] = set()
        fleet.watch(self._sweep)

    async def load(self) -> None:
        """Load the installed plugins of every workspace; their workers start with the fleet. An unreadable row fails
        the start. Missing or changed code does not: that plugin is not run."""
        await asyncio.to_thread(self._code_store.open)
        for row in await asyncio.to_thread(self._store.policies_everywhere, "plugin"):
            try:
                installed = Installed.from_wire(_decode(row.body), row.workspace, row.revision)
            except (KeyError, TypeError, AttributeError) as error:
                raise unreadable(
                    "plugin", row, InvalidRequest(f"{type(error).__name__}: {error}", reason="saved_plugin")
                ) from error
            key = (installed.workspace, installed.plugin_id)
            self._installed[key] = installed
            if installed.enabled and self._fleet.is_open(row.workspace):
                try:
                    code = await asyncio.to_thread(self._code_store.find, installed.current.digest)
                    self._check_paths(code.described)
                except HostError as error:
                    self._unusable[key] = why_error(error)
                else:
                    self._fleet.place(self._build_placement(installed, code))
        await self.uploads.sweep()

    # --- reading ---

    def of(self, workspace: str) -> list[Installed]:
        plugins = [each for (owner, _), each in self._installed.items() if owner == workspace]
        return sorted(plugins, key=lambda each: each.plugin_id)

    def find(self, workspace: str, plugin_id: str) -> Installed | None:
        return self._installed.get((workspace, plugin_id))

    def get(self, workspace: str, plugin_id: str) -> Installed:
        """Raises `NotFound`, or `Conflict` for a plugin that is in use but not installed."""
        installed = self.find(workspace, plugin_id)
        if installed is not None:
            return installed
        placement = self._fleet.find(workspace, plugin_id)
        if placement is not None and placement.origin == "remote":
            raise Conflict(
                f"the plugin {plugin_id} comes from a remote runtime",
                reason="plugin_is_remote",
                hint="disable or revoke the runtime instead: `bollard runtimes`",
                plugin=plugin_id,
            )
        if placement is not None:
            raise Conflict(
                f"the plugin {plugin_id} comes with the host or its settings, and is in every workspace",
                reason="plugin_is_shared",
                hint="change the settings `plugins` and `builtin_plugins` instead",
                plugin=plugin_id,
            )
        raise NotFound(
            "there is no such plugin", reason="plugin", hint="`bollard plugin list` names them", plugin=plugin_id
        )

    def unusable(self, workspace: str, plugin_id: str) -> Why | None:
        """Why the code of an installed plugin could not be loaded; `None` if it was."""
        return self._unusable.get((workspace, plugin_id))

    # --- changing ---

    async def install(
        self,
        workspace: str,
        code: StoredCode,
        *,
        by: str,
        consent: str | None,
        source: str,
        source_kind: SourceKind = "upload",
        workers: int = 1,
    ) -> Installed:
        """Install a new plugin. Raises `Conflict`, `ConsentNeeded`, `PluginUnusable`."""
        described, key = code.described, (workspace, code.described.plugin_id)
        async with self._locks[key]:
            self._check_new(workspace, described.plugin_id)
            await self.admit_paths(workspace, described, by)
            change = check_consent(code.digest, described, None, consent)
            installed = Installed(
                workspace=workspace,
                author=described.author,
                name=described.name,
                current=Version.of(code, by, self._clock.now_ms()),
                workers=_check_workers(workers),
                source=source,
                source_kind=source_kind,
            )
            self._installing.add(key)
            try:
                return await self._deploy(installed, code, by, ("plugin.installed", {"change": change.to_wire()}))
            finally:
                self._installing.discard(key)

    async def update(
        self,
        workspace: str,
        plugin_id: str,
        code: StoredCode,
        *,
        by: str,
        consent: str | None,
        source: str,
        source_kind: SourceKind = "upload",
        revision: int | None = None,
    ) -> Installed:
        """Install another version of a plugin. Needs consent only for access beyond that of the current version."""
        async with self._locks[workspace, plugin_id]:
            before = self.get(workspace, plugin_id)
            check_revision("plugin", plugin_id, before.revision, revision)
            if code.described.plugin_id != plugin_id:
                raise InvalidRequest(
                    f"the archive contains the plugin {code.described.plugin_id}, not {plugin_id}",
                    reason="plugin_other",
                    hint="install it as a new plugin",
                    field="body",
                    plugin=plugin_id,
                    found=code.described.plugin_id,
                )
            if code.digest == before.current.digest and (workspace, plugin_id) not in self._unusable:
                return before  # the same code again repairs a plugin whose code was missing
            await self.admit_paths(workspace, code.described, by)
            change = check_consent(code.digest, code.described, before.current.access, consent)
            after = before.with_version(Version.of(code, by, self._clock.now_ms()))
            after = replace(after, source=source, source_kind=source_kind)
            data: JsonObject = {"before": before.current.digest, "change": change.to_wire()}
            known = None if consent is not None else before.current
            return await self._deploy(after, code, by, ("plugin.updated", data), known)

    async def rollback(self, workspace: str, plugin_id: str, digest: str | None, by: str) -> Installed:
        """Return to an earlier version, by default the latest of them. It needs no new consent."""
        async with self._locks[workspace, plugin_id]:
            before = self.get(workspace, plugin_id)
            matches = [each for each in before.earlier if digest is None or each.digest.startswith(digest)]
            if not matches or (digest is not None and len(matches) > 1):
                raise NotFound(
                    "there is no such earlier version",
                    reason="plugin_version",
                    hint="`bollard plugin show` lists the versions",
                    plugin=plugin_id,
                )
            version = matches[0]
            async with self.uploads.stored(version.digest) as code:
                await self.admit_paths(workspace, code.described, by)
                change = compare(before.current.access, version.access)
                data: JsonObject = {"before": before.current.digest, "change": change.to_wire(), "rollback": True}
                return await self._deploy(before.with_version(version), code, by, ("plugin.updated", data))

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
        """Enable or disable a plugin, or change its number of workers. Active runs may finish."""
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
                async with self.uploads.stored(after.current.digest) as code:
                    await self.admit_paths(workspace, code.described, by)
                    return await self._deploy(after, code, by, None)
            await self._changes.write(_change_of(after, by), lambda: self._apply_disabled(after))
            return after

    async def remove(self, workspace: str, plugin_id: str, by: str, revision: int | None = None) -> None:
        """Remove a plugin. Raises `Conflict` while a saved agent or a binding needs it."""
        async with self._locks[workspace, plugin_id]:
            installed = self.get(workspace, plugin_id)
            check_revision("plugin", plugin_id, installed.revision, revision)
            check_unused(installed, self._agents.saved(workspace), self._bindings.all(workspace))
            change = SavedChange(
                kind="plugin", workspace=workspace, id=plugin_id, revision=installed.revision + 1, by=by
            )
            data: JsonObject = {"plugin": plugin_id, "digest": installed.current.digest, "by": by}
            await self._changes.write(change, lambda: self._apply_removed(installed), beside=[("plugin.removed", data)])
        await self.uploads.sweep()

    # --- steps of a change ---

    def _check_new(self, workspace: str, plugin_id: str) -> None:
        if self.find(workspace, plugin_id) is not None:
            raise Conflict(
                f"the plugin {plugin_id} is installed already",
                reason="plugin_installed",
                hint="update it instead: `bollard plugin update`, or PUT",
                plugin=plugin_id,
            )
        if len(self.of(workspace)) >= PLUGINS_PER_WORKSPACE:
            raise Conflict(
                f"the workspace has {PLUGINS_PER_WORKSPACE} plugins, which is the limit",
                reason="plugin_limit",
                hint="remove a plugin that you do not need",
                limit=PLUGINS_PER_WORKSPACE,
            )
        self.check_name(workspace, plugin_id)
        present = self._fleet.find(workspace, plugin_id)
        if present is not None and present.origin != "dev":
            raise Conflict(
                f"the plugin {plugin_id} comes with the host or its settings",
                reason="plugin_name_shared",
                hint="choose another author or name",
                plugin=plugin_id,
            )

    def check_name(self, workspace: str, plugin_id: str) -> None:
        """Raise `Conflict` for a name that looks like that of another plugin in the workspace."""
        others = {each.plugin_id for each in self.of(workspace)}
        others |= {each.plugin_id for each in self._fleet.of(workspace) if each.plugin_id is not None}
        others |= {installing for owner, installing in self._installing if owner == workspace}
        if (other := lookalike(plugin_id, sorted(others))) is not None:
            raise Conflict(
                f"the name of the plugin {plugin_id} looks like {other}, which is in the workspace",
                reason="plugin_lookalike",
                hint="remove the other plugin first, or choose another name",
                plugin=plugin_id,
                other=other,
            )

    async def admit_paths(self, workspace: str, described: Description, by: str) -> None:
        """Raise `InvalidRequest` for a path outside of the roots that the operator allows, and record the refusal."""
        try:
            self._check_paths(described)
        except InvalidRequest as error:
            data = encode_data({"plugin": described.plugin_id, "by": by, "path": error.details["path"]})
            record = NewRecord(workspace=workspace, type="plugin.refused", data=data, created_ms=self._clock.now_ms())
            await self._journal.commit(Entry(records=[record], size=len(data)))
            raise

    def _check_paths(self, described: Description) -> None:
        check_roots(described.plugin_id, described.access.sandbox, self._sandbox_roots)

    async def _deploy(
        self,
        installed: Installed,
        code: StoredCode,
        by: str,
        event: tuple[str, JsonObject] | None,
        known: Version | None = None,
    ) -> Installed:
        """Start the code, save it and put it in use, or change nothing. A tool whose definition differs from that in
        the version `known` needs consent of its own (`ConsentNeeded`), which is known only after the start."""
        if not installed.enabled:
            change = _change_of(installed, by)
            await self._changes.write(change, lambda: self._apply_saved(installed), beside=_records(event))
            return installed
        if event is not None:
            await self._record_consent(installed, by)
        placement = self._build_placement(installed, code)
        await self._fleet.prove(placement)
        try:
            installed = pin_definitions(installed, placement, code, known)
        except HostError:
            await placement.pool.stop(0)
            raise
        record = None if event is None else (event[0], {**_record_data(installed, by), **event[1]})
        try:
            await self._changes.write(
                _change_of(installed, by), lambda: self._apply_placed(installed, placement), beside=_records(record)
            )
        except HostError:
            await placement.pool.stop(0)
            raise
        return installed

    async def _record_consent(self, installed: Installed, by: str) -> None:
        """Commit who consented to which access, before the code runs."""
        data = encode_data({**_record_data(installed, by), "asks": installed.current.access.to_wire()})
        record = NewRecord(
            workspace=installed.workspace, type="plugin.consented", data=data, created_ms=self._clock.now_ms()
        )
        await self._journal.commit(Entry(records=[record], size=len(data)))

    def _build_placement(self, installed: Installed, code: StoredCode) -> PoolPlacement:
        current = installed.current
        source = PluginSource(
            name=installed.name,
            path=code.path,
            workers=installed.workers,
            plugin_id=installed.plugin_id,
            version=current.version,
            digest=current.digest,
            env=current.access.env,
            command=current.access.command,
            sandbox=current.access.sandbox,
        )
        pins = None if current.definitions is None else dict(current.definitions)
        return self._fleet.build_placement(
            installed.workspace, source, "installed", access=current.access, version=current.version, pins=pins
        )

    def _apply_saved(self, installed: Installed) -> None:
        self._installed[installed.workspace, installed.plugin_id] = installed

    def _apply_placed(self, installed: Installed, placement: PoolPlacement) -> None:
        self._apply_saved(installed)
        self._unusable.pop((installed.workspace, installed.plugin_id), None)
        self._fleet.place(placement)

    def _apply_disabled(self, installed: Installed) -> None:
        self._apply_saved(installed)
        self._unusable.pop((installed.workspace, installed.plugin_id), None)
        self._fleet.remove(installed.workspace, installed.plugin_id, "installed")

    def _apply_removed(self, installed: Installed) -> None:
        key = (installed.workspace, installed.plugin_id)
        self._installed.pop(key, None)
        self._unusable.pop(key, None)
        self._fleet.remove(*key, "installed")
        self._fleet.forget_log(*key)

    def _sweep(self) -> None:
        task = asyncio.create_task(self.uploads.sweep())
        self._sweeps.add(task)
        task.add_done_callback(self._sweeps.discard)

    def _digests(self) -> frozenset[str]:
        """The code that must stay stored: current versions, earlier versions, and code that still runs."""
        installed = {digest for each in self._installed.values() for digest in each.digests}
        return frozenset(installed | self._fleet.digests)


def _check_workers(workers: int) -> int:
    if not 1 <= workers <= _WORKERS:
        raise InvalidRequest(
            f"workers is {workers}",
            reason="plugin_workers",
            hint=f"use a number from 1 to {_WORKERS}",
            field="workers",
            workers=workers,
            limit=_WORKERS,
        )
    return workers


def _change_of(installed: Installed, by: str) -> SavedChange:
    return SavedChange(
        kind="plugin",
        workspace=installed.workspace,
        id=installed.plugin_id,
        revision=installed.revision,
        by=by,
        body=installed.to_wire(),
    )


def _record_data(installed: Installed, by: str) -> JsonObject:
    return {
        "plugin": installed.plugin_id,
        "version": installed.current.version,
        "digest": installed.current.digest,
        "source": installed.source,
        "by": by,
    }


def _records(event: tuple[str, JsonObject] | None) -> list[tuple[str, JsonObject]]:
    return [] if event is None else [event]
