"""The host's side of the MCP bridge process: starts it for the first connection, pings it, and kills it together with
the servers that it started. The messages are in `bollard.wire.bridge_frames`."""

import asyncio
import contextlib
import importlib.util
import itertools
import os
import signal
from collections.abc import Sequence
from typing import Final, Protocol, cast

import structlog

from bollard.extras import install_command
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
_LOST_DETAILS: Final = {"problem_type": "mcp.bridge_lost"}
_LOGIN_LATE: Final = "the authorization server did not answer in time"
_LOGIN_LATE_DETAILS: Final = {"problem_type": "mcp.login_late"}
_END_S: Final = 6.0
"""Time that the bridge has to end its servers: close stdin, SIGTERM, SIGKILL."""


class LinkListener(Protocol):
    """Receives the events of one connection."""

    def link_connected(self, info: Connected) -> None: ...

    def link_tools(self, tools: Sequence[ToolSeen]) -> None: ...

    def link_logged(self, line: str) -> None: ...

    def link_login(self, login: Login) -> None:
        """The token was renewed."""
        ...

    def link_closed(self, closed: Closed) -> None:
        """The connection is lost; calls fail from here on. Called once."""
        ...

    def link_ended(self) -> None:
        """The connection is cleaned up. Called once, after `link_closed`, as the last event."""
        ...


class McpBridge:
    """Starts the bridge process on demand and carries all connections, calls and logins. One per host."""

    def __init__(self, sdk: str = "mcp") -> None:
        """`sdk` is the module that the process needs; it comes with the extra `mcp`."""
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
        """The pid of the process while it runs."""
        return None if self._helper is None else self._helper.pid

    @property
    def groups(self) -> list[int]:
        """The process groups of the servers that the bridge started."""
        return [*self._groups.values()]

    def next_link(self) -> int:
        """A new id for a connection or a login."""
        return next(self._numbers)

    async def open(self, order: OpenStdio | OpenHttp, listener: LinkListener) -> None:
        """Begin a connection; its events go to the listener. Raises `OSError` or `SettingsError` if the process cannot
        start."""
        async with self._changing:
            self._ensure_started()
            self._links[order.link] = listener
            self._send(order)

    def close(self, link: int) -> None:
        """End a connection; its listener gets no more events."""
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
        """Call a tool. Cancelling the task cancels the call at the server. Raises `ToolFailed` and `OutcomeUnknown`."""
        if link not in self._links or self._helper is None:
            raise ToolFailed(
                "the MCP server is not connected", reason="mcp_not_connected", hint="see `bollard mcp show NAME`"
            )
        number = next(self._numbers)
        if progress is not None:
            self._progress[number] = progress
        order = MakeCall(
            link=link, call=number, tool=tool, arguments=arguments, timeout_s=timeout_s, traceparent=traceparent
        )
        try:
            async with asyncio.timeout(timeout_s + CALL_GRACE_S):
                answer = cast("Returned | Undone", await self._helper.request(number, encode_frame(order)))
        except HelperEnded:
            answer = Undone(call=number, problem=_LOST, details=_LOST_DETAILS, sent=True)
        except TimeoutError:
            self._send(CancelCall(call=number))
            late = {"problem_type": "mcp.bridge_late"}
            answer = Undone(call=number, problem="the bridge did not answer in time", details=late, sent=True)
        except asyncio.CancelledError:
            self._send(CancelCall(call=number))
            raise
        finally:
            self._progress.pop(number, None)
        if isinstance(answer, Returned):
            return answer
        if answer.sent:
            raise OutcomeUnknown(
                f"the call was sent and not answered: {answer.problem}",
                reason="mcp_call",
                hint="check what the server did before you call it again",
                problem=answer.problem,
                **answer.details,
            )
        raise ToolFailed(
            f"the call was not sent: {answer.problem}",
            reason="mcp_call_not_sent",
            hint="see `bollard mcp show NAME`",
            problem=answer.problem,
            **answer.details,
        )

    async def begin_login(self, order: BeginLogin, limit_s: float) -> LoginAsked | LoginEnded:
        """The address where a person logs in. Raises `OSError` or `SettingsError` if the process cannot start."""
        async with self._changing:
            helper = self._ensure_started()
            self._logins[order.login] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(limit_s):
                answer = cast("LoginAsked | LoginEnded", await helper.request(order.login, encode_frame(order)))
        except HelperEnded:
            answer = LoginEnded(login=order.login, problem=_LOST, details=_LOST_DETAILS)
        except TimeoutError:
            answer = LoginEnded(login=order.login, problem=_LOGIN_LATE, details=_LOGIN_LATE_DETAILS)
        except asyncio.CancelledError:
            self.drop_login(order.login)
            raise
        if isinstance(answer, LoginEnded):
            self.drop_login(order.login)
        return answer

    async def finish_login(self, order: FinishLogin, limit_s: float) -> LoginEnded:
        """Complete a login with the query of the redirect, and wait for the outcome."""
        ended = self._logins.get(order.login)
        if ended is None:
            return LoginEnded(login=order.login, problem=_LOST, details=_LOST_DETAILS)
        self._send(order)
        try:
            async with asyncio.timeout(limit_s):
                return await ended
        except TimeoutError:
            return LoginEnded(login=order.login, problem=_LOGIN_LATE, details=_LOGIN_LATE_DETAILS)
        finally:
            self.drop_login(order.login)

    def drop_login(self, number: int) -> None:
        if self._logins.pop(number, None) is not None:
            self._send(DropLogin(login=number))

    async def rest(self) -> None:
        """Stop the process if it has no connections and no logins."""
        async with self._changing:
            if not self._links and not self._logins:
                await self._stop()

    async def stop(self) -> None:
        """Stop the process and the servers that it started."""
        async with self._changing:
            await self._stop()

    # --- the process ---

    def _ensure_started(self) -> _Helper:
        """The process, started if it does not run. Raises `OSError` and `SettingsError`."""
        if self._helper is not None:
            return self._helper
        if importlib.util.find_spec(self._sdk) is None:
            command = install_command("mcp")
            raise SettingsError(
                "the SDK for MCP is not installed on the host",
                reason="mcp_sdk",
                hint=f"install it: `{command}`, then restart the host",
                command=command,
            )
        helper = self._helper = HelperProcess(
            _MODULE,
            environment=worker_environment(os.environ),
            decode=to_host,
            heard=self._receive,
            lost=self._lost,
            limits=LinkLimits(
                frame_bytes=BRIDGE_FRAME_BYTES, unsent_bytes=WRITE_HARD_LIMIT_BYTES, stall_s=WRITE_STALL_S
            ),
            output=_log_output,
        )
        self._watch = asyncio.create_task(self._ping_regularly(helper))
        _log.info("the MCP bridge is started", pid=helper.pid)
        return helper

    async def _stop(self) -> None:
        helper, self._helper = self._helper, None
        if helper is None:
            return
        # The bridge ends its servers itself; `_clear` kills those that are left.
        await helper.stop(_END_S)
        self._clear()

    async def _ping_regularly(self, helper: _Helper) -> None:
        try:
            while True:
                number = next(self._numbers)
                async with asyncio.timeout(BRIDGE_ANSWER_S):
                    await helper.request(number, encode_frame(Ping(number=number)))
                await asyncio.sleep(BRIDGE_PING_S)
        except TimeoutError:
            _log.error("the MCP bridge does not answer and is killed", pid=helper.pid)
            helper.kill()
        except HelperEnded:
            pass

    def _lost(self, helper: _Helper) -> None:
        _log.error("the MCP bridge is lost", pid=helper.pid)
        self._helper = None
        self._clear()

    def _clear(self) -> None:
        """Kill the servers that the process left, and end its connections and logins."""
        if self._watch is not None:
            self._watch.cancel()
        for group in self._groups.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        self._groups.clear()
        for number, ended in self._logins.items():
            _settle(ended, LoginEnded(login=number, problem=_LOST, details=_LOST_DETAILS))
        self._logins.clear()
        links, self._links = self._links, {}
        for link, listener in links.items():
            listener.link_closed(Closed(link=link, problem=_LOST, details=_LOST_DETAILS, hint="it restarts by itself"))
            listener.link_ended()

    # --- messages ---

    def _receive(self, helper: _Helper, message: ToHost) -> None:
        match message:
            case Returned() | Undone():
                helper.settle(message.call, message)
            case Progressed():
                if (progress := self._progress.get(message.call)) is not None:
                    _report_progress(progress, message)
            case Pong():
                helper.settle(message.number, message)
            case Started():
                self._groups.pop(message.link, None)
                if message.group is not None:
                    self._groups[message.link] = message.group
            case LoginAsked() | LoginEnded():
                helper.settle(message.login, message)
                if isinstance(message, LoginEnded) and (ended := self._logins.get(message.login)) is not None:
                    _settle(ended, message)
            case _:
                self._notify(message)

    def _notify(self, message: Connected | Tools | Logged | LoginChanged | Closed | Ended) -> None:
        listener = self._links.get(message.link)
        if listener is None:
            return  # the host closed the connection while the message was in flight
        match message:
            case Connected():
                listener.link_connected(message)
            case Tools():
                listener.link_tools(message.tools)
            case Logged():
                listener.link_logged(message.line)
            case LoginChanged():
                listener.link_login(message.login)
            case Closed():
                listener.link_closed(message)
            case Ended():
                del self._links[message.link]
                listener.link_ended()

    def _send(self, order: ToBridge) -> None:
        if self._helper is not None:
            self._helper.send(encode_frame(order))


def _report_progress(progress: Progress, message: Progressed) -> None:
    try:
        progress(message.done, message.total, message.message)
    except Exception:  # noqa: BLE001 -- a boundary: the callback of one call must not break the channel of all
        _log.exception("the progress callback of an MCP call failed")


def _settle(ended: "asyncio.Future[LoginEnded]", outcome: LoginEnded) -> None:
    if not ended.done():
        ended.set_result(outcome)


def _log_output(name: str, line: str) -> None:
    _log.warning("output of the MCP bridge", stream=name, line=line)
