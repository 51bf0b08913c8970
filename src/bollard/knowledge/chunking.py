"""Splits a text into chunks of limited size, each with its headings and its position. Pure.

A heading starts a chunk. Fenced code and table rows stay whole if they fit into a chunk. Chunks of one section overlap
by whole sentences. No chunk exceeds the size, and only white space is left out.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from bollard.knowledge.limits import HEADING_CHARACTERS, HEADING_LEVELS
from bollard.knowledge.plain_text import Extracted
from bollard.segments import cjk_characters

# --- blocks: headings, fenced code, table rows, sentences ---
#
# Blocks are in order, do not overlap, and leave out only white space. A text that is not structured has only sentences.


_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_SENTENCE_END: Final = re.compile(r"[。！？；…]+[”’」』）]*|[.!?;][\"')\]]*(?=\s)|\n")
_WHITE: Final = " \t\n\r\f\v"


@dataclass(frozen=True, slots=True)
class Block:
    """A block from `start` to before `end`."""

    start: int
    end: int
    kind: Literal["heading", "code", "row", "prose"]
    level: int = 0
    title: str = ""


def blocks_of(text: str, *, structured: bool) -> Iterator[Block]:
    """Yield the blocks of a text, in order."""
    if not structured:
        yield from _sentences(text, 0, len(text))
        return
    lines = _Lines(text)
    prose: int | None = None
    """The start of the current paragraph."""
    while (start := lines.at) < len(text):
        end = lines.take()
        line = text[start:end]
        block = _special(lines, start, end, line)
        if block is None and prose is not None and (mark := _UNDERLINE.match(line.rstrip("\n"))):
            yield _underlined(text, prose, end, mark)
            prose = None
        elif block is not None or not line.strip():
            if prose is not None:
                yield from _sentences(text, prose, start)
            prose = None
            if block is not None:
                yield block
        elif prose is None and _UNDERLINE.match(line.rstrip("\n")):
            yield Block(start, end, "prose")  # a rule across the page
        elif prose is None:
            prose = start
    if prose is not None:
        yield from _sentences(text, prose, len(text))


class _Lines:
    """A position in the lines of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self) -> int:
        """Skip one line. Returns the offset behind its line end."""
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end + 1
        return self.at


def _special(lines: _Lines, start: int, end: int, line: str) -> Block | None:
    first = line.lstrip(" ")[:1]
    if first == "#" and (mark := _HEADING.match(line.rstrip("\n"))):
        return Block(start, end, "heading", len(mark[1]), (mark[2] or "").strip()[:HEADING_CHARACTERS])
    if first == "|":
        return Block(start, end, "row")
    if first in ("`", "~") and (mark := _FENCE.match(line)):
        return Block(start, _fence_end(lines, mark[1]), "code")
    return None


def _fence_end(lines: _Lines, fence: str) -> int:
    """Return the offset behind the closing fence, or behind the text without one."""
    text = lines.text
    while (start := lines.at) < len(text):
        end = lines.take()
        if text.startswith(fence[0], start) or text.startswith(" ", start):
            line = text[start:end].strip()
            if line.startswith(fence) and not line.strip(fence[0]):
                return end
    return len(text)


def _underlined(text: str, start: int, end: int, mark: re.Match[str]) -> Block:
    title = text[start:end].rstrip("\n").rpartition("\n")[0]
    return Block(start, end, "heading", 1 if mark[1][0] == "=" else 2, " ".join(title.split())[:HEADING_CHARACTERS])


def _sentences(text: str, start: int, end: int) -> Iterator[Block]:
    at = start
    for mark in _SENTENCE_END.finditer(text, start, end):
        if text[at : mark.end()].strip(_WHITE):
            yield Block(at, mark.end(), "prose")
        at = mark.end()
    if text[at:end].strip(_WHITE):
        yield Block(at, end, "prose")


# --- token estimates: four Latin characters or one Chinese character are about a token ---
#
# The parts of a text never count less than the whole, so the sum of parts is a safe bound.


QUARTERS = 4
"""Quarters of one token. Sums of integers have no rounding error."""


def quarters(text: str) -> int:
    """Return the size in quarters of a token: a Latin letter has one, any other letter two, a CJK character four."""
    if text.isascii():
        return len(text)
    cjk = cjk_characters(text)
    latin = len(text.encode("ascii", "ignore"))
    return 4 * cjk + latin + 2 * (len(text) - cjk - latin)


def tokens(text: str) -> int:
    """Return the size in tokens, rounded up."""
    return -(-quarters(text) // QUARTERS)


_SPLIT_BACK: Final = 4
"""A split inside a word is avoided if the last quarter of the piece has a space."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The position of a chunk, and its headings, outermost first."""

    start: int
    end: int
    headings: tuple[str, ...]
    page: int | None = None


@dataclass(frozen=True, slots=True)
class _Unit:
    start: int
    end: int
    cost: int
    prose: bool


def pieces_of(document: Extracted, *, chunk_tokens: int, overlap_tokens: int) -> list[Piece]:
    """The chunks of a document, in order."""
    cutter = _Cutter(document, chunk_tokens * QUARTERS, overlap_tokens * QUARTERS)
    for block in blocks_of(document.text, structured=document.structured):
        cutter.take(block)
    cutter.flush()
    return cutter.pieces


class _Cutter:
    def __init__(self, document: Extracted, size: int, overlap: int) -> None:
        self.pieces: list[Piece] = []
        self._text = document.text
        self._size = size
        self._overlap = overlap
        self._page_starts = [start for start, _ in document.pages]
        self._page_numbers = [number for _, number in document.pages]
        self._path: list[tuple[int, str]] = []
        self._units: list[_Unit] = []
        self._cost = 0
        self._fresh = 0
        """Units that are in no chunk yet."""
        self._headings_only = True

    def take(self, block: Block) -> None:
        if block.kind == "heading":
            if not self._headings_only:
                self.flush()
            self._path = [above for above in self._path if above[0] < block.level]
            if block.title:
                self._path.append((block.level, block.title))
        for unit in self._units_of(block):
            self._add(unit)
        self._headings_only = self._headings_only and block.kind == "heading"

    def flush(self) -> None:
        """End the chunk and the section. The next chunk does not overlap with it."""
        self._emit()
        self._units, self._cost, self._fresh, self._headings_only = [], 0, 0, True

    def _add(self, unit: _Unit) -> None:
        if self._units and self._page_at(unit.start) != self._page_at(self._units[-1].start):
            # A chunk has one page, and nothing of the page before it: a citation names the page of its text.
            self._emit()
            self._units, self._cost, self._fresh = [], 0, 0
        cost = unit.cost + self._between(unit)
        if self._units and self._cost + cost > self._size:
            self._emit()
            self._units = self._repeated(unit)
            self._cost = quarters(self._text[self._units[0].start : unit.start]) if self._units else 0
            cost, self._fresh = unit.cost, 0
        self._units.append(unit)
        self._cost += cost
        self._fresh += 1

    def _between(self, unit: _Unit) -> int:
        """Return the cost of the white space before a unit."""
        return quarters(self._text[self._units[-1].end : unit.start]) if self._units else 0

    def _emit(self) -> None:
        if not self._fresh:
            return
        start, end = _trimmed(self._text, self._units[0].start, self._units[-1].end)
        if start == end:
            return
        path = tuple(title for _, title in self._path[-HEADING_LEVELS:])
        self.pieces.append(Piece(start, end, path, self._page_at(start)))

    def _repeated(self, following: _Unit) -> list[_Unit]:
        """Return the last sentences of the previous chunk that fit into the overlap and leave room for `following`."""
        room = min(self._size - following.cost, self._overlap)
        kept: list[_Unit] = []
        for unit in reversed(self._units[1:]):
            if not unit.prose or quarters(self._text[unit.start : following.start]) > room:
                break
            kept.append(unit)
        return kept[::-1]

    def _page_at(self, place: int) -> int | None:
        at = bisect_right(self._page_starts, place) - 1
        return self._page_numbers[at] if at >= 0 else None

    def _units_of(self, block: Block) -> Iterator[_Unit]:
        cost = quarters(self._text[block.start : block.end])
        if cost <= self._size:
            yield _Unit(block.start, block.end, cost, block.kind == "prose")
        elif block.kind == "code":
            at = block.start
            while at < block.end:
                end = self._text.find("\n", at, block.end) + 1 or block.end
                yield from self._pieces(at, end)
                at = end
        else:
            yield from self._pieces(block.start, block.end)

    def _pieces(self, start: int, end: int) -> Iterator[_Unit]:
        """Split a block that is larger than a chunk, at spaces if possible."""
        while start < end:
            cut, cost = self._fitting(start, end)
            yield _Unit(start, cut, cost, prose=False)
            start = cut

    def _fitting(self, start: int, end: int) -> tuple[int, int]:
        """Return the end and the cost of a chunk that begins at `start`."""
        text = self._text
        cut = min(end, start + self._size)  # a character costs at least a quarter
        while cut > start + 1 and (cost := quarters(text[start:cut])) > self._size:
            cut = max(start + 1, start + (cut - start) * self._size // cost)
        if cut < end:
            space = max(text.rfind(" ", start, cut), text.rfind("\n", start, cut))
            if space > cut - (cut - start) // _SPLIT_BACK:
                cut = space + 1
        return cut, quarters(text[start:cut])


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
