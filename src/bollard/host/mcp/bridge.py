"""The host's side of the MCP bridge process: starts it for the first connection, pings it, and kills it. It gets the
pipes of the servers, whose processes end with their connection. The messages are in `bollard.wire.bridge_frames`."""

import asyncio
import importlib.util
import itertools
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, cast
from urllib.parse import urlsplit

import structlog

from bollard.extras import install_command
from bollard.helper.process import HelperEnded, HelperProcess, LinkLimits
from bollard.host.capabilities.sources import Progress
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connections import NotSent
from bollard.host.egress.operator_dial import operator_connection
from bollard.host.errors import OutcomeUnknown, SettingsError, ToolFailed, UnknownName
from bollard.host.mcp.limits import BRIDGE_ANSWER_S, BRIDGE_PING_S, CALL_GRACE_S
from bollard.host.mcp.stdio_servers import ServerProcess
from bollard.host.reason import Why, why, why_error
from bollard.protocol import JsonObject
from bollard.wire import worker_environment
from bollard.wire.addresses import named_address_problem
from bollard.wire.bridge_frames import (
    BRIDGE_FRAME_BYTES,
    CONFINED,
    BeginLogin,
    CancelCall,
    Close,
    Closed,
    Connected,
    Dial,
    Dialled,
    DropLogin,
    Ended,
    Exited,
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
_NO_ADDRESS: Final = why(
    "no connection: the name has no address",
    "net.no_connection",
    inner={"problem": "the name has no address", "problem_type": "net.no_address"},
)
_PORTS: Final = {"http": 80, "https": 443}
_END_S: Final = 6.0
"""Time that the bridge has to end after its socket is closed."""


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

    def __init__(self, egress: EgressClient, sdk: str = "mcp", *, is_confined: bool = False) -> None:
        """`egress` knows the proxy of the host. `sdk` is the module that the process needs; it comes with the extra
        `mcp`. With `is_confined` the process confines itself."""
        self._egress = egress
        self._is_confined = is_confined
        self._sdk = sdk
        self._dials: set[asyncio.Task[None]] = set()
        self._helper: _Helper | None = None
        self._watch: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._links: dict[int, LinkListener] = {}
        self._urls: dict[int, str] = {}
        """The addresses of the servers of connections and logins."""
        self._pipes: socket.socket | None = None
        """Where the pipes of a server are sent before its order."""
        self._servers: dict[int, ServerProcess] = {}
        self._endings: dict[int, asyncio.Task[None]] = {}
        self._progress: dict[int, Progress] = {}
        self._logins: dict[int, asyncio.Future[LoginEnded]] = {}

    @property
    def pid(self) -> int | None:
        """The pid of the process while it runs."""
        return None if self._helper is None else self._helper.pid

    @property
    def groups(self) -> list[int]:
        """The process groups of the servers."""
        return [server.group for server in self._servers.values()]

    def next_link(self) -> int:
        """A new id for a connection or a login."""
        return next(self._numbers)

    async def open(
        self, order: OpenStdio | OpenHttp, listener: LinkListener, server: ServerProcess | None = None
    ) -> None:
        """Begin a connection; its events go to the listener. `server` is the process behind an `OpenStdio`; if this
        raises, it is ended. Raises `OSError` or `SettingsError` if the process of the bridge cannot start."""
        try:
            async with self._changing:
                self._ensure_started()
                if server is not None:
                    self._hand_over(order.link, server)
                self._links[order.link] = listener
                if isinstance(order, OpenHttp):
                    self._urls[order.link] = order.url
                self._send(order)
        except BaseException:
            if server is not None:
                server.kill()
                await server.end()
            raise

    def close(self, link: int) -> None:
        """End a connection; its listener gets no more events."""
        self._send(Close(link=link))
        self._links.pop(link, None)
        self._end_server(link)

    def _hand_over(self, link: int, server: ServerProcess) -> None:
        """Send the pipes of a server. Raises `OSError` if the bridge has not taken those of too many others."""
        if self._pipes is None or server.pipes is None:
            raise RuntimeError("the bridge is not started")
        socket.send_fds(self._pipes, [b"."], server.pipes)
        server.release_pipes()
        self._servers[link] = server
        server.exited.add_done_callback(lambda ended: self._send(Exited(link=link, code=ended.result())))

    def _end_server(self, link: int) -> None:
        """The bridge closes the stdin of a server: end its process."""
        server = self._servers.pop(link, None)
        if server is not None:
            ending = self._endings[link] = asyncio.create_task(server.end())
            ending.add_done_callback(lambda _: self._endings.pop(link, None))

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
            self._urls[order.login] = order.url
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
            self._urls.pop(number, None)
            self._send(DropLogin(login=number))

    async def rest(self) -> None:
        """Stop the process if it has no connections and no logins."""
        async with self._changing:
            if not self._links and not self._logins:
                await self._stop()

    async def stop(self) -> None:
        """Stop the process after the servers of closed connections have ended."""
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
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            with theirs:
                helper = HelperProcess(
                    _MODULE,
                    environment=worker_environment(os.environ),
                    decode=to_host,
                    heard=self._receive,
                    lost=self._lost,
                    limits=LinkLimits(
                        frame_bytes=BRIDGE_FRAME_BYTES, unsent_bytes=WRITE_HARD_LIMIT_BYTES, stall_s=WRITE_STALL_S
                    ),
                    output=_log_output,
                    arguments=(str(theirs.fileno()), *((CONFINED,) if self._is_confined else ())),
                    descriptors=(theirs.fileno(),),
                )
        except BaseException:
            ours.close()
            raise
        self._helper, self._pipes = helper, ours
        self._watch = asyncio.create_task(self._ping_regularly(helper))
        _log.info("the MCP bridge is started", pid=helper.pid)
        return helper

    async def _stop(self) -> None:
        await asyncio.gather(*self._endings.values())  # the bridge reports their ends
        helper, self._helper = self._helper, None
        if helper is not None:
            await helper.stop(_END_S)
            self._clear()
            await asyncio.gather(*self._endings.values())

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
        """Kill the servers that are left, and end the connections and logins."""
        if self._watch is not None:
            self._watch.cancel()
        if self._pipes is not None:
            self._pipes.close()
            self._pipes = None
        for link, server in [*self._servers.items()]:
            server.kill()
            self._end_server(link)
        for number, ended in self._logins.items():
            _settle(ended, LoginEnded(login=number, problem=_LOST, details=_LOST_DETAILS))
        self._logins.clear()
        self._urls.clear()
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
            case Dial():
                dial = asyncio.create_task(self._answer_dial(message))
                self._dials.add(dial)
                dial.add_done_callback(self._dials.discard)
            case LoginAsked() | LoginEnded():
                helper.settle(message.login, message)
                if isinstance(message, LoginEnded) and (ended := self._logins.get(message.login)) is not None:
                    _settle(ended, message)
            case _:
                self._notify(message)

    def _notify(self, message: Connected | Tools | Logged | LoginChanged | Closed | Ended) -> None:
        if isinstance(message, Closed | Ended):
            self._end_server(message.link)
        if isinstance(message, Ended):
            self._urls.pop(message.link, None)  # not before: a closing connection may need a last request
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
                if (ending := self._endings.get(message.link)) is None:
                    listener.link_ended()
                else:
                    ending.add_done_callback(lambda _: listener.link_ended())

    async def _answer_dial(self, dial: Dial) -> None:
        """Connect for the bridge, which cannot, and send it the socket."""
        problem = address_problem_of(dial, self._urls.values())
        if problem is None:
            try:
                with await operator_connection(self._egress, dial.host, dial.port, dial.within_s) as opened:
                    if self._pipes is not None:
                        socket.send_fds(self._pipes, [b"."], [opened.fileno()])
            except UnknownName as error:
                problem = why_error(error) if self._egress.has_proxy else _NO_ADDRESS
            except (NotSent, OSError) as error:
                problem = why_error(error)
        details = {} if problem is None else {**problem.details}
        self._send(Dialled(number=dial.number, problem="" if problem is None else problem.sentence, details=details))

    def _send(self, order: ToBridge) -> None:
        if self._helper is not None:
            self._helper.send(encode_frame(order))


def address_problem_of(dial: Dial, servers: Iterable[str]) -> Why | None:
    """Why no server may lead to this place: each is one of the saved servers, or one that they may name."""
    host = f"[{dial.host}]" if ":" in dial.host else dial.host
    url = f"https://{host}:{dial.port}"
    reason = "url_own_network"
    said = "is in the own network, but the server that names it is not"
    for server in servers:
        parts = urlsplit(server)
        if (parts.hostname, parts.port or _PORTS[parts.scheme]) == (dial.host, dial.port):
            return None
        if (problem := named_address_problem(url, server)) is None:
            return None
        reason, said = problem.reason, problem.message
    inner = {"problem_type": f"address.{reason}"}
    return why(f"the server leads to {url}, which {said}", "mcp.leads_to", url=url, inner=inner)


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
