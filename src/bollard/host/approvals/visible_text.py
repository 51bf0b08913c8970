"""Rendering of untrusted text as one line in which each invisible character is replaced by its name. Pure.

The result has no control, direction, zero-width, tag, filler or unusual space characters, and different texts have
different results. It is plain text and must not be interpreted as markup.
"""

import unicodedata
from functools import lru_cache
from itertools import groupby
from typing import Final

MARK_START: Final = "\u27ea"
MARK_END: Final = "\u27eb"
_SPACES: Final = 4
"""This many spaces in a row are replaced by a count: they could push text out of sight."""
_COMBINING: Final = 2
"""Combining marks allowed on one letter. More would overlap the surrounding text."""
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_COMBINING_CATEGORIES: Final = frozenset({"Mn", "Me"})
# Invisible characters of categories that are otherwise visible.
_HIDDEN: Final = frozenset({0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0xFFFC}).union(
    range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
)


def mark(note: str) -> str:
    """A note of the host inside a text. The text itself cannot contain one."""
    return f"{MARK_START}{note}{MARK_END}"


def visible(text: str) -> str:
    """The text with invisible characters named and counted: `⟪U+202E⟫`, `⟪U+0020 ×120⟫`."""
    parts: list[str] = []
    runs = [(character, sum(1 for _ in same)) for character, same in groupby(text)]
    combining = 0
    for index, (character, count) in enumerate(runs):
        if character == " ":
            edge = index in (0, len(runs) - 1) or _is_break(runs[index - 1][0]) or _is_break(runs[index + 1][0])
            parts.append(_counted(character, count) if edge or count >= _SPACES else " " * count)
            combining = 0
        elif _is_hidden(character):
            parts.append(_counted(character, count))
            combining = _COMBINING  # a mark after it has no base letter
        elif unicodedata.category(character) in _COMBINING_CATEGORIES:
            # A mark at the start has no base letter in this text.
            free = max(0, _COMBINING - combining) if index else 0
            allowed = min(count, free)
            parts.append(character * allowed + (_counted(character, count - allowed) if count > allowed else ""))
            combining += count
        else:
            parts.append(character * count)
            combining = 0
    return "".join(parts)


def quoted(text: str) -> str:
    """The visible text in quotation marks, so that its start and end are clear."""
    return '"' + visible(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _counted(character: str, count: int) -> str:
    named = f"U+{ord(character):04X}"
    return mark(named if count == 1 else f"{named} ×{count}")


def _is_break(character: str) -> bool:
    return character in "\n\r\v\f\x85\u2028\u2029"


@lru_cache(maxsize=4096)
def _is_hidden(character: str) -> bool:
    if character in (MARK_START, MARK_END):
        return True  # or the text could imitate a note of the host
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or ord(character) in _HIDDEN
