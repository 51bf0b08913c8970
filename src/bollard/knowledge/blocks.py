"""A text as blocks that belong together: headings, code between fences, rows of tables, sentences. Pure.

Blocks lie in order, do not overlap, and leave out nothing but white space. Only what is said to be structured has
headings, code and tables; of anything else the lines are sentences.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from bollard.knowledge.limits import HEADING_CHARACTERS

__all__ = ["Block", "blocks_of"]

_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_SENTENCE_END: Final = re.compile(r"[。！？；…]+[”’」』）]*|[.!?;][\"')\]]*(?=\s)|\n")
_WHITE: Final = " \t\n\r\f\v"


@dataclass(frozen=True, slots=True)
class Block:
    """One piece, from `start` to before `end`."""

    start: int
    end: int
    kind: Literal["heading", "code", "row", "prose"]
    level: int = 0
    title: str = ""


def blocks_of(text: str, *, structured: bool) -> Iterator[Block]:
    """Every block of a text, in order."""
    if not structured:
        yield from _sentences(text, 0, len(text))
        return
    lines = _Lines(text)
    prose: int | None = None
    """Where the paragraph began that the lines before belong to."""
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
    """Where the lines of a text end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def take(self) -> int:
        """Step over one line; where it ends, with its line end."""
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
    """Behind the line that closes it; behind everything where none does."""
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
