"""`/plugins/…/dev`: plugins under development, which replace the installed version while the developer's command
runs."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.schemas import ANY, NUMBER, SSE, STREAM, TEXT, array_of, fields, named
from bollard.host.http.operations import Answer, HeaderField, QueryField
from bollard.host.http.queries import whole_number
from bollard.host.http.resources.declaration import DeclaredResource, answer, operation
from bollard.host.http.resources.plugins import ARCHIVE, CONSENT, PLUGIN_PATH, check_archive, plugin_id_of
from bollard.host.http.streams.sse import EventStream
from bollard.host.limits import KEEP_ALIVE_S, PLUGIN_LOG_LINES
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.logs import LogLine, PluginLog
from bollard.host.plugins.repository import PluginRepository
from bollard.host.plugins.uploads import PluginUploads
from bollard.host.plugins.workbench import Workbench
from bollard.host.runs.hub import StreamRecord
from bollard.protocol import JsonObject
from bollard.wire import encode

_DEV: Final = f"{PLUGIN_PATH}/dev"
_CHANGE: Final = fields(added=array_of(TEXT), removed=array_of(TEXT))
_PUT: Final = fields(plugin_id=TEXT, version=TEXT, digest=TEXT, change=_CHANGE, took_ms=NUMBER)


class PluginDev(DeclaredResource):
    """The development plugins of a workspace."""

    tag = "plugins"

    def __init__(self, *, taking: PluginUploads, workbench: Workbench) -> None:
        self._taking = taking
        self._workbench = workbench

    @operation(
        f"PUT {_DEV}",
        name="developPlugin",
        summary="Load a plugin under development. It replaces the installed version temporarily.",
        description="The plugin is not saved. It is removed when it is deleted, when the host stops, or after 60 s "
        "without a renewal.",
        right="plugins.write",
        query=(CONSENT,),
        body={"type": "string", "format": "binary"},
        body_media=(ARCHIVE,),
        answers={
            200: Answer(
                summary="The plugin is in use.",
                schema=_PUT,
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
    )
    async def put(self, request: Request) -> Response:
        caller, plugin_id = caller_of(request), plugin_id_of(request)
        check_archive(request)
        began = time.monotonic()
        async with self._taking.archive(request.stream(), caller.workspace) as shelved:
            described = shelved.described
            if described.plugin_id != plugin_id:
                raise InvalidRequest(
                    f"the archive contains {described.plugin_id}, not {plugin_id}",
                    reason="archive_of_other_plugin",
                    hint="name that plugin in the path",
                    field="body",
                    plugin=described.plugin_id,
                    expected=plugin_id,
                )
            change = await self._workbench.put(
                caller.workspace, shelved, by=caller.name, consent=request.query_params.get("consent")
            )
        return JsonAnswer(
            {
                "plugin_id": plugin_id,
                "version": described.version,
                "digest": shelved.digest,
                "change": change.to_wire(),
                "took_ms": round((time.monotonic() - began) * 1000),
            }
        )

    @operation(
        f"POST {_DEV}",
        name="keepPluginDev",
        summary="Renew a plugin under development, so that it stays loaded.",
        right="plugins.write",
        answers={200: answer("It stays.", plugin_id="acme/parrot")},
        errors=("not_found",),
    )
    async def keep(self, request: Request) -> Response:
        plugin_id = plugin_id_of(request)
        self._workbench.touch(caller_of(request).workspace, plugin_id)
        return JsonAnswer({"plugin_id": plugin_id})

    @operation(
        f"DELETE {_DEV}",
        name="endPluginDev",
        summary="Remove a plugin under development. The installed version is used again.",
        right="plugins.write",
        answers={200: answer("The plugin is removed.", plugin_id="acme/parrot", deleted=True)},
        errors=("not_found",),
    )
    async def remove(self, request: Request) -> Response:
        caller, plugin_id = caller_of(request), plugin_id_of(request)
        await self._workbench.remove(caller.workspace, plugin_id, caller.name)
        return JsonAnswer({"plugin_id": plugin_id, "deleted": True})


# `/plugins/…/logs`: recent output of a plugin's workers, as a page or as a stream.


_AT_ONCE: Final = 200
"""Lines of one page, and of one batch of a stream."""
_LINE: Final = named(
    "LogLine",
    fields(
        {"pid": NUMBER, "run_id": TEXT, "fields": ANY}, number=NUMBER, at_ms=NUMBER, kind=TEXT, level=TEXT, text=TEXT
    ),
)
_AFTER: Final = QueryField(name="after", summary="The number of the last known line.", kind="number", example=1)
_LIMIT: Final = QueryField(
    name="limit",
    summary="The largest number of lines.",
    kind="number",
    least=1,
    most=PLUGIN_LOG_LINES,
    default=_AT_ONCE,
)
LAST_LINE: Final = HeaderField(name="Last-Event-ID", summary="The last id that the client received.", example="1.1")


_EXAMPLE: Final[JsonObject] = {"number": 1, "at_ms": 0, "kind": "stdout", "level": "info", "text": "hello", "pid": 4711}


class PluginLogs(DeclaredResource):
    """The logs of a workspace's plugins."""

    tag = "plugins"

    def __init__(self, *, fleet: PluginFleet, repository: PluginRepository) -> None:
        self._fleet = fleet
        self._repository = repository

    @operation(
        f"GET {PLUGIN_PATH}/logs",
        name="getPluginLogs",
        summary="List the newest log lines of a plugin's workers, or those after a number; oldest first.",
        right="plugins.read",
        query=(_LIMIT, _AFTER),
        answers={200: Answer(summary="Lines.", schema=fields(items=array_of(_LINE)), example={"items": [_EXAMPLE]})},
        errors=("not_found",),
    )
    async def read(self, request: Request) -> Response:
        log = self._log(request)
        limit = whole_number(request, "limit", "send a number of lines") or _AT_ONCE
        after = whole_number(request, "after", "send the number of a line")
        lines = log.last(limit) if after is None else log.after(after, limit)
        return JsonAnswer({"items": [line.to_wire() for line in lines]})

    @operation(
        f"GET {PLUGIN_PATH}/logs/stream",
        name="streamPluginLogs",
        summary="Stream the log lines of a plugin's workers, after `Last-Event-ID` or `after`.",
        right="plugins.read",
        ticket=True,
        query=(_AFTER,),
        headers=(LAST_LINE,),
        answers={
            200: Answer(
                summary="Events of type `line`.",
                schema=SSE,
                example=f"id: 1.1\nevent: line\ndata: {encode(_EXAMPLE).decode()}\n\n",
                media_type=STREAM,
            )
        },
        errors=("not_found", "rate_limited"),
    )
    async def stream(self, request: Request) -> ASGIApp:
        log = self._log(request)
        after = _last_id(request)
        if after is None:
            after = whole_number(request, "after", "send the number of a line") or 0
        log.check_room()
        return EventStream(_batches(log, after))

    def _log(self, request: Request) -> PluginLog:
        workspace, plugin_id = caller_of(request).workspace, plugin_id_of(request)
        if self._fleet.find(workspace, plugin_id) is None and self._repository.find(workspace, plugin_id) is None:
            raise NotFound("there is no such plugin", reason="no_plugin", hint="`bollard plugin list` lists them")
        return self._fleet.log_of(workspace, plugin_id)


def _last_id(request: Request) -> int | None:
    header = request.headers.get("last-event-id")
    if header is None:
        return None
    number = header.rpartition(".")[2]
    if not number.isascii() or not number.isdigit() or len(number) > 15:
        raise InvalidRequest(
            "Last-Event-ID is not a line number",
            reason="last_event_id",
            hint="send the id of the last event",
            field="last-event-id",
        )
    return int(number)


async def _batches(log: PluginLog, after: int) -> AsyncGenerator[list[StreamRecord]]:
    """The existing lines, then new ones. Empty batches keep the connection open."""
    with log.reading():
        while not log.closed:
            came = log.came
            if lines := log.after(after, _AT_ONCE):
                after = lines[-1].number
                yield [_record(line) for line in lines]
                continue
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await came.wait()
            except TimeoutError:
                yield []


def _record(line: LogLine) -> StreamRecord:
    return StreamRecord(epoch=1, seq=line.number, type="line", json=encode(line.to_wire()))
