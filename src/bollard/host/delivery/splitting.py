"""A long text as parts that a channel takes, cut where a reader would pause. Pure."""

import unicodedata
from typing import Final

__all__ = ["split"]

_BORDERS: Final = ("\n\n", "\n", ". ", "! ", "? ", "。", "！", "？", "; ", "；", ", ", "，", " ")
"""Where to cut, the best first; the mark itself stays with the part before."""
_LEAST: Final = 0.5
"""A part that is cut at a border is at least so full; below that the next border is better."""
_JOINER: Final = "\u200d"


def split(text: str, size: int | None) -> list[str]:
    """Parts of at most `size` characters, none of them empty; together they say everything but blanks at the cuts."""
    if size is None or len(text) <= size:
        return [text] if text else []
    parts: list[str] = []
    rest = text
    while len(rest) > size:
        at = _cut(rest, size)
        if part := rest[:at].rstrip():
            parts.append(part)
        rest = rest[at:].lstrip()
    return [*parts, rest] if rest else parts


def _cut(text: str, size: int) -> int:
    for border in _BORDERS:
        # One character more may be a blank: it is not part of what is sent.
        at = text.rfind(border, int(size * _LEAST), size + 1)
        end = at + len(border.rstrip())
        if at > 0 and end <= size:
            return end
    return _between_characters(text, size)


def _between_characters(text: str, at: int) -> int:
    """Not inside what a reader sees as one character, unless that is all there is."""
    earliest = max(1, at - 16)
    for place in range(at, earliest - 1, -1):
        if not _continues(text, place):
            return place
    return at


def _continues(text: str, place: int) -> bool:
    following = text[place]
    joined = following == _JOINER or text[place - 1] == _JOINER
    return joined or unicodedata.category(following) in ("Mn", "Me", "Mc") or "\U0001f3fb" <= following <= "\U0001f3ff"
