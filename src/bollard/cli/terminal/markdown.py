"""Markdown as lines of a terminal, while it arrives. Pure.

A line of the source may be a whole paragraph, so it is not awaited: what fills a line of the terminal is given out, and
the rest is the `tail`. Lines that were given out do not change any more.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from typing import Final

from bollard.cli.terminal.columns import line_slices, printable, width_of
from bollard.cli.terminal.styles import Styles

_FENCE: Final = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r"(#{1,6})\s+")
_ITEM: Final = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])\s+")
_QUOTE: Final = re.compile(r"\s{0,3}>\s?")
_RULE: Final = re.compile(r"\s*([-*_])(\s*\1){2,}\s*")
_SEPARATOR: Final = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
_MARKERS: Final = (("**", "bold"), ("__", "bold"), ("~~", "strike"), ("`", "cyan"), ("*", "italic"), ("_", "italic"))
_ESCAPED: Final = "\\`*_{}[]()#+-.!|~>"
_RULE_COLUMNS: Final = 40
_HELD_CHARACTERS: Final = 500
"""An open bracket is held back for the rest of its link no longer than this."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """One character to show and its style; where the source goes on after it, and in which style."""

    character: str
    style: frozenset[str]
    after: int
    onward: frozenset[str]


class MarkdownStream:
    """Takes the pieces of one message and gives out lines."""

    def __init__(self, styles: Styles, columns: int) -> None:
        self._styles = styles
        self._columns = max(columns, 10)
        self._source = ""
        """The part of the current source line that was not given out."""
        self._style: frozenset[str] = frozenset()
        """The style in which the source goes on."""
        self._carried: list[_Cell] = []
        """The rest of a link whose beginning was given out."""
        self._prefix: str | None = None
        """Set in before further lines of the current source line; `None` at its beginning."""
        self._fence: str | None = None
        self._table: list[str] = []
        self._blank = True

    def resize(self, columns: int) -> None:
        self._columns = max(columns, 10)

    def feed(self, piece: str) -> list[str]:
        """Take a piece, and give the lines that it completes."""
        *whole, rest = (self._source + printable(piece).replace("\t", "    ")).split("\n")
        lines: list[str] = []
        for source in whole:
            self._source = source
            lines += self._end_of_line()
        self._source = rest
        return lines + self._overflow()

    def finish(self) -> list[str]:
        """The rest. The stream then begins anew."""
        lines = self._end_of_line() if self._source else []
        lines += self._end_of_table()
        self._fence, self._blank = None, True
        return lines

    @property
    def tail(self) -> str:
        """The last line as far as it is known."""
        if self._table or self._source.lstrip().startswith("|"):
            return self._styles.paint("…", "dim")
        return "\n".join(self._shown(self._source, finished=False)[-1:])

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be given out."""
        return not self._source and not self._table

    # --- lines of the source ---

    def _end_of_line(self) -> list[str]:
        source, self._source = self._source, ""
        if self._prefix is None and self._styles.attributes:
            if (marked := self._code_line(source)) is not None:
                return marked
            if source.lstrip().startswith("|"):
                self._table.append(source.strip())
                return []
        lines = self._end_of_table()
        if self._prefix is None and not source.strip():
            repeated, self._blank = self._blank, True
            return lines if repeated else [*lines, ""]
        if self._prefix is None and self._styles.attributes and _RULE.fullmatch(source):
            self._blank = False
            return [*lines, self._styles.paint("─" * min(self._columns, _RULE_COLUMNS), "dim")]
        lines += self._shown(source, finished=True)
        self._blank, self._prefix, self._style, self._carried = False, None, frozenset(), []
        return lines

    def _code_line(self, source: str) -> list[str] | None:
        """The lines for a line of code or a fence; `None` for other lines."""
        fence = _FENCE.match(source)
        if self._fence is not None:
            if fence and fence[1].startswith(self._fence) and not source.strip().strip(self._fence[0]):
                self._fence = None
                return []
            self._blank = False
            return [self._code(source)]
        if fence:
            lines = self._end_of_table()
            self._fence = fence[1]
            return lines
        return None

    def _code(self, source: str) -> str:
        # A long line of code is left to the terminal to wrap, so that people can copy it.
        return self._styles.paint(f"  {source}", "cyan").rstrip()

    def _overflow(self) -> list[str]:
        """Give out the full lines of a source line that goes on."""
        if self._fence is not None or self._table or self._source.lstrip().startswith("|"):
            return []
        first, cells = self._cells(self._source, finished=False)
        prefix = self._rest_prefix(self._source) if self._prefix is None else self._prefix
        slices = self._slices(first, cells)
        open_at = self._held(self._source)
        lines: list[str] = []
        last = 0
        for start, end in slices[:-1]:
            if cells[end - 1].after > open_at:
                break
            lines.append((first if not lines else prefix) + self._painted(cells[start:end]))
            last = end
        if lines:
            after, style = cells[last - 1].after, cells[last - 1].onward
            rest = takewhile(lambda cell: cell.after == after, cells[last:])
            self._carried = [replace(cell, after=0) for cell in dropwhile(lambda cell: cell.character == " ", rest)]
            self._source = self._source[after:] if self._carried else self._source[after:].lstrip()
            self._prefix, self._style, self._blank = prefix, style, False
        return lines

    def _held(self, source: str) -> int:
        """Where a link begins that may not be complete yet."""
        at = source.rfind("[")
        closed = at < 0 or _LINK.match(source, at) or ("]" in source[at:] and not source.endswith("]"))
        if closed and "](" in source[at:] and not _LINK.match(source, at):
            closed = False
        return len(source) + 1 if closed or len(source) - at > _HELD_CHARACTERS else at

    def _shown(self, source: str, *, finished: bool) -> list[str]:
        if self._fence is not None:
            return [self._code(source)]
        first, cells = self._cells(source, finished=finished)
        prefix = self._rest_prefix(source) if self._prefix is None else self._prefix
        slices = self._slices(first, cells)
        return [
            (first if index == 0 else prefix) + self._painted(cells[start:end])
            for index, (start, end) in enumerate(slices)
        ]

    def _slices(self, first: str, cells: Sequence[_Cell]) -> list[tuple[int, int]]:
        text = "".join(cell.character for cell in cells)
        return line_slices(text, max(self._columns - width_of(_bare(first)), 10))

    def _rest_prefix(self, source: str) -> str:
        if not self._styles.attributes:
            return ""
        if item := _ITEM.match(source):
            return " " * (len(item[1]) + width_of(_bullet(item[2])) + 1)
        return self._quote_mark if _QUOTE.match(source) else ""

    @property
    def _quote_mark(self) -> str:
        return self._styles.paint("│", "dim") + " "

    def _cells(self, source: str, *, finished: bool) -> tuple[str, list[_Cell]]:
        """The prefix of the first line, and the characters after it."""
        if not self._styles.attributes:
            plain = frozenset[str]()
            return "", [_Cell(character, plain, index + 1, plain) for index, character in enumerate(source)]
        if self._prefix is not None:
            return self._prefix, [*self._carried, *_inline(source, 0, self._style, finished=finished)]
        if heading := _HEADING.match(source):
            return "", _inline(source, heading.end(), frozenset({"bold"}), finished=finished)
        if item := _ITEM.match(source):
            return f"{item[1]}{_bullet(item[2])} ", _inline(source, item.end(), frozenset(), finished=finished)
        if quote := _QUOTE.match(source):
            return self._quote_mark, _inline(source, quote.end(), frozenset({"dim"}), finished=finished)
        return "", _inline(source, 0, frozenset(), finished=finished)

    def _painted(self, cells: Sequence[_Cell]) -> str:
        shown, run, style = "", "", frozenset[str]()
        for cell in cells:
            if cell.style != style:
                shown, run, style = shown + self._styles.paint(run, " ".join(sorted(style))), "", cell.style
            run += cell.character
        return shown + self._styles.paint(run, " ".join(sorted(style)))

    # --- tables ---

    def _end_of_table(self) -> list[str]:
        rows, self._table = self._table, []
        if not rows:
            return []
        self._blank = False
        if len(rows) < 2 or not _SEPARATOR.fullmatch(rows[1]):
            return [line for row in rows for line in self._shown(row, finished=True)]
        table = [[self._cell_text(cell) for cell in _split_row(row)] for row in (rows[0], *rows[2:])]
        count = max(len(row) for row in table)
        table = [row + [""] * (count - len(row)) for row in table]
        widths = [max(width_of(_bare(row[index])) for row in table) for index in range(count)]
        head, *body = table
        if sum(widths) + 2 * (count - 1) > self._columns:
            return [line for row in body for line in self._record(head, row)]
        return [
            self._styles.paint(_aligned([_bare(cell) for cell in head], widths), "bold"),
            *(_aligned(row, widths) for row in body),
        ]

    def _record(self, head: Sequence[str], row: Sequence[str]) -> list[str]:
        """A row of a table that is too wide: one cell after the other, below the names of their columns."""
        lines: list[str] = []
        for name, cell in zip(head, row, strict=True):
            text = f"{_bare(name)}: {_bare(cell)}"
            lines += [text[start:end] for start, end in line_slices(text, self._columns)]
        return [*lines, ""]

    def _cell_text(self, source: str) -> str:
        return self._painted(_inline(source, 0, frozenset(), finished=True))


def _bullet(marker: str) -> str:
    return "•" if marker in "-*+" else marker


_SEQUENCE: Final = re.compile("\x1b\\[[0-9;]*m")


def _bare(text: str) -> str:
    return _SEQUENCE.sub("", text)


def _split_row(row: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell + " " * (width - width_of(_bare(cell))) for cell, width in zip(row, widths, strict=True))
    return "  ".join(cells).rstrip()


def _inline(source: str, start: int, style: frozenset[str], *, finished: bool) -> list[_Cell]:
    """The characters of a source line from `start`, with the markers taken out.

    A marker that is not closed is literal in a finished line, and open in one that goes on.
    """
    cells: list[_Cell] = []
    at = start
    while at < len(source):
        character = source[at]
        if "cyan" not in style:
            if character == "\\" and source[at + 1 : at + 2] in tuple(_ESCAPED):
                cells.append(_Cell(source[at + 1], style, at + 2, style))
                at += 2
                continue
            if link := _LINK.match(source, at):
                cells += _link_cells(link, style)
                at = link.end()
                continue
        if (marker := _marker_at(source, at, style, finished=finished)) is not None:
            style ^= {marker[1]}
            at += len(marker[0])
            if cells and marker[1] not in style:  # the source goes on after a closing marker
                cells[-1] = replace(cells[-1], after=at, onward=style)
            continue
        cells.append(_Cell(character, style, at + 1, style))
        at += 1
    return cells


def _link_cells(link: re.Match[str], style: frozenset[str]) -> list[_Cell]:
    label, address = link[1], link[2]
    shown = [_Cell(character, style | {"underline"}, link.end(), style) for character in label or address]
    if label and address and label != address:
        shown += [_Cell(character, style | {"dim"}, link.end(), style) for character in f" ({address})"]
    return shown


def _marker_at(source: str, at: int, style: frozenset[str], *, finished: bool) -> tuple[str, str] | None:
    """The marker here, if it begins or ends a style."""
    for marker, name in _MARKERS:
        if not source.startswith(marker, at) or ("cyan" in style and name != "cyan"):
            continue
        before, after = source[at - 1 : at], source[at + len(marker) : at + len(marker) + 1]
        in_word = marker.strip("*`~") != "" and before.isalnum() and after.isalnum() and before.isascii()
        if name in style:
            return (marker, name) if name == "cyan" or (before and not before.isspace() and not in_word) else None
        if in_word or not after.strip() or (marker == "*" and before.isalnum() and before.isascii()):
            return None
        closed = source.find(marker, at + len(marker) + 1) > 0
        return (marker, name) if closed or not finished else None
    return None
