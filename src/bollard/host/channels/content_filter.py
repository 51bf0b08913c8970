"""The content filter of a channel: a list of words, and what happens to a text that has one of them. Pure.

Case, full-width forms and compatibility forms do not matter. A word of letters and digits matches as a whole word. A
word with Chinese, Japanese or Korean characters matches inside a text, also with a few signs or spaces between its
characters.
"""

import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from bollard.protocol import Strict
from bollard.segments import cjk_characters

FILTER_WORDS: Final = 1000
"""Words of one filter."""
WORD_CHARACTERS: Final = 64
"""The longest word of a filter."""
_SIGNS: Final = 3
"""Signs and spaces that may stand between two characters of a Chinese word."""
_MASK: Final = "*"
_LISTS: Final = 256
"""Word lists that stay prepared."""


def _has_letters(word: str) -> str:
    if not any(character.isalnum() for character in _folded(word).text):
        raise PydanticCustomError("filter_word", "needs a letter or a digit")
    return word


class ContentFilter(Strict):
    """Words, and the outcome of a text that has one of them."""

    words: Annotated[
        tuple[Annotated[str, Field(max_length=WORD_CHARACTERS), AfterValidator(_has_letters)], ...],
        Field(min_length=1, max_length=FILTER_WORDS),
    ]
    outcome: Literal["block", "mask"] = Field(
        default="block", description="`block`: the message goes nowhere. `mask`: asterisks replace the words."
    )


class Filtered(msgspec.Struct, frozen=True):
    """The outcome for one text. `text` is the text that goes on."""

    outcome: Literal["pass", "mask", "block"]
    text: str


def filtered(rule: ContentFilter | None, text: str) -> Filtered:
    """Apply a filter to a text."""
    spans = [] if rule is None else [*_found(_index(rule.words), _folded(text))]
    if rule is None or not spans:
        return Filtered("pass", text)
    if rule.outcome == "block":
        return Filtered("block", "")
    characters = list(text)
    for start, end in spans:
        characters[start:end] = _MASK * (end - start)
    return Filtered("mask", "".join(characters))


class _Folded(msgspec.Struct, frozen=True):
    """A text without differences of form, and the place of each of its characters in the original."""

    text: str
    places: tuple[int, ...]


def _folded(text: str) -> _Folded:
    pieces: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        piece = character.lower() if character.isascii() else unicodedata.normalize("NFKC", character).casefold()
        pieces.append(piece)
        places += [place] * len(piece)
    return _Folded("".join(pieces), tuple(places))


class _Word(msgspec.Struct, frozen=True):
    text: str
    whole: bool
    """Whether letters and digits around it make another word of it."""


@lru_cache(_LISTS)
def _index(words: tuple[str, ...]) -> Mapping[str, tuple[_Word, ...]]:
    """The folded words by their first character. A word keeps its letters, digits and single spaces."""
    found: dict[str, dict[_Word, None]] = {}
    for word in words:
        text = " ".join(_folded(word).text.split())
        has_cjk = bool(cjk_characters(text))
        text = "".join(filter(str.isalnum, text)) if has_cjk else text
        found.setdefault(text[0], {})[_Word(text, whole=not has_cjk)] = None
    return MappingProxyType({first: tuple(of_first) for first, of_first in found.items()})


def _found(index: Mapping[str, tuple[_Word, ...]], folded: _Folded) -> Iterator[tuple[int, int]]:
    """The places of the words in the original text."""
    text, places = folded.text, folded.places
    for start, character in enumerate(text):
        for word in index.get(character, ()):
            end = _whole_end(text, start, word.text) if word.whole else _spread_end(text, start, word.text)
            if end is not None:
                yield places[start], places[end - 1] + 1


def _whole_end(text: str, start: int, word: str) -> int | None:
    end = start + len(word)
    if not text.startswith(word, start):
        return None
    joined = (start > 0 and text[start - 1].isalnum() and word[0].isalnum()) or (
        end < len(text) and text[end].isalnum() and word[-1].isalnum()
    )
    return None if joined and not _beside_cjk(text, start, end) else end


def _beside_cjk(text: str, start: int, end: int) -> bool:
    """Whether the characters around a word belong to a script without spaces."""
    around = text[max(0, start - 1) : start] + text[end : end + 1]
    return all(cjk_characters(each) for each in around if each.isalnum())


def _spread_end(text: str, start: int, word: str) -> int | None:
    """The end of a word that may have signs between its characters."""
    at = start
    for number, character in enumerate(word):
        signs = 0
        while number and at < len(text) and signs < _SIGNS and text[at] != character and not text[at].isalnum():
            at, signs = at + 1, signs + 1
        if at >= len(text) or text[at] != character:
            return None
        at += 1
    return at
