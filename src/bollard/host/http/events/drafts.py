"""An event as it came in, before it is decided what is kept of it: small data, or an artifact and a summary. Pure."""

from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import BODY_BYTES
from bollard.host.limits import (
    EVENT_DATA_BYTES,
    EVENT_DATA_DEPTH,
    EVENT_DATA_VALUES,
    EVENT_SUMMARY_BYTES,
    EVENT_SUMMARY_KEYS,
)
from bollard.host.runs.event import NewEvent, RawPayload, ReplyRoute
from bollard.protocol import JsonObject, JsonValue, TriggerSource
from bollard.wire import FrameError, decode

_TOO_MUCH: Final = frozenset({"nodes", "depth"})
_SCALARS: Final = frozenset(b'"-0123456789tfn')


class Nothing(msgspec.Struct, frozen=True):
    """An event without data."""


class Json(msgspec.Struct, frozen=True):
    """Data that a run can be given as it is."""

    data: JsonObject


class Raw(msgspec.Struct, frozen=True):
    """What becomes an artifact. `summary` is what is known of it without reading it."""

    body: bytes | None
    """Nothing: the body of the request as it was received."""
    mime_type: str
    summary: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])


Content = Nothing | Json | Raw


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about an event but what its payload became."""

    source: str
    source_id: str
    event_type: str
    source_event_type: str | None = None
    text: str | None = None
    agent: str | None = None
    bot: str | None = None
    conversation: str | None = None
    thread: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    subject_type: str | None = None
    subject_id: str | None = None
    event_ms: int | None = None
    expires_ms: int | None = None
    traceparent: str | None = None
    extra: JsonObject | None = None
    content: Content = msgspec.field(default_factory=Nothing)

    def under(self, traceparent: str | None) -> "Draft":
        """The same as part of the request's trace, unless the event brings one of its own."""
        return self if self.traceparent is not None else replace(self, traceparent=traceparent)

    def event(
        self,
        data: JsonObject,
        raw: RawPayload | None,
        *,
        trigger: TriggerSource = "webhook",
        surface: str = "api",
        reply: ReplyRoute | None = None,
        caller: str | None = None,
    ) -> NewEvent:
        """The event. Raises `InvalidRequest`."""
        return NewEvent(
            source=self.source,
            source_id=self.source_id,
            event_type=self.event_type,
            source_event_type=self.source_event_type,
            trigger=trigger,
            surface=surface,
            text=self.text,
            bot=self.bot,
            conversation=self.conversation,
            thread=self.thread,
            actor_type=self.actor_type,
            actor_id=self.actor_id,
            actor_name=self.actor_name,
            subject_type=self.subject_type,
            subject_id=self.subject_id,
            event_ms=self.event_ms,
            traceparent=self.traceparent,
            extra=self.extra,
            data=data,
            raw=raw,
            reply=reply,
            caller=caller,
        )


def json_content(value: JsonValue) -> Content:
    """A JSON value as data: an object as it is, anything else as its `value`. What no run could be given is raw."""
    if value is None:
        return Nothing()
    data: JsonObject = value if isinstance(value, dict) else {"value": value}
    body = msgspec.json.encode(data)
    if len(body) <= EVENT_DATA_BYTES and _is_wieldy(data, body):
        return Json(data)
    whole = msgspec.json.encode(value)
    return Raw(whole, "application/json", summary_of(whole))


def _is_wieldy(data: JsonObject, body: bytes) -> bool:
    if body.count(b"{") + body.count(b"[") <= EVENT_DATA_DEPTH and body.count(b",") <= EVENT_DATA_VALUES // 2:
        return True
    values, level = 0, list[JsonValue]([data])
    for _ in range(EVENT_DATA_DEPTH):
        values += len(level)
        level = [inner for value in level for inner in _inside(value)]
        if values + len(level) > EVENT_DATA_VALUES:
            return False
        if not level:
            return True
    return False


def _inside(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def read_document(body: bytes) -> tuple[JsonObject, bytes | None]:
    """A JSON object; and its `data` apart, as it came, where that is too much to be read into values."""
    if len(body) <= BODY_BYTES:
        try:
            value = decode(body)
        except FrameError as error:
            if error.fault not in _TOO_MUCH:
                raise _no_object(error.detail, error.fault) from error
        else:
            if not isinstance(value, dict):
                raise InvalidRequest("the body is not an object", hint="send one JSON object", field="body")
            return cast("JsonObject", value), None
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _no_object(str(error), "syntax") from error
    large = members.pop("data", None)
    try:
        rest = {name: decode(bytes(raw)) for name, raw in members.items()}
    except FrameError as error:
        raise _no_object(error.detail, error.fault) from error
    return rest, None if large is None else bytes(large)


def _no_object(detail: str, fault: str) -> InvalidRequest:
    return InvalidRequest(f"the body is not JSON: {detail}", hint="send one JSON object", field="body", fault=fault)


def summary_of(body: bytes) -> JsonObject:
    """The short plain values of a JSON object, so that bindings can be filtered by them. Nothing of anything else."""
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    summary: JsonObject = {}
    for name, raw in members.items():
        text = bytes(raw)
        if len(name) + len(text) <= EVENT_SUMMARY_BYTES and text[0] in _SCALARS:
            summary[name] = cast("JsonValue", _decode(text))
            if len(summary) == EVENT_SUMMARY_KEYS:
                break
    return summary


_decode: Final[Any] = msgspec.json.Decoder().decode
