"""Pages and cursors of the run API. Pure."""

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Final, TypeVar, cast

from bollard.host.run_api.refusal import ApiRefused
from bollard.protocol import Shape, limits
from bollard.trust import BadCursor, open_cursor, seal_cursor
from bollard.wire import encode

Row = TypeVar("Row")
Item = TypeVar("Item", bound=Shape)


def size_of(item: Shape) -> int:
    """The bytes of an item on the wire, including the comma."""
    return len(encode(item.to_wire())) + 1


def filled(rows: Iterable[Row], item_of: Callable[[Row], Item], limit: int) -> tuple[list[Item], bool]:
    """At most `limit` items and `PAGE_BYTES` bytes, and whether rows are left. The first row is always included, so
    that readers make progress."""
    items: list[Item] = []
    room = limits.PAGE_BYTES
    for row in rows:
        if len(items) == limit:
            return items, True
        item = item_of(row)
        room -= size_of(item)
        if items and room < 0:
            return items, True
        items.append(item)
    return items, False


def keys_with(
    prefix: str, after: str | None, limit: int, *, has: Callable[[str], bool], behind: Callable[[str, int], list[str]]
) -> tuple[list[str], bool]:
    """Keys that begin with `prefix`, in order, and whether there are more.

    Keys with a prefix are adjacent, so the prefix is a start position and never a pattern. `has` says whether a key
    exists, `behind` returns the keys after one.
    """
    keys = [prefix] if after is None and prefix and has(prefix) else []
    more = behind(max(prefix, after or ""), limit + 1 - len(keys))
    keys.extend(takewhile(lambda key: key.startswith(prefix), more))
    return keys[:limit], len(keys) > limit


_KEY_CHARACTERS: Final = 4096
"""The longest encoded key in a cursor. A key has at most 256 characters of four bytes."""


class Cursors:
    """Signed cursors, each valid for one action of one run over one place. Every invalid cursor gets the same error."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seal(self, action: str, run_id: str, place: str, at: int) -> str:
        """The cursor after a numbered row."""
        return seal_cursor(self._secret, purpose=action, scope=f"{run_id}/{place}", place=at)

    def open(self, action: str, run_id: str, place: str, cursor: str | None, field: str) -> int | None:
        """The row number, or `None` without a cursor. Raises `ApiRefused`."""
        if cursor is None:
            return None
        try:
            return cast("int", open_cursor(self._secret, cursor, purpose=action, scope=f"{run_id}/{place}"))
        except BadCursor:
            raise _refused(action, field) from None

    def seal_key(self, action: str, run_id: str, place: str, key: str) -> str:
        """The cursor after a key. A key may exceed the size of a cursor, so its digest is signed."""
        text = key.encode()
        signed = seal_cursor(self._secret, purpose=action, scope=f"{run_id}/{place}", place=_digest(text))
        return f"{signed}.{base64.urlsafe_b64encode(text).decode()}"

    def open_key(self, action: str, run_id: str, place: str, cursor: str | None) -> str | None:
        """The key, or `None` without a cursor. Raises `ApiRefused`."""
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
        return text.decode()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _refused(action: str, field: str) -> ApiRefused:
    return ApiRefused("invalid_argument", f"{field}: is not a valid cursor of {action}", details={"field": field})
