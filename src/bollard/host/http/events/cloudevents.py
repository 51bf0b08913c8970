"""CloudEvents 1.0 as events of the host. Pure.

`source` and `id` identify the event. A stable type keeps its name; any other becomes `webhook.received` with the
sender's type as `source_event_type`. The run gets the original attributes in `adapter.extra.cloudevent`.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, cast
from urllib.parse import unquote

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.http.errors import UnsupportedMedia
from bollard.host.http.events.event_data import EventData, LargeData, media_type, split_data, split_large_data
from bollard.host.http.operations import OtherBody
from bollard.host.limits import EVENT_EXTRA_BYTES, EVENT_NAME_CHARACTERS, EVENTS_IN_BATCH
from bollard.host.runs.event import NewEvent
from bollard.host.scope import Scope
from bollard.protocol import EVENT_TYPES, JsonObject, JsonValue

STRUCTURED: Final = "application/cloudevents+json"
BATCH: Final = "application/cloudevents-batch+json"
MESSAGE: Final = "message.received"
_HEADER: Final = "ce-"
_NAME: Final = re.compile(r"[a-z0-9]{1,64}")
_TRACEPARENT: Final = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_TEXTS: Final = frozenset(
    {
        *("id", "source", "type", "datacontenttype", "dataschema", "subject"),
        *("agent", "bot", "conversation", "thread", "actortype", "actorid", "actorname", "subjecttype"),
    }
)
"""Attributes that are strings. The second row has extensions for the place and the actor of an event."""
_NOT_EXTRA: Final = frozenset({"id", "source", "data", "data_base64"})
_HINT: Final = "see docs/reference/http.md#cloudevents"


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One valid CloudEvent: its attributes and its data."""

    attributes: Mapping[str, JsonValue]
    data: EventData = msgspec.field(default_factory=EventData)
    parts: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    """The contents of a message, which its data has."""

    @property
    def source(self) -> str:
        return str(self.attributes["source"])

    @property
    def id(self) -> str:
        return str(self.attributes["id"])

    @property
    def expires_ms(self) -> int | None:
        return _read_time("expirytime", self.attributes)

    def text(self, name: str) -> str | None:
        value = self.attributes.get(name)
        return value if isinstance(value, str) else None

    def event(self, workspace: str, *, caller: str, traceparent: str | None) -> NewEvent:
        """The event, in the trace of the request unless it has its own. Raises `InvalidRequest`."""
        kind, subject, actor_id = str(self.attributes["type"]), self.text("subject"), self.text("actorid")
        stable = kind in EVENT_TYPES
        return NewEvent(
            source=self.source,
            source_id=self.id,
            event_type=kind if stable else "webhook.received",
            source_event_type=None if stable else kind,
            scope=Scope(
                workspace=workspace,
                bot=self.text("bot"),
                conversation=self.text("conversation"),
                thread=self.text("thread"),
                actor_type=None if actor_id is None else self.text("actortype") or "user",
                actor_id=actor_id,
                subject_type=None if subject is None else self.text("subjecttype") or "subject",
                subject_id=subject,
            ),
            trigger="webhook",
            text=_message_text(self.data) if kind == MESSAGE else None,
            actor_name=self.text("actorname"),
            event_ms=_read_time("time", self.attributes),
            data=self.data.values,
            extra=_extra(self.attributes),
            caller=caller,
            traceparent=_traceparent(self.attributes) or traceparent,
        )


def structured_event(
    body: Mapping[str, JsonValue], large: bytes | None = None, *, parts: frozenset[str] = frozenset()
) -> CloudEvent:
    """Read a structured event. `large` is its `data` as bytes, if that is too large to decode. `parts` names the
    members of the data that are the contents of a message."""
    for name in body:
        if name not in ("data", "data_base64") and _NAME.fullmatch(name) is None:
            raise _invalid(name, "attribute_name", "attribute names have only lower-case letters and digits")
    if "data" in body and "data_base64" in body:
        raise _invalid("data_base64", "data_twice", "the event has data too; send one of them")
    attributes = {
        name: value
        for name, value in body.items()
        if name not in ("data", "data_base64") and value is not None  # null means absent
    }
    _check(attributes)
    media = media_type(str(attributes.get("datacontenttype", "")))
    names, contents = parts if attributes["type"] == MESSAGE else frozenset[str](), dict[str, JsonValue]()
    if large is not None:
        contents, data = split_large_data(large, media or "application/json", names)
    elif "data_base64" in body:
        data = _binary(body["data_base64"], media)
    else:
        contents, data = split_data(body.get("data"), names)
    return CloudEvent(attributes=attributes, data=data, parts=contents)


def header_attributes(headers: Mapping[str, str]) -> JsonObject:
    """Read the attributes of an event whose data is the body."""
    attributes: JsonObject = {}
    for name, value in headers.items():
        if name.startswith(_HEADER):
            attribute = name.removeprefix(_HEADER)
            if _NAME.fullmatch(attribute) is None or attribute in ("data", "datacontenttype"):
                raise _invalid(name, "ce_header", "CloudEvents have no such header")
            attributes[attribute] = _unescaped(name, value)
    if (media := headers.get("content-type")) is not None:
        attributes["datacontenttype"] = media
    _check(attributes)
    return attributes


def _check(attributes: Mapping[str, JsonValue]) -> None:
    version = attributes.get("specversion")
    if version is None:
        raise _invalid("specversion", "attribute_missing", "this attribute is required")
    if version != "1.0":
        raise UnsupportedMedia(
            "only CloudEvents of specversion 1.0 are supported",
            reason="specversion",
            hint="send specversion 1.0",
            field="specversion",
        )
    for name in ("id", "source", "type"):
        if name not in attributes:
            raise _invalid(name, "attribute_missing", "this attribute is required")
    for name, value in attributes.items():
        if name in _TEXTS and (not isinstance(value, str) or not value):
            raise _invalid(name, "attribute_text", "should be a string that is not empty")
        if not isinstance(value, str | bool | int):
            raise _invalid(name, "attribute_type", "should be a string, an integer or a boolean")


def _binary(value: JsonValue, media: str) -> EventData:
    try:
        decoded = base64.b64decode(cast("str", value), validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _invalid("data_base64", "base64", "is not base64") from None
    return EventData(large=LargeData(decoded, media or "application/octet-stream"))


def _message_text(data: EventData) -> str | None:
    """The text of a message: its data if that is a string, or the `text` in it."""
    if data.large is not None:
        return None
    value = data.values.get("text", data.values.get("value"))
    return value if isinstance(value, str) else None


def _read_time(name: str, attributes: Mapping[str, JsonValue]) -> int | None:
    """An RFC 3339 time in milliseconds since the epoch."""
    value = attributes.get(name)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(cast("str", value))
        time_ms = round(moment.timestamp() * 1000) if moment.tzinfo is not None else None
    except (TypeError, ValueError, OverflowError):
        time_ms = None
    if time_ms is None:
        raise _invalid(name, "time", "is not an RFC 3339 time, such as 2026-01-31T12:00:00Z")
    if time_ms < 0:
        raise _invalid(name, "time_before_epoch", "is before 1970")
    return time_ms


def _traceparent(attributes: Mapping[str, JsonValue]) -> str | None:
    """The trace, or `None` if it is malformed: the W3C specification says to ignore it then."""
    value = attributes.get("traceparent")
    return value if isinstance(value, str) and _TRACEPARENT.fullmatch(value) is not None else None


def _extra(attributes: Mapping[str, JsonValue]) -> JsonObject:
    extra: JsonObject = {name: value for name, value in attributes.items() if name not in _NOT_EXTRA}
    if len(msgspec.json.encode(extra)) > EVENT_EXTRA_BYTES:
        raise InvalidRequest(
            f"the attributes are larger than {EVENT_EXTRA_BYTES} bytes",
            reason="attributes_size",
            hint="move them into the data",
            field="event",
            max_bytes=EVENT_EXTRA_BYTES,
        )
    return {"cloudevent": extra}


def _unescaped(name: str, value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise _invalid(name, "header_encoding", "is not percent-encoded UTF-8") from None


def _invalid(name: str, reason: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{name[:64]}: {problem}", reason=f"cloudevent_{reason}", hint=_HINT, field=name[:64])


# --- JSON Schema of the CloudEvents that `POST /events` accepts ---

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
