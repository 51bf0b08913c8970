"""Text in columns of a terminal, where a Chinese character takes two, and tables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # rich is only needed by a command that draws
    from rich.table import Table
    from rich.text import Text as Styled

    from bollard.cli.language import Text

# A word, or one wide character: a line may break before and after each of those.
_TOKENS: Final = re.compile(
    r"\s+|[\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]|[^\s\u2e80-\uffef]+|."
)
_CLOSING: Final = frozenset("，。：；、！？）」』】》”’")
_BIDIRECTIONAL: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNSAFE: Final = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """The text without control characters, because untrusted text must not control the terminal."""
    return text.translate(_UNSAFE)


def escaped(text: str) -> str:
    """The text with its bidirectional controls escaped as `\\uXXXX`, which JSON reads as the same character. A name
    must not reverse the words around it."""
    return _BIDIRECTIONAL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shorten(text: str, characters: int) -> str:
    """One line of at most that many characters, with a mark if it was cut."""
    line = " ".join(printable(text).split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


def field_lines(body: dict[str, Any], text: Text) -> list[str]:
    """Every field of a value on a line of its own."""
    del text
    return [f"{name}: {printable(str(value))}" for name, value in body.items()]


def revocation(data: Mapping[str, Any], text: Text) -> str:
    """The revoked permissions as one line."""
    if data.get("all"):
        return text("rights.everything")
    named = [str(name) for name in data.get("operations") or ()]
    resources: Mapping[str, list[str]] = data.get("resources") or {}
    named += [f"{kind}:{thing}" for kind, things in resources.items() for thing in things]
    return ", ".join(named)


def width_of(text: str) -> int:
    """Columns that a line takes."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):  # drawn over the character before
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap(text: str, columns: int) -> list[str]:
    """The text in lines of at most `columns`; a longer word gets its own line."""
    words = " ".join(text.split())
    return [words[start:end] for start, end in line_slices(words, columns, split_words=False)]


def line_slices(text: str, columns: int, *, split_words: bool = True) -> list[tuple[int, int]]:
    """Where each line of a text begins and ends, without the spaces at a break. Lines break between words and around
    wide characters, but not before a closing mark. A word longer than a line is split; without `split_words` it gets
    its own line, and a closing mark may stand beyond the edge."""
    lines: list[tuple[int, int]] = []
    start = end = width = at = last = 0
    for token in _TOKENS.findall(text):
        step, at = at, at + len(token)
        if token.isspace():
            width += len(token)
            continue
        size = width_of(token)
        closing = token in _CLOSING
        if width + size > columns and end > start and not closing:
            lines.append((start, end))
            start, width = step, 0
        elif width + size > columns and closing and split_words:
            # The word before it goes along or, if both do not fit on a line, its last character.
            whole = start < last < end == step and width_of(text[last:at]) <= columns
            before = last if whole else step - 1 if start < step - 1 < end == step else step
            lines.append((start, start + len(text[start:before].rstrip())))
            start, width = before, width_of(text[before:step])
        while split_words and end <= start and width + size > columns:
            cut = start + fitting(text[start:at], columns)
            lines.append((start, cut))
            start, width, size = cut, 0, width_of(text[cut:at])
        last = last if closing else step
        width, end = width + size, at
    return [*lines, (start, end)] if end > start or not lines else lines


def fitting(text: str, columns: int) -> int:
    """How many characters of a text fit into the columns; at least one."""
    width = 0
    for index, character in enumerate(text):
        width += _width(character)
        if width > columns and index:
            return index
    return len(text)


def shorten_columns(text: str, columns: int) -> str:
    """One line of at most that many columns, with a mark if it was cut."""
    line = " ".join(printable(text).split())
    return line if width_of(line) <= columns else line[: fitting(line, columns - 1)] + "…"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the name of its heading, and the cell of an item."""

    name: str
    cell: str | Callable[[dict[str, Any], Text], str | Styled]
    """A field of the item, or a function that makes the cell from the item."""
    right: bool = False
    no_wrap: bool = False
    """Keeps an id in one piece, so that people can copy it."""


def table_of(noun: str, columns: Sequence[Column], items: Iterable[dict[str, Any]], text: Text) -> Table:
    """A table without borders. Cells contain no markup and no control characters."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        heading = text(f"{noun}.column.{column.name}")
        if column.right:
            table.add_column(heading, justify="right")
        else:
            table.add_column(heading, no_wrap=column.no_wrap, overflow="fold")
    for item in items:
        table.add_row(*(_cell(column, item, text) for column in columns))
    return table


def _cell(column: Column, item: dict[str, Any], text: Text) -> str | Styled:
    if isinstance(column.cell, str):
        value = item.get(column.cell)
        return "" if value is None else printable(str(value))
    made = column.cell(item, text)
    return printable(made) if isinstance(made, str) else made


def styled(cell: str, style: str) -> Styled:
    """A cell in a colour."""
    from rich.text import Text as Styled

    return Styled(printable(cell), style)


def answer(yes: object, text: Text) -> Styled:
    """A yes or a no, in the colour of each."""
    return styled(text.yes_or_no(yes), "green" if yes else "yellow")
