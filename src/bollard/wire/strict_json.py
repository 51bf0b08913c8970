"""Strict JSON for frames: enforces every limit of §11, most of them before a value is built.

The fast path decodes with msgspec, encodes again and compares the bytes: equality proves that there are no duplicate
keys, no NaN, no unusual escapes and no invalid UTF-8. Different bytes are not necessarily an error, because another
peer may write spaces or escapes; the careful parser then decides and names the fault. Not a general JSON library.
"""

import json
import math
import re
from typing import Final, cast

import msgspec

from bollard.protocol import JsonObject, JsonValue, limits
from bollard.wire.errors import FrameError

_decode_fast: Final = msgspec.json.Decoder().decode
encode: Final = msgspec.json.Encoder().encode
"""Encode a value of our own code as compact UTF-8 JSON."""

_LONG_NUMBER: Final = b"0" * 16  # 2**53 has 16 digits: shorter integers are within range
_DIGITS: Final = bytes.maketrans(
    b"123456789", b"000000000"
)  # with all digits equal, a substring search replaces a slower pattern
_LONG_STRING: Final = re.compile(rb'"[^"]{257}')  # only a literal this long, or one with escaped quotes, can
# be a key of more than 256 characters
_BACKSLASH: Final = ord("\\")
_WHITESPACE: Final = b" \t\r\n"  # frames that differ only in it hold the same value: a duplicate key leaves more bytes
_SEARCHED_BYTES: Final = 2048
_DIGITS_MAX: Final = 32
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def decode(frame: bytes, *, frame_bytes: int = limits.FRAME_BYTES) -> JsonValue:
    """Decode one frame. Raises `FrameError`."""
    if len(frame) > frame_bytes:
        raise FrameError("oversized", f"{len(frame)} bytes, the limit is {frame_bytes}")
    _check_shape(frame)
    try:
        value: JsonValue = _decode_fast(frame)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_carefully(frame)
    written = encode(value)
    if written != frame and written.translate(None, _WHITESPACE) != frame.translate(None, _WHITESPACE):
        return _decode_carefully(frame)
    if _is_suspect(frame) or type(value) is int:
        _check_values(value)
    return value


def _is_suspect(frame: bytes) -> bool:
    """Return whether a frame may hold a large integer or a long key. For a large frame, checking values is faster.

    Bytes are found with `find`, because `in` first tries them as a number, and raises and drops an error.
    """
    return bool(
        len(frame) > _SEARCHED_BYTES
        or frame.translate(_DIGITS).find(_LONG_NUMBER) >= 0
        or (_BACKSLASH in frame and frame.find(b'\\"') >= 0)  # one byte is found much faster than two
        or (len(frame) > limits.KEY_CHARACTERS and _LONG_STRING.search(frame))
    )


def encode_frame(value: JsonValue) -> bytes:
    """Encode a value and check it with `check_written`. The caller checks the size."""
    try:
        frame = encode(value)
    except UnicodeEncodeError:
        raise FrameError("surrogate", "a string holds half of a surrogate pair") from None
    except RecursionError:
        raise FrameError("depth", f"nested deeper than {limits.FRAME_DEPTH}") from None
    check_written(frame, value)
    return frame


def check_written(frame: bytes, value: JsonValue) -> None:
    """Check an outgoing frame. Raises the `FrameError` that the peer would count as a strike.

    `value` is checked too, because the encoder turns NaN into null.
    """
    _check_shape(frame)
    if _is_suspect(frame) or frame.find(b"null") >= 0:
        _check_values(value)


def _check_shape(frame: bytes) -> None:
    """Check the depth and the number of values on the bytes. A cheap upper bound is enough for almost every frame."""
    openers = frame.count(b"{") + frame.count(b"[")
    few = len(frame) <= limits.FRAME_NODES or openers + frame.count(b",") < limits.FRAME_NODES
    if few and openers <= limits.FRAME_DEPTH:
        return
    # Replace strings by "0", so that only structure is left. Escaped backslashes go first, so that \\" ends a string.
    outside = frame.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    skeleton = b"0".join(outside).translate(None, b" \t\r\n")
    openers = skeleton.count(b"{") + skeleton.count(b"[")
    nodes = 1 + skeleton.count(b",") + openers - skeleton.count(b"{}") - skeleton.count(b"[]")
    if nodes > limits.FRAME_NODES or openers > limits.FRAME_NODES:
        raise FrameError("nodes", f"more than {limits.FRAME_NODES} JSON values")
    depth = 0
    for byte in skeleton.translate(None, _NO_BRACKETS):
        if byte in b"{[":
            depth += 1
            if depth > limits.FRAME_DEPTH:
                raise FrameError("depth", f"nested deeper than {limits.FRAME_DEPTH}")
        else:
            depth -= 1


def _check_values(value: JsonValue) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_key(key)
            _check_values(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_values(inner)
    elif isinstance(value, int):
        if abs(value) > limits.INTEGER_MAX:
            raise FrameError("number", "an integer is beyond ±2^53")
    elif isinstance(value, float) and not math.isfinite(value):
        raise FrameError("number", "NaN and Infinity are not JSON")


def _check_key(key: str) -> None:
    if len(key) > limits.KEY_CHARACTERS:
        raise FrameError("key_length", f"a key has {len(key)} characters, the limit is {limits.KEY_CHARACTERS}")


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found: JsonObject = {}
    for key, value in pairs:
        _check_key(key)
        if key in found:
            raise FrameError("duplicate_key", f"the key {key[:64]!r} stands twice in one object")
        found[key] = value
    return found


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= _DIGITS_MAX else limits.INTEGER_MAX + 1
    if abs(value) > limits.INTEGER_MAX:
        raise FrameError("number", "an integer is beyond ±2^53")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise FrameError("number", "a number is beyond the range of a double")
    return value


def _constant(name: str) -> JsonValue:
    raise FrameError("number", f"{name} is not JSON")


_read_carefully: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
).decode


def _decode_carefully(frame: bytes) -> JsonValue:
    try:
        text = frame.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FrameError("encoding", f"not UTF-8 at byte {error.start}") from None
    try:
        value = cast("JsonValue", _read_carefully(text))
    except json.JSONDecodeError as error:
        raise FrameError("syntax", f"{error.msg} at character {error.pos}") from None
    if "\\u" in text:
        _refuse_surrogates(value)
    return value


def _refuse_surrogates(value: JsonValue) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise FrameError("surrogate", "a string holds half of a surrogate pair") from None
