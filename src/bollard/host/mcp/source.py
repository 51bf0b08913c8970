"""The tools of MCP servers as capabilities: `mcp:SERVER/TOOL`. Offered is what is connected, allowed and agreed to, as
it was agreed to; everything else is absent, with the reason."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, NotFound, ToolFailed
from bollard.host.log.saved_resources import Saved, SavedChanges
from bollard.host.mcp.bridge import McpBridge
from bollard.host.mcp.connection import McpConnection, place
from bollard.host.mcp.consent import ConsentMcpTools, ServerTool, Terms, ToolConsent, definition_of, terms_of
from bollard.host.mcp.limits import RECONNECT_S, REFRESH_S
from bollard.host.mcp.logins import CompleteMcpLogin, LoginRepository, McpLogins, Secrets, StartedLogin, check_redirect
from bollard.host.mcp.server_repository import McpServerRepository, ServerRecord
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_PREFIX: Final = "mcp:"


class McpSource:
    """One per host: a source of capabilities, the adapter for them, and the servers behind it."""

    def __init__(
        self,
        *,
        changes: SavedChanges,
        secrets: Secrets,
        clock: Clock,
        home: Path,
        is_open: Callable[[str], bool] = lambda _: True,
        hide: Callable[[str, str], str] = lambda _, text: text,
        reconnect_s: float = RECONNECT_S,
    ) -> None:
        """Commands run in folders below `home`. `is_open` says whether a workspace is there; `hide` takes the secrets
        of a workspace out of a text."""
        self._login_repository = LoginRepository(secrets)
        self.repository: Final = McpServerRepository(changes, self._changed, self._login_repository.leaving)
        self.bridge: Final = McpBridge()
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

    async def load(self, store: Store) -> None:
        """What people saved; nothing is connected yet."""
        await self.repository.load(store)

    def start(self) -> None:
        """Begin to connect, in the background: nobody waits for a server."""
        self._started = True
        for connection in self._connections.values():
            connection.start()

    async def stop(self) -> None:
        self._started = False
        every, self._connections = [*self._connections.values()], {}
        await asyncio.gather(*(connection.stop() for connection in every), *self._ending)
        await self.bridge.stop()

    def close_workspace(self, workspace: str) -> None:
        """Nobody works there any more: its servers are ended."""
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
            for connection in self._of(workspace)
            for tool in connection.tools
            if tool.state == "offered" and tool.capability is not None
        ]

    def absent(self, workspace: str) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for connection in self._of(workspace):
            name = connection.server.name
            if not connection.connected:
                found[f"{_PREFIX}{name}/"] = _why_away(connection)
            for tool in connection.tools:
                if tool.state != "offered":
                    found[f"{_PREFIX}{name}/{tool.name}"] = tool.problem
        return found

    async def invoke(self, order: CallOrder) -> CallResult:
        """Raises `ToolFailed` and `OutcomeUnknown`."""
        name = order.capability.source.removeprefix(_PREFIX)
        connection = self._connections.get((order.context.workspace, name))
        if connection is None:
            raise ToolFailed(f"there is no MCP server {name} any more", hint="`bollard mcp list` lists them")
        now = next((tool for tool in connection.tools if tool.name == order.capability.name), None)
        if connection.connected and (now is None or not _is_granted(now, order.capability)):
            problem = "the server does not list it any more" if now is None else now.problem
            raise ToolFailed(
                f"{order.capability.id} is not what was granted: {problem or 'its definition changed'}",
                hint=f"`bollard mcp show {name}` shows what changed",
            )
        said = await connection.call(order)
        return CallResult(content=tuple(said.content), structured=said.structured, is_error=said.is_error)

    # --- what people do ---

    def connection(self, workspace: str, name: str) -> McpConnection | None:
        """How a server is, where there is one."""
        return self._connections.get((workspace, name))

    async def save(
        self, body: JsonObject, workspace: str, name: str, *, by: str, edited: int | None
    ) -> Saved[ServerRecord]:
        """A server, or a new version of one. Saved again as it was, it is started anew."""
        before = self.repository.find(workspace, name)
        saved = await self.repository.save(body, workspace, name, by=by, edited=edited)
        if before is not None and before.thing.server == saved.thing.server:
            self._replace(saved)
        return saved

    async def refresh(self, workspace: str, name: str) -> None:
        """Have its tools listed again now. Raises `Conflict` where nothing comes of it."""
        connection = self._there(workspace, name)
        if connection.status == "disabled":
            raise Conflict(f"the MCP server {name} is switched off", hint="save it with `enabled: true`")
        try:
            await connection.refresh(REFRESH_S)
        except TimeoutError:
            raise Conflict(
                f"the MCP server {name} did not answer within {REFRESH_S:g} s",
                hint=f"`bollard mcp show {name}` says more",
            ) from None

    async def consent(self, workspace: str, name: str, given: ConsentMcpTools, by: str) -> Saved[ServerRecord]:
        """A person says yes to definitions as they are now, and no to others. Raises `Conflict` for a definition that
        is another one by now."""
        connection = self._there(workspace, name)
        listed = {tool.name: tool for tool in connection.tools}
        yes: dict[str, ToolConsent] = {}
        for each in given.tools:
            tool = listed.get(each.name)
            if tool is None or tool.capability is None:
                problem = "is not listed by the server now" if tool is None else f"cannot be used: {tool.problem}"
                raise Conflict(f"{each.name} {problem}", hint=f"`bollard mcp show {name}` lists what there is")
            if tool.capability.definition_sha256 != each.definition_sha256:
                raise Conflict(
                    f"the definition of {each.name} is another one by now",
                    hint="look at it again, and say yes to what is there",
                    definition_sha256=tool.capability.definition_sha256,
                )
            yes[each.name] = ToolConsent(
                definition_sha256=each.definition_sha256,
                definition=definition_of(tool.capability),
                terms=terms_of(each, _terms(tool.capability)),
                by=by,
                at_ms=self._clock.now_ms(),
            )
        return await self.repository.agree(workspace, name, yes, frozenset(given.withdraw), by=by)

    # --- logging in ---

    async def begin_login(self, workspace: str, name: str, redirect_uri: str, by: str) -> StartedLogin:
        """Where a person goes now. Raises `InvalidRequest` and `Conflict`."""
        check_redirect(redirect_uri)
        server = self.repository.get(workspace, name).thing.server
        if server.url is None or server.oauth is None:
            raise Conflict(f"the MCP server {name} has no login", hint='save it with an address and `auth: "oauth"`')
        if not server.enabled:
            raise Conflict(f"the MCP server {name} is switched off", hint="save it with `enabled: true`")
        url, headers = await place(server, workspace, server.url, self._secrets)
        try:
            return await self._logins.begin(workspace, server, headers, url, redirect_uri, by)
        except OSError as error:
            raise Conflict(
                f"the process that speaks MCP cannot be started: {error}", hint="look at the limits of the system"
            ) from error

    async def complete_login(self, workspace: str, name: str, given: CompleteMcpLogin, by: str) -> Saved[ServerRecord]:
        """A person came back, and the server is connected anew. Raises `InvalidRequest` and `Conflict`."""
        saved = self.repository.get(workspace, name)
        made = await self._logins.complete(workspace, saved.thing.server, given, by)
        await self._login_repository.keep(workspace, saved.thing.server, made, by=by)
        now = self.repository.get(workspace, name)
        self._replace(now)
        return now

    async def logout(self, workspace: str, name: str, by: str) -> Saved[ServerRecord]:
        """Forget who logged in. Raises `Conflict` where nobody did."""
        self.repository.get(workspace, name)
        self._logins.drop(workspace, name)
        running = self._connections.get((workspace, name))
        if running is not None:
            await running.stop()  # before, or a token that is renewed right now would be kept behind its back
        try:
            await self._login_repository.forget(workspace, name, by=by)
        finally:
            saved = self.repository.get(workspace, name)
            self._replace(saved)
        return saved

    # --- servers come and go ---

    def _of(self, workspace: str) -> list[McpConnection]:
        if not self._is_open(workspace):
            return []
        return [connection for (where, _), connection in sorted(self._connections.items()) if where == workspace]

    def _there(self, workspace: str, name: str) -> McpConnection:
        self.repository.get(workspace, name)
        connection = self._connections.get((workspace, name))
        if connection is None:
            raise NotFound("there is no such MCP server", hint="`bollard mcp list` lists them")
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
        elif running is None or not running.keeps_to(after.thing):
            self._replace(after)

    def _replace(self, saved: Saved[ServerRecord]) -> None:
        """A new connection, in the place of one that may be there."""
        running = self._connections.pop((saved.workspace, saved.id), None)
        if running is not None:
            self._end(running)
        if not self._is_open(saved.workspace):
            return
        made = self._connections[saved.workspace, saved.id] = McpConnection(
            saved.workspace,
            saved.thing,
            bridge=self.bridge,
            secrets=self._secrets,
            logins=self._login_repository,
            home=self._home,
            changed=self._bump,
            hide=self._hide,
            reconnect_s=self._reconnect_s,
        )
        self._revision += 1
        if self._started:
            made.start()

    def _bump(self) -> None:
        self._revision += 1

    def _end(self, connection: McpConnection) -> None:
        task = asyncio.create_task(self._ended(connection))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _ended(self, connection: McpConnection) -> None:
        await connection.stop()
        if not any(each.server.enabled for each in self._connections.values()):
            await self.bridge.rest()


def _why_away(connection: McpConnection) -> str:
    name = connection.server.name
    if connection.status == "disabled":
        return f"the MCP server {name} is switched off"
    if connection.status == "needs_login":
        return f"the MCP server {name} needs a login: {connection.problem}; {connection.hint}"
    return f"the MCP server {name} is not connected: {connection.problem or 'it is being connected'}"


def _is_granted(now: ServerTool, granted: Capability) -> bool:
    return (
        now.state == "offered"
        and now.capability is not None
        and now.capability.definition_sha256 == granted.definition_sha256
    )


def _terms(capability: Capability) -> Terms:
    return Terms(risk=capability.risk, flow=capability.flow, effects=capability.effects, approval=capability.approval)
