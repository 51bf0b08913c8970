"""`/plugins`: list, install, update, configure and remove plugins.

A plugin is the body of the request, a zip that is streamed to disk, or the name of a Python package in the host's
environment. Without consent the request is refused with the permissions to consent to.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.catalogue.sources import Catalogue, check_plugin
from bollard.host.errors import InvalidRequest, NotFound, PayloadTooLarge
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.operations import PAGE, OtherBody, QueryField
from bollard.host.http.queries import Pages, whole_number
from bollard.host.http.resources.declaration import DeclaredResource, answer, operation
from bollard.host.http.resources.plugin_shapes import (
    DETAILS,
    INSPECTED,
    LISTED,
    PLUGIN,
    ChangePlugin,
    InstallPackage,
    RollbackPlugin,
    details,
    inspected,
    listed,
    shown,
)
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.limits import PLUGIN_ARCHIVE_BYTES
from bollard.host.plugins.code_store import StoredCode
from bollard.host.plugins.description import describe, read_me
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.installation import SourceKind
from bollard.host.plugins.repository import PluginRepository
from bollard.protocol import JsonObject

ARCHIVE: Final = "application/zip"
ARCHIVE_BODY: Final = {ARCHIVE: OtherBody(schema={"type": "string", "format": "binary"})}
PLUGIN_PATH: Final = "/api/v1/plugins/{author}/{name}"
CONSENT: Final = QueryField(name="consent", summary="`details.consent` of the refusal.", most=64)
_SOURCE: Final = QueryField(
    name="source", summary="The origin of the archive, shown to people.", most=256, example="parrot.zip"
)
_WORKERS: Final = QueryField(name="workers", summary="Worker processes.", kind="number", least=1, most=64, default=1)
_REVISION: Final = QueryField(name="revision", summary="The edited revision.", kind="number", example=1)
_TAKEN: Final = (
    "consent_needed",
    "plugin_unusable",
    "conflict",
    "payload_too_large",
    "storage_full",
    "catalogue_unavailable",
)


class _Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """Uploaded code, and the parameters of its request."""

    shelved: StoredCode
    source: str
    kind: SourceKind
    consent: str | None
    workers: int


_PLUGINS: Final = "/api/v1/plugins"
_PLUGIN: Final = PLUGIN_PATH
_WHOLE: Final = PLUGIN.answer("The plugin as it is now.")


class Plugins(DeclaredResource):
    """The plugins of a workspace."""

    tag = "plugins"

    def __init__(self, *, fleet: PluginFleet, repository: PluginRepository, catalogue: Catalogue, pages: Pages) -> None:
        self._fleet = fleet
        self._repository = repository
        self._catalogue = catalogue
        self._pages = pages

    @operation(
        f"GET {_PLUGINS}",
        name="listPlugins",
        summary="List the plugins of the workspace, including those of every workspace.",
        right="plugins.read",
        query=PAGE,
        answers={200: LISTED.page("plugins")},
    )
    async def list(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        installed = {each.plugin_id: each for each in self._repository.of(workspace)}
        there = {each.plugin_id or each.source.name: each for each in self._fleet.of(workspace)}
        names = sorted({*installed, *there})

        def item(name: str) -> JsonObject:
            return listed(name, installed.get(name), there.get(name), self._repository.unusable(workspace, name))

        return self._pages.of_all(request, "plugins.list", names, lambda name: name, item)

    @operation(
        f"GET {_PLUGIN}",
        name="getPlugin",
        summary="Show one plugin: its permissions, versions, workers and their health.",
        right="plugins.read",
        editable=True,
        answers={200: _WHOLE},
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        workspace, plugin_id = caller_of(request).workspace, plugin_id_of(request)
        installed = self._repository.find(workspace, plugin_id)
        return revised(request, self._shown(workspace, plugin_id), 0 if installed is None else installed.revision)

    @operation(
        f"POST {_PLUGINS}",
        name="installPlugin",
        summary="Install a plugin: a zip, a wheel, a Python package of the host's environment, or an item of the "
        "catalogue.",
        description="Send an archive, or the name of a package or of an item. Without the right `consent` the request "
        "is refused with the requested permissions, and `details.consent` is the value to send. The host answers when "
        "the first worker has started. With an `Idempotency-Key` the host compares the length of an archive, not "
        "its content.",
        right="plugins.write",
        query=(CONSENT, _SOURCE, _WORKERS),
        body=InstallPackage,
        body_example={"package": "acme-parrot"},
        body_media=("application/json", ARCHIVE),
        other_bodies=ARCHIVE_BODY,
        repeat="head",
        answers={201: PLUGIN.answer("The plugin is installed.")},
        errors=(*_TAKEN, "not_found"),
    )
    async def install(self, request: Request) -> Response:
        caller = caller_of(request)
        async with self._arrival(request) as came:
            installed = await self._repository.install(
                caller.workspace,
                came.shelved,
                by=caller.name,
                consent=came.consent,
                source=came.source,
                source_kind=came.kind,
                workers=came.workers,
            )
        body = self._shown(caller.workspace, installed.plugin_id)
        return revised(request, body, installed.revision, status_code=201)

    @operation(
        f"POST {_PLUGINS}/inspect",
        name="inspectPlugin",
        summary="Read an uploaded plugin without installing it.",
        description="The answer has its permissions, its README, the difference to the installed version, and the "
        "`consent` to send with the installation. Its code is not executed, and nothing is kept.",
        right="plugins.write",
        query=(_SOURCE, _WORKERS),
        body=InstallPackage,
        body_example={"package": "acme-parrot"},
        body_media=("application/json", ARCHIVE),
        other_bodies=ARCHIVE_BODY,
        repeat="head",
        answers={200: INSPECTED.answer("The plugin as it was read.")},
        errors=("payload_too_large", "storage_full", "not_found", "catalogue_unavailable"),
    )
    async def inspect(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        async with self._arrival(request) as came:
            code = came.shelved
            installed = self._repository.find(workspace, code.described.plugin_id)
            readme = await asyncio.to_thread(read_me, code.path)
            return JsonAnswer(inspected(code, installed, readme))

    @operation(
        f"GET {_PLUGIN}/details",
        name="getPluginDetails",
        summary="Show what a plugin says about itself: its description, the permissions it asks for, and its README.",
        right="plugins.read",
        answers={200: DETAILS.answer("The details.")},
        errors=("not_found",),
    )
    async def get_details(self, request: Request) -> Response:
        workspace, plugin_id = caller_of(request).workspace, plugin_id_of(request)
        placement = next((each for each in self._fleet.of(workspace) if each.plugin_id == plugin_id), None)
        if placement is not None:
            return JsonAnswer(await asyncio.to_thread(_read_details, placement.source.path))
        installed = self._repository.find(workspace, plugin_id)
        if installed is None:
            raise _no_plugin()
        async with self._repository.uploads.stored(installed.current.digest) as code:
            return JsonAnswer(await asyncio.to_thread(_read_details, code.path))

    @operation(
        f"PUT {_PLUGIN}",
        name="updatePlugin",
        summary="Update an installed plugin. An update that asks for more permissions needs consent.",
        description="New runs get the new code; active runs keep theirs. Consent is needed only if the version asks "
        "for more than the previous one.",
        right="plugins.write",
        query=(CONSENT, _SOURCE, _REVISION),
        body=InstallPackage,
        body_example={"package": "acme-parrot"},
        body_media=("application/json", ARCHIVE),
        other_bodies=ARCHIVE_BODY,
        editable=True,
        answers={200: _WHOLE},
        errors=(*_TAKEN, "not_found", "precondition_failed"),
    )
    async def update(self, request: Request) -> Response:
        caller, plugin_id = caller_of(request), plugin_id_of(request)
        before = self._repository.get(caller.workspace, plugin_id)
        revision = edited_revision(request, before.revision)
        async with self._arrival(request) as came:
            with held_to_match(request):
                installed = await self._repository.update(
                    caller.workspace,
                    plugin_id,
                    came.shelved,
                    by=caller.name,
                    consent=came.consent,
                    source=came.source,
                    source_kind=came.kind,
                    revision=revision,
                )
        return revised(request, self._shown(caller.workspace, plugin_id), installed.revision)

    @operation(
        f"PATCH {_PLUGIN}",
        name="changePlugin",
        summary="Enable or disable a plugin, or set its number of workers.",
        right="plugins.write",
        body=ChangePlugin,
        body_example={"enabled": False},
        editable=True,
        answers={200: _WHOLE},
        errors=("not_found", "conflict", "precondition_failed", "plugin_unusable"),
    )
    async def change(self, request: Request) -> Response:
        caller, plugin_id = caller_of(request), plugin_id_of(request)
        raw = await read_body(request)
        body, before = parsed(ChangePlugin, raw), self._repository.get(caller.workspace, plugin_id)
        revision = edited_revision(request, before.revision, raw)
        with held_to_match(request):
            installed = await self._repository.change(
                caller.workspace,
                plugin_id,
                by=caller.name,
                enabled=body.enabled,
                workers=body.workers,
                revision=body.revision if revision is None else revision,
            )
        return revised(request, self._shown(caller.workspace, plugin_id), installed.revision)

    @operation(
        f"DELETE {_PLUGIN}",
        name="removePlugin",
        summary="Remove a plugin that no saved resource needs. Its active runs may end.",
        right="plugins.write",
        query=(_REVISION,),
        editable=True,
        answers={200: answer("The plugin is removed.", plugin_id="acme/parrot", deleted=True)},
        errors=("not_found", "conflict", "precondition_failed"),
    )
    async def remove(self, request: Request) -> Response:
        caller, plugin_id = caller_of(request), plugin_id_of(request)
        revision = edited_revision(request, self._repository.get(caller.workspace, plugin_id).revision)
        with held_to_match(request):
            await self._repository.remove(caller.workspace, plugin_id, caller.name, revision)
        return JsonAnswer({"plugin_id": plugin_id, "deleted": True})

    @operation(
        f"POST {_PLUGIN}/rollback",
        name="rollbackPlugin",
        summary="Roll back to an earlier version, which had consent before.",
        right="plugins.write",
        body=RollbackPlugin,
        body_example={},
        answers={200: _WHOLE},
        errors=("not_found", "conflict", "plugin_unusable"),
    )
    async def rollback(self, request: Request) -> Response:
        caller, plugin_id = caller_of(request), plugin_id_of(request)
        body = parsed(RollbackPlugin, await read_body(request))
        installed = await self._repository.rollback(caller.workspace, plugin_id, body.digest, caller.name)
        return revised(request, self._shown(caller.workspace, plugin_id), installed.revision)

    @operation(
        f"POST {_PLUGIN}/restart",
        name="restartPlugin",
        summary="Restart the workers of a plugin, and end its quarantine.",
        right="plugins.write",
        answers={202: PLUGIN.answer("The new workers are being started.")},
        errors=("not_found", "conflict"),
    )
    async def restart(self, request: Request) -> Response:
        workspace, plugin_id = caller_of(request).workspace, plugin_id_of(request)
        fitting = self._fleet.find(workspace, plugin_id)
        if fitting is None:
            self._repository.get(workspace, plugin_id)  # installed, but disabled
            raise NotFound(
                "the plugin has no workers", reason="plugin_disabled", hint="enable it first", plugin=plugin_id
            )
        fitting.pool.restart()
        return JsonAnswer(self._shown(workspace, plugin_id), status_code=202)

    @asynccontextmanager
    async def _arrival(self, request: Request) -> AsyncGenerator[_Arrival]:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        query, uploads, workspace = request.query_params, self._repository.uploads, caller_of(request).workspace
        if media == ARCHIVE:
            check_archive(request)
            workers = whole_number(request, "workers", "use a number from 1 to 64")
            async with uploads.archive(request.stream(), workspace) as shelved:
                yield _Arrival(
                    shelved=shelved,
                    source=query.get("source", "an archive"),
                    kind="upload",
                    consent=query.get("consent"),
                    workers=workers or 1,
                )
            return
        if media != "application/json":
            raise InvalidRequest(
                "the body is neither a zip nor JSON",
                reason="plugin_body",
                hint=f"send the plugin as {ARCHIVE}, or {{'package': …}} as application/json",
                field="content-type",
            )
        body = parsed(InstallPackage, await read_body(request))
        consent = body.consent or query.get("consent")
        if body.package is not None and body.catalogue is None:
            async with uploads.package(body.package) as (shelved, described):
                yield _Arrival(shelved=shelved, source=described, kind="package", consent=consent, workers=body.workers)
        elif body.catalogue is not None and body.package is None:
            item, archive = await self._catalogue.plugin(body.catalogue)
            async with uploads.archive(_pieces(archive), workspace) as shelved:
                check_plugin(item, shelved.described)
                yield _Arrival(
                    shelved=shelved, source=body.catalogue, kind="catalogue", consent=consent, workers=body.workers
                )
        else:
            raise InvalidRequest(
                "the body needs package or catalogue",
                reason="plugin_origin",
                hint="send one of the two",
                field="package",
            )

    def _shown(self, workspace: str, plugin_id: str) -> JsonObject:
        installed, fitting = self._repository.find(workspace, plugin_id), self._fleet.find(workspace, plugin_id)
        if installed is None and fitting is None:
            raise _no_plugin()
        leaving, unusable = self._fleet.leaving(workspace, plugin_id), self._repository.unusable(workspace, plugin_id)
        return shown(plugin_id, installed, fitting, leaving, unusable)


def plugin_id_of(request: Request) -> str:
    return f"{request.path_params['author']}/{request.path_params['name']}"


def check_archive(request: Request) -> None:
    """Refuse a body that cannot be a plugin before it is read."""
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > PLUGIN_ARCHIVE_BYTES:
        raise PayloadTooLarge(
            f"the archive is larger than {PLUGIN_ARCHIVE_BYTES} bytes",
            reason="archive_too_large",
            hint="leave out large files",
            field="body",
            most=PLUGIN_ARCHIVE_BYTES,
        )


def _no_plugin() -> NotFound:
    return NotFound("there is no such plugin", reason="no_plugin", hint="`bollard plugin list` lists them")


def _read_details(path: Path) -> JsonObject:
    """Blocks. Raises `InvalidRequest`."""
    return details(describe(path), read_me(path))


async def _pieces(data: bytes) -> AsyncGenerator[bytes]:
    yield data
