"""Canonical JSON (RFC 8785): equal values have equal bytes and therefore equal digests."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Final

import msgspec

from bollard.trust.errors import NotCanonical

if TYPE_CHECKING:
    from bollard.protocol import JsonValue

_string: Final = msgspec.json.Encoder().encode
_INTEGER_MAX: Final = 2**53
"""The largest range in which a double holds every integer."""
_SHORTEST_EXPONENT: Final = 21
_SMALLEST_EXPONENT: Final = -6


def canonical_json(value: JsonValue) -> bytes:
    """Return the canonical bytes of a value. Raises `NotCanonical`."""
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def canonical_sha256(value: JsonValue) -> str:
    """Return the SHA-256 of the canonical bytes as lower-case hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _write(value: JsonValue, parts: list[bytes]) -> None:
    if isinstance(value, str):
        parts.append(_text(value))
    elif value is None or isinstance(value, bool):
        parts.append(b"null" if value is None else b"true" if value else b"false")
    elif isinstance(value, int):
        if abs(value) > _INTEGER_MAX:
            raise NotCanonical("an integer is beyond ±2^53")
        parts.append(b"%d" % value)
    elif isinstance(value, float):
        parts.append(_number(value))
    elif isinstance(value, dict):
        _write_object(value, parts)
    else:
        parts.append(b"[")
        for index, item in enumerate(value):
            if index:
                parts.append(b",")
            _write(item, parts)
        parts.append(b"]")


def _write_object(value: dict[str, JsonValue], parts: list[bytes]) -> None:
    # RFC 8785 sorts by UTF-16 code units, which differs from code points only beyond the basic plane.
    keys = sorted(value) if all(key.isascii() for key in value) else sorted(value, key=_utf16)
    parts.append(b"{")
    for index, key in enumerate(keys):
        if index:
            parts.append(b",")
        parts.append(_text(key))
        parts.append(b":")
        _write(value[key], parts)
    parts.append(b"}")


def _utf16(key: str) -> bytes:
    try:
        return key.encode("utf-16-be")
    except UnicodeEncodeError:
        raise NotCanonical("a key holds half of a surrogate pair") from None


def _text(value: str) -> bytes:
    try:
        return _string(value)
    except UnicodeEncodeError:
        raise NotCanonical("a string holds half of a surrogate pair") from None


def _number(value: float) -> bytes:
    """Format a double like ECMAScript: the shortest digits, without an exponent between 1e-6 and 1e21."""
    if not math.isfinite(value):
        raise NotCanonical("NaN and Infinity are not JSON")
    if value == 0:
        return b"0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent_text = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent_text or 0)  # the position of the decimal point after the first digit
    if whole.strip("0") == "":
        point -= len(whole) + len(fraction) - len(fraction.lstrip("0"))
    digits = digits.rstrip("0")
    return (sign + _place_point(digits, point)).encode()


def _place_point(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= _SHORTEST_EXPONENT:
        return digits + "0" * (point - count)
    if 0 < point <= _SHORTEST_EXPONENT:
        return f"{digits[:point]}.{digits[point:]}"
    if _SMALLEST_EXPONENT < point <= 0:
        return f"0.{'0' * -point}{digits}"
    exponent = point - 1
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{'+' if exponent > 0 else '-'}{abs(exponent)}"
