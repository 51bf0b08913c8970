"""One connection to one server: greeted, its tools listed and listed again when they change, its calls made.

Whether and when to connect again is the host's business.
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
from bollard.mcp_bridge.stdio import ServerProcess
from bollard.mcp_bridge.translation import judged, returned
from bollard.wire.bridge_frames import (
    Closed,
    Connected,
    Ended,
    Logged,
    Login,
    LoginChanged,
    MakeCall,
    OpenHttp,
    OpenStdio,
    Progressed,
    Returned,
    Started,
    ToHost,
    Tools,
    Undone,
)

__all__ = ["Link"]

_LOST: Final = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT})
_NO_ANSWER: Final = "Server returned an error response"
"""What the SDK makes of a status of 500 and more without a JSON-RPC error: a gateway may have said it."""
_NO_SESSION: Final = "Session terminated"
"""What it makes of a server that does not know the session any more: the request was not looked at."""

_LATE: Final = "the server did not answer in time"
_FORGOTTEN: Final = "the server has forgotten this connection"
_STDERR: Final = "what it wrote to stderr may say why"

Tell = Callable[[ToHost], None]


class _Answer(BaseModel, extra="allow"):
    """An answer as it came: the SDK has held it against the version that was agreed on."""


class Link:
    """Lives as long as `run`."""

    def __init__(self, order: OpenStdio | OpenHttp, tell: Tell) -> None:
        self._order = order
        self._tell = tell
        self._wake = asyncio.Event()
        self._client: Client | None = None
        self._process: ServerProcess | None = None
        self._auth: RenewingAuth | None = None
        self._calls = 0
        self._closed = False

    async def run(self) -> None:
        """Until the server is gone, or the task is cancelled. Tells of the end in any case."""
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._order.start_s):
                    client = await stack.enter_async_context(await self._made(stack))
                    seen = await _listed(client)
                self._connected(client, seen)
                await self._serve(client)
        except asyncio.CancelledError:
            self._close("it was closed")
            raise
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 -- a boundary: what a server makes the SDK raise
            self._close(*self._explained(error))
        finally:
            self._tell(Ended(link=self._order.link))

    def refresh(self) -> None:
        """List the tools again, soon."""
        self._wake.set()

    def _close(self, problem: str, hint: str = "") -> None:
        """No call is made from here on, and the host hears of it before what is left of the connection has ended."""
        self._client = None
        self._wake.set()
        if self._closed:
            return
        self._closed = True
        needs_login = self._auth is not None and self._auth.needed != ""
        self._tell(Closed(link=self._order.link, problem=problem, hint=hint, needs_login=needs_login))

    async def call(self, order: MakeCall) -> Returned | Undone:
        """One call. A task that is cancelled tells the server."""
        with departure() as departing:
            try:
                async with asyncio.timeout(order.timeout_s):  # the SDK's own begins when the request has left
                    return await self._called(order)
            except TimeoutError:
                return Undone(call=order.call, problem=_LATE, sent=departing.left)
            except MCPError as error:
                return self._failed(order.call, error, sent=departing.left)
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 -- a boundary: a call is always answered
                return Undone(call=order.call, problem=_words(_root(error)), sent=departing.left)

    async def _called(self, order: MakeCall) -> Returned | Undone:
        client = self._client
        if client is None:
            return Undone(call=order.call, problem="the server is not connected", sent=False)
        meta: Any = {"traceparent": order.traceparent} if order.traceparent else None
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=order.tool, arguments=order.arguments, _meta=meta)
        )
        progress = _Progress(order.call, self._tell)
        self._calls += 1
        try:
            # Not `call_tool`: that checks the answer with a schema of the server's, whose patterns may take for ever.
            answer = await client.session.send_request(
                request, _Answer, request_read_timeout_seconds=order.timeout_s, progress_callback=progress
            )
        except ValidationError as error:
            return _told(order.call, f"the answer cannot be used: {_words(error)}")
        finally:
            self._calls -= 1
            progress.over = True
        return returned(order.call, answer.model_extra or {})

    # --- the life of the connection ---

    async def _made(self, stack: AsyncExitStack) -> Client:
        order = self._order
        if isinstance(order, OpenStdio):
            self._process = ServerProcess(
                (order.command, *order.args),
                environment=order.env,
                cwd=order.cwd,
                logged=lambda line: self._tell(Logged(link=order.link, line=line)),
                group=lambda number: self._tell(Started(link=order.link, group=number)),
                gone=self._server_gone,
            )
            transport: Any = self._process.connected()
        else:
            if order.login is not None:
                self._auth = RenewingAuth(order.url, order.login, self._renewed)
            http = await stack.enter_async_context(http_client(order.url, order.headers, self._auth))
            transport = streamable_http_client(order.url, http_client=http)
        return Client(
            transport,
            mode=order.protocol,
            read_timeout_seconds=min(PROBE_S, order.start_s / 2),
            message_handler=self._heard,
            client_info=types.Implementation(name="bollard", version=__version__),
            cache=None,
        )

    def _server_gone(self) -> None:
        if self._client is not None and self._process is not None:
            self._close(self._process.ended, _STDERR)

    def _renewed(self, login: Login) -> None:
        self._tell(LoginChanged(link=self._order.link, login=login))

    def _connected(self, client: Client, seen: list[types.Tool]) -> None:
        self._client = client
        who = client.server_info
        self._tell(
            Connected(
                link=self._order.link,
                protocol=client.protocol_version,
                server_name="" if who is None else who.name[:200],
                server_version="" if who is None else who.version[:200],
            )
        )
        self._offer(seen)

    def _offer(self, seen: list[types.Tool]) -> None:
        self._tell(Tools(link=self._order.link, tools=judged(seen)))

    async def _serve(self, client: Client) -> None:
        hearing = asyncio.create_task(self._hear_changes(client))
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REFRESH_EVERY_S):
                        await self._wake.wait()
                if self._closed:
                    return
                if not self._wake.is_set() and self._calls:
                    continue  # a server that does one thing at a time would not answer now
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    self._offer(await _listed(client))
                await asyncio.sleep(REFRESH_PAUSE_S)
        finally:
            hearing.cancel()

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._wake.set()

    async def _hear_changes(self, client: Client) -> None:
        """A server of the new era tells of changes only to who asked."""
        offered = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or offered is None or not offered.list_changed:
            return
        with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._wake.set()

    def _explained(self, error: BaseException) -> tuple[str, str]:
        error = _root(error)
        if self._auth is not None and self._auth.needed:
            return self._auth.needed, ""
        if self._process is not None and self._process.ended:
            return self._process.ended, _STDERR
        if isinstance(error, TimeoutError) or (isinstance(error, MCPError) and error.code == types.REQUEST_TIMEOUT):
            return (
                f"it did not greet within {self._order.start_s:g} s",
                "start the command by hand, or set `protocol` to `legacy` for an old server",
            )
        if isinstance(error, FileNotFoundError):
            return "there is no such program", "name it with its path; the host's own PATH is searched"
        return _words(error), ""

    def _failed(self, call: int, error: MCPError, *, sent: bool) -> Returned | Undone:
        if self._auth is not None and self._auth.needed and error.code not in _LOST:
            self._close(self._auth.needed)
            return Undone(call=call, problem=self._auth.needed, sent=False)
        if error.code == types.REQUEST_TIMEOUT:
            return Undone(call=call, problem=_LATE, sent=sent)
        if error.code in _LOST or error.message == _NO_ANSWER:
            ended = self._process.ended if self._process is not None else ""
            return Undone(call=call, problem=ended or _words(error), sent=sent)
        if error.message == _NO_SESSION:
            self._close(_FORGOTTEN)
            return Undone(call=call, problem=_FORGOTTEN, sent=False)
        return _told(call, f"{_words(error)} (MCP error {error.code})")


def _told(call: int, problem: str) -> Returned:
    return Returned(call=call, content=[{"type": "text", "text": problem}], is_error=True)


class _Progress:
    """Passes progress on, seldom enough that a flood of it costs nobody anything."""

    def __init__(self, call: int, tell: Tell) -> None:
        self._call = call
        self._tell = tell
        self._next = 0.0
        self.over = False

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        now = asyncio.get_running_loop().time()
        if self.over or now < self._next:
            return
        self._next = now + PROGRESS_EVERY_S
        words = None if message is None else message[:PROGRESS_CHARACTERS]
        self._tell(Progressed(call=self._call, done=float(progress), total=total, message=words))


async def _listed(client: Client) -> list[types.Tool]:
    """Every tool, page by page. Raises `TimeoutError`, and what the SDK raises."""
    found: list[types.Tool] = []
    cursor: str | None = None
    async with asyncio.timeout(LIST_S):
        for _ in range(LIST_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None or len(found) > TOOLS_OF_SERVER:
                break
    return found


def _root(error: BaseException) -> BaseException:
    """The first of those that a task group has put together."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _words(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        said = f"what it sent is not of the shape that MCP has: {where}: {first['msg']}"
    else:
        said = error.message if isinstance(error, MCPError) else f"{type(error).__name__}: {error}"
    return said[:PROBLEM_CHARACTERS]
