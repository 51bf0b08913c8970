"""JSON Schemas of requests and responses: builders for those without a class, and the registry of all of them."""

from collections.abc import Iterable, Sequence
from typing import Final, cast

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from bollard.host.http.operations import Operation
from bollard.protocol import JsonObject, JsonValue, Shape

TEXT: Final[JsonObject] = {"type": "string"}
NUMBER: Final[JsonObject] = {"type": "integer"}
TIME: Final[JsonObject] = {"type": "number", "description": "Seconds of the epoch."}
FLAG: Final[JsonObject] = {"type": "boolean"}
ANY: Final[JsonObject] = {"type": "object"}
LABEL: Final[JsonObject] = {"type": "object", "additionalProperties": {"type": "string"}}


def fields(optional: JsonObject | None = None, /, **required: JsonValue) -> JsonObject:
    """An object with these required and optional fields."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": [*sorted(required)],
        "additionalProperties": False,
    }


def named(name: str, schema: JsonObject) -> JsonObject:
    """The schema with a name for generated clients."""
    return {"title": name, **schema}


def maybe(schema: JsonObject) -> JsonObject:
    """The schema, or null."""
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def array_of(item: JsonObject) -> JsonObject:
    return {"type": "array", "items": item}


def map_of(value: JsonObject) -> JsonObject:
    return {"type": "object", "additionalProperties": value}


def choice(*values: str) -> JsonObject:
    return {"type": "string", "enum": [*values]}


STREAM: Final = "text/event-stream"
SSE: Final[JsonObject] = {
    "type": "object",
    "description": "One event; the body is a sequence of them.",
    "properties": {"id": TEXT, "event": TEXT, "data": {"type": "string", "contentMediaType": "application/json"}},
    "required": ["data"],
}
_REASON: Final = fields({"retry_after_s": {"type": "number"}}, code=TEXT, message=TEXT, hint=TEXT)
ACCEPTED: Final = named(
    "Accepted",
    fields(
        {
            "steering": fields(status=TEXT, claimed_by_run_id=maybe(TEXT)),
            "run_token": TEXT,
            "id": TEXT,
            "reason": maybe(_REASON),
        },
        event_id=TEXT,
        run_id=maybe(TEXT),
        first=FLAG,
    ),
)
"""The response to an event."""
COMPONENT: Final = "#/components/schemas/{model}"


class SchemaGenerator(GenerateJsonSchema):
    """Schemas without titles that repeat a field name, and without the underscore of private names."""

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
        # One schema for both directions: responses only leave out absent fields.
        refs, found = models_json_schema(
            [(shape, "validation") for shape in used], ref_template=COMPONENT, schema_generator=SchemaGenerator
        )
        self._refs = {shape: cast("JsonObject", refs[shape, "validation"]) for shape in used}
        components = cast("dict[str, JsonObject]", found.get("$defs", {}))
        # A generated client names its classes by the title.
        self.components: JsonObject = {name: {**schema, "title": name} for name, schema in components.items()}

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
        return {"$ref": COMPONENT.format(model=title)}

    def needed(self, shape: type[Shape] | JsonObject, placeholders: Sequence[str]) -> bool:
        """Whether a body of this shape is required. A missing body counts as an empty object, and fields that are
        placeholders of the path are optional."""
        if not isinstance(shape, type):
            return bool(shape.get("required")) or shape.get("type") != "object"
        whole = cast("dict[str, list[str]]", self.components[str(self._refs[shape]["$ref"]).rpartition("/")[2]])
        if "required" in whole:
            whole["required"] = [name for name in whole["required"] if name not in placeholders]
        return bool(whole.get("required"))


def _shapes_of(operation: Operation) -> list[type[Shape]]:
    schemas = [operation.body, *(part for each in operation.answers.values() for part in (each.schema, each.items))]
    return [each for each in schemas if isinstance(each, type)]


DECIDED_BY: Final = fields({"thing": TEXT, "problem": TEXT, "problem_details": ANY}, layer=TEXT, text=TEXT)
"""A layer of a grant that allowed or denied something."""


GROUP_BOUNDS: Final[JsonObject] = {
    "memory_mib": maybe(NUMBER),
    "cpu": maybe({"type": "number"}),
    "processes": maybe(NUMBER),
}
"""The limits of processes that belong together; null is unlimited."""
