"""One MCP message over HTTP and its answer: JSON, or a stream where a call takes its time or tells how far it is.

Stateless: no session is kept between two messages. What is served is given (`ToolServer`); who asks was decided.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bollard.host.capabilities.sources import Progress
from bollard.host.errors import HostError, Overloaded
from bollard.host.http.answers import JsonAnswer, read_bytes
from bollard.host.http.mcp.messages import (
    CALLS_OF_CALLER,
    HANDSHAKE_VERSIONS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    JSON_ANSWER_S,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    NOTE_CHARACTERS,
    NOTES,
    SERVER,
    TOOLS_OF_PAGE,
    McpNotification,
    McpRequest,
    RpcRefused,
    arguments_of,
    error_body,
    progress_note,
    read_message,
    refused_call,
    result_body,
)
from bollard.host.http.streams.sse import hung_up
from bollard.host.limits import KEEP_ALIVE_S
from bollard.host.run_api.refusal import refusal_of
from bollard.protocol import JsonObject
from bollard.wire import encode

_log = structlog.get_logger("bollard.host.http")
_HEAD: Final = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}
_ALIVE: Final = b": alive\n\n"
_TOOLS: Final[JsonObject] = {"tools": {"listChanged": False}}


class ToolServer(Protocol):
    """What one client is served."""

    @property
    def instructions(self) -> str: ...

    @property
    def ttl_ms(self) -> int:
        """How long its list may be taken as it was."""
        ...

    def tools(self) -> Mapping[str, JsonObject]:
        """As `Tool` of MCP, by name, in the order of the names."""
        ...

    def knows(self, name: str) -> bool: ...

    async def call(self, name: str, arguments: JsonObject, meta: JsonObject, progress: Progress) -> JsonObject:
        """A `CallToolResult`. A task that is cancelled stops what it does."""
        ...


class McpExchange:
    """One per endpoint. Knows the calls that are under way, and nothing else."""

    def __init__(self, patience_s: float = JSON_ANSWER_S) -> None:
        self._patience_s = patience_s
        self._under_way: dict[str, dict[asyncio.Task[JsonObject], int | str]] = {}
        """By caller; each with the id of its request."""

    async def answer(self, request: Request, who: str, server: ToolServer) -> ASGIApp:
        """What is sent back to `who`. Raises `HostError` for what is no matter of MCP."""
        try:
            said = read_message(await read_bytes(request), _headers(request))
        except RpcRefused as refused:
            return _refusal(refused)
        if isinstance(said, McpNotification):
            self._noted(who, said)
            return Response(status_code=202)
        try:
            if said.method == "tools/call":
                return self._called(request, who, server, said)
            return JsonAnswer(result_body(said, _told(said, server)))
        except RpcRefused as refused:
            return _refusal(_about(said, refused))

    def _called(self, request: Request, who: str, server: ToolServer, asked: McpRequest) -> ASGIApp:
        name, arguments = arguments_of(asked)
        if not server.knows(name):
            raise RpcRefused(INVALID_PARAMS, f"Unknown tool: {name[:128]}")
        calls = self._under_way.setdefault(who, {})
        if len(calls) >= CALLS_OF_CALLER:
            raise Overloaded(
                f"{CALLS_OF_CALLER} calls are in progress already",
                reason="mcp_calls",
                hint="wait for one to end",
                limit=CALLS_OF_CALLER,
            )

        def begin(progress: Progress) -> asyncio.Task[JsonObject]:
            task = asyncio.create_task(_outcome(server, asked, name, arguments, progress))
            calls[task] = asked.id
            task.add_done_callback(lambda done: self._ended(who, done))
            return task

        streamed = "text/event-stream" in request.headers.get("accept", "")
        return _CallAnswer(begin, asked, patience_s=self._patience_s, streamed=streamed)

    def _ended(self, who: str, task: asyncio.Task[JsonObject]) -> None:
        calls = self._under_way.get(who, {})
        calls.pop(task, None)
        if not calls:
            self._under_way.pop(who, None)

    def _noted(self, who: str, note: McpNotification) -> None:
        """In the older era a call is cancelled by a note, and not by hanging up. Two clients may share a token and
        number their requests alike: then nobody knows which one is meant, and none is stopped."""
        if note.method != "notifications/cancelled":
            return
        wanted = note.params.get("requestId")
        found = [
            task
            for task, identity in self._under_way.get(who, {}).items()
            if type(identity) is type(wanted) and identity == wanted
        ]
        if len(found) == 1:
            found[0].cancel()


def _headers(request: Request) -> dict[str, str]:
    """One that is there twice is as HTTP has it, joined: no two readers take it for different things."""
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _about(asked: McpRequest, refused: RpcRefused) -> RpcRefused:
    refused.id, refused.modern = asked.id, asked.modern
    return refused


def _refusal(refused: RpcRefused) -> JsonAnswer:
    return JsonAnswer(error_body(refused), status_code=refused.status)


def _told(asked: McpRequest, server: ToolServer) -> JsonObject:
    """What needs no waiting."""
    match asked.method, asked.modern:
        case "tools/list", _:
            return _page(asked, server)
        case "server/discover", True:
            versions: JsonObject = {"supportedVersions": [*MODERN_VERSIONS]}
            return {**versions, **_self(server), "ttlMs": server.ttl_ms, "cacheScope": "private"}
        case "initialize", False:
            wanted = asked.params.get("protocolVersion")
            version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
            return {"protocolVersion": version, "serverInfo": SERVER, **_self(server)}
        case "ping", False:
            return {}
        case _:
            raise RpcRefused(METHOD_NOT_FOUND, f"there is no method {asked.method[:64]} here")


def _self(server: ToolServer) -> JsonObject:
    return {"capabilities": _TOOLS, "instructions": server.instructions}


def _page(asked: McpRequest, server: ToolServer) -> JsonObject:
    """A page of tools; a cursor is the name of the last one of the page before."""
    cursor = asked.params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise RpcRefused(INVALID_PARAMS, "a cursor is a text")
    tools = [(name, tool) for name, tool in server.tools().items() if cursor is None or name > cursor]
    page: JsonObject = {"tools": [tool for _, tool in tools[:TOOLS_OF_PAGE]]}
    if len(tools) > TOOLS_OF_PAGE:
        page["nextCursor"] = tools[TOOLS_OF_PAGE - 1][0]
    return {**page, "ttlMs": server.ttl_ms, "cacheScope": "private"} if asked.modern else page


async def _outcome(
    server: ToolServer, asked: McpRequest, name: str, arguments: JsonObject, progress: Progress
) -> JsonObject:
    """The message that answers a call, whatever comes of it."""
    try:
        return result_body(asked, await server.call(name, arguments, asked.meta, progress))
    except HostError as error:
        return result_body(asked, refused_call(refusal_of(error), error.hint))
    except RpcRefused as refused:
        return error_body(_about(asked, refused))
    except Exception:  # noqa: BLE001 -- the boundary: the client gets a typed answer, the log the rest
        _log.exception("a call over MCP failed", tool=name[:64])
        return error_body(_about(asked, RpcRefused(INTERNAL_ERROR, "the host made a mistake; its log says more")))


class _CallAnswer:
    """An ASGI response: JSON where the call ends soon and says nothing before, else a stream."""

    status_code = 200

    def __init__(
        self,
        begin: Callable[[Progress], asyncio.Task[JsonObject]],
        asked: McpRequest,
        *,
        patience_s: float,
        streamed: bool,
    ) -> None:
        self._begin = begin
        self._asked = asked
        self._patience_s = patience_s
        self._streamed = streamed
        self._task: asyncio.Task[JsonObject] | None = None
        self._notes: deque[bytes] = deque(maxlen=NOTES)
        self._wake = asyncio.Event()
        self._begun = False

    def end(self) -> None:
        """Whoever asked may not ask any more."""
        if self._task is not None:
            self._task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._task = task = self._begin(self._note)
        task.add_done_callback(lambda _: self._wake.set())
        gone = asyncio.ensure_future(hung_up(receive))
        gone.add_done_callback(lambda _: self._wake.set())
        stays = False
        try:
            while not task.done() and not gone.done():
                await self._wait()
                if self._streamed and not task.done() and not gone.done():
                    await self._tell(send)
            stays = not task.done() and not self._asked.modern
            if task.done() and not gone.done():
                await self._answer(task, scope, receive, send)
        finally:
            gone.cancel()
            if not stays:  # in the older era hanging up is no cancelling: what was begun goes on to its end
                task.cancel()

    async def _wait(self) -> None:
        """Until something happened, or nothing for a while."""
        try:
            async with asyncio.timeout(KEEP_ALIVE_S if self._begun else self._patience_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _tell(self, send: Send) -> None:
        """What there is to tell before the answer."""
        if not self._begun:
            self._begun = True
            await send(_HEAD)
        await send({"type": "http.response.body", "body": self._told() or _ALIVE, "more_body": True})

    async def _answer(self, task: asyncio.Task[JsonObject], scope: Scope, receive: Receive, send: Send) -> None:
        if task.cancelled():
            body = error_body(_about(self._asked, RpcRefused(INTERNAL_ERROR, "the call was cancelled")))
        else:
            body = task.result()
        if self._streamed and self._notes and not self._begun:
            self._begun = True
            await send(_HEAD)
        if self._begun:
            await send({"type": "http.response.body", "body": self._told() + _frame(body), "more_body": False})
        else:
            await JsonAnswer(body)(scope, receive, send)

    def _told(self) -> bytes:
        told = b"".join(self._notes)
        self._notes.clear()
        return told

    def _note(self, done: float, total: float | None, message: str | None) -> None:
        """Of many that wait, the oldest is not told: a later one says more."""
        token = self._asked.progress_token
        if token is None or not self._streamed:
            return
        message = None if message is None else message[:NOTE_CHARACTERS]
        self._notes.append(_frame(progress_note(token, done, total, message)))
        self._wake.set()


def _frame(message: JsonObject) -> bytes:
    return b"event: message\ndata: %b\n\n" % encode(message)
