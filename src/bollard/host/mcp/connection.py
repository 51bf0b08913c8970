"""One server of one workspace: connected, and connected again after a while whenever it is lost. A server that is dead,
slow or lying costs nobody but those who call it."""

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import quote

import structlog
from msgspec.structs import replace

from bollard.host.capabilities.sources import CallOrder
from bollard.host.errors import HostError, ToolFailed
from bollard.host.mcp.bridge import McpBridge
from bollard.host.mcp.consent import ServerTool, ToolConsent, judge
from bollard.host.mcp.limits import CALLS_AT_ONCE, LOG_LINES, RECONNECT_MAX_S, START_S, STEADY_S
from bollard.host.mcp.logins import LoginRepository, Secrets
from bollard.host.mcp.server_repository import ServerRecord
from bollard.host.mcp.servers import McpServer
from bollard.wire import worker_environment
from bollard.wire.bridge_frames import Connected, Login, OpenHttp, OpenStdio, Returned, ToolSeen

# How a connection is opened: the secrets of a server are put in at the last moment, and the folder of a command is
# made.


_REFERENCE: Final = re.compile(r"(^|\s)secret:([A-Za-z0-9][A-Za-z0-9._-]{0,63})$")
_IN_URL: Final = re.compile(r"(?<==)secret:([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?=&|$)")
_PRIVATE: Final = 0o700


class _Secrets(Protocol):
    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]: ...


async def place(server: McpServer, workspace: str, url: str, secrets: _Secrets) -> tuple[str, dict[str, str]]:
    """The address of a server and its headers, filled. Raises `HostError` where a secret cannot be had."""
    known = await _known(server, workspace, [*server.headers.values()], _IN_URL.findall(url), secrets)
    filled = _IN_URL.sub(lambda found: quote(known[found[1]], safe=""), url)
    return filled, {name: _filled(value, known) for name, value in server.headers.items()}


async def opening(
    server: McpServer, workspace: str, *, link: int, secrets: _Secrets, home: Path, login: Login | None = None
) -> OpenStdio | OpenHttp:
    """What the bridge is told. Raises `HostError` where a secret cannot be had, and `OSError`."""
    if server.url is not None:
        url, headers = await place(server, workspace, server.url, secrets)
        return OpenHttp(link=link, url=url, headers=headers, protocol=server.protocol, start_s=START_S, login=login)
    known = await _known(server, workspace, [*server.env.values()], [], secrets)
    values = {name: _filled(value, known) for name, value in server.env.items()}
    folder = home / workspace / server.name
    await asyncio.to_thread(folder.mkdir, _PRIVATE, parents=True, exist_ok=True)
    return OpenStdio(
        link=link,
        command=server.command or "",
        args=list(server.args),
        env={**worker_environment(os.environ), **values},
        cwd=str(folder.resolve()),
        protocol=server.protocol,
        start_s=START_S,
    )


async def _known(
    server: McpServer, workspace: str, given: list[str], more: list[str], secrets: _Secrets
) -> Mapping[str, str]:
    names = [found[2] for found in map(_REFERENCE.search, given) if found is not None] + more
    if not names:
        return {}
    return await secrets.use_all(workspace, names, purpose=f"mcp:{server.name}", by="host")


def _filled(value: str, known: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: found[1] + known[found[2]], value)


_log = structlog.get_logger("bollard.host.mcp")
Status = Literal["disabled", "connecting", "connected", "waiting", "needs_login"]


class McpConnection:
    """Drives one server. Everything that is known of it is here."""

    def __init__(
        self,
        workspace: str,
        kept: ServerRecord,
        *,
        bridge: McpBridge,
        secrets: Secrets,
        logins: LoginRepository,
        home: Path,
        changed: Callable[[], None],
        hide: Callable[[str, str], str],
        reconnect_s: float,
    ) -> None:
        """`changed` is told whenever what is offered may be another; `hide` takes secrets out of what is shown."""
        self.workspace: Final = workspace
        self.server: McpServer = kept.server
        self._agreed: Mapping[str, ToolConsent] = kept.agreed
        self._bridge = bridge
        self._secrets = secrets
        self._logins = logins
        self._home = home
        self._changed = changed
        self._hide = hide
        self._reconnect_s = reconnect_s
        self.status: Status = "connecting" if kept.server.enabled else "disabled"
        self.problem = ""
        self.hint = ""
        self.said: Connected | None = None
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self._seen: Sequence[ToolSeen] | None = None
        self._judged: list[ServerTool] | None = None
        self._link: int | None = None
        self._ended: asyncio.Future[None] | None = None
        self._retry = asyncio.Event()
        self._listed = asyncio.Event()
        self._places = asyncio.Semaphore(CALLS_AT_ONCE)
        self._task: asyncio.Task[None] | None = None
        self._keeping: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        if self.server.enabled:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._link is not None:
            link, self._link = self._link, None
            self._bridge.close(link)
        await asyncio.gather(*self._keeping)

    def keeps_to(self, kept: ServerRecord) -> bool:
        """Go on with what was saved, where the way to the server is the same: what is agreed to, what is allowed and
        how long a call may take are nothing that a server hears of."""
        if replace(self.server, allow=kept.server.allow, timeout_s=kept.server.timeout_s) != kept.server:
            return False
        self.server, self._agreed = kept.server, kept.agreed
        self._judge_again()
        return True

    @property
    def tools(self) -> list[ServerTool]:
        """Every tool, judged; none while nobody knows what there is."""
        if self._judged is None:
            self._judged = [] if self._seen is None else judge(self.server, self._seen, self._agreed)
        return self._judged

    @property
    def connected(self) -> bool:
        return self.status == "connected" and self._seen is not None

    async def refresh(self, limit_s: float) -> None:
        """Have the tools listed again, or the connection tried again, now. Raises `TimeoutError`."""
        self._listed.clear()
        if self.connected and self._link is not None:
            self._bridge.refresh(self._link)
        else:
            self._retry.set()
        async with asyncio.timeout(limit_s):
            await self._listed.wait()

    async def call(self, order: CallOrder) -> Returned:
        """Raises `ToolFailed` and `OutcomeUnknown`."""
        link = self._link
        if link is None or not self.connected:
            raise ToolFailed(
                f"the MCP server {self.server.name} is not connected: {self.problem or 'it is being connected'}",
                hint=f"`bollard mcp show {self.server.name}` says more",
            )
        loop = asyncio.get_running_loop()
        until = loop.time() + order.timeout_s
        try:
            async with asyncio.timeout(order.timeout_s):
                await self._places.acquire()
        except TimeoutError:
            raise ToolFailed(
                f"{CALLS_AT_ONCE} calls of the MCP server {self.server.name} are under way", hint="try again later"
            ) from None
        try:
            return await self._bridge.call(
                link,
                order.capability.name,
                order.arguments,
                timeout_s=max(0.1, until - loop.time()),
                traceparent=order.context.traceparent,
                progress=order.progress,
            )
        finally:
            self._places.release()

    # --- the loop ---

    async def _run(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await self._once()
            failures = 1 if loop.time() - begun >= STEADY_S else failures + 1
            self._retry.clear()
            delay = min(RECONNECT_MAX_S, self._reconnect_s * 2 ** min(failures - 1, 20))
            try:
                # Nothing but a person helps one that needs a login: nobody is bothered until then.
                async with asyncio.timeout(None if self.status == "needs_login" else delay):
                    await self._retry.wait()
            except TimeoutError:
                continue

    async def _once(self) -> None:
        """From the first try to the loss of one connection."""
        self.status = "connecting"
        try:
            login = None
            if self.server.oauth is not None:
                login = await self._logins.use(self.workspace, self.server)
                if login is None:
                    self._lose("nobody has logged in for it", self._login_hint, "needs_login")
                    return
            order = await opening(
                self.server,
                self.workspace,
                link=self._bridge.next_link(),
                secrets=self._secrets,
                home=self._home,
                login=login,
            )
            self._ended = asyncio.get_running_loop().create_future()
            self._link = order.link
            await self._bridge.open(order, self)
        except HostError as error:
            self._lose(error.message, error.hint)
            return
        except OSError as error:
            self._lose(f"it cannot be started: {error}", "look at the data directory and at the limits of the system")
            return
        await self._ended

    # --- what the bridge tells ---

    def link_connected(self, said: Connected) -> None:
        self.said, self.status, self.problem, self.hint = said, "connected", "", ""
        _log.info(
            "an MCP server is connected", server=self.server.name, workspace=self.workspace, version=said.protocol
        )

    def link_tools(self, tools: Sequence[ToolSeen]) -> None:
        self._listed.set()
        if tools != self._seen:
            self._seen = tools
            self._judge_again()

    def link_logged(self, line: str) -> None:
        self.log.append(self._hide(self.workspace, line))

    def link_login(self, login: Login) -> None:
        task = asyncio.create_task(self._keep(login))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def _keep(self, login: Login) -> None:
        try:
            await self._logins.keep(self.workspace, self.server, login, by="host")
        except HostError as error:  # the connection goes on; after a restart somebody must log in again
            _log.error(
                "a renewed login is not kept", server=self.server.name, workspace=self.workspace, problem=error.message
            )

    def link_closed(self, problem: str, hint: str, *, needs_login: bool) -> None:
        said = self._hide(self.workspace, problem)
        if needs_login:
            self._lose(said, self._login_hint, "needs_login")
        else:
            self._lose(said, hint)

    def link_ended(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    @property
    def _login_hint(self) -> str:
        return f"`bollard mcp login {self.server.name}` logs in"

    def _lose(self, problem: str, hint: str, status: Literal["waiting", "needs_login"] = "waiting") -> None:
        was_there = self._seen is not None
        self.status, self.problem, self.hint = status, problem, hint
        self._link, self._seen, self.said = None, None, None
        self._listed.set()
        _log.warning("an MCP server is not there", server=self.server.name, workspace=self.workspace, problem=problem)
        if was_there:
            self._judge_again()

    def _judge_again(self) -> None:
        self._judged = None
        self._changed()
