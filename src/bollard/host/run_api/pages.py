"""Pages of the run API: as many items as the protocol's limits let through, and keys by prefix. Pure."""

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
    """Bytes of an item on the wire, with the comma behind it."""
    return len(encode(item.to_wire())) + 1


def filled(rows: Iterable[Row], item_of: Callable[[Row], Item], limit: int) -> tuple[list[Item], bool]:
    """Items until there are `limit` of them or the page has its bytes; and whether rows were left. Never empty where
    there is a row, so that whoever reads on gets on."""
    kept: list[Item] = []
    room = limits.PAGE_BYTES
    for row in rows:
        if len(kept) == limit:
            return kept, True
        item = item_of(row)
        room -= size_of(item)
        if kept and room < 0:
            return kept, True
        kept.append(item)
    return kept, False


def keys_with(
    prefix: str, after: str | None, limit: int, *, has: Callable[[str], bool], behind: Callable[[str, int], list[str]]
) -> tuple[list[str], bool]:
    """Keys that begin with `prefix`, in order, and whether there are more.

    They stand together in the order of keys, so the prefix is where the read begins and never a pattern. `has` says
    whether there is this key, `behind` gives those after one.
    """
    found = [prefix] if after is None and prefix and has(prefix) else []
    more = behind(max(prefix, after or ""), limit + 1 - len(found))
    found.extend(takewhile(lambda key: key.startswith(prefix), more))
    return found[:limit], len(found) > limit


# Cursors of the run API: signed, and good for one action of one run over one place. Pure.
#
# Whatever does not fit, altered or made for something else, gets one answer without a word about why.


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
