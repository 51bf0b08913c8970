"""Pages of the run API: as many items as the protocol's limits let through, and keys by prefix. Pure."""

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeVar

from bollard.protocol import Shape, limits
from bollard.wire import encode

__all__ = ["filled", "keys_with", "size_of"]

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
