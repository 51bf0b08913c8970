"""Text in columns of a terminal, where a Chinese character takes two. Knows no sentence and no colour."""

import re
import unicodedata
from typing import Final

__all__ = ["printable", "shorten", "width_of", "wrap"]

# A word, or one wide character: a line may break before and after each of those.
_TOKENS: Final = re.compile(
    r"\s+|[\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]|[^\s\u2e80-\uffef]+|."
)
_CLOSING: Final = frozenset("，。：；、！？）」』】》”’")
_UNSAFE: Final = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """The text without control characters: what a runner says must not drive the terminal."""
    return text.translate(_UNSAFE)


def shorten(text: str, characters: int) -> str:
    """One line of at most that many characters; what is cut is said to be cut."""
    line = " ".join(printable(text).split())
    return line if len(line) <= characters else line[: characters - 1] + "…"


def width_of(text: str) -> int:
    """Columns that a line takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def wrap(text: str, columns: int) -> list[str]:
    """The text in lines of at most `columns`; a word that is longer than a line stands alone."""
    lines: list[str] = []
    line = ""
    for token in _TOKENS.findall(text):
        if token.isspace():
            line += " " if line else ""
        elif width_of(line) + width_of(token) > columns and line.strip() and token not in _CLOSING:
            lines.append(line.rstrip())
            line = token
        else:
            line += token
    return [*lines, line.rstrip()] if line.strip() else lines or [""]
