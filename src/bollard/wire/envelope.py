"""The JSON-RPC 2.0 envelope: reads decoded frames and encodes new ones. Pure."""

from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from bollard.protocol import JsonObject, JsonValue, limits
from bollard.wire.errors import FrameError
from bollard.wire.limits import CALL_ID_CHARACTERS
from bollard.wire.strict_json import encode_frame

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

CallId = int | str


class Request(msgspec.Struct, frozen=True):
    """A request. The peer must answer it."""

    id: CallId
    method: str
    params: JsonObject


class Notification(msgspec.Struct, frozen=True):
    """A notification. The peer does not answer it."""

    method: str
    params: JsonObject


class Response(msgspec.Struct, frozen=True):
    """A successful response."""

    id: CallId
    result: JsonValue


class ErrorResponse(msgspec.Struct, frozen=True):
    """An error response. `id` is absent if the peer could not read the id of the request."""

    id: CallId | None
    code: int
    message: str
    data: JsonValue


Envelope = Request | Notification | Response | ErrorResponse


def read_envelope(value: JsonValue) -> Envelope:
    """Return the message in a decoded frame. Raises `FrameError("envelope")`."""
    if not isinstance(value, dict):
        raise FrameError("envelope", "a frame is one JSON object; batches are not part of the protocol")
    if value.get("jsonrpc") != "2.0":
        raise FrameError("envelope", 'the member jsonrpc must be "2.0"')
    if "method" in value:
        return _read_method(value)
    if "result" in value and "error" in value:
        raise FrameError("envelope", "a response has a result or an error, not both")
    if "result" in value:
        return Response(_read_id(value), value["result"])
    if "error" in value:
        return _read_error(value)
    raise FrameError("envelope", "a frame has a method, a result or an error")


def _read_id(value: JsonObject) -> CallId:
    call_id = value.get("id")
    if isinstance(call_id, bool) or not isinstance(call_id, int | str):
        raise FrameError("envelope", "an id is an integer or a string")
    if isinstance(call_id, str) and len(call_id) > CALL_ID_CHARACTERS:
        raise FrameError("envelope", f"an id has at most {CALL_ID_CHARACTERS} characters")
    return call_id


def _read_method(value: JsonObject) -> Request | Notification:
    method, params = value["method"], value.get("params", {})
    if not isinstance(method, str):
        raise FrameError("envelope", "a method is a string")
    if not isinstance(params, dict):
        raise FrameError("envelope", "params is an object")
    return Request(_read_id(value), method, params) if "id" in value else Notification(method, params)


def _read_error(value: JsonObject) -> ErrorResponse:
    error = value["error"]
    if not isinstance(error, dict):
        raise FrameError("envelope", "an error is an object")
    code, message = error.get("code"), error.get("message")
    if isinstance(code, bool) or not isinstance(code, int) or not isinstance(message, str):
        raise FrameError("envelope", "an error has an integer code and a message")
    call_id = None if value.get("id") is None else _read_id(value)
    return ErrorResponse(call_id, code, message, error.get("data"))


def encode_request(call_id: CallId, method: str, params: JsonObject) -> bytes:
    return encode_frame({"jsonrpc": "2.0", "id": call_id, "method": method, "params": params})


def encode_notification(method: str, params: JsonObject) -> bytes:
    return encode_frame({"jsonrpc": "2.0", "method": method, "params": params})


def encode_response(call_id: CallId, result: JsonValue) -> bytes:
    return encode_frame({"jsonrpc": "2.0", "id": call_id, "result": result})


def encode_error(call_id: CallId | None, code: int, message: str, data: JsonValue = None) -> bytes:
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return encode_frame({"jsonrpc": "2.0", "id": call_id, "error": error})


# A fast path for plain text deltas, which arrive up to 60 000 times a second.
#
# Reading stays strict: the frame is decoded into a closed type and encoded again, and only equal bytes are accepted
# (see strict_json). Every other frame takes the general path.


class DeltaChunk(msgspec.Struct, gc=False):
    role: Literal["assistant"]
    content: str


class DeltaData(msgspec.Struct, gc=False):
    chunk: DeltaChunk
    message_id: str | UnsetType = UNSET


class Delta(msgspec.Struct, gc=False):
    """A plain text delta, as `AgentRunResult` with `MessageDelta` inside."""

    run_id: str
    type: Literal["message.delta"]
    data: DeltaData
    sequence: int
    timestamp: float | UnsetType = UNSET

    @property
    def text(self) -> str:
        return self.data.chunk.content

    def to_wire(self) -> JsonObject:
        """Return the delta as the JSON object of a `run/result`."""
        return msgspec.to_builtins(self)


class _DeltaFrame(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["run/result"]
    params: Delta


class _ResultParams(msgspec.Struct, gc=False):
    run_id: str
    type: str
    data: JsonObject
    sequence: int


RESULT_PREFIX: Final = b'{"jsonrpc":"2.0","method":"run/result","params":'
RESULT_ENVELOPE_BYTES: Final = len(RESULT_PREFIX) + 1
_DELTA_START: Final = RESULT_PREFIX + b'{"run_id":"'
_decode: Final = msgspec.json.Decoder(_DeltaFrame).decode
_encode: Final = msgspec.json.Encoder().encode


def read_delta(frame: bytes) -> Delta | None:
    """Return the delta, or `None` if the frame must take the general path."""
    if not frame.startswith(_DELTA_START):
        return None
    try:
        read = _decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    delta = read.params
    if _encode(read) != frame or not 1 <= delta.sequence <= limits.INTEGER_MAX:
        return None
    if delta.timestamp is not UNSET and delta.timestamp < 0:
        return None
    return delta


def encode_delta_head(run_id: str) -> bytes:
    """Return the start of a text delta frame. The encoded text follows, then `}},"sequence":N}}`."""
    return b'%b{"run_id":%b,"type":"message.delta","data":{"chunk":{"role":"assistant","content":' % (
        RESULT_PREFIX,
        _encode(run_id),
    )


def encode_result(run_id: str, kind: str, data: JsonObject, sequence: int) -> bytes:
    """Encode one `run/result` notification. All but `RESULT_ENVELOPE_BYTES` of it are `params`."""
    try:
        return RESULT_PREFIX + _encode(_ResultParams(run_id, kind, data, sequence)) + b"}"
    except UnicodeEncodeError:
        raise FrameError("surrogate", "a string holds half of a surrogate pair") from None
    except RecursionError:
        raise FrameError("depth", f"nested deeper than {limits.FRAME_DEPTH}") from None
