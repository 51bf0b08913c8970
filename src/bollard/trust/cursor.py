"""Opaque cursors: authenticated, and valid for one purpose and one scope. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Final, cast

import msgspec

from bollard.trust.errors import BadCursor

if TYPE_CHECKING:
    from bollard.protocol import JsonValue

CURSOR_CHARACTERS: Final = 512
"""The longest accepted cursor."""
_TAG_BYTES: Final = 16
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def _compute_tag(secret: bytes, purpose: str, scope: str, body: bytes) -> bytes:
    # The lengths distinguish `ab` + `c` from `a` + `bc`.
    text = b"%d:%b%d:%b%b" % (len(purpose), purpose.encode(), len(scope), scope.encode(), body)
    return hmac.new(secret, text, hashlib.sha256).digest()[:_TAG_BYTES]


def seal_cursor(secret: bytes, *, purpose: str, scope: str, place: JsonValue) -> str:
    """Return a cursor that `open_cursor` accepts with the same secret, purpose and scope only."""
    body = _encode(place)
    return base64.urlsafe_b64encode(_compute_tag(secret, purpose, scope, body) + body).decode().rstrip("=")


def open_cursor(secret: bytes, cursor: str, *, purpose: str, scope: str) -> JsonValue:
    """Return the position in a cursor. Raises `BadCursor`, which does not name the fault."""
    if len(cursor) > CURSOR_CHARACTERS:
        raise BadCursor("the cursor is not valid here")
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadCursor("the cursor is not valid here") from None
    tag, body = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
    if not hmac.compare_digest(tag, _compute_tag(secret, purpose, scope, body)):
        raise BadCursor("the cursor is not valid here")
    return cast("JsonValue", _decode(body))
