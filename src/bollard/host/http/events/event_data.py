"""The data of an event: small data goes to the run, large data becomes an artifact with a summary. Pure."""

from typing import Final, cast

import msgspec

from bollard.host.http.answers import BODY_BYTES, not_an_object, not_json
from bollard.host.limits import (
    EVENT_DATA_BYTES,
    EVENT_DATA_DEPTH,
    EVENT_DATA_VALUES,
    EVENT_SUMMARY_BYTES,
    EVENT_SUMMARY_KEYS,
)
from bollard.protocol import JsonObject, JsonValue
from bollard.wire import FrameError, decode

SIZE_FAULTS: Final = frozenset({"nodes", "depth"})
_SCALARS: Final = frozenset(b'"-0123456789tfn')


class LargeData(msgspec.Struct, frozen=True):
    """Content that becomes an artifact."""

    body: bytes | None
    """`None` for the whole body of the request."""
    mime_type: str


class EventData(msgspec.Struct, frozen=True):
    """The data of an event. Of large data, `values` has the short values."""

    values: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    large: LargeData | None = None


def media_type(header: str | None) -> str:
    """The type of a body without its parameters, in lower case."""
    return (header or "").partition(";")[0].strip().lower()


def is_json(media: str) -> bool:
    return not media or media == "application/json" or media.endswith(("/json", "+json"))


def json_data(value: JsonValue) -> EventData:
    """A JSON value as data: an object as it is, another value as `{"value": …}`."""
    if value is None:
        return EventData()
    data: JsonObject = value if isinstance(value, dict) else {"value": value}
    body = msgspec.json.encode(data)
    if len(body) <= EVENT_DATA_BYTES and _is_small(data, body):
        return EventData(data)
    return large_data(msgspec.json.encode(value), "application/json")


def large_data(body: bytes, mime_type: str) -> EventData:
    """A JSON document that is too large to be passed to a run."""
    return EventData(summary_of(body), LargeData(body, mime_type))


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
    if (read := _read_small(body)) is not None:
        if not isinstance(read[0], dict):
            raise not_an_object()
        return cast("JsonObject", read[0]), None
    members = _members(body)
    data = members.pop("data", None)
    document = {name: _decoded(raw) for name, raw in members.items()}
    if data is None:
        return document, None
    small = _read_small(bytes(data))
    return (document, bytes(data)) if small is None else ({**document, "data": small[0]}, None)


def split_data(value: JsonValue, names: frozenset[str]) -> tuple[JsonObject, EventData]:
    """The members with these names, and the rest as data."""
    if not isinstance(value, dict) or names.isdisjoint(value):
        return {}, json_data(value)
    rest: JsonObject = {name: each for name, each in value.items() if name not in names}
    return {name: each for name, each in value.items() if name in names}, json_data(rest)


def split_large_data(body: bytes, mime_type: str, names: frozenset[str]) -> tuple[JsonObject, EventData]:
    """As `split_data`, for a JSON document that is too large to decode at once."""
    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}, large_data(body, mime_type)
    named = {name: _decoded(members.pop(name)) for name in sorted(names & members.keys())}
    if not named:
        return {}, large_data(body, mime_type)
    rest = msgspec.json.encode(members)
    small = _read_small(rest)
    return named, large_data(rest, mime_type) if small is None else json_data(small[0])


def _read_small(body: bytes) -> tuple[JsonValue] | None:
    """The value of a document, or nothing if it is too large to decode. Raises `InvalidRequest`."""
    if len(body) > BODY_BYTES:
        return None
    try:
        return (decode(body),)
    except FrameError as error:
        if error.fault in SIZE_FAULTS:
            return None
        raise not_json(error.detail, error.fault) from error


def _members(body: bytes) -> dict[str, msgspec.Raw]:
    try:
        return msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise not_json(str(error), "syntax") from error


def _decoded(raw: msgspec.Raw) -> JsonValue:
    """A member of a body whose size is limited, such as contents with files inside."""
    content = bytes(raw)
    try:
        return decode(content, frame_bytes=len(content))
    except FrameError as error:
        raise not_json(error.detail, error.fault) from error


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
            try:
                summary[name] = decode(text)
            except FrameError:  # such as a number that a worker could not read
                continue
            if len(summary) == EVENT_SUMMARY_KEYS:
                break
    return summary
