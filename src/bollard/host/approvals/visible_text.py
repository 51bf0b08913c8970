"""Text as a person can trust it: one line, every character that is not plainly seen replaced by its name. Pure.

What comes out holds no control, direction, zero-width, tag, filler or odd space character, and no two different texts
come out alike. It is plain text: whoever shows it must not read it as markup.
"""

import unicodedata
from functools import lru_cache
from itertools import groupby
from typing import Final

MARK_START: Final = "\u27ea"
MARK_END: Final = "\u27eb"
_SPACES: Final = 4
"""From so many spaces in a row on they are counted: they may push something out of sight."""
_COMBINING: Final = 2
"""Marks on one letter that a language may need; more of them run over what stands around."""
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_COMBINING_CATEGORIES: Final = frozenset({"Mn", "Me"})
# Letters and marks that Unicode counts as such and nobody sees.
_HIDDEN: Final = frozenset({0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0xFFFC}).union(
    range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0)
)


def mark(what: str) -> str:
    """Words of the host's own inside a text. Nothing in the text can look like it."""
    return f"{MARK_START}{what}{MARK_END}"


def visible(text: str) -> str:
    """The text with everything hidden in it named and counted: `⟪U+202E⟫`, `⟪U+0020 ×120⟫`."""
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
            combining = _COMBINING  # there is no letter that a mark could stand on
        elif unicodedata.category(character) in _COMBINING_CATEGORIES:
            # A mark at the start has no letter of this text to stand on.
            free = max(0, _COMBINING - combining) if index else 0
            shown = min(count, free)
            parts.append(character * shown + (_counted(character, count - shown) if count > shown else ""))
            combining += count
        else:
            parts.append(character * count)
            combining = 0
    return "".join(parts)


def quoted(text: str) -> str:
    """The same between quotation marks, so that its start and its end are seen."""
    return '"' + visible(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _counted(character: str, count: int) -> str:
    named = f"U+{ord(character):04X}"
    return mark(named if count == 1 else f"{named} ×{count}")


def _is_break(character: str) -> bool:
    return character in "\n\r\v\f\x85\u2028\u2029"


@lru_cache(maxsize=4096)
def _is_hidden(character: str) -> bool:
    if character in (MARK_START, MARK_END):
        return True  # or it could be taken for words of the host's own
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or ord(character) in _HIDDEN
