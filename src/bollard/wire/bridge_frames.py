"""The messages between the host and its MCP bridge: JSON objects, told apart by `tag`.

JSON, because MessagePack has no integer above 64 bits, and an MCP server may send one. Both ends are of this
installation and of one version, so this is no protocol that anybody else speaks.
"""

from typing import Any, Final, Literal

import msgspec

from bollard.protocol.limits import KIB, MIB

__all__ = [
    "BRIDGE_FRAME_BYTES",
    "MCP_MESSAGE_BYTES",
    "BeginLogin",
    "CancelCall",
    "Close",
    "Closed",
    "Connected",
    "DropLogin",
    "Ended",
    "FinishLogin",
    "Logged",
    "Login",
    "LoginAsked",
    "LoginChanged",
    "LoginEnded",
    "MakeCall",
    "OpenHttp",
    "OpenStdio",
    "Ping",
    "Pong",
    "Progressed",
    "Refresh",
    "Returned",
    "Started",
    "ToBridge",
    "ToHost",
    "ToolSeen",
    "Tools",
    "Undone",
    "encode_frame",
    "to_bridge",
    "to_host",
]

MCP_MESSAGE_BYTES: Final = 4 * MIB
"""One message of an MCP server: an answer with its images. A larger one ends the connection."""
BRIDGE_FRAME_BYTES: Final = MCP_MESSAGE_BYTES + 64 * KIB
"""One frame between the host and its bridge: an answer, and what is said around it."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What a login at an authorization server left behind. `client`, `issuer` and `resource` are shapes of OAuth, as
    far as they are needed to have the access token renewed."""

    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None
    """Seconds since 1970; nothing where nobody said."""
    scope: str | None = None
    client: dict[str, Any]
    """Without its secret."""
    client_secret: str | None = None
    issuer: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return "Login(…)"  # nothing of it belongs into a traceback


class OpenStdio(msgspec.Struct, frozen=True, kw_only=True, tag="open_stdio", tag_field="tag"):
    """Start a server as a process and connect to it."""

    link: int
    """Which connection: a number is used once."""
    command: str
    args: list[str]
    env: dict[str, str]
    cwd: str
    protocol: Literal["auto", "legacy"]
    start_s: float


class OpenHttp(msgspec.Struct, frozen=True, kw_only=True, tag="open_http", tag_field="tag"):
    """Connect to a server over streamable HTTP."""

    link: int
    url: str
    headers: dict[str, str]
    protocol: Literal["auto", "legacy"]
    start_s: float
    login: Login | None = None


class BeginLogin(msgspec.Struct, frozen=True, kw_only=True, tag="begin_login", tag_field="tag"):
    """Find out where a person logs in for a server. `LoginAsked` answers, or `LoginEnded`."""

    login: int
    """Which login: a number is used once."""
    url: str
    headers: dict[str, str]
    redirect_uri: str
    scopes: list[str]
    client_id: str | None = None
    client_secret: str | None = None
    client: dict[str, Any] | None = None
    """One that was registered before; it is used where it has this `redirect_uri`."""
    registered_secret: str | None = None
    limit_s: float
    """Time until nobody comes back any more."""


class FinishLogin(msgspec.Struct, frozen=True, kw_only=True, tag="finish_login", tag_field="tag"):
    """The person came back with this. `LoginEnded` answers."""

    login: int
    code: str
    state: str
    iss: str | None = None


class DropLogin(msgspec.Struct, frozen=True, kw_only=True, tag="drop_login", tag_field="tag"):
    """Nobody waits for this login any more."""

    login: int


class Refresh(msgspec.Struct, frozen=True, kw_only=True, tag="refresh", tag_field="tag"):
    """Ask a server for its tools again."""

    link: int


class Close(msgspec.Struct, frozen=True, kw_only=True, tag="close", tag_field="tag"):
    """End a connection, and the process behind it."""

    link: int


class MakeCall(msgspec.Struct, frozen=True, kw_only=True, tag="call", tag_field="tag"):
    """Call one tool."""

    link: int
    call: int
    tool: str
    arguments: dict[str, Any]
    timeout_s: float
    traceparent: str | None = None


class CancelCall(msgspec.Struct, frozen=True, kw_only=True, tag="cancel", tag_field="tag"):
    """Nobody waits for this call any more; the server is told."""

    call: int


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag="ping", tag_field="tag"):
    """Is the bridge's loop alive?"""

    number: int


class ToolSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool as a server lists it, or why it cannot be used."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    problem: str | None = None


class Connected(msgspec.Struct, frozen=True, kw_only=True, tag="connected", tag_field="tag"):
    """A server answers."""

    link: int
    protocol: str
    server_name: str
    server_version: str


class Tools(msgspec.Struct, frozen=True, kw_only=True, tag="tools", tag_field="tag"):
    """What a server offers now, in full."""

    link: int
    tools: list[ToolSeen]


class Started(msgspec.Struct, frozen=True, kw_only=True, tag="started", tag_field="tag"):
    """A process group of a server is there, or (with nothing) is gone. The host ends it when the bridge cannot."""

    link: int
    group: int | None


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="closed", tag_field="tag"):
    """A connection is lost, or never came to be. No call is made on it from here on; each call that was under way gets
    its answer. `Ended` follows."""

    link: int
    problem: str
    hint: str = ""
    needs_login: bool = False


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="tag"):
    """Nothing is left of a connection that was closed, its process included: another one may begin."""

    link: int


class LoginAsked(msgspec.Struct, frozen=True, kw_only=True, tag="login_asked", tag_field="tag"):
    """Where a person logs in, and what comes back with the person."""

    login: int
    url: str
    state: str


class LoginEnded(msgspec.Struct, frozen=True, kw_only=True, tag="login_ended", tag_field="tag"):
    """What came of a login; without `made` the problem says why not."""

    login: int
    made: Login | None = None
    problem: str = ""
    hint: str = ""


class LoginChanged(msgspec.Struct, frozen=True, kw_only=True, tag="login_changed", tag_field="tag"):
    """The token of a connection was renewed; what was there before may be worth nothing by now."""

    link: int
    login: Login


class Logged(msgspec.Struct, frozen=True, kw_only=True, tag="logged", tag_field="tag"):
    """A line that a server wrote to stderr."""

    link: int
    line: str


class Progressed(msgspec.Struct, frozen=True, kw_only=True, tag="progress", tag_field="tag"):
    """How far a call is."""

    call: int
    done: float
    total: float | None = None
    message: str | None = None


class Returned(msgspec.Struct, frozen=True, kw_only=True, tag="returned", tag_field="tag"):
    """What a tool answered; content elements are those of the protocol (§4)."""

    call: int
    content: list[dict[str, Any]]
    structured: dict[str, Any] | None = None
    is_error: bool = False


class Undone(msgspec.Struct, frozen=True, kw_only=True, tag="undone", tag_field="tag"):
    """A call without an answer. `sent` says whether the server may have begun with it."""

    call: int
    problem: str
    sent: bool


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag="pong", tag_field="tag"):
    """It is."""

    number: int


ToBridge = OpenStdio | OpenHttp | Refresh | Close | MakeCall | CancelCall | BeginLogin | FinishLogin | DropLogin | Ping
ToHost = (
    Connected
    | Tools
    | Started
    | Closed
    | Ended
    | Logged
    | Progressed
    | Returned
    | Undone
    | LoginAsked
    | LoginEnded
    | LoginChanged
    | Pong
)

encode_frame: Final = msgspec.json.Encoder().encode
to_bridge: Final = msgspec.json.Decoder(ToBridge).decode
to_host: Final = msgspec.json.Decoder(ToHost).decode
