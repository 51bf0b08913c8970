"""`/plugins/…/logs`: what the workers of a plugin said lately, at once or as it comes."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.callers import caller_of
from bollard.host.http.operations import Answer, HeaderField, Operation, QueryField
from bollard.host.http.plugins import PLUGIN_PATH, plugin_id_of
from bollard.host.http.queries import whole_number
from bollard.host.http.schemas import ANY, NUMBER, SSE, STREAM, TEXT, array_of, fields, named
from bollard.host.http.sse import EventStream
from bollard.host.limits import KEEP_ALIVE_S, PLUGIN_LOG_LINES
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.keeping import PluginKeeper
from bollard.host.plugins.logs import LogLine, PluginLog
from bollard.host.runs.hub import StreamRecord
from bollard.protocol import JsonObject
from bollard.wire import encode

__all__ = ["PluginLogs"]

_AT_ONCE: Final = 200
"""Lines of one page, and of one batch of a stream."""
_LINE: Final = named(
    "LogLine",
    fields(
        {"pid": NUMBER, "run_id": TEXT, "fields": ANY}, number=NUMBER, at_ms=NUMBER, kind=TEXT, level=TEXT, text=TEXT
    ),
)
_AFTER: Final = QueryField(name="after", summary="The number of the last line that is known.", kind="number", example=1)
_LIMIT: Final = QueryField(
    name="limit", summary="How many lines.", kind="number", least=1, most=PLUGIN_LOG_LINES, default=_AT_ONCE
)
LAST_LINE: Final = HeaderField(name="Last-Event-ID", summary="The last id that was seen.", example="1.1")


class PluginLogs:
    """The logs of a workspace's plugins."""

    def __init__(self, *, fleet: PluginFleet, keeper: PluginKeeper) -> None:
        self._fleet = fleet
        self._keeper = keeper

    @staticmethod
    def operations() -> list[Operation]:
        example: JsonObject = {"number": 1, "at_ms": 0, "kind": "stdout", "level": "info", "text": "hello", "pid": 4711}
        return [
            Operation(
                method="GET",
                path=f"{PLUGIN_PATH}/logs",
                handler=PluginLogs.read,
                name="getPluginLogs",
                tag="plugins",
                summary="The newest lines of a plugin's workers, or those behind a number; oldest first.",
                right="plugins.read",
                query=(_LIMIT, _AFTER),
                answers={
                    200: Answer(summary="Lines.", schema=fields(items=array_of(_LINE)), example={"items": [example]})
                },
                errors=("not_found",),
            ),
            Operation(
                method="GET",
                path=f"{PLUGIN_PATH}/logs/stream",
                handler=PluginLogs.stream,
                name="streamPluginLogs",
                tag="plugins",
                summary="The lines of a plugin's workers as they come, behind `Last-Event-ID` or `after`.",
                right="plugins.read",
                ticket=True,
                query=(_AFTER,),
                headers=(LAST_LINE,),
                answers={
                    200: Answer(
                        summary="Events of type `line`.",
                        schema=SSE,
                        example=f"id: 1.1\nevent: line\ndata: {encode(example).decode()}\n\n",
                        media_type=STREAM,
                    )
                },
                errors=("not_found", "rate_limited"),
            ),
        ]

    async def read(self, request: Request) -> Response:
        log = self._log(request)
        limit = whole_number(request, "limit", "send a number of lines") or _AT_ONCE
        after = whole_number(request, "after", "send the number of a line")
        lines = log.last(limit) if after is None else log.after(after, limit)
        return JsonAnswer({"items": [line.to_wire() for line in lines]})

    async def stream(self, request: Request) -> ASGIApp:
        log = self._log(request)
        after = _last_id(request)
        if after is None:
            after = whole_number(request, "after", "send the number of a line") or 0
        log.check_room()
        return EventStream(_batches(log, after))

    def _log(self, request: Request) -> PluginLog:
        workspace, plugin_id = caller_of(request).workspace, plugin_id_of(request)
        if self._fleet.find(workspace, plugin_id) is None and self._keeper.find(workspace, plugin_id) is None:
            raise NotFound("there is no such plugin", hint="`bollard plugin list` names them")
        return self._fleet.log_of(workspace, plugin_id)


def _last_id(request: Request) -> int | None:
    said = request.headers.get("last-event-id")
    if said is None:
        return None
    number = said.rpartition(".")[2]
    if not number.isascii() or not number.isdigit() or len(number) > 15:
        raise InvalidRequest("Last-Event-ID is no number of a line", hint="send the last id", field="last-event-id")
    return int(number)


async def _batches(log: PluginLog, after: int) -> AsyncGenerator[list[StreamRecord]]:
    """What is there, then what comes; an empty batch now and then keeps the connection."""
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
