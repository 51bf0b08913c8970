"""Operations of the API: each `Operation` is one method of one path. The router, the guard, OpenAPI, the reference and
the tests are all derived from these lists.

A resource is a class whose static `operations()` lists its operations, so that they can be read without a host.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from bollard.host.identity.caller import Right
from bollard.protocol import JsonObject, JsonValue, Shape, limits

Handler = Callable[[Any, Request], Awaitable[ASGIApp]]
"""An unbound method of a resource."""
SocketHandler = Callable[[Any, WebSocket], Awaitable[None]]
Repeat = Literal["kept", "head", "own"]
"""How an `Idempotency-Key` works: the response is saved (`kept`); saved, but the body is streamed and only the `head`
of a repeat is compared; or the operation recognises repeats on its `own`, by the event id."""


class QueryField(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a query. Unlisted parameters are refused."""

    name: str
    summary: str
    kind: Literal["text", "number", "flag"] = "text"
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    default: str | int | None = None
    example: str | int | None = None
    required: bool = False

    def schema(self) -> JsonObject:
        """The JSON Schema of its value."""
        schema: JsonObject = {}
        match self.kind:
            case "number":
                schema = {"type": "integer", "minimum": self.least}
                schema |= {} if self.most is None else {"maximum": self.most}
            case "flag":
                schema = {"type": "boolean"}
            case "text":
                schema = {"type": "string", "maxLength": QUERY_CHARACTERS if self.most is None else self.most}
                schema |= {"enum": [*self.choices]} if self.choices else {"minLength": 1}
        return schema if self.default is None else {**schema, "default": self.default}


class HeaderField(msgspec.Struct, frozen=True, kw_only=True):
    """One header that an operation reads, besides those that all operations of its kind read."""

    name: str
    summary: str
    example: str
    schema: JsonObject = msgspec.field(default_factory=lambda: {"type": "string"})
    required: bool = False


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An operation that can be called next with a value of a response."""

    operation: str
    summary: str
    path: Mapping[str, str]
    """By placeholder of that operation's path: a pointer to its value in the response, such as `/run_id`."""


QUERY_CHARACTERS: Final = 1024
"""The longest value of one parameter."""
PAGE_ITEMS: Final = 50
"""The default page size."""
LIMIT: Final = QueryField(
    name="limit",
    summary="The largest number of items.",
    kind="number",
    least=1,
    most=limits.PAGE_ITEMS,
    default=PAGE_ITEMS,
)
CURSOR: Final = QueryField(name="cursor", summary="`next_cursor` of the page before.")
PAGE: Final = (LIMIT, CURSOR)
"""The parameters of every list."""


class OtherBody(msgspec.Struct, frozen=True, kw_only=True):
    """A body of another media type."""

    schema: JsonObject
    example: JsonValue = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One successful response."""

    summary: str
    schema: type[Shape] | JsonObject | None = None
    """The body: one of our shapes, or a JSON Schema."""
    items: type[Shape] | None = None
    """Set instead of `schema` if the body is a page of these."""
    example: JsonValue = None
    media_type: str = "application/json"
    stream_example: str = ""
    """Set if the response is also available as server-sent events, with `Accept`."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Name and meaning."""
    links: Sequence[Link] = ()


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. Needs a token unless `open`, and the `right` if there is one."""

    method: str
    path: str
    """With placeholders such as `{run_id}`."""
    handler: Handler
    name: str
    """The unique operation id, such as `createRun`."""
    tag: str
    summary: str
    description: str = ""
    """Details that a client must know."""
    right: Right | None = None
    """The right that the caller needs; any caller if it is absent."""
    open: bool = False
    """Whether it needs no token."""
    run_token: bool = False
    """Whether the token of the run in the path is accepted too."""
    ticket: bool = False
    """Whether a single-use ticket is accepted, for clients that cannot send headers."""
    query: Sequence[QueryField] = ()
    any_query: bool = False
    """Whether the query may have any parameters; only a token is refused."""
    headers: Sequence[HeaderField] = ()
    body: type[Shape] | JsonObject | None = None
    body_example: JsonValue = None
    body_media: tuple[str, ...] = ("application/json",)
    other_bodies: Mapping[str, OtherBody] = msgspec.field(default_factory=dict[str, OtherBody])
    """Bodies of those `body_media` that differ from `body`."""
    answers: Mapping[int, Answer] = msgspec.field(default_factory=dict[int, Answer])
    errors: Sequence[str] = ()
    """Error codes besides those of every operation."""
    repeat: Repeat = "kept"
    """For a POST."""
    editable: bool = False
    """Whether the resource has revisions: `ETag`, `If-Match`, `If-None-Match`."""
    socket: SocketHandler | None = None
    """Serves a WebSocket at this path."""


class Resource(Protocol):
    """A class with operations."""

    @staticmethod
    def operations() -> list[Operation]: ...


def leads_to(part: str, /, **operations: str) -> tuple[Link, ...]:
    """Links to operations whose path has a placeholder of this name; the response has its value under the same name."""
    return tuple(Link(operation=name, summary=summary, path={part: f"/{part}"}) for name, summary in operations.items())


def page_of(item: JsonObject) -> JsonObject:
    """The schema of a page of these items."""
    return {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": item},
            "has_more": {"type": "boolean"},
            "next_cursor": {"type": "string"},
        },
        "required": ["items", "has_more"],
        "additionalProperties": False,
    }
