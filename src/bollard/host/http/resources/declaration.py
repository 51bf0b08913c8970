"""Declares operations at their handlers, and derives the schema of an answer from its example."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypedDict, TypeVar, Unpack

import msgspec

from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, TIME, array_of, named
from bollard.host.http.operations import (
    Answer,
    Handler,
    HeaderField,
    Link,
    Operation,
    OtherBody,
    QueryField,
    Repeat,
    SocketHandler,
    page_of,
)
from bollard.host.identity.caller import Right
from bollard.protocol import JsonObject, JsonValue, Shape

H = TypeVar("H", bound=Handler)
_DECLARED: Final = "declared_operation"


class OperationFields(TypedDict, total=False):
    """The fields of an `Operation` that have a default, and its tag."""

    tag: str
    description: str
    right: Right
    open: bool
    run_token: bool
    ticket: bool
    query: Sequence[QueryField]
    any_query: bool
    headers: Sequence[HeaderField]
    body: type[Shape] | JsonObject
    body_example: JsonValue
    body_media: tuple[str, ...]
    other_bodies: Mapping[str, OtherBody]
    errors: Sequence[str]
    repeat: Repeat
    editable: bool
    socket: SocketHandler


def operation(
    place: str, *, name: str, summary: str, answers: Mapping[int, Answer], **more: Unpack[OperationFields]
) -> Callable[[H], H]:
    """Declare a handler as an operation. `place` is the method and the path: `GET /api/v1/runs`."""
    method, path = place.split(" ")
    declared = {"method": method, "path": path, "name": name, "summary": summary, "answers": answers, **more}

    def declare(handler: H) -> H:
        setattr(handler, _DECLARED, declared)
        return handler

    return declare


class DeclaredResource:
    """A resource whose operations are declared at their handlers."""

    tag: ClassVar[str] = ""
    """The tag of operations that state none."""

    @classmethod
    def operations(cls) -> list[Operation]:
        return declared_operations(cls, cls.tag)


def declared_operations(resource: type, tag: str) -> list[Operation]:
    """The operations that a class declares, in the order of its handlers."""
    found: list[Operation] = []
    for handler in vars(resource).values():
        declared: dict[str, Any] | None = getattr(handler, _DECLARED, None)
        if declared is not None:
            found.append(Operation(handler=handler, **dict[str, Any](tag=tag) | declared))
    return found


class AnswerBody(msgspec.Struct, frozen=True):
    """The schema of an answer, and an example of it."""

    schema: JsonObject
    example: JsonObject

    def answer(self, summary: str, *, links: Sequence[Link] = ()) -> Answer:
        return Answer(summary=summary, schema=self.schema, example=self.example, links=links)

    def page(self, noun: str) -> Answer:
        """The answer of a list."""
        return Answer(summary=f"A page of {noun}.", schema=page_of(self.schema), example=page_example(self.example))

    def of(self, row: object, /, **more: JsonValue) -> JsonObject:
        """The required fields of this body, read from the attributes of a row. `created_at` is read from `created_ms`.
        `more` are the fields that have no such attribute; optional ones that are `None` are left out. People read
        answers, so the fields are in the order of the example."""
        required = frozenset[str](_part(self.schema, "required"))
        fields = {name: _field(row, name) for name in required if name not in more} | more
        order = (name for name in _part(self.schema, "properties") if name in fields)
        return {name: fields[name] for name in order if fields[name] is not None or name in required}

    def extended(
        self, name: str, more: JsonObject, optional: JsonObject | None = None, /, **stated: JsonObject
    ) -> "AnswerBody":
        """The body with further fields, described as in `answer_body`."""
        mine, others = self.schema, answer_body("", more, optional, **stated).schema
        schema: JsonObject = {
            "type": "object",
            "properties": {**_part(mine, "properties"), **_part(others, "properties")},
            "required": sorted({*_part(mine, "required"), *_part(others, "required")}),
            "additionalProperties": False,
        }
        return AnswerBody(named(name, schema) if name else schema, {**self.example, **more})


def answer_body(
    name: str, example: JsonObject, optional: JsonObject | None = None, /, **stated: JsonObject
) -> AnswerBody:
    """The body of an example. A field has the type of its value unless its schema is `stated`. Fields are required
    unless `optional` has their schema. A name is for generated clients."""
    types: JsonObject = {
        field: stated.get(field) or _type_of(field, value)
        for field, value in example.items()
        if field not in (optional or {})
    }
    required = {**types, **stated}
    schema: JsonObject = {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": [*sorted(required)],
        "additionalProperties": False,
    }
    return AnswerBody(named(name, schema) if name else schema, example)


def answer(summary: str, /, **example: JsonValue) -> Answer:
    """An answer with these fields, given by their example."""
    return answer_body("", example).answer(summary)


def seconds(milliseconds: int | None) -> float | None:
    """A time of the API."""
    return None if milliseconds is None else milliseconds / 1000


def _part(schema: JsonObject, name: str) -> Any:
    return schema[name]


def _field(row: object, name: str) -> JsonValue:
    return seconds(getattr(row, f"{name.removesuffix('_at')}_ms")) if name.endswith("_at") else getattr(row, name)


def _type_of(field: str, value: JsonValue) -> JsonObject:
    match value:
        case bool():
            return FLAG
        case int():
            return NUMBER
        case float():
            return TIME if field.endswith("_at") else {"type": "number"}
        case str():
            return TEXT
        case [str(), *_]:
            return array_of(TEXT)
        case _:
            raise TypeError(f"the schema of {field} must be stated")
