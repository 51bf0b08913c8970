"""One connection to one MCP server: initializes it, lists its tools again when they change, and makes calls.

The host decides when to reconnect.
"""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final, cast

import mcp_types as types
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from bollard import __version__
from bollard.mcp_bridge.dialer import Dialer
from bollard.mcp_bridge.fault import Fault, FaultRaised, fault
from bollard.mcp_bridge.http_client import departure, http_client
from bollard.mcp_bridge.limits import (
    LIST_PAGES,
    LIST_S,
    PROBE_S,
    PROBLEM_CHARACTERS,
    PROGRESS_CHARACTERS,
    PROGRESS_EVERY_S,
    REFRESH_EVERY_S,
    REFRESH_PAUSE_S,
    TOOLS_OF_SERVER,
)
from bollard.mcp_bridge.login import RenewingAuth
from bollard.mcp_bridge.stdio import Pipes, ServerPipes
from bollard.mcp_bridge.translation import check_tools, failed_result, translate_result
from bollard.wire import bridge_frames as frames

_LOST: Final = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT})
_NO_ANSWER: Final = "Server returned an error response"
"""The SDK's message for a status of 500 or more without a JSON-RPC error, perhaps from a gateway."""
_NO_SESSION: Final = "Session terminated"
"""The SDK's message for a session that the server does not know; the request was not processed."""

_LATE: Final = fault("the server did not answer in time", "mcp.late")
_FORGOTTEN: Final = fault("the server has forgotten this connection", "mcp.forgotten")
NOT_CONNECTED: Final = fault("the server is not connected", "mcp.not_connected")

Send = Callable[[frames.ToHost], None]


class _Answer(BaseModel, extra="allow"):
    """An answer as it arrived; the SDK has validated it against the negotiated version."""


class _NoPipes(FaultRaised):
    """The pipes of a server did not arrive."""

    fault = fault("the bridge has no pipes of it", "mcp.no_pipes", "check the limit of open files")


class Link:
    """The connection; it is open while `run` runs."""

    def __init__(
        self, order: frames.OpenStdio | frames.OpenHttp, send: Send, dialer: Dialer, pipes: Pipes | None = None
    ) -> None:
        """`pipes` are those of a server with a process."""
        self._order = order
        self._dialer = dialer
        self._send = send
        self._wake = asyncio.Event()
        self._client: Client | None = None
        self._starting: asyncio.Timeout | None = None
        self._server = None  # made here, as the end of its process may be reported before `run` begins
        if isinstance(order, frames.OpenStdio) and pipes is not None:
            self._server = ServerPipes(
                pipes,
                group=order.group,
                logged=lambda line: send(frames.Logged(link=order.link, line=line)),
                gone=self._server_gone,
            )
        self._auth: RenewingAuth | None = None
        self._calls = 0
        self._closed = False

    async def run(self) -> None:
        """Serve until the server is lost or the task is cancelled. Always sends `Ended` last."""
        try:
            async with AsyncExitStack() as stack:
                client, seen = await self._start(stack)
                self._connected(client, seen)
                await self._serve(client)
        except asyncio.CancelledError:
            self._close(fault("it was closed", "mcp.closed"))
            raise
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 -- a boundary: what a server makes the SDK raise
            self._close(self._explain(error))
        finally:
            self._send(frames.Ended(link=self._order.link))

    def exited(self, code: int) -> None:
        """The process of the server has ended."""
        if self._server is not None:
            self._server.exited(code)

    def release(self) -> None:
        """Close the pipes of a server whose connection was closed before `run` began."""
        if self._server is not None:
            self._server.release()

    def refresh(self) -> None:
        """List the tools again, soon."""
        self._wake.set()

    def _close(self, why: Fault) -> None:
        """Refuse calls from here on and send `Closed`, before the rest of the connection is cleaned up."""
        self._client = None
        self._wake.set()
        if self._closed:
            return
        self._closed = True
        self._send(
            frames.Closed(
                link=self._order.link,
                problem=why.problem,
                details=why.details,
                hint=why.hint,
                needs_login=self._auth is not None and self._auth.needed is not None,
            )
        )

    async def call(self, order: frames.MakeCall) -> frames.Returned | frames.Undone:
        """Call a tool. Cancelling the task cancels the call at the server."""
        with departure() as departing:
            try:
                async with asyncio.timeout(order.timeout_s):  # the SDK's own starts only after the request was sent
                    return await self._call_tool(order)
            except TimeoutError:
                return undone(order.call, _LATE, sent=departing.left)
            except MCPError as error:
                return self._failed(order.call, error, sent=departing.left)
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 -- a boundary: a call is always answered
                return undone(order.call, _fault(_root(error)), sent=departing.left)

    async def _call_tool(self, order: frames.MakeCall) -> frames.Returned | frames.Undone:
        client = self._client
        if client is None:
            return undone(order.call, NOT_CONNECTED, sent=False)
        meta: Any = {"traceparent": order.traceparent} if order.traceparent else None
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=order.tool, arguments=order.arguments, _meta=meta)
        )
        progress = _Progress(order.call, self._send)
        self._calls += 1
        try:
            # Not `call_tool`: it validates with the server's schema, whose patterns may take exponential time.
            answer = await client.session.send_request(
                request, _Answer, request_read_timeout_seconds=order.timeout_s, progress_callback=progress
            )
        except ValidationError as error:
            return failed_result(order.call, f"the answer cannot be used: {_fault(error).problem}")
        finally:
            self._calls -= 1
            progress.over = True
        return translate_result(order.call, answer.model_extra or {})

    # --- the connection ---

    async def _start(self, stack: AsyncExitStack) -> tuple[Client, list[types.Tool]]:
        """Raises `TimeoutError` too if the server is gone, and what the SDK raises."""
        try:
            async with asyncio.timeout(self._order.start_s) as self._starting:
                client = await stack.enter_async_context(await self._build_client(stack))
                return client, await _list_tools(client)
        finally:
            self._starting = None

    async def _build_client(self, stack: AsyncExitStack) -> Client:
        order = self._order
        if isinstance(order, frames.OpenStdio):
            if self._server is None:
                raise _NoPipes
            transport: Any = self._server.connected()
        else:
            if order.login is not None:
                self._auth = RenewingAuth(order.url, order.login, self._renewed)
            http = await stack.enter_async_context(http_client(order.url, order.headers, self._dialer, self._auth))
            transport = streamable_http_client(order.url, http_client=http)
        return Client(
            transport,
            mode=order.protocol,
            read_timeout_seconds=min(PROBE_S, order.start_s / 2),
            message_handler=self._on_message,
            client_info=types.Implementation(name="bollard", version=__version__),
            cache=None,
        )

    def _server_gone(self) -> None:
        if self._client is not None and self._server is not None:
            self._close(self._server.ended or NOT_CONNECTED)
        elif self._starting is not None:  # the SDK would wait for the answer to a request that it sent too late
            self._starting.reschedule(asyncio.get_running_loop().time())

    def _renewed(self, login: frames.Login) -> None:
        self._send(frames.LoginChanged(link=self._order.link, login=login))

    def _connected(self, client: Client, seen: list[types.Tool]) -> None:
        self._client = client
        who = client.server_info
        self._send(
            frames.Connected(
                link=self._order.link,
                protocol=client.protocol_version,
                server_name="" if who is None else who.name[:200],
                server_version="" if who is None else who.version[:200],
            )
        )
        self._offer(seen)

    def _offer(self, seen: list[types.Tool]) -> None:
        self._send(frames.Tools(link=self._order.link, tools=check_tools(seen)))

    async def _serve(self, client: Client) -> None:
        hearing = asyncio.create_task(self._watch_changes(client))
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REFRESH_EVERY_S):
                        await self._wake.wait()
                if self._closed:
                    return
                if not self._wake.is_set() and self._calls:
                    continue  # a single-threaded server would not answer during a call
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    self._offer(await _list_tools(client))
                await asyncio.sleep(REFRESH_PAUSE_S)
        finally:
            hearing.cancel()

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._wake.set()

    async def _watch_changes(self, client: Client) -> None:
        """Subscribe to changes of the tools, as modern protocol versions require."""
        offered = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or offered is None or not offered.list_changed:
            return
        with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._wake.set()

    def _explain(self, error: BaseException) -> Fault:
        error = _root(error)
        if self._auth is not None and self._auth.needed is not None:
            return self._auth.needed
        if self._server is not None and self._server.ended is not None:
            return self._server.ended
        if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == types.REQUEST_TIMEOUT):
            seconds = self._order.start_s
            hint = "start the command by hand, or set `protocol` to `legacy` for an old server"
            return fault(f"it did not initialize within {seconds:g} s", "mcp.not_initialized", hint, seconds=seconds)
        return _fault(error)

    def _failed(self, call: int, error: MCPError, *, sent: bool) -> frames.Returned | frames.Undone:
        if self._auth is not None and self._auth.needed is not None and error.code not in _LOST:
            self._close(self._auth.needed)
            return undone(call, self._auth.needed, sent=False)
        if error.code == types.REQUEST_TIMEOUT:
            return undone(call, _LATE, sent=sent)
        if error.code in _LOST or error.message == _NO_ANSWER:
            ended = self._server.ended if self._server is not None else None
            return undone(call, ended or _fault(error), sent=sent)
        if error.message == _NO_SESSION:
            self._close(_FORGOTTEN)
            return undone(call, _FORGOTTEN, sent=False)
        return failed_result(call, f"{_fault(error).problem} (MCP error {error.code})")


def undone(call: int, why: Fault, *, sent: bool) -> frames.Undone:
    """The answer to a call without a result."""
    return frames.Undone(call=call, problem=why.problem, details=why.details, sent=sent)


class _Progress:
    """Forwards progress at a limited rate, so that a flood of it is cheap."""

    def __init__(self, call: int, send: Send) -> None:
        self._call = call
        self._send = send
        self._next = 0.0
        self.over = False

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        now = asyncio.get_running_loop().time()
        if self.over or now < self._next:
            return
        self._next = now + PROGRESS_EVERY_S
        words = None if message is None else message[:PROGRESS_CHARACTERS]
        self._send(frames.Progressed(call=self._call, done=float(progress), total=total, message=words))


async def _list_tools(client: Client) -> list[types.Tool]:
    """Every tool, over all pages. Raises `TimeoutError`, and errors of the SDK."""
    tools: list[types.Tool] = []
    cursor: str | None = None
    async with asyncio.timeout(LIST_S):
        for _ in range(LIST_PAGES):
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None or len(tools) > TOOLS_OF_SERVER:
                break
    return tools


def _root(error: BaseException) -> BaseException:
    """The first error of a task group."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _fault(error: BaseException) -> Fault:
    if isinstance(error, FaultRaised):
        return error.fault
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:PROBLEM_CHARACTERS]
        problem = f"its message is not valid MCP: {where}: {first['msg']}"[:PROBLEM_CHARACTERS]
        return fault(problem, "mcp.invalid", at=where, inner={"problem": first["msg"]})
    text = error.message if isinstance(error, MCPError) else f"{type(error).__name__}: {error}"
    return Fault(text[:PROBLEM_CHARACTERS])
