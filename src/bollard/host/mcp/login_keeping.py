"""What logins left behind, in the vault: as a secret that belongs to its server, is bound to its address, and goes with
it."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec

from bollard.host.errors import Conflict
from bollard.host.log.shelf import Along
from bollard.host.mcp.limits import LOGIN_CHARACTERS
from bollard.host.mcp.servers import McpServer
from bollard.host.secrets.references import own_name, referred
from bollard.trust import canonical_sha256
from bollard.wire.bridge_frames import Login

__all__ = ["LoginKeeper", "Secrets"]

_KIND: Final = "mcp_server"
_FIELD: Final = "login"


class Secrets(Protocol):
    """Where the values behind `secret:NAME` are, and where what belongs to a server is kept."""

    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]: ...

    def find(self, workspace: str, name: str) -> object | None: ...

    async def keep_own(self, workspace: str, name: str, value: str, *, by: str) -> object: ...

    async def drop_own(self, workspace: str, name: str, *, by: str) -> None: ...

    def leaving(self, workspace: str, names: Iterable[str], by: str) -> Along: ...


class _Rest(msgspec.Struct, frozen=True, kw_only=True):
    """What is no secret of a login, and yet nobody's business."""

    bound_to: str
    login: Login


class LoginKeeper:
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

    def leaving(self, workspace: str, name: str, by: str) -> Along:
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
