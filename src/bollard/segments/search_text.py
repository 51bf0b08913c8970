"""Text as full-text search sees it: lower-cased words, and pairs of neighbouring characters for Chinese, Japanese and
Korean. Pure. The stores index `segment` and look for `terms`; what a user types is only ever data.
"""

import re
import unicodedata
from typing import Final

__all__ = ["QUERY_TERMS", "SEARCH_BYTES", "WORD_CHARACTERS", "cjk_characters", "is_prefix", "segment", "terms", "words"]

WORD_CHARACTERS: Final = 64
"""The part of one word that is looked at."""
SEARCH_BYTES: Final = 256 * 1024
"""Indexed text of one message; what lies beyond is not found (PostgreSQL takes no more than 1 MiB of lexemes)."""
SEARCH_WORDS: Final = 32_000
"""Indexed words of one message."""
QUERY_TERMS: Final = 32
"""Terms of one query; more are not looked at."""

# Han with its extensions, kana, hangul, and the iteration marks: scripts whose words have no spaces between them.
_CJK: Final = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_RUNS: Final = re.compile(rf"((?:(?=\w)[{_CJK}])+)|((?:(?![{_CJK}])[^\W_])+)")
_ASCII_WORDS: Final = re.compile(r"[a-z0-9]+")
_WORDS: Final = re.compile(rf"((?=\w)[{_CJK}])|((?:(?![{_CJK}])[^\W_])+)")
_IS_CJK: Final = re.compile(rf"[{_CJK}]")


def segment(text: str) -> str:
    """The words of a text, with spaces between. The last character of a CJK run stands alone too, to be findable."""
    if text.isascii():
        words = [word[:WORD_CHARACTERS] for word in _ASCII_WORDS.findall(text[:SEARCH_BYTES].lower())]
        return " ".join(words[:SEARCH_WORDS])
    kept: list[str] = []
    room = SEARCH_BYTES
    for cjk, word in _RUNS.findall(_folded(text[:SEARCH_BYTES])):
        for piece in [*_pairs(cjk), cjk[-1]] if cjk else (word[:WORD_CHARACTERS],):
            room -= len(piece.encode()) + 1
            if room < 0 or len(kept) == SEARCH_WORDS:
                return " ".join(kept)
            kept.append(piece)
    return " ".join(kept)


def terms(query: str) -> list[str]:
    """What a message must hold to answer a query; empty when the query has no word. Operators are words or nothing."""
    found: dict[str, None] = {}
    for cjk, word in _RUNS.findall(_folded(query[:SEARCH_BYTES])):
        pieces = (_pairs(cjk) or [cjk]) if cjk else [word[:WORD_CHARACTERS]]
        for piece in pieces:
            if len(found) == QUERY_TERMS:
                return list(found)
            found[piece] = None
    return list(found)


def words(text: str) -> list[str]:
    """The words of a text in order, folded, each CJK character for itself."""
    if text.isascii():
        return _ASCII_WORDS.findall(text.lower())
    return [cjk or word for cjk, word in _WORDS.findall(_folded(text))]


def cjk_characters(text: str) -> int:
    """How many characters of scripts without spaces a text has."""
    return len(_IS_CJK.findall(text))


def is_prefix(term: str) -> bool:
    """A single CJK character is found wherever a pair begins with it."""
    return len(term) == 1 and _IS_CJK.match(term) is not None


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _pairs(run: str) -> list[str]:
    return [run[index : index + 2] for index in range(len(run) - 1)]
