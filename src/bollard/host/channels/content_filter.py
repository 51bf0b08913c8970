"""The content filter of a channel: a list of words, and what happens to a text that has one of them. Pure.

Case, full-width forms and compatibility forms do not matter. A word of letters and digits matches as a whole word. A
word with Chinese, Japanese or Korean characters matches inside a text, also with a few signs or spaces between its
characters.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
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
FOUND_CHARACTERS: Final = WORD_CHARACTERS * (_SIGNS + 1)
"""The longest piece of text that is one word with its signs."""
_MASK: Final = "*"
_LISTS: Final = 32
"""Word lists that stay prepared. The longest one has 12 MiB, an ordinary one less than 1 MiB."""


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
    if rule is None:
        return Filtered("pass", text)
    spans = _found(_index(rule.words), _folded(text))
    if (last := next(spans, None)) is None:
        return Filtered("pass", text)
    if rule.outcome == "block":
        return Filtered("block", "")
    return Filtered("mask", _masked(text, [last, *spans]))


def _masked(text: str, spans: list[tuple[int, int]]) -> str:
    characters, left = list(text), len(text)
    for start, end in sorted(spans, key=lambda span: span[1], reverse=True):
        if start < left:  # what is right of it has its mask
            characters[start : min(end, left)] = _MASK * (min(end, left) - start)
            left = start
    return "".join(characters)


# --- the forms of a text that do not matter ---


class _Folded(msgspec.Struct, frozen=True):
    """A text without differences of form, and the place of each of its characters in the original."""

    text: str
    places: Sequence[int]


def _folded(text: str) -> _Folded:
    forms = {character: _form(character) for character in set(text)}
    folded = text.translate(str.maketrans(forms))
    if all(len(form) == 1 for form in forms.values()):
        return _Folded(folded, range(len(text)))
    return _Folded(folded, [place for place, character in enumerate(text) for _ in forms[character]])


def _form(character: str) -> str:
    return character.lower() if character.isascii() else unicodedata.normalize("NFKC", character).casefold()


# --- the words in a text ---


class _Automaton:
    """Finds all of its words in one pass over a text (Aho-Corasick), so that the number of words does not matter."""

    def __init__(self, words: Iterable[str]) -> None:
        self._next: dict[tuple[int, str], int] = {}
        self._shorter = [0]
        """The state of the longest end of a state's text that begins a word, too."""
        self._lengths: list[tuple[int, ...]] = [()]
        """The lengths of the words that end in a state, longest first."""
        for word in words:
            self._add(word)
        self._connect()

    def _add(self, word: str) -> None:
        state = 0
        for character in word:
            known = self._next.get((state, character))
            if known is None:
                known = self._next[state, character] = len(self._lengths)
                self._lengths.append(())
                self._shorter.append(0)
            state = known
        self._lengths[state] = (len(word),)

    def _connect(self) -> None:
        children: list[list[tuple[str, int]]] = [[] for _ in self._lengths]
        for (state, character), child in self._next.items():
            children[state].append((character, child))
        level = [0]
        while level:
            for state in level:
                for character, child in children[state]:
                    if state:
                        self._shorter[child] = self.step(self._shorter[state], character)
                    self._lengths[child] += self._lengths[self._shorter[child]]
            level = [child for state in level for _, child in children[state]]

    def step(self, state: int, character: str) -> int:
        while (following := self._next.get((state, character))) is None:
            if not state:
                return 0
            state = self._shorter[state]
        return following

    def lengths(self, state: int) -> tuple[int, ...]:
        return self._lengths[state]


class _Index(msgspec.Struct, frozen=True):
    """The folded words of a filter."""

    whole: _Automaton | None
    """Words that letters and digits around them make another word of. They keep their signs and single spaces."""
    spread: _Automaton | None
    """Words of letters and digits that may have signs between them."""


@lru_cache(_LISTS)
def _index(words: tuple[str, ...]) -> _Index:
    whole, spread = set[str](), set[str]()
    for word in words:
        text = " ".join(_folded(word).text.split())
        if cjk_characters(text):
            spread.add("".join(filter(str.isalnum, text)))
        else:
            whole.add(text)
    return _Index(_Automaton(whole) if whole else None, _Automaton(spread) if spread else None)


def _found(index: _Index, folded: _Folded) -> Iterator[tuple[int, int]]:
    """The places of words in the original text. A word inside of a longer one with the same end is left out."""
    places = folded.places
    for automaton, spans in ((index.whole, _whole), (index.spread, _spread)):
        if automaton is not None:
            for start, end in spans(automaton, folded.text):
                yield places[start], places[end - 1] + 1


def _whole(words: _Automaton, text: str) -> Iterator[tuple[int, int]]:
    state = 0
    for place, character in enumerate(text):
        state = words.step(state, character)
        end = place + 1
        for length in words.lengths(state):
            if _is_whole(text, end - length, end):
                yield end - length, end
                break


def _is_whole(text: str, start: int, end: int) -> bool:
    joined = text[start - 1 : start + 1].isalnum() if start else False
    joined = joined or (end < len(text) and text[end - 1 : end + 1].isalnum())
    return not joined or _beside_cjk(text, start, end)


def _beside_cjk(text: str, start: int, end: int) -> bool:
    """Whether the characters around a word belong to a script without spaces."""
    around = text[max(0, start - 1) : start] + text[end : end + 1]
    return all(cjk_characters(each) for each in around if each.isalnum())


def _spread(words: _Automaton, text: str) -> Iterator[tuple[int, int]]:
    state = 0
    letters: list[int] = []
    """The places of letters and digits."""
    for place, character in enumerate(text):
        if not character.isalnum():
            continue
        if letters and place - letters[-1] > _SIGNS + 1:
            state = 0
        letters.append(place)
        state = words.step(state, character)
        if lengths := words.lengths(state):
            yield letters[-lengths[0]], place + 1
