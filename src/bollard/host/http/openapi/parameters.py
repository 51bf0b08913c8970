"""Parameters of an operation in OpenAPI: path, query and headers. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from bollard.host.http.idempotency import KEY_CHARACTERS
from bollard.host.http.operations import HeaderField, Operation, QueryField
from bollard.host.secrets.references import NAME_PATTERN
from bollard.protocol import JsonObject, JsonValue, Shape

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
"""Every placeholder of a path: its description, schema and example."""
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
    """The names of the placeholders in a path."""
    return _PART.findall(path)


def shared_parameters() -> JsonObject:
    """Shared header parameters by component name."""
    return {name: _header(header) for name, header in _SHARED.items()}


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
    parameter: JsonObject = {
        "name": query.name,
        "in": "query",
        "required": False,
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


# The shapes that operations take and give, as components of an OpenAPI document: each once, under its name.


_REF: Final = "#/components/schemas/{model}"


class _Untitled(GenerateJsonSchema):
    """The schema without titles that repeat a field name, and without the underscore of private names."""

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).lstrip("_")

    def field_title_should_be_set(self, schema: object) -> bool:
        del schema
        return False


class SchemaRegistry:
    """Collect the schemas of these operations."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        used = sorted(
            {each for operation in operations for each in _shapes_of(operation)}, key=lambda each: each.__name__
        )
        # Both ways as they are read: what is written is the same without what is absent.
        refs, found = models_json_schema(
            [(shape, "validation") for shape in used], ref_template=_REF, schema_generator=_Untitled
        )
        self._refs = {shape: cast("JsonObject", refs[shape, "validation"]) for shape in used}
        self.components = cast("JsonObject", found.get("$defs", {}))

    def of(self, shape: type[Shape] | JsonObject) -> JsonObject:
        """A reference to a shape, or the schema itself with references to its titled parts."""
        return self._refs[shape] if isinstance(shape, type) else cast("JsonObject", self._named(shape))

    def _named(self, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self._named(each) for each in value]
        if not isinstance(value, dict):
            return value
        schema = {name: self._named(each) for name, each in value.items()}
        title = schema.get("title")
        if not isinstance(title, str) or schema.get("type") != "object":
            return schema
        if self.components.setdefault(title, schema) != schema:
            raise ValueError(f"two shapes are called {title}")
        return {"$ref": _REF.format(model=title)}

    def needed(self, shape: type[Shape] | JsonObject, path: str) -> bool:
        """Whether a body of this shape is required. A missing body counts as an empty object, and fields from the path
        are optional."""
        if not isinstance(shape, type):
            return bool(shape.get("required")) or shape.get("type") != "object"
        whole = cast("dict[str, list[str]]", self.components[str(self._refs[shape]["$ref"]).rpartition("/")[2]])
        if "required" in whole:
            whole["required"] = [name for name in whole["required"] if name not in parts_of(path)]
        return bool(whole.get("required"))


def _shapes_of(operation: Operation) -> list[type[Shape]]:
    schemas = [operation.body, *(part for each in operation.answers.values() for part in (each.schema, each.items))]
    return [each for each in schemas if isinstance(each, type)]
