"""Offers the tools of MCP servers as capabilities, `mcp:SERVER/TOOL`, and manages the servers.

A tool is offered if its server is connected, `allow` lists it, and its definition has consent. Other tools are absent,
with the reason.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.errors import Conflict, NotFound, Overloaded, ToolFailed, caused_by
from bollard.host.log.saved_resources import Saved, SavedChanges
from bollard.host.mcp.bridge import McpBridge
from bollard.host.mcp.connection import McpConnection, Status, resolve_address
from bollard.host.mcp.consent import ConsentMcpTools, ServerTool, ToolConsent, definition_of, terms_of, terms_on
from bollard.host.mcp.limits import RECONNECT_S, REFRESH_S, TRIES_AT_ONCE, TRY_S
from bollard.host.mcp.logins import (
    CompleteMcpLogin,
    LoginRepository,
    McpLogins,
    Secrets,
    StartedLogin,
    check_redirect,
    no_login,
)
from bollard.host.mcp.server_repository import McpServerRepository, ServerRecord
from bollard.host.mcp.servers import SavedMcpServer
from bollard.host.mcp.stdio_servers import StdioServers
from bollard.host.reason import Why, why
from bollard.host.store.store import Store
from bollard.host.workers.sandbox import WorkerSandbox
from bollard.protocol import JsonObject
from bollard.wire.bridge_frames import Connected

_PREFIX: Final = "mcp:"
_LIST: Final = "`bollard mcp list` lists them"
_GONE: Final = why("the server does not list it", "mcp.tool_gone")
_CHANGED: Final = why("its definition changed", "mcp.definition_changed")
UNSAVED: Final = "unsaved"
"""The id of a server that is tried before it is saved."""


class McpTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of trying an unsaved server."""

    status: Status
    problem: Why
    hint: str
    info: Connected | None
    tools: list[ServerTool]
    log: list[str]


class McpSource:
    """Implements `Source` and `Adapter` for MCP servers; saves, connects and logs in the servers. One per host."""

    def __init__(
        self,
        *,
        changes: SavedChanges,
        secrets: Secrets,
        clock: Clock,
        home: Path,
        egress: EgressClient,
        sandbox: WorkerSandbox | None = None,
        is_open: Callable[[str], bool] = lambda _: True,
        hide: Callable[[str, str], str] = lambda _, text: text,
        reconnect_s: float = RECONNECT_S,
    ) -> None:
        """Commands run in folders below `home`, which is in the data directory, confined by `sandbox`. `is_open` says
        whether a workspace is open; `hide` removes the secrets of a workspace from a text."""
        self._login_repository = LoginRepository(secrets)
        self.repository: Final = McpServerRepository(changes, self._changed, self._login_repository.leaving)
        self._stdio = StdioServers(sandbox, home.parent)
        self.bridge: Final = McpBridge(egress, is_confined=self._stdio.is_confined)
        self._logins = McpLogins(bridge=self.bridge, repository=self._login_repository, clock=clock, hide=hide)
        self._secrets = secrets
        self._clock = clock
        self._home = home
        self._is_open = is_open
        self._hide = hide
        self._reconnect_s = reconnect_s
        self._connections: dict[tuple[str, str], McpConnection] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._started = False
        self._revision = 0
        self._tries = 0

    async def load(self, store: Store) -> None:
        """Load the saved servers; connects nothing."""
        await self.repository.load(store)

    def start(self) -> None:
        """Connect the servers in the background."""
        self._started = True
        for connection in self._connections.values():
            connection.start()

    async def stop(self) -> None:
        self._started = False
        connections, self._connections = [*self._connections.values()], {}
        await asyncio.gather(*(connection.stop() for connection in connections), *self._ending)
        await self.bridge.stop()

    def close_workspace(self, workspace: str) -> None:
        """Disconnect the servers of a closed workspace."""
        for key in [key for key in self._connections if key[0] == workspace]:
            self._logins.drop(*key)
            self._end(self._connections.pop(key))
        self._revision += 1

    # --- the source ---

    @property
    def adapter(self) -> "McpSource":
        return self

    @property
    def revision(self) -> int:
        return self._revision

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        return [
            tool.capability
            for connection in self.connections(workspace)
            for tool in connection.tools
            if tool.state == "offered" and tool.capability is not None
        ]

    def absent(self, workspace: str) -> Mapping[str, Why]:
        absent: dict[str, Why] = {}
        for connection in self.connections(workspace):
            name = connection.server.server_id
            if not connection.connected:
                absent[f"{_PREFIX}{name}/"] = connection.unavailability
            for tool in connection.tools:
                if tool.state != "offered":
                    absent[f"{_PREFIX}{name}/{tool.name}"] = tool.problem
        return absent

    async def invoke(self, order: CallOrder) -> CallResult:
        """Raises `ToolFailed` and `OutcomeUnknown`."""
        name = order.capability.source.removeprefix(_PREFIX)
        connection = self._connections.get((order.context.workspace, name))
        if connection is None:
            raise ToolFailed(f"the MCP server {name} was removed", reason="mcp_server_removed", hint=_LIST, server=name)
        current = next((tool for tool in connection.tools if tool.name == order.capability.name), None)
        if connection.connected and (current is None or not _is_granted(current, order.capability)):
            problem = _GONE if current is None else current.problem or _CHANGED
            raise ToolFailed(
                f"{order.capability.id} is not the granted tool any more: {problem}",
                reason="mcp_tool_changed",
                hint=f"see the change with `bollard mcp show {name}`",
                tool=order.capability.id,
                **{"server": name, **problem.whole},
            )
        answer = await connection.call(order)
        return CallResult(content=tuple(answer.content), structured=answer.structured, is_error=answer.is_error)

    # --- saving and consent ---

    def connection(self, workspace: str, name: str) -> McpConnection | None:
        """The connection of a server, if the server exists."""
        return self._connections.get((workspace, name))

    async def save(
        self, body: JsonObject, workspace: str, name: str, *, by: str, edited: int | None
    ) -> Saved[ServerRecord]:
        """Save a server. Saving it unchanged reconnects it."""
        self._check_roots(SavedMcpServer.read({**body, "server_id": name}))
        before = self.repository.find(workspace, name)
        saved = await self.repository.save(body, workspace, name, by=by, edited=edited)
        if before is not None and before.value.server == saved.value.server:
            self._replace(saved)
        return saved

    async def try_out(self, body: JsonObject, workspace: str) -> McpTrial:
        """Connect a server that is not saved, list its tools, and disconnect it. Raises `InvalidRequest`, and
        `Overloaded` while others are tried."""
        server = SavedMcpServer.read({**body, "server_id": UNSAVED, "enabled": True})
        self._check_roots(server)
        if self._tries >= TRIES_AT_ONCE:
            raise Overloaded(
                f"{TRIES_AT_ONCE} MCP servers are being tried already",
                reason="mcp_tries",
                hint="try again in a moment",
                limit=TRIES_AT_ONCE,
            )
        self._tries += 1
        try:
            with tempfile.TemporaryDirectory(prefix="bollard-mcp-") as home:
                return await self._tried(ServerRecord(server=server, agreed={}), workspace, Path(home))
        finally:
            self._tries -= 1

    async def _tried(self, record: ServerRecord, workspace: str, home: Path) -> McpTrial:
        connection = McpConnection(
            workspace,
            record,
            bridge=self.bridge,
            stdio=self._stdio,
            secrets=self._secrets,
            logins=self._login_repository,
            home=home,
            changed=lambda: None,
            hide=self._hide,
            reconnect_s=self._reconnect_s,
        )
        connection.start()
        try:
            await connection.first_listing(TRY_S)
            return McpTrial(
                status=connection.status,
                problem=connection.problem,
                hint=connection.hint,
                info=connection.server_info,
                tools=connection.tools,
                log=[*connection.log],
            )
        finally:
            await self._stop_connection(connection)

    async def refresh(self, workspace: str, name: str) -> None:
        """List the tools of a server again. Raises `Conflict` if it is disabled or does not answer."""
        connection = self._get_connection(workspace, name)
        if connection.status == "disabled":
            raise _disabled(name)
        try:
            await connection.refresh(REFRESH_S)
        except TimeoutError:
            raise Conflict(
                f"the MCP server {name} did not answer within {REFRESH_S:g} s",
                reason="mcp_refresh",
                hint=f"see `bollard mcp show {name}`",
                server=name,
                seconds=REFRESH_S,
            ) from None

    async def consent(self, workspace: str, name: str, request: ConsentMcpTools, by: str) -> Saved[ServerRecord]:
        """Save a person's consents to current definitions, and withdraw others. Raises `Conflict` for a definition
        that changed since the person saw it."""
        connection = self._get_connection(workspace, name)
        listed = {tool.name: tool for tool in connection.tools}
        consents: dict[str, ToolConsent] = {}
        for each in request.tools:
            tool = listed.get(each.name)
            if tool is None or tool.capability is None:
                problem = _GONE if tool is None else tool.problem
                raise Conflict(
                    f"the tool {each.name} cannot be used: {problem}",
                    reason="mcp_tool_unusable",
                    hint=f"list the tools with `bollard mcp show {name}`",
                    tool=each.name,
                    **{"server": name, **problem.whole},
                )
            if tool.capability.definition_sha256 != each.definition_sha256:
                raise Conflict(
                    f"the definition of {each.name} changed since you saw it",
                    reason="mcp_definition_changed",
                    hint="read the definition again, then consent to it",
                    tool=each.name,
                    definition_sha256=tool.capability.definition_sha256,
                )
            consents[each.name] = ToolConsent(
                definition_sha256=each.definition_sha256,
                definition=definition_of(tool.capability),
                terms=terms_of(each, terms_on(tool.capability)),
                by=by,
                at=self._clock.now_ms() / 1000,
            )
        return await self.repository.agree(workspace, name, consents, frozenset(request.withdraw), by=by)

    def _check_roots(self, server: SavedMcpServer) -> None:
        """Raise `InvalidRequest` if the operator of the host does not allow a path of the server's sandbox."""
        if (path := self._stdio.denied(server.sandbox)) is not None:
            raise server.invalid(
                "mcp_path_denied",
                "sandbox",
                f"{path} is below none of the roots that the operator allows",
                f"an operator can allow it: add {path} to sandbox_roots, and restart the host",
                path=path,
            )

    # --- logins ---

    async def begin_login(self, workspace: str, name: str, redirect_uri: str, by: str) -> StartedLogin:
        """Begin a login; returns where the person logs in. Raises `InvalidRequest` and `Conflict`."""
        check_redirect(redirect_uri)
        server = self.repository.get(workspace, name).value.server
        if server.url is None or server.auth is None:
            raise no_login(name)
        if not server.enabled:
            raise _disabled(name)
        url, headers = await resolve_address(server, workspace, server.url, self._secrets)
        try:
            return await self._logins.begin(workspace, server, headers, url, redirect_uri, by)
        except OSError as error:
            raise Conflict(
                f"the MCP bridge process cannot be started: {error}",
                reason="mcp_bridge_start",
                hint="check the limits of the system",
                **caused_by(error),
            ) from error

    async def complete_login(
        self, workspace: str, name: str, callback: CompleteMcpLogin, by: str
    ) -> Saved[ServerRecord]:
        """Complete a login and reconnect the server. Raises `InvalidRequest` and `Conflict`."""
        saved = self.repository.get(workspace, name)
        login = await self._logins.complete(workspace, saved.value.server, callback, by)
        await self._login_repository.save(workspace, saved.value.server, login, by=by)
        current = self.repository.get(workspace, name)
        self._replace(current)
        return current

    async def logout(self, workspace: str, name: str, by: str) -> Saved[ServerRecord]:
        """Remove the login of a server. Raises `Conflict` if there is none."""
        self.repository.get(workspace, name)
        self._logins.drop(workspace, name)
        running = self._connections.get((workspace, name))
        if running is not None:
            await running.stop()  # first, or a token being renewed would be saved after the logout
        try:
            await self._login_repository.forget(workspace, name, by=by)
        finally:
            saved = self.repository.get(workspace, name)
            self._replace(saved)
        return saved

    # --- connections ---

    def connections(self, workspace: str) -> list[McpConnection]:
        if not self._is_open(workspace):
            return []
        return [connection for (owner, _), connection in sorted(self._connections.items()) if owner == workspace]

    def _get_connection(self, workspace: str, name: str) -> McpConnection:
        self.repository.get(workspace, name)
        connection = self._connections.get((workspace, name))
        if connection is None:
            raise NotFound("there is no such MCP server", reason="mcp_server", hint=_LIST)
        return connection

    def _changed(self, before: Saved[ServerRecord] | None, after: Saved[ServerRecord] | None) -> None:
        self._revision += 1
        either = after or before
        if either is None:
            return
        key = either.workspace, either.id
        running = self._connections.get(key)
        if after is None:
            self._logins.drop(*key)
            if running is not None:
                self._end(self._connections.pop(key))
        elif running is None or not running.apply(after.value):
            self._replace(after)

    def _replace(self, saved: Saved[ServerRecord]) -> None:
        """Open a new connection, and end the current one."""
        running = self._connections.pop((saved.workspace, saved.id), None)
        if running is not None:
            self._end(running)
        if not self._is_open(saved.workspace):
            return
        connection = self._connections[saved.workspace, saved.id] = McpConnection(
            saved.workspace,
            saved.value,
            bridge=self.bridge,
            stdio=self._stdio,
            secrets=self._secrets,
            logins=self._login_repository,
            home=self._home,
            changed=self._bump,
            hide=self._hide,
            reconnect_s=self._reconnect_s,
        )
        self._revision += 1
        if self._started:
            connection.start()

    def _bump(self) -> None:
        self._revision += 1

    def _end(self, connection: McpConnection) -> None:
        task = asyncio.create_task(self._stop_connection(connection))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _stop_connection(self, connection: McpConnection) -> None:
        await connection.stop()
        if not any(each.server.enabled for each in self._connections.values()):
            await self.bridge.rest()


def _disabled(name: str) -> Conflict:
    return Conflict(
        f"the MCP server {name} is disabled", reason="mcp_disabled", hint="save it with `enabled: true`", server=name
    )


def _is_granted(tool: ServerTool, granted: Capability) -> bool:
    return (
        tool.state == "offered"
        and tool.capability is not None
        and tool.capability.definition_sha256 == granted.definition_sha256
    )
