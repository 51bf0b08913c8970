"""Drafts: events whose payload is not stored yet. A payload becomes small data, or an artifact with a summary. Pure."""

from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from bollard.host.http.answers import BODY_BYTES, not_an_object, not_json
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

_SIZE_FAULTS: Final = frozenset({"nodes", "depth"})
_SCALARS: Final = frozenset(b'"-0123456789tfn')


class Nothing(msgspec.Struct, frozen=True):
    """An event without data."""


class Json(msgspec.Struct, frozen=True):
    """Data that is small enough to be passed to a run."""

    data: JsonObject


class Raw(msgspec.Struct, frozen=True):
    """Content that becomes an artifact. `summary` has its short values."""

    body: bytes | None
    """`None` for the whole body of the request."""
    mime_type: str
    summary: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])


Content = Nothing | Json | Raw


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An event without its stored payload."""

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
        """The draft in the trace of the request, unless the event has a trace of its own."""
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
        """The event with its stored payload. Raises `InvalidRequest`."""
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
    """A JSON value as data: an object as it is, another value as `{"value": …}`. A large value becomes raw content."""
    if value is None:
        return Nothing()
    data: JsonObject = value if isinstance(value, dict) else {"value": value}
    body = msgspec.json.encode(data)
    if len(body) <= EVENT_DATA_BYTES and _is_small(data, body):
        return Json(data)
    whole = msgspec.json.encode(value)
    return Raw(whole, "application/json", summary_of(whole))


def _is_small(data: JsonObject, body: bytes) -> bool:
    if body.count(b"{") + body.count(b"[") <= EVENT_DATA_DEPTH and body.count(b",") <= EVENT_DATA_VALUES // 2:
        return True
    values, level = 0, list[JsonValue]([data])
    for _ in range(EVENT_DATA_DEPTH):
        values += len(level)
        level = [inner for value in level for inner in _children(value)]
        if values + len(level) > EVENT_DATA_VALUES:
            return False
        if not level:
            return True
    return False


def _children(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def read_document(body: bytes) -> tuple[JsonObject, bytes | None]:
    """Read a JSON object. Its `data` is returned apart, as bytes, if that is too large to decode."""
    if len(body) <= BODY_BYTES:
        try:
            value = decode(body)
        except FrameError as error:
            if error.fault not in _SIZE_FAULTS:
                raise not_json(error.detail, error.fault) from error
        else:
            if not isinstance(value, dict):
                raise not_an_object()
            return cast("JsonObject", value), None
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise not_json(str(error), "syntax") from error
    large = members.pop("data", None)
    try:
        rest = {name: decode(bytes(raw)) for name, raw in members.items()}
    except FrameError as error:
        raise not_json(error.detail, error.fault) from error
    return rest, None if large is None else bytes(large)


def summary_of(body: bytes) -> JsonObject:
    """The short scalar values of a JSON object, for the filters of bindings. Empty for anything else."""
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
