"""What the API has, as a list: each `Operation` is one method of one path. Routing, the guard, OpenAPI, the reference
and the tests read it; nothing else says what there is.

A resource is a class whose static `operations()` lists what its methods answer. The list needs no instance, so that it
can be read without a host.
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
"""A method of a resource, not bound yet."""
SocketHandler = Callable[[Any, WebSocket], Awaitable[None]]
Repeat = Literal["kept", "head", "own"]
"""What an `Idempotency-Key` does: the answer is `kept` and given again; the same, but the body is streamed and only its
`head` is compared; or the operation knows its repeats on its `own`, by the event that it leads to."""


class QueryField(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of a query. What is not listed is refused."""

    name: str
    summary: str
    kind: Literal["text", "number", "flag"] = "text"
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    default: str | int | None = None
    example: str | int | None = None

    def schema(self) -> JsonObject:
        """As JSON Schema."""
        said: JsonObject = {}
        match self.kind:
            case "number":
                said = {"type": "integer", "minimum": self.least}
                said |= {} if self.most is None else {"maximum": self.most}
            case "flag":
                said = {"type": "boolean"}
            case "text":
                said = {"type": "string", "maxLength": QUERY_CHARACTERS if self.most is None else self.most}
                said |= {"enum": [*self.choices]} if self.choices else {"minLength": 1}
        return said if self.default is None else {**said, "default": self.default}


class HeaderField(msgspec.Struct, frozen=True, kw_only=True):
    """One header of a request that an operation reads, beside those that every operation of its kind has."""

    name: str
    summary: str
    example: str
    schema: JsonObject = msgspec.field(default_factory=lambda: {"type": "string"})
    required: bool = False


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """What can be asked next with something of an answer."""

    operation: str
    summary: str
    path: Mapping[str, str]
    """A part of that operation's path, and where its value is in the answer: a pointer such as `/run_id`."""


QUERY_CHARACTERS: Final = 1024
"""The longest value of one parameter."""
PAGE_ITEMS: Final = 50
"""Items of a page where nobody says how many."""
LIMIT: Final = QueryField(
    name="limit", summary="How many items.", kind="number", least=1, most=limits.PAGE_ITEMS, default=PAGE_ITEMS
)
CURSOR: Final = QueryField(name="cursor", summary="`next_cursor` of the page before.")
PAGE: Final = (LIMIT, CURSOR)
"""What every list takes."""


class OtherBody(msgspec.Struct, frozen=True, kw_only=True):
    """A body of another media type than the first."""

    schema: JsonObject
    example: JsonValue = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer that is no error."""

    summary: str
    schema: type[Shape] | JsonObject | None = None
    """Of the body: one of our shapes, or a JSON Schema."""
    items: type[Shape] | None = None
    """Where the body is a page of one of our shapes instead."""
    example: JsonValue = None
    media_type: str = "application/json"
    stream_example: str = ""
    """Where the same may be asked for as server-sent events, with `Accept`."""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Name and meaning."""
    links: Sequence[Link] = ()


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be asked. Needs a token unless `open`, and `right` where one is named."""

    method: str
    path: str
    """With `{name}` for a part that the request chooses."""
    handler: Handler
    name: str
    """Unique, as programs would call it: `createRun`."""
    tag: str
    summary: str
    description: str = ""
    """What the summary leaves out and a program must know."""
    right: Right | None = None
    """What the caller must hold; nothing beyond a token where it is absent."""
    open: bool = False
    """Whether it needs no token at all."""
    run_token: bool = False
    """Whether the token of the run that the path names opens it too."""
    ticket: bool = False
    """Whether a single-use ticket opens it: for readers that cannot send a header."""
    query: Sequence[QueryField] = ()
    headers: Sequence[HeaderField] = ()
    body: type[Shape] | JsonObject | None = None
    body_example: JsonValue = None
    body_media: tuple[str, ...] = ("application/json",)
    other_bodies: Mapping[str, OtherBody] = msgspec.field(default_factory=dict[str, OtherBody])
    """Of those of `body_media` that hold something else than `body`."""
    answers: Mapping[int, Answer] = msgspec.field(default_factory=dict[int, Answer])
    errors: Sequence[str] = ()
    """Codes that this operation has beside those that every operation has."""
    repeat: Repeat = "kept"
    """Of a POST."""
    editable: bool = False
    """Whether it reads or changes a thing with a revision: `ETag`, `If-Match`, `If-None-Match`."""
    socket: SocketHandler | None = None
    """What answers the handshake of a WebSocket at this path."""


class Resource(Protocol):
    """What has operations."""

    @staticmethod
    def operations() -> list[Operation]: ...


def leads_to(part: str, /, **operations: str) -> tuple[Link, ...]:
    """Links to operations whose path has a part of this name, which is in the answer under the same name."""
    return tuple(Link(operation=name, summary=summary, path={part: f"/{part}"}) for name, summary in operations.items())


def page_of(item: JsonObject) -> JsonObject:
    """The schema of a page of such items."""
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
