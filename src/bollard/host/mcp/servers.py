"""The saved configuration of an MCP server.

Secret values are references: `secret:NAME`, alone or after a word (`Bearer secret:NAME`), or as a value in the query of
a url.
"""

import re
from typing import Annotated, Final, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, model_validator

from bollard.host.agents.names import ChosenName
from bollard.host.agents.saved_body import SavedBody
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
from bollard.protocol import Flag, JsonObject, Number, PluginSandbox
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


class SavedMcpServer(SavedBody):
    """The configuration of one server, with either `command` or `url`."""

    noun = "mcp_server"
    server_id: ChosenName
    enabled: Flag = True
    command: Annotated[_Word, Field(min_length=1, description="A program that the host runs in a sandbox.")] | None = (
        None
    )
    args: Annotated[list[_Word], Field(max_length=ARGUMENTS)] = Field(default_factory=list[str])
    env: Annotated[dict[_EnvName, _Word], Field(max_length=NAMED_VALUES)] = Field(default_factory=dict[str, str])
    url: Annotated[str, Field(min_length=1, max_length=URL_CHARACTERS)] | None = None
    headers: Annotated[dict[_HeaderName, _HeaderValue], Field(max_length=NAMED_VALUES)] = Field(
        default_factory=dict[str, str]
    )
    auth: Literal["oauth"] | None = Field(default=None, description="A person logs in for it: `…/login`.")
    client_id: _ClientId | None = Field(default=None, description="The id of a client that was registered by hand.")
    client_secret: _ClientSecret | None = Field(default=None, description="A reference, `secret:NAME`.")
    scopes: Annotated[list[_Scope], Field(max_length=SCOPES)] = Field(
        default_factory=list[str], description="The requested scopes; without them those that the server names."
    )
    protocol: Protocol = "auto"
    timeout_s: Annotated[Number, Field(ge=1, le=CALL_MAX_S)] = CALL_DEFAULT_S
    sandbox: PluginSandbox | None = Field(
        default=None, description="What a command needs beyond its own folder: network, files, memory and processors."
    )
    allow: Annotated[list[_ToolName], Field(max_length=TOOLS_ALLOWED)] = Field(default_factory=lambda: [EVERY_TOOL])

    @property
    def endpoint(self) -> str:
        """The identity of the server; the definitions of its tools are bound to it."""
        if self.url is not None:
            return self.url
        return f"stdio:{canonical_sha256({'command': self.command, 'args': [*self.args]})}"

    def allows(self, tool: str) -> bool:
        return EVERY_TOOL in self.allow or tool in self.allow

    def to_wire(self) -> JsonObject:
        unused = {"headers"} if self.url is None else {"args", "env"}
        if self.auth is None:
            unused |= {"scopes"}
        return {name: value for name, value in super().to_wire().items() if name not in unused}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.command is None) == (self.url is None):
            problem = "either command or url is needed, not both"
            raise self.invalid("mcp_command_or_url", "command", problem, "set one of them")
        if self.url is None:
            if self.headers:
                raise self.invalid("mcp_command_headers", "headers", "a command has no headers", "use env")
        else:
            self._check_url(self.url)
            if self.sandbox is not None:
                raise self.invalid("mcp_url_sandbox", "sandbox", "is only for a command, not for a url", "leave it out")
            if self.args or self.env:
                field = "args" if self.args else "env"
                raise self.invalid("mcp_url_arguments", field, "is only for a command, not for a url", "use headers")
        for name in self.headers:
            if name.lower() in _OURS or name.lower().startswith("mcp-"):
                raise self.invalid("mcp_own_header", f"headers.{name}", "is written by the host itself", "leave it out")
        for field, values in (("env", self.env), ("headers", self.headers)):
            for name, value in values.items():
                _check_secret(f"{field}.{name}", name, value)
        self._check_login()
        return self

    def _check_url(self, url: str) -> None:
        if (problem := address_problem(url)) is not None:
            raise self.invalid(problem.reason, "url", problem.message, problem.hint, **problem.details)
        for name, value in parse_qsl(urlsplit(url).query, keep_blank_values=True):
            _check_secret("url", name, value)

    def _check_login(self) -> None:
        if self.auth is None:
            for field in ("client_id", "client_secret", "scopes"):
                if getattr(self, field):
                    raise self.invalid("mcp_oauth_only", field, "is only for a login", 'add `auth: "oauth"`')
        elif self.url is None:
            raise self.invalid("mcp_command_login", "auth", "a command has no login", "use env with secret:NAME")
        elif any(name.lower() == "authorization" for name in self.headers):
            hint = "leave out the header, or leave out `auth`"
            raise self.invalid("mcp_login_header", "headers.Authorization", "is written by the login", hint)
        elif self.client_secret is not None and self.client_id is None:
            raise self.invalid("mcp_client_secret", "client_secret", "needs a client_id", "set both, or none")


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
