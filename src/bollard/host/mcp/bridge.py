"""The process that speaks MCP, as the host sees it: started when a server is there, killed with all servers that it
started, and asked now and then whether it is alive. What is said over it is in `bollard.wire.bridge_frames`."""

import asyncio
import contextlib
import importlib.util
import itertools
import os
import signal
from collections.abc import Sequence
from typing import Final, Protocol, cast

import structlog

from bollard.helper.process import HelperEnded, HelperProcess, LinkLimits
from bollard.host.capabilities.sources import Progress
from bollard.host.errors import OutcomeUnknown, SettingsError, ToolFailed
from bollard.host.mcp.limits import BRIDGE_ANSWER_S, BRIDGE_PING_S, CALL_GRACE_S
from bollard.protocol import JsonObject
from bollard.wire import worker_environment
from bollard.wire.bridge_frames import (
    BRIDGE_FRAME_BYTES,
    BeginLogin,
    CancelCall,
    Close,
    Closed,
    Connected,
    DropLogin,
    Ended,
    FinishLogin,
    Logged,
    Login,
    LoginAsked,
    LoginChanged,
    LoginEnded,
    MakeCall,
    OpenHttp,
    OpenStdio,
    Ping,
    Pong,
    Progressed,
    Refresh,
    Returned,
    Started,
    ToBridge,
    ToHost,
    Tools,
    ToolSeen,
    Undone,
    encode_frame,
    to_host,
)
from bollard.wire.limits import WRITE_HARD_LIMIT_BYTES, WRITE_STALL_S

_log = structlog.get_logger("bollard.host.mcp")
_Helper = HelperProcess[ToHost]
_MODULE: Final = "bollard.mcp_bridge"
_LOST: Final = "the bridge process that speaks MCP has ended"
_END_S: Final = 6.0
"""Time that the bridge has to end its servers: they are asked, then told, then killed."""


class LinkListener(Protocol):
    """Who hears of one connection."""

    def link_connected(self, said: Connected) -> None: ...

    def link_tools(self, tools: Sequence[ToolSeen]) -> None: ...

    def link_logged(self, line: str) -> None: ...

    def link_login(self, login: Login) -> None:
        """The token was renewed."""
        ...

    def link_closed(self, problem: str, hint: str, *, needs_login: bool) -> None:
        """The connection is lost: no call can be made. Called once."""
        ...

    def link_ended(self) -> None:
        """Nothing is left of the connection. Called once, after `link_closed`; nothing follows."""
        ...


class McpBridge:
    """Starts the bridge process when it is needed, and speaks to it for all connections and logins. One per host."""

    def __init__(self, sdk: str = "mcp") -> None:
        """`sdk` is the module without which the process cannot work; it is an extra."""
        self._sdk = sdk
        self._helper: _Helper | None = None
        self._watch: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._links: dict[int, LinkListener] = {}
        self._groups: dict[int, int] = {}
        self._progress: dict[int, Progress] = {}
        self._logins: dict[int, asyncio.Future[LoginEnded]] = {}

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._helper is None else self._helper.pid

    @property
    def groups(self) -> list[int]:
        """The process groups of servers that it started."""
        return [*self._groups.values()]

    def next_link(self) -> int:
        """A number for one connection, or one login."""
        return next(self._numbers)

    async def open(self, order: OpenStdio | OpenHttp, listener: LinkListener) -> None:
        """Begin a connection; the listener hears what comes of it. Raises `OSError` or `SettingsError` when no process
        can be started."""
        async with self._changing:
            self._started()
            self._links[order.link] = listener
            self._send(order)

    def close(self, link: int) -> None:
        """End a connection; nobody hears of it any more."""
        self._send(Close(link=link))
        self._links.pop(link, None)

    def refresh(self, link: int) -> None:
        self._send(Refresh(link=link))

    async def call(
        self,
        link: int,
        tool: str,
        arguments: JsonObject,
        *,
        timeout_s: float,
        traceparent: str | None = None,
        progress: Progress | None = None,
    ) -> Returned:
        """Raises `ToolFailed` and `OutcomeUnknown`. A task that is cancelled tells the server."""
        if link not in self._links or self._helper is None:
            raise ToolFailed("the MCP server is not connected", hint="`bollard mcp show NAME` says why")
        number = next(self._numbers)
        if progress is not None:
            self._progress[number] = progress
        made = MakeCall(
            link=link, call=number, tool=tool, arguments=arguments, timeout_s=timeout_s, traceparent=traceparent
        )
        try:
            async with asyncio.timeout(timeout_s + CALL_GRACE_S):
                said = cast("Returned | Undone", await self._helper.request(number, encode_frame(made)))
        except HelperEnded:
            said = Undone(call=number, problem=_LOST, sent=True)
        except TimeoutError:
            self._send(CancelCall(call=number))
            said = Undone(call=number, problem="the bridge did not answer in time", sent=True)
        except asyncio.CancelledError:
            self._send(CancelCall(call=number))
            raise
        finally:
            self._progress.pop(number, None)
        if isinstance(said, Returned):
            return said
        if said.sent:
            raise OutcomeUnknown(
                f"the call was sent and not answered: {said.problem}",
                hint="look at what the server did before it is called again",
            )
        raise ToolFailed(
            f"the call was not sent: {said.problem}", hint="`bollard mcp show NAME` says how the server is"
        )

    async def begin_login(self, order: BeginLogin, limit_s: float) -> LoginAsked | LoginEnded:
        """Where a person goes. Raises `OSError` or `SettingsError` when no process can be started."""
        async with self._changing:
            helper = self._started()
            self._logins[order.login] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(limit_s):
                said = cast("LoginAsked | LoginEnded", await helper.request(order.login, encode_frame(order)))
        except HelperEnded:
            said = LoginEnded(login=order.login, problem=_LOST)
        except TimeoutError:
            said = LoginEnded(login=order.login, problem="nobody could be asked in time where to log in")
        except asyncio.CancelledError:
            self.drop_login(order.login)
            raise
        if isinstance(said, LoginEnded):
            self.drop_login(order.login)
        return said

    async def finish_login(self, order: FinishLogin, limit_s: float) -> LoginEnded:
        """What came of it."""
        ended = self._logins.get(order.login)
        if ended is None:
            return LoginEnded(login=order.login, problem=_LOST)
        self._send(order)
        try:
            async with asyncio.timeout(limit_s):
                return await ended
        except TimeoutError:
            return LoginEnded(login=order.login, problem="the authorization server did not answer in time")
        finally:
            self.drop_login(order.login)

    def drop_login(self, number: int) -> None:
        if self._logins.pop(number, None) is not None:
            self._send(DropLogin(login=number))

    async def rest(self) -> None:
        """Nobody needs the process for now: it goes, unless somebody came meanwhile."""
        async with self._changing:
            if not self._links and not self._logins:
                await self._stop()

    async def stop(self) -> None:
        """With everything that it started."""
        async with self._changing:
            await self._stop()

    # --- the process ---

    def _started(self) -> _Helper:
        """The process, started if there is none. Raises `OSError` and `SettingsError`."""
        if self._helper is not None:
            return self._helper
        if importlib.util.find_spec(self._sdk) is None:
            raise SettingsError(
                "the SDK for MCP is not installed on the host",
                hint="pip install 'bollard[mcp]', and start the host again",
            )
        helper = self._helper = HelperProcess(
            _MODULE,
            environment=worker_environment(os.environ),
            decode=to_host,
            heard=self._heard,
            lost=self._lost,
            limits=LinkLimits(
                frame_bytes=BRIDGE_FRAME_BYTES, unsent_bytes=WRITE_HARD_LIMIT_BYTES, stall_s=WRITE_STALL_S
            ),
            output=_printed,
        )
        self._watch = asyncio.create_task(self._watch_heart(helper))
        _log.info("the MCP bridge is started", pid=helper.pid)
        return helper

    async def _stop(self) -> None:
        helper, self._helper = self._helper, None
        if helper is None:
            return
        # It ends its servers itself, which takes as long as they may take; what is left of them is killed below.
        await helper.stop(_END_S)
        self._clear()

    async def _watch_heart(self, helper: _Helper) -> None:
        try:
            while True:
                number = next(self._numbers)
                async with asyncio.timeout(BRIDGE_ANSWER_S):
                    await helper.request(number, encode_frame(Ping(number=number)))
                await asyncio.sleep(BRIDGE_PING_S)
        except TimeoutError:
            _log.error("the MCP bridge does not answer, so it is killed", pid=helper.pid)
            helper.kill()
        except HelperEnded:
            pass

    def _lost(self, helper: _Helper) -> None:
        _log.error("the MCP bridge is lost", pid=helper.pid)
        self._helper = None
        self._clear()

    def _clear(self) -> None:
        """End what the process left: its servers are killed, and connections and logins are told of their end."""
        if self._watch is not None:
            self._watch.cancel()
        for group in self._groups.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        self._groups.clear()
        for number, ended in self._logins.items():
            _settle(ended, LoginEnded(login=number, problem=_LOST))
        self._logins.clear()
        links, self._links = self._links, {}
        for listener in links.values():
            listener.link_closed(_LOST, "it is started again by itself", needs_login=False)
            listener.link_ended()

    # --- hearing ---

    def _heard(self, helper: _Helper, said: ToHost) -> None:
        match said:
            case Returned() | Undone():
                helper.settle(said.call, said)
            case Progressed():
                if (progress := self._progress.get(said.call)) is not None:
                    _tell_progress(progress, said)
            case Pong():
                helper.settle(said.number, said)
            case Started():
                self._groups.pop(said.link, None)
                if said.group is not None:
                    self._groups[said.link] = said.group
            case LoginAsked() | LoginEnded():
                helper.settle(said.login, said)
                if isinstance(said, LoginEnded) and (ended := self._logins.get(said.login)) is not None:
                    _settle(ended, said)
            case _:
                self._tell(said)

    def _tell(self, said: Connected | Tools | Logged | LoginChanged | Closed | Ended) -> None:
        listener = self._links.get(said.link)
        if listener is None:
            return  # it was closed, and what was on its way came late
        match said:
            case Connected():
                listener.link_connected(said)
            case Tools():
                listener.link_tools(said.tools)
            case Logged():
                listener.link_logged(said.line)
            case LoginChanged():
                listener.link_login(said.login)
            case Closed():
                listener.link_closed(said.problem, said.hint, needs_login=said.needs_login)
            case Ended():
                del self._links[said.link]
                listener.link_ended()

    def _send(self, order: ToBridge) -> None:
        if self._helper is not None:
            self._helper.send(encode_frame(order))


def _tell_progress(progress: Progress, said: Progressed) -> None:
    try:
        progress(said.done, said.total, said.message)
    except Exception:  # noqa: BLE001 -- a boundary: who listens to one call must not take the channel of all down
        _log.exception("progress of an MCP call could not be told")


def _settle(ended: "asyncio.Future[LoginEnded]", said: LoginEnded) -> None:
    if not ended.done():
        ended.set_result(said)


def _printed(name: str, line: str) -> None:
    _log.warning("the MCP bridge says", stream=name, line=line)
