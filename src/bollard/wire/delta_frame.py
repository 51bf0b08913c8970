"""The one frame that comes 60 000 times a second: a plain text delta, written and read without building anything else.

Reading is strict all the same: the frame is decoded into a closed type and encoded again, and only equal bytes are
accepted (see strict_json). Whatever is not this frame, to the byte, takes the general way.
"""

from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from bollard.protocol import JsonObject, limits
from bollard.wire.errors import FrameError

__all__ = ["RESULT_ENVELOPE_BYTES", "RESULT_PREFIX", "Delta", "delta_head", "read_delta", "result_frame"]


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
        """The same result as a JSON object, for whoever treats all results alike."""
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
    """The delta, or `None` when the frame must take the general way."""
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


def delta_head(run_id: str) -> bytes:
    """A text delta of a run up to its text. The text follows, then `}},"sequence":N}}`."""
    return b'%b{"run_id":%b,"type":"message.delta","data":{"chunk":{"role":"assistant","content":' % (
        RESULT_PREFIX,
        _encode(run_id),
    )


def result_frame(run_id: str, kind: str, data: JsonObject, sequence: int) -> bytes:
    """One `run/result` notification; `params` are all but `RESULT_ENVELOPE_BYTES` of it."""
    try:
        return RESULT_PREFIX + _encode(_ResultParams(run_id, kind, data, sequence)) + b"}"
    except UnicodeEncodeError:
        raise FrameError("surrogate", "a string holds half of a surrogate pair") from None
    except RecursionError:
        raise FrameError("depth", f"nested deeper than {limits.FRAME_DEPTH}") from None
