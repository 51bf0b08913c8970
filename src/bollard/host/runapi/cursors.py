"""Cursors of the run API: signed, and good for one action of one run over one place. Pure.

Whatever does not fit, altered or made for something else, gets one answer without a word about why.
"""

import base64
import binascii
import hashlib
from typing import Final, cast

from bollard.host.runapi.refusal import ApiRefused
from bollard.trust import BadCursor, open_cursor, seal_cursor

__all__ = ["Cursors"]

_KEY_CHARACTERS: Final = 4096
"""The longest key inside a cursor, encoded: a key has 256 characters of four bytes at most."""


class Cursors:
    """Made and read with one secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seal(self, action: str, run_id: str, place: str, at: int) -> str:
        """Where a page of numbered rows goes on."""
        return seal_cursor(self._secret, purpose=action, scope=f"{run_id}/{place}", place=at)

    def open(self, action: str, run_id: str, place: str, cursor: str | None, field: str) -> int | None:
        """The number inside; nothing where there is no cursor. Raises `ApiRefused`."""
        if cursor is None:
            return None
        try:
            return cast("int", open_cursor(self._secret, cursor, purpose=action, scope=f"{run_id}/{place}"))
        except BadCursor:
            raise _refused(action, field) from None

    def seal_key(self, action: str, run_id: str, place: str, key: str) -> str:
        """Where a page of keys goes on. A key may be longer than a cursor, so its digest is what is signed."""
        text = key.encode()
        signed = seal_cursor(self._secret, purpose=action, scope=f"{run_id}/{place}", place=_digest(text))
        return f"{signed}.{base64.urlsafe_b64encode(text).decode()}"

    def open_key(self, action: str, run_id: str, place: str, cursor: str | None) -> str | None:
        """The key inside; nothing where there is no cursor. Raises `ApiRefused`."""
        if cursor is None:
            return None
        signed, _, encoded = cursor.partition(".")
        try:
            text = base64.b64decode(encoded[:_KEY_CHARACTERS], altchars=b"-_", validate=True)
            found = open_cursor(self._secret, signed, purpose=action, scope=f"{run_id}/{place}")
        except (BadCursor, binascii.Error, ValueError):
            raise _refused(action, "cursor") from None
        if found != _digest(text):
            raise _refused(action, "cursor")
        return text.decode()  # it was signed here, so it is a key


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _refused(action: str, field: str) -> ApiRefused:
    return ApiRefused("invalid_argument", f"{field}: is no cursor of {action} here", details={"field": field})
