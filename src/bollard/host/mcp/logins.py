"""OAuth logins for MCP servers: `McpLogins` runs them, `LoginRepository` stores their tokens in the vault.

The user who begins a login completes it, once, within `LOGIN_S`. The bridge speaks OAuth.
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
from bollard.host.mcp.servers import SavedMcpServer
from bollard.host.reason import Why
from bollard.host.secrets.references import own_name, referred
from bollard.protocol import Strict
from bollard.trust import canonical_sha256
from bollard.wire.addresses import is_loopback
from bollard.wire.bridge_frames import BeginLogin, FinishLogin, Login, LoginEnded

# --- stored logins ---

_KIND: Final = "mcp_server"
_FIELD: Final = "login"


class Secrets(Protocol):
    """The part of the vault that MCP servers use: values of `secret:NAME`, and secrets that belong to a server."""

    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]: ...

    def find(self, workspace: str, name: str, /) -> object | None: ...

    async def keep_own(self, workspace: str, name: str, value: str, *, by: str) -> object: ...

    async def drop_own(self, workspace: str, name: str, *, by: str) -> None: ...

    def leaving(self, workspace: str, names: Iterable[str], by: str) -> JointChange: ...


class _LoginBody(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a stored login that holds no secret values."""

    bound_to: str
    login: Login


class LoginRepository:
    """Stores the login of each server as a secret that belongs to the server, is bound to its address, and is removed
    with it."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def use(self, workspace: str, server: SavedMcpServer, *, by: str = "host") -> Login | None:
        """The login of a server, or `None` without one for its current address and client. Raises `HostError` if a
        secret is unavailable."""
        own = _name(server.server_id)
        if server.auth is None or self._secrets.find(workspace, own) is None:
            return None
        names = [own] if server.client_secret is None else [own, referred(server.client_secret)]
        known = await self._secrets.use_all(workspace, names, purpose=f"mcp:{server.server_id}", by=by)
        login = _decode(known[own], server)
        if login is None or server.client_secret is None:
            return login
        return msgspec.structs.replace(login, client_secret=known[names[1]])

    async def client_secret(self, workspace: str, server: SavedMcpServer, *, by: str) -> str | None:
        """The secret of a client that was registered by hand. Raises `HostError`."""
        if server.client_secret is None:
            return None
        name = referred(server.client_secret)
        return (await self._secrets.use_all(workspace, [name], purpose=f"mcp:{server.server_id}", by=by))[name]

    async def save(self, workspace: str, server: SavedMcpServer, login: Login, *, by: str) -> None:
        """Store a login. Raises `HostError`."""
        text = _encode(login, server)
        if len(text) > LOGIN_CHARACTERS:
            raise Conflict(
                f"the tokens of the login have more than {LOGIN_CHARACTERS} characters",
                reason="mcp_login_size",
                hint="request fewer scopes",
                limit=LOGIN_CHARACTERS,
            )
        await self._secrets.keep_own(workspace, _name(server.server_id), text, by=by)

    async def forget(self, workspace: str, name: str, *, by: str) -> None:
        """Remove a login. Raises `Conflict` if there is none."""
        if self._secrets.find(workspace, _name(name)) is None:
            raise Conflict(
                f"no one has logged in to the MCP server {name}",
                reason="mcp_not_logged_in",
                hint=f"log in with `bollard mcp login {name}`",
                server=name,
            )
        await self._secrets.drop_own(workspace, _name(name), by=by)

    def leaving(self, workspace: str, name: str, by: str) -> JointChange:
        """The change that removes the login together with its server."""
        return self._secrets.leaving(workspace, [_name(name)], by)


def _name(server: str) -> str:
    return own_name(_KIND, server, _FIELD)


def _bound_to(server: SavedMcpServer) -> str:
    """A digest of the address and client. A token is never sent to another address or used with another client."""
    return canonical_sha256({"url": server.url, "client_id": server.client_id})


def _encode(login: Login, server: SavedMcpServer) -> str:
    """The stored text. Each secret value is on a line of its own, because the redactor matches whole lines."""
    secret = "" if server.client_secret is not None else login.client_secret or ""
    body = _LoginBody(
        bound_to=_bound_to(server),
        login=msgspec.structs.replace(login, access_token="", refresh_token=None, client_secret=None),
    )
    return "\n".join((login.access_token, login.refresh_token or "", secret, msgspec.json.encode(body).decode()))


def _decode(text: str, server: SavedMcpServer) -> Login | None:
    access, refresh, secret, encoded = text.split("\n", 3)
    body = msgspec.json.decode(encoded, type=_LoginBody)
    if body.bound_to != _bound_to(server):
        return None
    return msgspec.structs.replace(
        body.login, access_token=access, refresh_token=refresh or None, client_secret=secret or None
    )


# --- logins in progress ---

_Word = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[\x21-\x7e]+$")]


class BeginMcpLogin(Strict):
    """`POST /api/v1/mcp-servers/{server_id}/login`."""

    redirect_uri: Annotated[str, Field(max_length=256)] = Field(
        description="The redirect URI of the browser: `http`, a loopback address, with a port."
    )


class CompleteMcpLogin(Strict):
    """`POST /api/v1/mcp-servers/{server_id}/login/complete`: the query of the redirect."""

    code: _Word
    state: _Word
    iss: _Word | None = None


class StartedLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login in progress, and the address where the person logs in."""

    url: str
    state: str
    expires_ms: int


class _Pending(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    server: SavedMcpServer
    by: str
    state: str
    expires_ms: int


class McpLogins:
    """Begins and completes logins. One per host."""

    def __init__(
        self, *, bridge: McpBridge, repository: LoginRepository, clock: Clock, hide: Callable[[str, str], str]
    ) -> None:
        self._bridge = bridge
        self._repository = repository
        self._clock = clock
        self._hide = hide
        self._pending: dict[tuple[str, str], _Pending] = {}

    async def begin(
        self, workspace: str, server: SavedMcpServer, headers: Mapping[str, str], url: str, redirect_uri: str, by: str
    ) -> StartedLogin:
        """Begin a login and drop an earlier one for this server. `url` and `headers` contain their secrets. Raises
        `InvalidRequest` and `Conflict`."""
        check_redirect(redirect_uri)
        if server.auth is None:
            raise no_login(server.server_id)
        self.drop(workspace, server.server_id)
        before = await self._repository.use(workspace, server, by=by)
        order = BeginLogin(
            login=self._bridge.next_link(),
            url=url,
            headers=dict(headers),
            redirect_uri=redirect_uri,
            scopes=list(server.scopes),
            client_id=server.client_id,
            client_secret=await self._repository.client_secret(workspace, server, by=by),
            client=None if before is None else before.client,
            registered_secret=None if before is None else before.client_secret,
            limit_s=LOGIN_S,
        )
        prompt = await self._bridge.begin_login(order, LOGIN_STEP_S)
        if isinstance(prompt, LoginEnded):
            raise self._failed(workspace, server, prompt)
        expires_ms = self._clock.now_ms() + round(LOGIN_S * 1000)
        self.drop(workspace, server.server_id)  # another user may have begun a login during the await
        self._pending[workspace, server.server_id] = _Pending(
            number=order.login, server=server, by=by, state=prompt.state, expires_ms=expires_ms
        )
        return StartedLogin(url=prompt.url, state=prompt.state, expires_ms=expires_ms)

    async def complete(self, workspace: str, server: SavedMcpServer, callback: CompleteMcpLogin, by: str) -> Login:
        """Exchange the code of the callback for a login, which is not stored yet. Raises `InvalidRequest` and
        `Conflict`."""
        key = workspace, server.server_id
        pending = self._pending.get(key)
        if pending is None or pending.by != by or pending.server != server or self._is_over(key, pending):
            command = f"bollard mcp login {server.server_id}"
            raise Conflict(
                f"you have no login for the MCP server {server.server_id} in progress",
                reason="mcp_no_pending_login",
                hint=f"begin one with `{command}`, to be completed in {LOGIN_S / 60:g} minutes",
                server=server.server_id,
                minutes=LOGIN_S / 60,
            )
        if not hmac.compare_digest(pending.state, callback.state):
            raise InvalidRequest(
                "state does not match the login in progress",
                reason="mcp_login_state",
                hint="begin the login again",
                field="state",
            )
        del self._pending[key]
        order = FinishLogin(login=pending.number, code=callback.code, state=callback.state, iss=callback.iss)
        ended = await self._bridge.finish_login(order, LOGIN_STEP_S)
        if ended.made is None:
            raise self._failed(workspace, server, ended)
        return ended.made

    def drop(self, workspace: str, name: str) -> None:
        """Drop a login in progress."""
        if (pending := self._pending.pop((workspace, name), None)) is not None:
            self._bridge.drop_login(pending.number)

    def _is_over(self, key: tuple[str, str], pending: _Pending) -> bool:
        if pending.expires_ms > self._clock.now_ms():
            return False
        self.drop(*key)
        return True

    def _failed(self, workspace: str, server: SavedMcpServer, ended: LoginEnded) -> Conflict:
        problem = Why(ended.problem, ended.details).without_secrets(lambda text: self._hide(workspace, text))
        return Conflict(
            f"the login for the MCP server {server.server_id} failed: {problem}",
            reason="mcp_login_failed",
            hint=ended.hint or f"try again with `bollard mcp login {server.server_id}`",
            server=server.server_id,
            **problem.whole,
        )


def no_login(server: str) -> Conflict:
    """The error of a login for a server that is saved without one."""
    return Conflict(
        f"the MCP server {server} has no login",
        reason="mcp_no_login",
        hint='save it with a url and `auth: "oauth"`',
        server=server,
    )


def check_redirect(uri: str) -> None:
    """Raises `InvalidRequest` unless the URI is a loopback address with a port: the code must reach the user who began
    the login."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    plain = not (parts.query or parts.fragment or parts.username is not None or parts.password is not None)
    is_printable = uri.isascii() and all(character > " " for character in uri)
    if parts.scheme != "http" or not port or not plain or not is_printable or not is_loopback(host):
        raise InvalidRequest(
            "redirect_uri is not a loopback address with a port",
            reason="mcp_redirect",
            hint="use an address like http://127.0.0.1:53682/callback",
            field="redirect_uri",
        )
