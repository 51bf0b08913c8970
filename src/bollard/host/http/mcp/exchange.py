"""Serves one MCP message over HTTP: with JSON, or with a stream if a call is slow or reports progress.

Stateless: there is no session between two messages. A `ToolServer` has the tools; the caller is authenticated before.
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
    TOOL_LIST_TTL_MS,
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
from bollard.host.http.streams.sse import ALIVE, STREAM_HEADERS, hung_up
from bollard.host.limits import KEEP_ALIVE_S
from bollard.host.run_api.refusal import refusal_of
from bollard.protocol import JsonObject
from bollard.wire import encode

_log = structlog.get_logger("bollard.host.http")
_HEAD: Final = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), *STREAM_HEADERS],
}
_TOOLS: Final[JsonObject] = {"tools": {"listChanged": False}}


class ToolServer(Protocol):
    """The tools of one client."""

    @property
    def instructions(self) -> str: ...

    def tools(self) -> Mapping[str, JsonObject]:
        """MCP `Tool`s by name, sorted by name."""
        ...

    def knows(self, name: str) -> bool: ...

    async def call(self, name: str, arguments: JsonObject, meta: JsonObject, progress: Progress) -> JsonObject:
        """Call a tool; returns a `CallToolResult`. Cancelling the task cancels the call."""
        ...


class McpExchange:
    """Serves the messages of one endpoint. Its only state are the calls in progress."""

    def __init__(self, stream_after_s: float = JSON_ANSWER_S) -> None:
        self._stream_after_s = stream_after_s
        self._calls: dict[str, dict[asyncio.Task[JsonObject], int | str]] = {}
        """Calls in progress by caller, with the ids of their requests."""

    async def answer(self, request: Request, caller: str, server: ToolServer) -> ASGIApp:
        """The response to a message of `caller`. Raises `HostError` for errors outside of MCP."""
        try:
            message = read_message(await read_bytes(request), _headers(request))
        except RpcRefused as refused:
            return _refusal(refused)
        if isinstance(message, McpNotification):
            self._handle_notification(caller, message)
            return Response(status_code=202)
        try:
            if message.method == "tools/call":
                return self._call_tool(request, caller, server, message)
            return JsonAnswer(result_body(message, _handle_request(message, server)))
        except RpcRefused as refused:
            return _refusal(_about(message, refused))

    def _call_tool(self, request: Request, caller: str, server: ToolServer, message: McpRequest) -> ASGIApp:
        name, arguments = arguments_of(message)
        if not server.knows(name):
            raise RpcRefused(INVALID_PARAMS, f"Unknown tool: {name[:128]}")
        calls = self._calls.setdefault(caller, {})
        if len(calls) >= CALLS_OF_CALLER:
            raise Overloaded(
                f"{CALLS_OF_CALLER} calls are in progress already",
                reason="mcp_calls",
                hint="wait for one to end",
                limit=CALLS_OF_CALLER,
            )

        def begin(progress: Progress) -> asyncio.Task[JsonObject]:
            task = asyncio.create_task(_run_call(server, message, name, arguments, progress))
            calls[task] = message.id
            task.add_done_callback(lambda done: self._remove(caller, done))
            return task

        streamed = "text/event-stream" in request.headers.get("accept", "")
        return _CallResponse(begin, message, stream_after_s=self._stream_after_s, streamed=streamed)

    def _remove(self, caller: str, task: asyncio.Task[JsonObject]) -> None:
        calls = self._calls.get(caller, {})
        calls.pop(task, None)
        if not calls:
            self._calls.pop(caller, None)

    def _handle_notification(self, caller: str, note: McpNotification) -> None:
        """Cancel a call: before 2026-07-28 a notification cancels it, not the end of the connection. If two clients
        share a token and a request id, the notification is ambiguous and cancels nothing."""
        if note.method != "notifications/cancelled":
            return
        wanted = note.params.get("requestId")
        matches = [
            task
            for task, identity in self._calls.get(caller, {}).items()
            if type(identity) is type(wanted) and identity == wanted
        ]
        if len(matches) == 1:
            matches[0].cancel()


def _headers(request: Request) -> dict[str, str]:
    """The headers; repeated ones are joined, as HTTP defines it."""
    headers: dict[str, str] = {}
    for name, value in request.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _about(message: McpRequest, refused: RpcRefused) -> RpcRefused:
    refused.id, refused.modern = message.id, message.modern
    return refused


def _refusal(refused: RpcRefused) -> JsonAnswer:
    return JsonAnswer(error_body(refused), status_code=refused.status)


def _handle_request(message: McpRequest, server: ToolServer) -> JsonObject:
    """The result of a request other than a call."""
    match message.method, message.modern:
        case "tools/list", _:
            return _page(message, server)
        case "server/discover", True:
            versions: JsonObject = {"supportedVersions": [*MODERN_VERSIONS]}
            return {**versions, **_self(server), "ttlMs": TOOL_LIST_TTL_MS, "cacheScope": "private"}
        case "initialize", False:
            wanted = message.params.get("protocolVersion")
            version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
            return {"protocolVersion": version, "serverInfo": SERVER, **_self(server)}
        case "ping", False:
            return {}
        case _:
            raise RpcRefused(METHOD_NOT_FOUND, f"there is no method {message.method[:64]} here")


def _self(server: ToolServer) -> JsonObject:
    return {"capabilities": _TOOLS, "instructions": server.instructions}


def _page(message: McpRequest, server: ToolServer) -> JsonObject:
    """A page of tools. The cursor is the name of the last tool on the page before."""
    cursor = message.params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise RpcRefused(INVALID_PARAMS, "the cursor is not a string")
    tools = [(name, tool) for name, tool in server.tools().items() if cursor is None or name > cursor]
    page: JsonObject = {"tools": [tool for _, tool in tools[:TOOLS_OF_PAGE]]}
    if len(tools) > TOOLS_OF_PAGE:
        page["nextCursor"] = tools[TOOLS_OF_PAGE - 1][0]
    return {**page, "ttlMs": TOOL_LIST_TTL_MS, "cacheScope": "private"} if message.modern else page


async def _run_call(
    server: ToolServer, message: McpRequest, name: str, arguments: JsonObject, progress: Progress
) -> JsonObject:
    """Call the tool; returns the response message, also for errors."""
    try:
        return result_body(message, await server.call(name, arguments, message.meta, progress))
    except HostError as error:
        return result_body(message, refused_call(refusal_of(error), error.hint))
    except RpcRefused as refused:
        return error_body(_about(message, refused))
    except Exception:  # noqa: BLE001 -- the boundary: the client gets a typed error, the log the rest
        _log.exception("a call over MCP failed", tool=name[:64])
        return error_body(_about(message, RpcRefused(INTERNAL_ERROR, "the host failed because of a bug; see its log")))


class _CallResponse:
    """An ASGI response: JSON if the call ends soon and reports no progress, otherwise a stream."""

    status_code = 200

    def __init__(
        self,
        begin: Callable[[Progress], asyncio.Task[JsonObject]],
        message: McpRequest,
        *,
        stream_after_s: float,
        streamed: bool,
    ) -> None:
        self._begin = begin
        self._message = message
        self._stream_after_s = stream_after_s
        self._streamed = streamed
        self._task: asyncio.Task[JsonObject] | None = None
        self._notes: deque[bytes] = deque(maxlen=NOTES)
        self._wake = asyncio.Event()
        self._begun = False

    def end(self) -> None:
        """Cancel the call: its caller has lost access."""
        if self._task is not None:
            self._task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._task = task = self._begin(self._note)
        task.add_done_callback(lambda _: self._wake.set())
        gone = asyncio.ensure_future(hung_up(receive))
        gone.add_done_callback(lambda _: self._wake.set())
        continues = False
        try:
            while not task.done() and not gone.done():
                await self._wait()
                if self._streamed and not task.done() and not gone.done():
                    await self._send_progress(send)
            continues = not task.done() and not self._message.modern
            if task.done() and not gone.done():
                await self._answer(task, scope, receive, send)
        finally:
            gone.cancel()
            if not continues:  # before 2026-07-28 a disconnect does not cancel the call
                task.cancel()

    async def _wait(self) -> None:
        """Wait for progress, the result or the time-out."""
        try:
            async with asyncio.timeout(KEEP_ALIVE_S if self._begun else self._stream_after_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _send_progress(self, send: Send) -> None:
        """Send the queued notifications, or a comment."""
        if not self._begun:
            self._begun = True
            await send(_HEAD)
        await send({"type": "http.response.body", "body": self._take_notes() or ALIVE, "more_body": True})

    async def _answer(self, task: asyncio.Task[JsonObject], scope: Scope, receive: Receive, send: Send) -> None:
        if task.cancelled():
            body = error_body(_about(self._message, RpcRefused(INTERNAL_ERROR, "the call was cancelled")))
        else:
            body = task.result()
        if self._streamed and self._notes and not self._begun:
            self._begun = True
            await send(_HEAD)
        if self._begun:
            await send({"type": "http.response.body", "body": self._take_notes() + _frame(body), "more_body": False})
        else:
            await JsonAnswer(body)(scope, receive, send)

    def _take_notes(self) -> bytes:
        notes = b"".join(self._notes)
        self._notes.clear()
        return notes

    def _note(self, done: float, total: float | None, message: str | None) -> None:
        """Queue a progress notification; when the queue is full, the oldest is dropped."""
        token = self._message.progress_token
        if token is None or not self._streamed:
            return
        message = None if message is None else message[:NOTE_CHARACTERS]
        self._notes.append(_frame(progress_note(token, done, total, message)))
        self._wake.set()


def _frame(message: JsonObject) -> bytes:
    return b"event: message\ndata: %b\n\n" % encode(message)
