"""`/plugins/…/dev`: code under development, which covers what is installed while its developer's command is there."""

import time

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.callers import caller_of
from bollard.host.http.operations import Answer, Operation
from bollard.host.http.plugins import ARCHIVE, CONSENT, PLUGIN_PATH, check_archive, plugin_id_of
from bollard.host.http.schemas import FLAG, NUMBER, TEXT, array_of, fields
from bollard.host.plugins.taking import Taking
from bollard.host.plugins.workbench import Workbench

__all__ = ["PluginDev"]


class PluginDev:
    """The workbench of a workspace."""

    def __init__(self, *, taking: Taking, workbench: Workbench) -> None:
        self._taking = taking
        self._workbench = workbench

    @staticmethod
    def operations() -> list[Operation]:
        dev = f"{PLUGIN_PATH}/dev"
        change = fields(added=array_of(TEXT), removed=array_of(TEXT))
        put = fields(plugin_id=TEXT, version=TEXT, digest=TEXT, change=change, took_ms=NUMBER)
        return [
            Operation(
                method="PUT",
                path=dev,
                handler=PluginDev.put,
                name="developPlugin",
                tag="plugins",
                summary="Put code that is not installed in use, until it is taken away or nobody keeps it.",
                description="It covers what is installed and is not saved. It is taken away when it is deleted, "
                "when the host stops, or when nobody said for 60 s that the developer is there.",
                right="plugins.write",
                query=(CONSENT,),
                body={"type": "string", "format": "binary"},
                body_media=(ARCHIVE,),
                answers={
                    200: Answer(
                        summary="It is in use.",
                        schema=put,
                        example={
                            "plugin_id": "acme/parrot",
                            "version": "1.2.0",
                            "digest": "9f2c1e" + "0" * 58,
                            "change": {"added": ["history.page"], "removed": []},
                            "took_ms": 41,
                        },
                    )
                },
                errors=("consent_needed", "plugin_unusable", "conflict", "payload_too_large"),
            ),
            Operation(
                method="POST",
                path=dev,
                handler=PluginDev.keep,
                name="keepPluginDev",
                tag="plugins",
                summary="Say that the developer is still there.",
                right="plugins.write",
                answers={
                    200: Answer(
                        summary="It stays.", schema=fields(plugin_id=TEXT), example={"plugin_id": "acme/parrot"}
                    )
                },
                errors=("not_found",),
            ),
            Operation(
                method="DELETE",
                path=dev,
                handler=PluginDev.remove,
                name="endPluginDev",
                tag="plugins",
                summary="Take code under development away; what it covered is in use again.",
                right="plugins.write",
                answers={
                    200: Answer(
                        summary="It is gone.",
                        schema=fields(plugin_id=TEXT, deleted=FLAG),
                        example={"plugin_id": "acme/parrot", "deleted": True},
                    )
                },
                errors=("not_found",),
            ),
        ]

    async def put(self, request: Request) -> Response:
        caller, plugin_id = caller_of(request), plugin_id_of(request)
        check_archive(request)
        began = time.monotonic()
        async with self._taking.archive(request.stream(), caller.workspace) as shelved:
            said = shelved.described
            if said.plugin_id != plugin_id:
                raise InvalidRequest(
                    f"the archive holds {said.plugin_id}, not {plugin_id}", hint="name it in the path", field="body"
                )
            change = await self._workbench.put(
                caller.workspace, shelved, by=caller.name, consent=request.query_params.get("consent")
            )
        return JsonAnswer(
            {
                "plugin_id": plugin_id,
                "version": said.version,
                "digest": shelved.digest,
                "change": change.to_wire(),
                "took_ms": round((time.monotonic() - began) * 1000),
            }
        )

    async def keep(self, request: Request) -> Response:
        plugin_id = plugin_id_of(request)
        self._workbench.touch(caller_of(request).workspace, plugin_id)
        return JsonAnswer({"plugin_id": plugin_id})

    async def remove(self, request: Request) -> Response:
        caller, plugin_id = caller_of(request), plugin_id_of(request)
        await self._workbench.remove(caller.workspace, plugin_id, caller.name)
        return JsonAnswer({"plugin_id": plugin_id, "deleted": True})
