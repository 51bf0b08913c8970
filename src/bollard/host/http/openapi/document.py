"""`/openapi.json`: the OpenAPI document, made of the operations and of the fixed parts in `document.json`."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard import __version__
from bollard.host.http.openapi.answers import ERROR, ErrorAnswers, answers_of
from bollard.host.http.openapi.schemas import SchemaRegistry
from bollard.host.http.operations import Answer, HeaderField, Operation, QueryField
from bollard.host.secrets.references import NAME_PATTERN
from bollard.protocol import JsonObject, JsonValue
from bollard.wire import encode

_PART: Final = re.compile(r"\{(\w+)\}")
_CHOSEN: Final[JsonObject] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]*$", "maxLength": 64}
"""An id that people choose."""
_GIVEN: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": 256}
"""An id that the host or another system generates."""
_SECRET_NAME: Final[JsonObject] = {"type": "string", "pattern": NAME_PATTERN}
_DOCUMENT: Final[JsonObject] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}
PATH_PARTS: Final[Mapping[str, tuple[str, JsonObject, str]]] = {
    "run_id": ("A run.", _GIVEN, "run_01"),
    "event_id": ("An event.", _GIVEN, "evt_01"),
    "agent_id": ("An agent.", _CHOSEN, "polly"),
    "binding_id": ("A binding.", _CHOSEN, "builds"),
    "bot_id": ("A bot.", _CHOSEN, "polly"),
    "conversation_id": ("A conversation; a slash in it is sent as `%2F`.", _GIVEN, "support-7"),
    "approval_id": ("An approval.", _GIVEN, "apr_01"),
    "question_id": ("A question of a run.", _GIVEN, "qst_01"),
    "number": ("The number of attached content.", {"type": "string", "pattern": "^[0-9]{1,9}$"}, "1"),
    "artifact_id": ("An artifact.", _GIVEN, "art_01"),
    "upload_id": ("An upload in pieces.", _GIVEN, "3f0c5e7a9b1d4f62"),
    "file_id": ("A file of the workspace.", _GIVEN, "file_01"),
    "channel_id": ("A channel.", _CHOSEN, "room"),
    "schedule_id": ("A schedule.", _CHOSEN, "news"),
    "hook_id": ("A webhook route.", _CHOSEN, "github"),
    "subscription_id": ("A subscription.", _CHOSEN, "alerts"),
    "author": ("The author of the plugin.", _GIVEN, "acme"),
    "name": ("The plugin's name.", _GIVEN, "parrot"),
    "runtime_id": ("A runtime of another machine.", _CHOSEN, "gpu-box"),
    "user_id": ("A user.", _CHOSEN, "ann"),
    "link_id": ("The link of an actor to a user.", _GIVEN, "4b1f0e2c7d8a4f9e8d7c6b5a49382716"),
    "session_id": ("A session.", _GIVEN, "9f2c1e0d4b5a6978"),
    "key_id": ("An API key.", _GIVEN, "0f1e2d3c4b5a6978"),
    "server_id": ("An MCP server.", _CHOSEN, "github"),
    "secret_name": ("A secret.", _SECRET_NAME, "GITHUB_TOKEN"),
    "skill_id": ("A skill of the workspace.", _CHOSEN, "report-writer"),
    "source": ("A catalogue: `bundled`, or `remote` for that of the settings.", _CHOSEN, "bundled"),
    "item_id": ("An item of the catalogue.", _CHOSEN, "support-desk"),
    "model_id": ("A model.", _CHOSEN, "small"),
    "kb_id": ("A knowledge base.", _CHOSEN, "handbook"),
    "document_id": ("A document of a knowledge base.", _DOCUMENT, "leave.md"),
    "workspace_id": ("A workspace.", _CHOSEN, "north"),
}
"""Every placeholder of a path: its description, schema and example."""


def openapi_document(operations: Sequence[Operation], version: str) -> JsonObject:
    """Build the document."""
    shapes = SchemaRegistry(operations)
    errors = ErrorAnswers()
    paths: JsonObject = {}
    for operation in operations:
        item = cast("JsonObject", paths.setdefault(operation.path, {}))
        item[operation.method.lower()] = _operation(operation, shapes, errors)
    fixed = msgspec.json.decode(Path(__file__).with_name("document.json").read_bytes())
    shared = fixed.pop("components")
    fixed["info"]["version"] = version
    return {
        **fixed,
        "paths": paths,
        "components": {
            "schemas": dict(sorted({**shapes.components, "Error": ERROR}.items())),
            "parameters": shared["parameters"],
            "headers": shared["headers"],
            "responses": dict(sorted(errors.components.items())),
            "securitySchemes": shared["securitySchemes"],
        },
    }


def _operation(operation: Operation, shapes: SchemaRegistry, errors: ErrorAnswers) -> JsonObject:
    described: JsonObject = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": _description(operation),
        "security": _security(operation),
    }
    if operation.right is not None:
        described["x-bollard-right"] = operation.right
    if parameters := parameters_of(operation):
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = _body(operation, shapes)
    answers = {**answers_of(operation, shapes.of), **errors.of(operation)}
    described["responses"] = dict(sorted(answers.items()))
    return described


def _description(operation: Operation) -> str:
    sentences = [operation.description or operation.summary]
    if operation.right is not None:
        sentences.append(f"Needs the right `{operation.right}`.")
    elif not operation.open:
        sentences.append("Needs a token, but no right.")
    if operation.run_token:
        sentences.append("Also accepts the token of the run.")
    if operation.ticket:
        sentences.append("Also accepts a ticket instead of a token.")
    return " ".join(sentences)


def _security(operation: Operation) -> list[JsonValue]:
    if operation.open:
        return []
    names = ["bearer", "session", "secureSession"]
    names += ["runToken"] if operation.run_token else []
    names += ["ticket"] if operation.ticket else []
    return [{name: []} for name in names]


def _body(operation: Operation, shapes: SchemaRegistry) -> JsonObject:
    body = operation.body or {}
    schema = shapes.of(body)
    needed = shapes.needed(body, parts_of(operation.path))
    content: JsonObject = {}
    for media in operation.body_media:
        other = operation.other_bodies.get(media)
        media_object: JsonObject = {"schema": schema if other is None else shapes.of(other.schema)}
        example = operation.body_example if other is None else other.example
        content[media] = media_object if example is None else {**media_object, "example": example}
    return {"required": needed, "content": content}  # a missing body counts as an empty object


def parts_of(path: str) -> list[str]:
    """The names of the placeholders in a path."""
    return _PART.findall(path)


def parameters_of(operation: Operation) -> list[JsonValue]:
    """All parameters of an operation, without its token."""
    found: list[JsonValue] = [_part(name) for name in parts_of(operation.path)]
    found.extend(_field(each) for each in operation.query)
    found.extend(JsonObject({"$ref": f"#/components/parameters/{name}"}) for name in _shared_by(operation))
    found.extend(_header(each) for each in operation.headers)
    return found


def _shared_by(operation: Operation) -> list[str]:
    names: list[str] = []
    if not operation.open:
        names.append("Workspace")
    if operation.method == "POST" and not operation.open:
        names.append("IdempotencyKey")
    if operation.editable:
        read = {"GET": ["IfChanged"], "PUT": ["IfMatch", "IfNoneMatch"]}
        names += read.get(operation.method, ["IfMatch"])
    return names


def _part(name: str) -> JsonObject:
    summary, schema, example = PATH_PARTS[name]
    return {"name": name, "in": "path", "required": True, "description": summary, "schema": schema, "example": example}


def _field(query: QueryField) -> JsonObject:
    example = query.example
    if example is None:
        example = query.choices[0] if query.choices else query.default
    parameter: JsonObject = {
        "name": query.name,
        "in": "query",
        "required": query.required,
        "description": query.summary,
        "schema": query.schema(),
    }
    if query.kind == "flag" and example is None:
        return {**parameter, "example": True}
    return parameter if example is None else {**parameter, "example": example}


def _header(header: HeaderField) -> JsonObject:
    return {
        "name": header.name,
        "in": "header",
        "required": header.required,
        "description": header.summary,
        "schema": header.schema,
        "example": header.example,
    }


def described(operations: Sequence[Operation]) -> JsonObject:
    """The document of this version."""
    return openapi_document(operations, __version__)


class Description:
    """Serves the document, which is built with the first request."""

    def __init__(self, operations: Callable[[], Sequence[Operation]]) -> None:
        self._operations = operations

    @staticmethod
    def operations() -> list[Operation]:
        return [
            Operation(
                method="GET",
                path="/api/v1/openapi.json",
                handler=Description.read,
                name="getOpenApi",
                tag="host",
                summary="This document.",
                description="The whole API as OpenAPI 3.1. The same for every caller.",
                headers=(
                    HeaderField(
                        name="If-None-Match",
                        summary="The `ETag` of the document that the client has.",
                        example='"9f2c1e"',
                    ),
                ),
                answers={
                    200: Answer(
                        summary="An OpenAPI 3.1 document.",
                        schema={"type": "object", "required": ["openapi", "info", "paths", "components"]},
                        example={
                            "openapi": "3.1.0",
                            "info": {"title": "Bollard", "version": __version__},
                            "paths": {},
                            "components": {},
                        },
                        headers={"ETag": "The digest of the document."},
                    ),
                    304: Answer(summary="The client has it already."),
                },
            )
        ]

    async def read(self, request: Request) -> Response:
        body, tag = await asyncio.to_thread(lambda: self._whole)
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={"etag": tag})
        return Response(body, media_type="application/json", headers={"etag": tag})

    @cached_property
    def _whole(self) -> tuple[bytes, str]:
        body = encode(described(self._operations()))
        return body, f'"{sha256(body).hexdigest()[:32]}"'
