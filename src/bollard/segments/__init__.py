"""Segments text for full-text search: lower-case words, and character pairs for Chinese, Japanese and Korean. Pure.

The stores index `segment` and search for `clauses` or `terms`. User input is data, never search syntax.
"""

import re
import unicodedata
from typing import Final

WORD_CHARACTERS: Final = 64
"""The indexed part of one word."""
SEARCH_BYTES: Final = 256 * 1024
"""Indexed text of one message; the rest is not found (PostgreSQL accepts at most 1 MiB of lexemes)."""
SEARCH_WORDS: Final = 32_000
"""Indexed words of one message."""
QUERY_TERMS: Final = 32
"""Terms or clauses of one query; more are ignored."""
Clause = tuple[str, ...]
"""Terms of which a text contains at least one."""

# Han with its extensions, kana, hangul, and the iteration marks: scripts whose words have no spaces between them.
_CJK: Final = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_RUNS: Final = re.compile(rf"((?:(?=\w)[{_CJK}])+)|((?:(?![{_CJK}])[^\W_])+)")
_ASCII_WORDS: Final = re.compile(r"[a-z0-9]+")
_WORDS: Final = re.compile(rf"((?=\w)[{_CJK}])|((?:(?![{_CJK}])[^\W_])+)")
_IS_CJK: Final = re.compile(rf"[{_CJK}]")


def segment(text: str) -> str:
    """Return the words of a text, separated by spaces. The last character of a CJK run is also a word of its own."""
    if text.isascii():
        words = [word[:WORD_CHARACTERS] for word in _ASCII_WORDS.findall(text[:SEARCH_BYTES].lower())]
        return " ".join(words[:SEARCH_WORDS])
    kept: list[str] = []
    room = SEARCH_BYTES
    for cjk, word in _RUNS.findall(_fold(text[:SEARCH_BYTES])):
        for piece in [*_split_pairs(cjk), cjk[-1]] if cjk else (word[:WORD_CHARACTERS],):
            room -= len(piece.encode()) + 1
            if room < 0 or len(kept) == SEARCH_WORDS:
                return " ".join(kept)
            kept.append(piece)
    return " ".join(kept)


def terms(query: str) -> list[str]:
    """Return the terms that a message must contain; empty if the query has no word. Operators have no meaning."""
    found: dict[str, None] = {}
    for cjk, word in _RUNS.findall(_fold(query[:SEARCH_BYTES])):
        pieces = (_split_pairs(cjk) or [cjk]) if cjk else [word[:WORD_CHARACTERS]]
        for piece in pieces:
            if len(found) == QUERY_TERMS:
                return list(found)
            found[piece] = None
    return list(found)


def clauses(query: str) -> list[Clause]:
    """Return the clauses that a message must fulfil; empty if the query has no word. Operators have no meaning.

    Each character of a CJK run needs one of its pairs in the message, because Chinese words have no spaces between
    them: `杭州划船` matches `杭州西湖划船`, which has no `州划`.
    """
    found: dict[Clause, None] = {}
    for cjk, word in _RUNS.findall(_fold(query[:SEARCH_BYTES])):
        for clause in _clauses_of_run(cjk) if cjk else [(word[:WORD_CHARACTERS],)]:
            if len(found) == QUERY_TERMS:
                return list(found)
            found[clause] = None
    return list(found)


def words(text: str) -> list[str]:
    """Return the folded words of a text in order, with each CJK character as a word."""
    if text.isascii():
        return _ASCII_WORDS.findall(text.lower())
    return [cjk or word for cjk, word in _WORDS.findall(_fold(text))]


def cjk_characters(text: str) -> int:
    """Count the CJK characters of a text."""
    return len(_IS_CJK.findall(text))


def is_prefix(term: str) -> bool:
    """Return whether a term is a prefix: a single CJK character matches every pair that starts with it."""
    return len(term) == 1 and _IS_CJK.match(term) is not None


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _clauses_of_run(run: str) -> list[Clause]:
    pairs = _split_pairs(run)
    if len(pairs) < 2:
        return [(run,)]
    return [tuple(pairs[max(0, at - 1) : at + 1]) for at in range(len(run))]


def _split_pairs(run: str) -> list[str]:
    return [run[index : index + 2] for index in range(len(run) - 1)]
