"""The JSON-RPC 2.0 envelope: what a decoded frame is, and the frames we write. Pure."""

from typing import Final

import msgspec

from bollard.protocol import JsonObject, JsonValue
from bollard.wire.errors import FrameError
from bollard.wire.limits import CALL_ID_CHARACTERS
from bollard.wire.strict_json import encode_frame

__all__ = [
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "PARSE_ERROR",
    "Answer",
    "Call",
    "CallId",
    "Envelope",
    "Failure",
    "Note",
    "answer_frame",
    "call_frame",
    "failure_frame",
    "note_frame",
    "open_envelope",
]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

CallId = int | str


class Call(msgspec.Struct, frozen=True):
    """A request that wants an answer."""

    id: CallId
    method: str
    params: JsonObject


class Note(msgspec.Struct, frozen=True):
    """A notification."""

    method: str
    params: JsonObject


class Answer(msgspec.Struct, frozen=True):
    """A response that went well."""

    id: CallId
    result: JsonValue


class Failure(msgspec.Struct, frozen=True):
    """A response that did not. `id` is absent when the peer could not read which call it answers."""

    id: CallId | None
    code: int
    message: str
    data: JsonValue


Envelope = Call | Note | Answer | Failure


def open_envelope(value: JsonValue) -> Envelope:
    """What kind of message a decoded frame is; raises `FrameError("envelope")`."""
    if not isinstance(value, dict):
        raise FrameError("envelope", "a frame is one JSON object; batches are not part of the protocol")
    if value.get("jsonrpc") != "2.0":
        raise FrameError("envelope", 'the member jsonrpc must be "2.0"')
    if "method" in value:
        return _open_method(value)
    if "result" in value and "error" in value:
        raise FrameError("envelope", "a response has a result or an error, not both")
    if "result" in value:
        return Answer(_id(value), value["result"])
    if "error" in value:
        return _open_failure(value)
    raise FrameError("envelope", "a frame has a method, a result or an error")


def _id(value: JsonObject) -> CallId:
    given = value.get("id")
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise FrameError("envelope", "an id is an integer or a string")
    if isinstance(given, str) and len(given) > CALL_ID_CHARACTERS:
        raise FrameError("envelope", f"an id has at most {CALL_ID_CHARACTERS} characters")
    return given


def _open_method(value: JsonObject) -> Call | Note:
    method, params = value["method"], value.get("params", {})
    if not isinstance(method, str):
        raise FrameError("envelope", "a method is a string")
    if not isinstance(params, dict):
        raise FrameError("envelope", "params is an object")
    return Call(_id(value), method, params) if "id" in value else Note(method, params)


def _open_failure(value: JsonObject) -> Failure:
    error = value["error"]
    if not isinstance(error, dict):
        raise FrameError("envelope", "an error is an object")
    code, message = error.get("code"), error.get("message")
    if isinstance(code, bool) or not isinstance(code, int) or not isinstance(message, str):
        raise FrameError("envelope", "an error has an integer code and a message")
    given = None if value.get("id") is None else _id(value)
    return Failure(given, code, message, error.get("data"))


def call_frame(call_id: CallId, method: str, params: JsonObject) -> bytes:
    return encode_frame({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})


def note_frame(method: str, params: JsonObject) -> bytes:
    return encode_frame({"jsonrpc": "2.0", "method": method, "params": params})


def answer_frame(call_id: CallId, result: JsonValue) -> bytes:
    return encode_frame({"jsonrpc": "2.0", "id": call_id, "result": result})


def failure_frame(call_id: CallId | None, code: int, message: str, data: JsonValue = None) -> bytes:
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return encode_frame({"jsonrpc": "2.0", "id": call_id, "error": error})
