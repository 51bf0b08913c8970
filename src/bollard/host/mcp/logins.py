"""Logins that are under way: begun by somebody, and completed by the same within ten minutes, once.

Where a person goes and what comes of it is found out by the bridge.
"""

import hmac
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Final, Protocol
from urllib.parse import urlsplit

import msgspec
from pydantic import Field

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, InvalidRequest
from bollard.host.log.saved_resources import JointChange
from bollard.host.mcp.bridge import McpBridge
from bollard.host.mcp.limits import LOGIN_CHARACTERS, LOGIN_S, LOGIN_STEP_S
from bollard.host.mcp.servers import McpServer
from bollard.host.secrets.references import own_name, referred
from bollard.protocol import Strict
from bollard.trust import canonical_sha256
from bollard.wire.addresses import is_loopback
from bollard.wire.bridge_frames import BeginLogin, FinishLogin, Login, LoginEnded

# What logins left behind, in the vault: as a secret that belongs to its server, is bound to its address, and goes with
# it.


_KIND: Final = "mcp_server"
_FIELD: Final = "login"


class Secrets(Protocol):
    """Where the values behind `secret:NAME` are, and where what belongs to a server is kept."""

    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]: ...

    def find(self, workspace: str, name: str, /) -> object | None: ...

    async def keep_own(self, workspace: str, name: str, value: str, *, by: str) -> object: ...

    async def drop_own(self, workspace: str, name: str, *, by: str) -> None: ...

    def leaving(self, workspace: str, names: Iterable[str], by: str) -> JointChange: ...


class _Rest(msgspec.Struct, frozen=True, kw_only=True):
    """What is no secret of a login, and yet nobody's business."""

    bound_to: str
    login: Login


class LoginRepository:
    """One per host."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def use(self, workspace: str, server: McpServer, *, by: str = "host") -> Login | None:
        """The login of a server; nothing where nobody has logged in for what it is now. Raises `HostError` where a
        secret cannot be had."""
        own, oauth = _name(server.name), server.oauth
        if oauth is None or self._secrets.find(workspace, own) is None:
            return None
        names = [own] if oauth.client_secret is None else [own, referred(oauth.client_secret)]
        known = await self._secrets.use_all(workspace, names, purpose=f"mcp:{server.name}", by=by)
        login = _read(known[own], server)
        if login is None or oauth.client_secret is None:
            return login
        return msgspec.structs.replace(login, client_secret=known[names[1]])

    async def client_secret(self, workspace: str, server: McpServer, *, by: str) -> str | None:
        """Of a client that was registered by hand. Raises `HostError`."""
        if server.oauth is None or server.oauth.client_secret is None:
            return None
        name = referred(server.oauth.client_secret)
        return (await self._secrets.use_all(workspace, [name], purpose=f"mcp:{server.name}", by=by))[name]

    async def keep(self, workspace: str, server: McpServer, login: Login, *, by: str) -> None:
        """Raises `HostError`."""
        text = _written(login, server)
        if len(text) > LOGIN_CHARACTERS:
            raise Conflict(
                f"what the login left behind has more than {LOGIN_CHARACTERS} characters",
                hint="ask for fewer scopes: tokens name what they are for",
            )
        await self._secrets.keep_own(workspace, _name(server.name), text, by=by)

    async def forget(self, workspace: str, name: str, *, by: str) -> None:
        """Raises `Conflict` where nobody has logged in."""
        if self._secrets.find(workspace, _name(name)) is None:
            raise Conflict(f"nobody has logged in for the MCP server {name}", hint=f"`bollard mcp login {name}` does")
        await self._secrets.drop_own(workspace, _name(name), by=by)

    def leaving(self, workspace: str, name: str, by: str) -> JointChange:
        """What goes with a server."""
        return self._secrets.leaving(workspace, [_name(name)], by)


def _name(server: str) -> str:
    return own_name(_KIND, server, _FIELD)


def _bound_to(server: McpServer) -> str:
    """A token goes to no other address, and to no other client, than it was made for."""
    client = None if server.oauth is None else server.oauth.client_id
    return canonical_sha256({"url": server.url, "client_id": client})


def _written(login: Login, server: McpServer) -> str:
    """Each value that must not be seen on a line of its own, because the redactor looks for lines."""
    by_reference = server.oauth is not None and server.oauth.client_secret is not None
    secret = "" if by_reference else login.client_secret or ""
    rest = _Rest(
        bound_to=_bound_to(server),
        login=msgspec.structs.replace(login, access_token="", refresh_token=None, client_secret=None),
    )
    return "\n".join((login.access_token, login.refresh_token or "", secret, msgspec.json.encode(rest).decode()))


def _read(text: str, server: McpServer) -> Login | None:
    access, refresh, secret, encoded = text.split("\n", 3)
    rest = msgspec.json.decode(encoded, type=_Rest)
    if rest.bound_to != _bound_to(server):
        return None
    return msgspec.structs.replace(
        rest.login, access_token=access, refresh_token=refresh or None, client_secret=secret or None
    )


_Word = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")]


class BeginMcpLogin(Strict):
    """`POST /api/v1/mcp-servers/{server_id}/login`."""

    redirect_uri: Annotated[str, Field(max_length=256)] = Field(
        description="Where the browser comes back to: `http`, a loopback address, with a port."
    )


class CompleteMcpLogin(Strict):
    """`POST /api/v1/mcp-servers/{server_id}/login/complete`: what the browser came back with."""

    code: _Word
    state: _Word
    iss: _Word | None = None


class StartedLogin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a person goes now."""

    url: str
    state: str
    expires_ms: int


class _Pending(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    server: McpServer
    by: str
    state: str
    expires_ms: int


class McpLogins:
    """One per host."""

    def __init__(
        self, *, bridge: McpBridge, repository: LoginRepository, clock: Clock, hide: Callable[[str, str], str]
    ) -> None:
        self._bridge = bridge
        self._repository = repository
        self._clock = clock
        self._hide = hide
        self._pending: dict[tuple[str, str], _Pending] = {}

    async def begin(
        self, workspace: str, server: McpServer, headers: Mapping[str, str], url: str, redirect_uri: str, by: str
    ) -> StartedLogin:
        """`url` and `headers` with their secrets. One that was begun before for this server is dropped. Raises
        `InvalidRequest` and `Conflict`."""
        check_redirect(redirect_uri)
        if server.oauth is None:
            raise Conflict(f"the MCP server {server.name} has no login", hint='save it with `auth: "oauth"`')
        self.drop(workspace, server.name)
        before = await self._repository.use(workspace, server, by=by)
        order = BeginLogin(
            login=self._bridge.next_link(),
            url=url,
            headers=dict(headers),
            redirect_uri=redirect_uri,
            scopes=list(server.oauth.scopes),
            client_id=server.oauth.client_id,
            client_secret=await self._repository.client_secret(workspace, server, by=by),
            client=None if before is None else before.client,
            registered_secret=None if before is None else before.client_secret,
            limit_s=LOGIN_S,
        )
        asked = await self._bridge.begin_login(order, LOGIN_STEP_S)
        if isinstance(asked, LoginEnded):
            raise self._failed(workspace, server, asked)
        expires_ms = self._clock.now_ms() + round(LOGIN_S * 1000)
        self.drop(workspace, server.name)  # somebody else may have begun meanwhile
        self._pending[workspace, server.name] = _Pending(
            number=order.login, server=server, by=by, state=asked.state, expires_ms=expires_ms
        )
        return StartedLogin(url=asked.url, state=asked.state, expires_ms=expires_ms)

    async def complete(self, workspace: str, server: McpServer, given: CompleteMcpLogin, by: str) -> Login:
        """What came of it, which is not kept yet. Raises `InvalidRequest` and `Conflict`."""
        key = workspace, server.name
        pending = self._pending.get(key)
        if pending is None or pending.by != by or pending.server != server or self._is_over(key, pending):
            raise Conflict(
                f"no login of yours for the MCP server {server.name} is under way",
                hint=f"it is used once, within {LOGIN_S / 60:g} minutes: `bollard mcp login {server.name}` begins one",
            )
        if not hmac.compare_digest(pending.state, given.state):
            raise InvalidRequest(
                "state is not that of the login that was begun", hint="begin the login again", field="state"
            )
        del self._pending[key]
        order = FinishLogin(login=pending.number, code=given.code, state=given.state, iss=given.iss)
        ended = await self._bridge.finish_login(order, LOGIN_STEP_S)
        if ended.made is None:
            raise self._failed(workspace, server, ended)
        return ended.made

    def drop(self, workspace: str, name: str) -> None:
        """Nobody comes back from this one."""
        if (pending := self._pending.pop((workspace, name), None)) is not None:
            self._bridge.drop_login(pending.number)

    def _is_over(self, key: tuple[str, str], pending: _Pending) -> bool:
        if pending.expires_ms > self._clock.now_ms():
            return False
        self.drop(*key)
        return True

    def _failed(self, workspace: str, server: McpServer, ended: LoginEnded) -> Conflict:
        return Conflict(
            f"the login for the MCP server {server.name} failed: {self._hide(workspace, ended.problem)}",
            hint=ended.hint or f"`bollard mcp login {server.name}` begins another",
        )


def check_redirect(uri: str) -> None:
    """Raises `InvalidRequest` for anything but a port of the machine that the browser is on: whoever is sent a code
    there must be who asked for it."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    plain = not (parts.query or parts.fragment or parts.username is not None or parts.password is not None)
    written = uri.isascii() and all(character > " " for character in uri)
    if parts.scheme != "http" or not port or not plain or not written or not is_loopback(host):
        raise InvalidRequest(
            "redirect_uri is no loopback address",
            hint="use something like http://127.0.0.1:53682/callback",
            field="redirect_uri",
        )
