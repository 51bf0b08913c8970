"""The connection to one MCP server of one workspace, with reconnects and backoff. A server that is dead, slow or
hostile affects only its own callers."""

import asyncio
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import quote

import structlog

from bollard.host.capabilities.sources import CallOrder
from bollard.host.errors import HostError, ToolFailed, caused_by
from bollard.host.mcp.bridge import McpBridge
from bollard.host.mcp.consent import ServerTool, ToolConsent, evaluate_tools
from bollard.host.mcp.folder_watch import FOLDER_FILLED
from bollard.host.mcp.limits import CALLS_AT_ONCE, LOG_LINES, RECONNECT_MAX_S, START_S, STEADY_S
from bollard.host.mcp.logins import LoginRepository, Secrets
from bollard.host.mcp.missing_permission import MEMORY_USED_UP
from bollard.host.mcp.server_repository import ServerRecord
from bollard.host.mcp.servers import SavedMcpServer
from bollard.host.mcp.stdio_servers import NotStarted, ServerProcess, StdioServers
from bollard.host.reason import NO_PROBLEM, Why, why, why_error
from bollard.wire import worker_environment
from bollard.wire.bridge_frames import Closed, Connected, Login, OpenHttp, OpenStdio, Returned, ToolSeen

# --- opening a connection: secrets are filled in at the last moment ---

_REFERENCE: Final = re.compile(r"(^|\s)secret:([A-Za-z0-9][A-Za-z0-9._-]{0,63})$")
_IN_URL: Final = re.compile(r"(?<==)secret:([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?=&|$)")
_PRIVATE: Final = 0o700
_LAST_LINES: Final = 40
"""Lines of stderr in which the cause of an end is looked for."""


class _Secrets(Protocol):
    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]: ...


async def resolve_address(
    server: SavedMcpServer, workspace: str, url: str, secrets: _Secrets
) -> tuple[str, dict[str, str]]:
    """The URL and the headers of a server with their secrets. Raises `HostError` if a secret is unavailable."""
    known = await _read_secrets(server, workspace, [*server.headers.values()], _IN_URL.findall(url), secrets)
    resolved = _IN_URL.sub(lambda match: quote(known[match[1]], safe=""), url)
    return resolved, {name: _fill(value, known) for name, value in server.headers.items()}


async def resolve_variables(server: SavedMcpServer, workspace: str, secrets: _Secrets) -> dict[str, str]:
    """The variables of a command with their secrets. Raises `HostError` if a secret is unavailable."""
    known = await _read_secrets(server, workspace, [*server.env.values()], [], secrets)
    return {name: _fill(value, known) for name, value in server.env.items()}


async def _read_secrets(
    server: SavedMcpServer, workspace: str, values: list[str], more: list[str], secrets: _Secrets
) -> Mapping[str, str]:
    names = [match[2] for match in map(_REFERENCE.search, values) if match is not None] + more
    if not names:
        return {}
    return await secrets.use_all(workspace, names, purpose=f"mcp:{server.server_id}", by="host")


def _fill(value: str, known: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: match[1] + known[match[2]], value)


# --- the connection ---

_log = structlog.get_logger("bollard.host.mcp")
Status = Literal["disabled", "connecting", "connected", "waiting", "needs_login"]
_CONNECTING: Final = why("it is connecting", "mcp.connecting")


class McpConnection:
    """Connects one server, and holds its status, its tools and its log."""

    def __init__(
        self,
        workspace: str,
        record: ServerRecord,
        *,
        bridge: McpBridge,
        stdio: StdioServers,
        secrets: Secrets,
        logins: LoginRepository,
        home: Path,
        changed: Callable[[], None],
        hide: Callable[[str, str], str],
        reconnect_s: float,
    ) -> None:
        """`changed` is called when the offered tools may have changed; `hide` removes secrets from a text."""
        self.workspace: Final = workspace
        self.server: SavedMcpServer = record.server
        self._agreed: Mapping[str, ToolConsent] = record.agreed
        self._bridge = bridge
        self._stdio = stdio
        self._process: ServerProcess | None = None
        self._secrets = secrets
        self._logins = logins
        self._home = home
        self._changed = changed
        self._hide = hide
        self._reconnect_s = reconnect_s
        self.status: Status = "connecting" if record.server.enabled else "disabled"
        self.problem = NO_PROBLEM
        self.hint = ""
        self.server_info: Connected | None = None
        self.log: deque[str] = deque(maxlen=LOG_LINES)
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        """The newest lines of the process that runs now."""
        self._seen: Sequence[ToolSeen] | None = None
        self._tools: list[ServerTool] | None = None
        self._link: int | None = None
        self._ended: asyncio.Future[None] | None = None
        self._retry = asyncio.Event()
        self._listed = asyncio.Event()
        self._call_slots = asyncio.Semaphore(CALLS_AT_ONCE)
        self._task: asyncio.Task[None] | None = None
        self._saves: set[asyncio.Task[None]] = set()

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
        await asyncio.gather(*self._saves)

    def apply(self, record: ServerRecord) -> bool:
        """Apply a change of consent, `allow` or `timeout_s` without a reconnect. `False` if the change needs one."""
        changes = {"allow": record.server.allow, "timeout_s": record.server.timeout_s}
        if self.server.model_copy(update=changes) != record.server:
            return False
        self.server, self._agreed = record.server, record.agreed
        self._reset_tools()
        return True

    @property
    def tools(self) -> list[ServerTool]:
        """Every tool with its state; empty until the server has listed its tools."""
        if self._tools is None:
            self._tools = [] if self._seen is None else evaluate_tools(self.server, self._seen, self._agreed)
        return self._tools

    @property
    def unavailability(self) -> Why:
        """Why no tool of the server can be called."""
        name, problem = self.server.server_id, self.problem or _CONNECTING
        if self.status == "disabled":
            return why(f"the MCP server {name} is disabled", "mcp.disabled", server=name)
        if self.status == "needs_login":
            sentence = f"the MCP server {name} needs a login: {problem}; {self.hint}"
            return why(sentence, "mcp.needs_login", server=name, inner={**problem.whole})
        sentence = f"the MCP server {name} is not connected: {problem}"
        return why(sentence, "mcp.server_not_connected", server=name, inner={**problem.whole})

    @property
    def connected(self) -> bool:
        return self.status == "connected" and self._seen is not None

    async def first_listing(self, limit_s: float) -> None:
        """Wait until the server has listed its tools, or the connection has failed."""
        try:
            async with asyncio.timeout(limit_s):
                await self._listed.wait()
        except TimeoutError:
            problem = why(f"it did not list its tools within {limit_s:g} s", "mcp.no_listing", seconds=limit_s)
            self._lose(problem, "check the command or the address")

    async def refresh(self, limit_s: float) -> None:
        """List the tools again, or retry the connection, now. Raises `TimeoutError`."""
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
            problem = self.problem or _CONNECTING
            raise ToolFailed(
                f"the MCP server {self.server.server_id} is not connected: {problem}",
                reason="mcp_server_not_connected",
                hint=f"see `bollard mcp show {self.server.server_id}`",
                server=self.server.server_id,
                **problem.whole,
            )
        loop = asyncio.get_running_loop()
        until = loop.time() + order.timeout_s
        try:
            async with asyncio.timeout(order.timeout_s):
                await self._call_slots.acquire()
        except TimeoutError:
            raise ToolFailed(
                f"{CALLS_AT_ONCE} calls of the MCP server {self.server.server_id} are active, which is the limit",
                reason="mcp_calls",
                hint="try again later",
                server=self.server.server_id,
                limit=CALLS_AT_ONCE,
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
            self._call_slots.release()

    # --- the loop ---

    async def _run(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await self._connect_once()
            failures = 1 if loop.time() - begun >= STEADY_S else failures + 1
            self._retry.clear()
            delay = min(RECONNECT_MAX_S, self._reconnect_s * 2 ** min(failures - 1, 20))
            try:
                # A server that needs a login is not retried until a person logs in.
                async with asyncio.timeout(None if self.status == "needs_login" else delay):
                    await self._retry.wait()
            except TimeoutError:
                continue

    async def _connect_once(self) -> None:
        """Open one connection and wait until it is lost."""
        self.status = "connecting"
        try:
            login = None
            if self.server.auth is not None:
                login = await self._logins.use(self.workspace, self.server)
                if login is None:
                    self._lose(why("no one has logged in to it", "mcp.no_login"), self._login_hint, "needs_login")
                    return
            link, self._process = self._bridge.next_link(), None
            order = await self._open_order(link, login)
            self._ended = asyncio.get_running_loop().create_future()
            self._link = link
            await self._bridge.open(order, self, self._process)
        except NotStarted as error:
            self._lose(error.problem, error.hint)
            return
        except HostError as error:
            self._lose(why_error(error), error.hint)
            return
        except OSError as error:
            problem = why(f"it cannot be started: {error}", "mcp.not_started", inner={**caused_by(error)})
            self._lose(problem, "check the data directory and the limits of the system")
            return
        await self._ended

    async def _open_order(self, link: int, login: Login | None) -> OpenStdio | OpenHttp:
        """The order that opens a connection. A command is started, in its folder. Raises `HostError`, `NotStarted` and
        `OSError`."""
        server = self.server
        if server.url is not None:
            url, headers = await resolve_address(server, self.workspace, server.url, self._secrets)
            return OpenHttp(link=link, url=url, headers=headers, protocol=server.protocol, start_s=START_S, login=login)
        self._last_lines.clear()
        values = await resolve_variables(server, self.workspace, self._secrets)
        folder = self._home / self.workspace / server.server_id
        await asyncio.to_thread(folder.mkdir, _PRIVATE, parents=True, exist_ok=True)
        self._process = await self._stdio.start(
            server,
            self.workspace,
            environment=worker_environment(os.environ),
            values=values,
            folder=folder.resolve(),
            say=self.link_logged,
        )
        return OpenStdio(link=link, group=self._process.group, protocol=server.protocol, start_s=START_S)

    # --- events of the bridge (LinkListener) ---

    def link_connected(self, info: Connected) -> None:
        self.server_info, self.status, self.problem, self.hint = info, "connected", NO_PROBLEM, ""
        _log.info(
            "an MCP server is connected", server=self.server.server_id, workspace=self.workspace, version=info.protocol
        )

    def link_tools(self, tools: Sequence[ToolSeen]) -> None:
        self._listed.set()
        if tools != self._seen:
            self._seen = tools
            self._reset_tools()

    def link_logged(self, line: str) -> None:
        line = self._hide(self.workspace, line)
        self.log.append(line)
        self._last_lines.append(line)

    def link_login(self, login: Login) -> None:
        task = asyncio.create_task(self._save_login(login))
        self._saves.add(task)
        task.add_done_callback(self._saves.discard)

    async def _save_login(self, login: Login) -> None:
        try:
            await self._logins.save(self.workspace, self.server, login, by="host")
        except HostError as error:  # the connection goes on; after a restart a person must log in again
            name = self.server.server_id
            _log.error("a renewed login was not saved", server=name, workspace=self.workspace, problem=error.message)

    def link_closed(self, closed: Closed) -> None:
        problem = Why(closed.problem, closed.details)
        hint = closed.hint
        missing = None if self._process is None else self._process.missing(self._last_lines)
        if missing is not None and (self.status == "connecting" or missing in (MEMORY_USED_UP, FOLDER_FILLED)):
            inner = {**problem.whole}
            cause = missing.problem
            problem = Why(f"{cause}: {problem}", {**cause.details, "inner": inner})
            hint = missing.hint
        problem = problem.without_secrets(lambda text: self._hide(self.workspace, text))
        if closed.needs_login:
            self._lose(problem, self._login_hint, "needs_login")
        else:
            self._lose(problem, hint)

    def link_ended(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    @property
    def _login_hint(self) -> str:
        return f"log in with `bollard mcp login {self.server.server_id}`"

    def _lose(self, problem: Why, hint: str, status: Literal["waiting", "needs_login"] = "waiting") -> None:
        had_tools = self._seen is not None
        self.status, self.problem, self.hint = status, problem, hint
        self._link, self._seen, self.server_info = None, None, None
        self._listed.set()
        name = self.server.server_id
        _log.warning("an MCP server is not connected", server=name, workspace=self.workspace, problem=problem.sentence)
        if had_tools:
            self._reset_tools()

    def _reset_tools(self) -> None:
        self._tools = None
        self._changed()
