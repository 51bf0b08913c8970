"""CloudEvents as JSON Schema: the forms in which `POST /events` takes them beside its own. Values only."""

from typing import Final

from bollard.host.http.cloudevents import BATCH, STRUCTURED
from bollard.host.http.operations import OtherBody
from bollard.host.limits import EVENT_NAME_CHARACTERS, EVENTS_IN_BATCH
from bollard.protocol import JsonObject

__all__ = ["CLOUD_BATCH", "CLOUD_EVENT"]

_NAMED: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": EVENT_NAME_CHARACTERS}
_SCHEMA: Final[JsonObject] = {
    "title": "CloudEvent",
    "type": "object",
    "description": "An event of CloudEvents 1.0.",
    "properties": {
        "specversion": {"const": "1.0"},
        "id": _NAMED,
        "source": _NAMED,
        "type": _NAMED,
        "subject": {**_NAMED, "type": ["string", "null"]},
        "time": {"type": ["string", "null"], "format": "date-time"},
        "datacontenttype": {"type": ["string", "null"], "minLength": 1},
        "data": {},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    },
    "required": ["specversion", "id", "source", "type"],
    "propertyNames": {"pattern": "^([a-z0-9]{1,64}|data_base64)$"},
    "additionalProperties": {"type": ["string", "integer", "boolean", "null"]},
    "not": {"required": ["data", "data_base64"]},
}
_EXAMPLE: Final[JsonObject] = {
    "specversion": "1.0",
    "id": "build-78",
    "source": "https://ci.example.org/main",
    "type": "org.example.build.failed",
    "subject": "main",
    "data": {"branch": "main"},
}
CLOUD_EVENT: Final = {STRUCTURED: OtherBody(schema=_SCHEMA, example=_EXAMPLE)}
CLOUD_BATCH: Final = {
    BATCH: OtherBody(schema={"type": "array", "items": _SCHEMA, "maxItems": EVENTS_IN_BATCH}, example=[_EXAMPLE])
}
