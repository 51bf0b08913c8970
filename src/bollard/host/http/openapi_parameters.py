"""What a request brings beside its body, as OpenAPI has it: parts of the path, the query, headers. Pure."""

import re
from collections.abc import Mapping
from typing import Final

from bollard.host.http.operations import HeaderField, Operation, QueryField
from bollard.host.http.repeats import KEY_CHARACTERS
from bollard.host.secrets.references import NAME_PATTERN
from bollard.protocol import JsonObject, JsonValue

__all__ = ["PATH_PARTS", "parameters_of", "parts_of", "shared_parameters"]

_PART: Final = re.compile(r"\{(\w+)\}")
_CHOSEN: Final[JsonObject] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]*$", "maxLength": 64}
"""An id that people of this host choose."""
_GIVEN: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": 256}
"""An id that the host or somebody else gave."""
_SECRET_NAME: Final[JsonObject] = {"type": "string", "pattern": NAME_PATTERN}
_DOCUMENT: Final[JsonObject] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}
PATH_PARTS: Final[Mapping[str, tuple[str, JsonObject, str]]] = {
    "run_id": ("A run.", _GIVEN, "run_01"),
    "event_id": ("An event.", _GIVEN, "evt_01"),
    "agent_id": ("An agent.", _CHOSEN, "polly"),
    "binding_id": ("A binding.", _CHOSEN, "builds"),
    "conversation_id": ("A conversation; a slash in it is sent as `%2F`.", _GIVEN, "support-7"),
    "approval_id": ("An approval.", _GIVEN, "apr_01"),
    "question_id": ("A question of a run.", _GIVEN, "qst_01"),
    "number": ("The number of attached content.", {"type": "string", "pattern": "^[0-9]{1,9}$"}, "1"),
    "artifact_id": ("An artifact.", _GIVEN, "art_01"),
    "file_id": ("A file of the workspace.", _GIVEN, "file_01"),
    "channel_id": ("A channel.", _CHOSEN, "room"),
    "author": ("Who made the plugin.", _GIVEN, "acme"),
    "name": ("The plugin's name.", _GIVEN, "parrot"),
    "runtime_id": ("A runtime of another machine.", _CHOSEN, "gpu-box"),
    "user_id": ("A user.", _CHOSEN, "ann"),
    "link_id": ("The link of an actor to a user.", _GIVEN, "4b1f0e2c7d8a4f9e8d7c6b5a49382716"),
    "key_id": ("An API key.", _GIVEN, "0f1e2d3c4b5a6978"),
    "server_id": ("An MCP server.", _CHOSEN, "github"),
    "secret_name": ("A secret.", _SECRET_NAME, "GITHUB_TOKEN"),
    "skill_id": ("A skill of the workspace.", _CHOSEN, "report-writer"),
    "model_id": ("A model.", _CHOSEN, "small"),
    "kb_id": ("A knowledge base.", _CHOSEN, "handbook"),
    "document_id": ("A document of a knowledge base.", _DOCUMENT, "leave.md"),
    "workspace_id": ("A workspace.", _CHOSEN, "north"),
}
"""Every part of a path that a request chooses: what it is, its shape, an example."""
_WORKSPACE: Final = HeaderField(
    name="Bollard-Workspace",
    summary="The workspace that is meant, where the token may choose: the admin token. Otherwise `default`.",
    example="default",
    schema=_CHOSEN,
)
_KEY: Final = HeaderField(
    name="Idempotency-Key",
    summary="Of the caller's own choice: what comes again under it within 24 hours is answered as it was, and not done "
    "again.",
    example="5f0c7d1e-build-77",
    schema={"type": "string", "minLength": 1, "maxLength": KEY_CHARACTERS, "pattern": "^[!-~]([ -~]*[!-~])?$"},
)
_MATCH: Final = HeaderField(
    name="If-Match",
    summary='Done only while the thing is at this revision: `"3"`; `*`: while it is there.',
    example='"3"',
)
_NONE_MATCH: Final = HeaderField(
    name="If-None-Match", summary="`*`: done only while the thing is not there.", example="*", schema={"const": "*"}
)
_KNOWN: Final = HeaderField(
    name="If-None-Match", summary="Answered with 304 where the thing still has this tag.", example='"3"'
)
_SHARED: Final[Mapping[str, HeaderField]] = {
    "Workspace": _WORKSPACE,
    "IdempotencyKey": _KEY,
    "IfMatch": _MATCH,
    "IfNoneMatch": _NONE_MATCH,
    "IfChanged": _KNOWN,
}


def parts_of(path: str) -> list[str]:
    """The names of what a request chooses in a path."""
    return _PART.findall(path)


def shared_parameters() -> JsonObject:
    """The headers that many operations have, by the name of their component."""
    return {name: _header(header) for name, header in _SHARED.items()}


def parameters_of(operation: Operation) -> list[JsonValue]:
    """Everything that a request of this operation may bring beside its body and its token."""
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
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": summary,
        "schema": schema,
        "example": example,
    }


def _field(query: QueryField) -> JsonObject:
    example = query.example
    if example is None:
        example = query.choices[0] if query.choices else query.default
    said: JsonObject = {
        "name": query.name,
        "in": "query",
        "required": False,
        "description": query.summary,
        "schema": query.schema(),
    }
    if query.kind == "flag" and example is None:
        return {**said, "example": True}
    return said if example is None else {**said, "example": example}


def _header(header: HeaderField) -> JsonObject:
    return {
        "name": header.name,
        "in": "header",
        "required": header.required,
        "description": header.summary,
        "schema": header.schema,
        "example": header.example,
    }
