"""The messages between the host and its MCP bridge: JSON objects with a `tag`.

JSON, because MCP servers may send integers above 64 bits, which MessagePack cannot encode. Both ends always have the
same version, so this is not a public protocol.
"""

from typing import Any, Final, Literal

import msgspec

from bollard.protocol.limits import KIB, MIB

MCP_MESSAGE_BYTES: Final = 4 * MIB
"""The largest message of an MCP server, such as a result with images. A larger one ends the connection."""
BRIDGE_FRAME_BYTES: Final = MCP_MESSAGE_BYTES + 64 * KIB
"""The largest frame between host and bridge: a message and its envelope."""
CONFINED: Final = "confined"
"""The argument with which the bridge confines itself."""
SERVER_END_S: Final = 2.0
"""Time that a server has to exit after its stdin is closed."""
SERVER_KILL_S: Final = 2.0
"""Time between SIGTERM and SIGKILL."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a login at an authorization server. `client`, `issuer` and `resource` are the OAuth values that
    renewing the access token needs."""

    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None
    """Seconds since 1970; `None` if unknown."""
    scope: str | None = None
    client: dict[str, Any]
    """Without its secret."""
    client_secret: str | None = None
    issuer: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return "Login(…)"  # keeps tokens out of tracebacks


class OpenStdio(msgspec.Struct, frozen=True, kw_only=True, tag="open_stdio", tag_field="tag"):
    """Connect to a server that the host has started. Its pipes were sent before, on the socket for pipes."""

    link: int
    """The connection number; never reused."""
    group: int
    """The process group of the server. The bridge kills it if the host does not."""
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
    """Find the login page of a server. The response is `LoginAsked` or `LoginEnded`."""

    login: int
    """The login number; never reused."""
    url: str
    headers: dict[str, str]
    redirect_uri: str
    scopes: list[str]
    client_id: str | None = None
    client_secret: str | None = None
    client: dict[str, Any] | None = None
    """A client that was registered before; it is used if it has this `redirect_uri`."""
    registered_secret: str | None = None
    limit_s: float
    """Time until the login expires."""


class FinishLogin(msgspec.Struct, frozen=True, kw_only=True, tag="finish_login", tag_field="tag"):
    """The person returned with these values. The response is `LoginEnded`."""

    login: int
    code: str
    state: str
    iss: str | None = None


class DropLogin(msgspec.Struct, frozen=True, kw_only=True, tag="drop_login", tag_field="tag"):
    """Abandon a login."""

    login: int


class Refresh(msgspec.Struct, frozen=True, kw_only=True, tag="refresh", tag_field="tag"):
    """List the tools of a server again."""

    link: int


class Close(msgspec.Struct, frozen=True, kw_only=True, tag="close", tag_field="tag"):
    """End a connection. The bridge closes the stdin of its process, and the host ends the process."""

    link: int


class Exited(msgspec.Struct, frozen=True, kw_only=True, tag="exited", tag_field="tag"):
    """The process of a server has ended."""

    link: int
    code: int
    """Its exit code, or the negative number of a signal."""


class MakeCall(msgspec.Struct, frozen=True, kw_only=True, tag="call", tag_field="tag"):
    """Call one tool."""

    link: int
    call: int
    tool: str
    arguments: dict[str, Any]
    timeout_s: float
    traceparent: str | None = None


class CancelCall(msgspec.Struct, frozen=True, kw_only=True, tag="cancel", tag_field="tag"):
    """Cancel a call; the server is notified."""

    call: int


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag="ping", tag_field="tag"):
    """Checks that the loop of the bridge is alive."""

    number: int


class ToolSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool of a server, or the reason why it is unusable."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    problem: str | None = None
    details: dict[str, Any] = {}


class Connected(msgspec.Struct, frozen=True, kw_only=True, tag="connected", tag_field="tag"):
    """A server is connected."""

    link: int
    protocol: str
    server_name: str
    server_version: str


class Tools(msgspec.Struct, frozen=True, kw_only=True, tag="tools", tag_field="tag"):
    """All tools of a server."""

    link: int
    tools: list[ToolSeen]


class Closed(msgspec.Struct, frozen=True, kw_only=True, tag="closed", tag_field="tag"):
    """A connection is lost or was never established. It takes no more calls; each call in progress gets its response.
    `Ended` follows."""

    link: int
    problem: str
    details: dict[str, Any] = {}
    hint: str = ""
    needs_login: bool = False


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended", tag_field="tag"):
    """A closed connection is gone: another one may begin."""

    link: int


class LoginAsked(msgspec.Struct, frozen=True, kw_only=True, tag="login_asked", tag_field="tag"):
    """The URL where a person logs in, and the state that returns with the person."""

    login: int
    url: str
    state: str


class LoginEnded(msgspec.Struct, frozen=True, kw_only=True, tag="login_ended", tag_field="tag"):
    """The result of a login: `made`, or the problem."""

    login: int
    made: Login | None = None
    problem: str = ""
    details: dict[str, Any] = {}
    hint: str = ""


class LoginChanged(msgspec.Struct, frozen=True, kw_only=True, tag="login_changed", tag_field="tag"):
    """The token of a connection was renewed; the old one may be invalid."""

    link: int
    login: Login


class Logged(msgspec.Struct, frozen=True, kw_only=True, tag="logged", tag_field="tag"):
    """A line that a server wrote to stderr."""

    link: int
    line: str


class Progressed(msgspec.Struct, frozen=True, kw_only=True, tag="progress", tag_field="tag"):
    """The progress of a call."""

    call: int
    done: float
    total: float | None = None
    message: str | None = None


class Returned(msgspec.Struct, frozen=True, kw_only=True, tag="returned", tag_field="tag"):
    """The result of a tool; content elements are those of the protocol (§4)."""

    call: int
    content: list[dict[str, Any]]
    structured: dict[str, Any] | None = None
    is_error: bool = False


class Undone(msgspec.Struct, frozen=True, kw_only=True, tag="undone", tag_field="tag"):
    """A call without a result. `sent` tells whether the server may have started it."""

    call: int
    problem: str
    sent: bool
    details: dict[str, Any] = {}


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag="pong", tag_field="tag"):
    """The response to `Ping`."""

    number: int


class Dial(msgspec.Struct, frozen=True, kw_only=True, tag="dial", tag_field="tag"):
    """Asks the host to connect to an HTTP server. The response is `Dialled`."""

    number: int
    host: str
    port: int
    within_s: float


class Dialled(msgspec.Struct, frozen=True, kw_only=True, tag="dialled", tag_field="tag"):
    """The connection is open, and its socket was sent before, on the socket for pipes; unless there is a problem."""

    number: int
    problem: str = ""
    details: dict[str, Any] = {}


ToBridge = (
    OpenStdio
    | OpenHttp
    | Refresh
    | Close
    | Exited
    | MakeCall
    | CancelCall
    | BeginLogin
    | FinishLogin
    | DropLogin
    | Ping
    | Dialled
)
ToHost = (
    Connected
    | Tools
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
    | Dial
)

encode_frame: Final = msgspec.json.Encoder().encode
to_bridge: Final = msgspec.json.Decoder(ToBridge).decode
to_host: Final = msgspec.json.Decoder(ToHost).decode
