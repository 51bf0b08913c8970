"""JSON Schemas of responses without a class of their own. The reference describes them."""

from typing import Final

from bollard.protocol import JsonObject, JsonValue

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
