"""The configuration of an MCP server, and its wire format.

Secret values are references: `secret:NAME`, alone or after a word (`Bearer secret:NAME`), or as a value in the query of
a url.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec
from pydantic import Field, ValidationError

from bollard.host.agents.names import ChosenName
from bollard.host.agents.saved_body import refusal
from bollard.host.errors import InvalidRequest
from bollard.host.mcp.limits import (
    ARGUMENT_CHARACTERS,
    ARGUMENTS,
    CALL_DEFAULT_S,
    CALL_MAX_S,
    NAMED_VALUES,
    SCOPES,
    TOOLS_ALLOWED,
    URL_CHARACTERS,
)
from bollard.protocol import Flag, Int, JsonObject, Number, Strict
from bollard.trust import canonical_sha256
from bollard.wire.addresses import address_problem

EVERY_TOOL: Final = "*"
Protocol = Literal["auto", "legacy"]

_Word = Annotated[str, Field(max_length=ARGUMENT_CHARACTERS, pattern=r"^[^\x00]*$")]
_EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
_HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=128)]
_HeaderValue = Annotated[str, Field(max_length=ARGUMENT_CHARACTERS, pattern=r"^[\x20-\x7e]*$")]
_ToolName = Annotated[str, Field(pattern=r"^(?:\*|[A-Za-z0-9._-]{1,64})$")]
_ClientId = Annotated[str, Field(max_length=512, pattern=r"^[\x21-\x7e]+$")]
_ClientSecret = Annotated[str, Field(pattern=r"^secret:[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_Scope = Annotated[str, Field(max_length=256, pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")]
_OURS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept", "content-type"})
"""Headers that the HTTP client of the host writes itself."""
_TELLTALE: Final = re.compile(
    r"token|secret|passw|credential|api[_-]?key|(?:^|[_-])key$|authori[sz]ation|cookie", re.IGNORECASE
)
_REFERENCE: Final = re.compile(r"(?:^|\s)secret:[A-Za-z0-9._-]+$")


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """The OAuth client for a server. Missing fields are discovered or registered during the login."""

    client_id: str | None = None
    client_secret: str | None = None
    """A reference."""
    scopes: tuple[str, ...] = ()


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one server, with either `command` or `url`."""

    name: str
    enabled: bool = True
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    url: str | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    oauth: OAuthClient | None = None
    protocol: Protocol = "auto"
    timeout_s: float = CALL_DEFAULT_S
    allow: tuple[str, ...] = (EVERY_TOOL,)

    @property
    def endpoint(self) -> str:
        """The identity of the server; the definitions of its tools are bound to it."""
        if self.url is not None:
            return self.url
        return f"stdio:{canonical_sha256({'command': self.command, 'args': list(self.args)})}"

    def allows(self, tool: str) -> bool:
        return EVERY_TOOL in self.allow or tool in self.allow


class SavedMcpServer(Strict):
    """`PUT /api/v1/mcp-servers/{server_id}`."""

    server_id: ChosenName
    enabled: Flag = True
    command: Annotated[_Word, Field(min_length=1, description="A program; it runs as the host's own user.")] | None = (
        None
    )
    args: Annotated[list[_Word], Field(max_length=ARGUMENTS)] = Field(default_factory=list[str])
    env: Annotated[dict[_EnvName, _Word], Field(max_length=NAMED_VALUES)] = Field(default_factory=dict[str, str])
    url: Annotated[str, Field(min_length=1, max_length=URL_CHARACTERS)] | None = None
    headers: Annotated[dict[_HeaderName, _HeaderValue], Field(max_length=NAMED_VALUES)] = Field(
        default_factory=dict[str, str]
    )
    auth: Literal["oauth"] | None = Field(default=None, description="Somebody logs in for it: `…/login`.")
    client_id: _ClientId | None = Field(default=None, description="Of a client that was registered by hand.")
    client_secret: _ClientSecret | None = Field(default=None, description="A reference, `secret:NAME`.")
    scopes: Annotated[list[_Scope], Field(max_length=SCOPES)] = Field(
        default_factory=list[str], description="What is asked for; otherwise what the server names."
    )
    protocol: Protocol = "auto"
    timeout_s: Annotated[Number, Field(ge=1, le=CALL_MAX_S)] = CALL_DEFAULT_S
    allow: Annotated[list[_ToolName], Field(max_length=TOOLS_ALLOWED)] = Field(default_factory=lambda: [EVERY_TOOL])
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


def server_from_wire(body: JsonObject) -> McpServer:
    """Read and validate a configuration. Raises `InvalidRequest`."""
    try:
        saved = SavedMcpServer.from_wire(body)
    except ValidationError as error:
        raise refusal(error, "mcp_server") from error
    if (saved.command is None) == (saved.url is None):
        raise _invalid("mcp_command_or_url", "command", "either command or url is needed, not both", "set one of them")
    if saved.url is None:
        if saved.headers:
            raise _invalid("mcp_command_headers", "headers", "a command has no headers", "use env")
    else:
        _check_url(saved.url)
        if saved.args or saved.env:
            field = "args" if saved.args else "env"
            raise _invalid("mcp_url_arguments", field, "is only for a command, not for a url", "use headers")
    for name in saved.headers:
        if name.lower() in _OURS or name.lower().startswith("mcp-"):
            raise _invalid("mcp_own_header", f"headers.{name}", "is written by the host itself", "leave it out")
    for field, values in (("env", saved.env), ("headers", saved.headers)):
        for name, value in values.items():
            _check_secret(f"{field}.{name}", name, value)
    return McpServer(
        name=saved.server_id,
        enabled=saved.enabled,
        command=saved.command,
        args=tuple(saved.args),
        env=saved.env,
        url=saved.url,
        headers=saved.headers,
        oauth=_oauth_of(saved),
        protocol=saved.protocol,
        timeout_s=saved.timeout_s,
        allow=tuple(saved.allow),
    )


def server_to_wire(server: McpServer) -> JsonObject:
    """The inverse of `server_from_wire`."""
    transport: JsonObject
    if server.url is not None:
        transport = {"url": server.url, "headers": dict(server.headers), **_login_to_wire(server.oauth)}
    else:
        transport = {"command": server.command, "args": list(server.args), "env": dict(server.env)}
    return {
        "server_id": server.name,
        "enabled": server.enabled,
        **transport,
        "protocol": server.protocol,
        "timeout_s": server.timeout_s,
        "allow": list(server.allow),
    }


def _login_to_wire(oauth: OAuthClient | None) -> JsonObject:
    if oauth is None:
        return {}
    named: JsonObject = {"client_id": oauth.client_id, "client_secret": oauth.client_secret}
    present: JsonObject = {name: value for name, value in named.items() if value is not None}
    return {"auth": "oauth", **present, "scopes": list(oauth.scopes)}


def looks_secret(name: str, value: str) -> bool:
    """Whether a value looks like a secret in plain text instead of a reference."""
    return bool(value and _TELLTALE.search(name) and not _REFERENCE.search(value))


def _check_secret(field: str, name: str, value: str) -> None:
    """Refuse secrets in plain text: a configuration is in the log, and readers of servers see it."""
    if looks_secret(name, value):
        raise InvalidRequest(
            f"mcp_server.{field}: looks like a secret in plain text",
            reason="mcp_plain_secret",
            hint=f"`bollard secrets set NAME`, and write secret:NAME as the value of {name}",
            field=f"mcp_server.{field}",
            name=name,
        )


def _check_url(url: str) -> None:
    if (problem := address_problem(url)) is not None:
        raise InvalidRequest(
            f"mcp_server.url: {problem[0]}",
            reason="mcp_url",
            hint=problem[1],
            field="mcp_server.url",
            problem=problem[0],
        )
    for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True):
        _check_secret("url", name, value)


def _oauth_of(saved: SavedMcpServer) -> OAuthClient | None:
    if saved.auth is None:
        for field_name in ("client_id", "client_secret", "scopes"):
            if getattr(saved, field_name):
                raise _invalid("mcp_oauth_only", field_name, "is only for a login", 'add `auth: "oauth"`')
        return None
    if saved.url is None:
        raise _invalid("mcp_command_login", "auth", "a command has no login", "use env with secret:NAME")
    if any(name.lower() == "authorization" for name in saved.headers):
        hint = "leave out the header, or leave out `auth`"
        raise _invalid("mcp_login_header", "headers.Authorization", "is written by the login", hint)
    if saved.client_secret is not None and saved.client_id is None:
        raise _invalid("mcp_client_secret", "client_secret", "needs a client_id", "set both, or none")
    return OAuthClient(client_id=saved.client_id, client_secret=saved.client_secret, scopes=tuple(saved.scopes))


def _invalid(reason: str, field: str, problem: str, hint: str) -> InvalidRequest:
    field = f"mcp_server.{field}"
    return InvalidRequest(f"{field}: {problem}", reason=reason, hint=hint, field=field)
