"""`Range` of a request for content: one range of bytes, or the whole. Pure."""

import re
from typing import Final

import msgspec

__all__ = ["Span", "Unsatisfiable", "span_of"]

_RANGE: Final = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


class Span(msgspec.Struct, frozen=True):
    """Bytes from `first` up to, and without, `end`."""

    first: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.first


class Unsatisfiable(Exception):
    """No byte of the content is in the range."""


def span_of(header: str | None, size: int) -> Span | None:
    """The range that is wanted of so many bytes; nothing for all of them. Several ranges, and what is no range at all,
    mean all too, as the standard has it. Raises `Unsatisfiable`."""
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        if int(last) == 0 or size == 0:
            raise Unsatisfiable
        return Span(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise Unsatisfiable
    return Span(int(first), min(size, int(last) + 1) if last else size)
