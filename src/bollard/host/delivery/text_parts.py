"""Long texts in parts that fit into one message each. Pure.

A part ends where a reader pauses, and not inside of a character or a link. A code block that does not fit is closed at
the end of a part and opened again in the next one.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

import msgspec

_BORDERS: Final = ("\n\n", "\n", ". ", "! ", "? ", "。", "！", "？", "; ", "；", ", ", "，", " ")
"""Where to cut, best first. The mark stays with the part before."""
_LEAST: Final = 0.5
"""The minimum fill of a part that is cut at a border. Below that the next kind of border is used."""
_JOINER: Final = "\u200d"
_FENCE: Final = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[[^\[\]\n]{0,512}\]\([^()\s]{1,2048}\)|https?://[^\s<>]{1,2048}")


class _Span(msgspec.Struct, frozen=True):
    """A link, or a fenced code block."""

    start: int
    end: int


class _Block(_Span, frozen=True):
    body: int
    """The beginning of the first line of code."""
    close: int
    """The beginning of the line that closes the block."""
    head: str
    """Opens the block again."""
    tail: str
    """Closes it."""


class _Cut(msgspec.Struct, frozen=True):
    """The end of a part, the beginning of the next one, and the code block that continues there."""

    end: int
    following: int
    block: _Block | None = None


def split(text: str, size: int | None) -> list[str]:
    """Non-empty parts of at most `size` characters. Only blanks at the cuts are lost."""
    if size is None or len(text) <= size:
        return [text] if text else []
    places, parts = _Places(text, size), list[str]()
    begin, head = 0, ""
    while len(text) - begin > size - len(head):
        cut = places.cut(begin, begin + size - len(head))
        content = text[begin : cut.end]
        content = content.rstrip() if cut.block is None else content + cut.block.tail
        if content:
            parts.append(head + content)
        begin, head = cut.following, "" if cut.block is None else cut.block.head
        while not head and begin < len(text) and text[begin].isspace():
            begin += 1
    return [*parts, head + text[begin:]] if begin < len(text) else parts


class _Places:
    """The places where a text may be cut."""

    def __init__(self, text: str, size: int) -> None:
        self._text = text
        # To close and open a block again and again is worth it only if that leaves room for its code.
        spans: list[_Span] = [each for each in _blocks(text) if len(each.head) + len(each.tail) <= size // 2]
        ends = [each.end for each in spans]
        for found in _LINK.finditer(text):
            after = bisect_left(ends, found.end())
            if after == len(ends) or found.start() < spans[after].start:  # else it is in a block
                spans.append(_Span(*found.span()))
        self._spans = sorted(spans, key=lambda each: each.start)
        self._starts = [each.start for each in self._spans]

    def cut(self, begin: int, limit: int) -> _Cut:
        """Cut between the two places."""
        end = self._border(begin, limit)
        if end is not None:
            return _Cut(end, end)
        span = self._around(limit)
        if isinstance(span, _Block) and span.start <= begin:
            return self._inside(span, begin, limit - len(span.tail))
        if span is not None and span.start > begin:
            return _Cut(span.start, span.start)
        end = self._border(begin, limit, anywhere=True) or _between_characters(self._text, begin, limit)
        return _Cut(end, end)

    def _around(self, place: int) -> _Span | None:
        """The link or block that has this place inside."""
        number = bisect_left(self._starts, place) - 1
        return self._spans[number] if number >= 0 and place < self._spans[number].end else None

    def _border(self, begin: int, limit: int, *, anywhere: bool = False) -> int | None:
        """The best pause between the two places, outside of links and blocks."""
        least = begin + int((limit - begin) * _LEAST)
        for border in _BORDERS:
            # One more character is allowed if it is a blank, which is stripped.
            at = self._text.rfind(border, least, limit + 1)
            while at > begin:
                end = at + len(border.rstrip())
                span = None if anywhere else self._around(end)
                if span is None and end <= limit:
                    return end
                until = at if span is None else min(at, span.start)
                at = self._text.rfind(border, least, until + len(border) - 1)
        return None

    def _inside(self, block: _Block, begin: int, limit: int) -> _Cut:
        """Cut between two lines of code, or in a line that is too long."""
        end = self._text.rfind("\n", max(begin, block.body) + 1, limit + 1)
        following = end + 1
        if end < 0:
            end = following = _between_characters(self._text, begin, limit)
        if not self._text[following : block.close].strip():
            return _Cut(end, block.end, msgspec.structs.replace(block, head=""))
        return _Cut(end, following, block)


def _blocks(text: str) -> Iterator[_Block]:
    opening: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opening is None:
            opening = None if "`" in line[1] and "`" in line[2] else line  # ```this``` is no block
        elif line[1].startswith(opening[1]) and not line[2].strip():
            yield _block(opening, line.start(), line.end())
            opening = None
    if opening is not None:  # a block without an end takes the rest
        yield _block(opening, len(text), len(text))


def _block(opening: re.Match[str], close: int, end: int) -> _Block:
    return _Block(
        start=opening.start(1),
        end=end,
        body=opening.end() + 1,
        close=close,
        head=f"{opening[1]}{opening[2].rstrip()}\n",
        tail=f"\n{opening[1]}",
    )


def _between_characters(text: str, begin: int, at: int) -> int:
    """The last place that does not split a grapheme, or `at` if there is none nearby."""
    for place in range(at, max(begin + 1, at - 16) - 1, -1):
        if not _continues(text, place):
            return place
    return at


def _continues(text: str, place: int) -> bool:
    following = text[place]
    joined = following == _JOINER or text[place - 1] == _JOINER
    return joined or unicodedata.category(following) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= following <= "\U0001f3ff"
