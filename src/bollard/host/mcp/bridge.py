"""The process that speaks MCP, as the host sees it: started when a server is there, killed with all servers that it
started, and asked now and then whether it is alive. What is said over it is in `bollard.wire.bridge_frames`."""

import asyncio
import contextlib
import importlib.util
import itertools
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from bollard.host.capabilities.sources import Progress
from bollard.host.errors import OutcomeUnknown, SettingsError, ToolFailed
from bollard.host.mcp.limits import BRIDGE_ANSWER_S, BRIDGE_PING_S, CALL_GRACE_S
from bollard.protocol import JsonObject
from bollard.wire import WorkerProcess, spawn_worker, worker_environment
from bollard.wire.bridge_frames import (
    BRIDGE_FRAME_BYTES,
    BeginLogin,
    CancelCall,
    Close,
    Closed,
    Connected,
    DropLogin,
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
from bollard.wire.errors import FrameError

__all__ = ["LinkListener", "McpBridge"]

_log = structlog.get_logger("bollard.host.mcp")
_LOST = "the bridge process that speaks MCP has ended"


class LinkListener(Protocol):
    """Who hears of one connection."""

    def link_connected(self, said: Connected) -> None: ...

    def link_tools(self, tools: Sequence[ToolSeen]) -> None: ...

    def link_logged(self, line: str) -> None: ...

    def link_login(self, login: Login) -> None:
        """The token was renewed."""
        ...

    def link_closed(self, problem: str, hint: str, *, needs_login: bool) -> None:
        """Called once; nothing follows."""
        ...


@dataclass(slots=True, kw_only=True)
class _Pending:
    answer: "asyncio.Future[Returned | Undone]"
    progress: Progress | None


@dataclass(slots=True, kw_only=True)
class _LoginWait:
    asked: "asyncio.Future[LoginAsked | LoginEnded]"
    ended: "asyncio.Future[LoginEnded]"

    def settle(self, said: LoginAsked | LoginEnded) -> None:
        if not self.asked.done():
            self.asked.set_result(said)
        if isinstance(said, LoginEnded) and not self.ended.done():
            self.ended.set_result(said)


class McpBridge:
    """One per host."""

    def __init__(self, sdk: str = "mcp") -> None:
        """`sdk` is the module without which the process cannot work; it is an extra."""
        self._sdk = sdk
        self._process: WorkerProcess | None = None
        self._watch: asyncio.Task[None] | asyncio.Task[int] | None = None
        self._changing = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._links: dict[int, LinkListener] = {}
        self._groups: dict[int, int] = {}
        self._calls: dict[int, _Pending] = {}
        self._logins: dict[int, _LoginWait] = {}
        self._pong = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        return None if self._process is None else self._process.pid

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
            if self._process is None:
                await self._start()
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
        if link not in self._links or self._process is None:
            raise ToolFailed("the MCP server is not connected", hint="`bollard mcp show NAME` says why")
        number = next(self._numbers)
        answer: asyncio.Future[Returned | Undone] = asyncio.get_running_loop().create_future()
        self._calls[number] = _Pending(answer=answer, progress=progress)
        made = MakeCall(
            link=link, call=number, tool=tool, arguments=arguments, timeout_s=timeout_s, traceparent=traceparent
        )
        try:
            self._send(made)
            self._process.transport.flush()
            async with asyncio.timeout(timeout_s + CALL_GRACE_S):
                said = await answer
        except TimeoutError:
            self._send(CancelCall(call=number))
            said = Undone(call=number, problem="the bridge did not answer in time", sent=True)
        except asyncio.CancelledError:
            self._send(CancelCall(call=number))
            raise
        finally:
            self._calls.pop(number, None)
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
        loop = asyncio.get_running_loop()
        async with self._changing:
            if self._process is None:
                await self._start()
            wait = self._logins[order.login] = _LoginWait(asked=loop.create_future(), ended=loop.create_future())
            self._send(order)
        try:
            async with asyncio.timeout(limit_s):
                said = await wait.asked
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
        wait = self._logins.get(order.login)
        if wait is None:
            return LoginEnded(login=order.login, problem=_LOST)
        self._send(order)
        try:
            async with asyncio.timeout(limit_s):
                return await wait.ended
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
            if self._process is not None and not self._links and not self._logins:
                await self._stop()

    async def stop(self) -> None:
        """With everything that it started."""
        async with self._changing:
            if self._process is not None:
                await self._stop()

    # --- the process ---

    async def _start(self) -> None:
        if importlib.util.find_spec(self._sdk) is None:
            raise SettingsError(
                "the SDK for MCP is not installed on the host",
                hint="pip install 'bollard[mcp]', and start the host again",
            )
        self._process = await spawn_worker(
            (sys.executable, "-P", "-m", "bollard.mcp_bridge"),
            environment=worker_environment(os.environ),
            output=_printed,
            frame_bytes=BRIDGE_FRAME_BYTES,
        )
        self._process.transport.start(self)
        self._watch = asyncio.create_task(self._watch_heart(self._process))
        _log.info("the MCP bridge is started", pid=self._process.pid)

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if self._watch is not None:
            self._watch.cancel()
        if process is not None:
            # It ends its servers itself, which takes as long as they may take; what is left of them is killed below.
            await process.stop(grace_s=_END_S)
        self._lost(_LOST)

    async def _watch_heart(self, process: WorkerProcess) -> None:
        with contextlib.suppress(TimeoutError):
            for number in itertools.count():
                self._pong.clear()
                self._send(Ping(number=number))
                async with asyncio.timeout(BRIDGE_ANSWER_S):
                    await self._pong.wait()
                await asyncio.sleep(BRIDGE_PING_S)
        _log.error("the MCP bridge does not answer, so it is killed", pid=process.pid)
        await process.kill()

    # --- what the channel calls ---

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        for frame in frames:
            if not isinstance(frame, FrameError):  # half a frame: it died while it wrote
                self._heard(to_host(frame))

    def connection_lost(self, reason: str) -> None:
        process, self._process = self._process, None
        if process is None:
            return  # it was stopped
        _log.error("the MCP bridge is lost", reason=reason, pid=process.pid)
        if self._watch is not None:
            self._watch.cancel()
        self._watch = asyncio.create_task(process.kill())
        self._lost(_LOST)

    def _lost(self, problem: str) -> None:
        """Whoever waited hears of it, and what the process started goes with it."""
        for group in self._groups.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        self._groups.clear()
        for number, pending in self._calls.items():
            _settle(pending, Undone(call=number, problem=problem, sent=True))
        for number, wait in self._logins.items():
            wait.settle(LoginEnded(login=number, problem=problem))
        self._logins.clear()
        links, self._links = self._links, {}
        for listener in links.values():
            listener.link_closed(problem, "it is started again by itself", needs_login=False)

    def _heard(self, said: ToHost) -> None:
        match said:
            case Returned() | Undone():
                if (pending := self._calls.get(said.call)) is not None:
                    _settle(pending, said)
            case Progressed():
                pending = self._calls.get(said.call)
                if pending is not None and pending.progress is not None:
                    _tell_progress(pending.progress, said)
            case Pong():
                self._pong.set()
            case Started():
                self._groups.pop(said.link, None)
                if said.group is not None:
                    self._groups[said.link] = said.group
            case LoginAsked() | LoginEnded():
                if (wait := self._logins.get(said.login)) is not None:
                    wait.settle(said)
            case _:
                self._tell(said)

    def _tell(self, said: Connected | Tools | Logged | LoginChanged | Closed) -> None:
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
                del self._links[said.link]
                listener.link_closed(said.problem, said.hint, needs_login=said.needs_login)

    def _send(self, order: ToBridge) -> None:
        if self._process is not None:
            self._process.transport.send(encode_frame(order))


_END_S = 6.0
"""Time that the bridge has to end its servers: they are asked, then told, then killed."""


def _tell_progress(progress: Progress, said: Progressed) -> None:
    try:
        progress(said.done, said.total, said.message)
    except Exception:  # noqa: BLE001 -- a boundary: who listens to one call must not take the channel of all down
        _log.exception("progress of an MCP call could not be told")


def _settle(pending: _Pending, said: Returned | Undone) -> None:
    if not pending.answer.done():
        pending.answer.set_result(said)


def _printed(name: str, line: str) -> None:
    _log.warning("the MCP bridge says", stream=name, line=line)
