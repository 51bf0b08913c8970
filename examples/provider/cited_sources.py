"""Sources that an agent puts before a question, and the sentence in them that answers it best.

There is no model here: the best sentence shares the longest words with the question.
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Source", "brings_sources", "cited_sentence", "sources_of", "without_sources"]

WORD_LETTERS: Final = 3
"""Shorter words are in every sentence. A Chinese character is a word of its own."""
SENTENCE: Final = 300
"""The largest number of characters of a sentence."""

_SOURCE: Final = re.compile(r'<source id="(\d{1,4})"[^<>]*>(.*?)(?:</source>|\Z)', re.DOTALL)
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_WORD: Final = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A passage of a document, and its citation number."""

    source_id: str
    text: str


def sources_of(texts: Iterable[str]) -> Iterator[Source]:
    """The text between `<source id="N" …>` and `</source>` in user and system messages."""
    for text in texts:
        for source_id, body in _SOURCE.findall(text):
            yield Source(source_id=source_id, text=html.unescape(body))


def brings_sources(text: str) -> bool:
    return _SOURCE.search(text) is not None


def without_sources(text: str) -> str:
    return _SOURCE.sub("", text).strip()


def cited_sentence(question: str, sources: Sequence[Source]) -> str | None:
    """The sentence, with the number of its source; `None` if no sentence shares a word with the question."""
    wanted = _words(question)
    sentences = [
        (sentence.strip(), source) for source in sources for sentence in _SENTENCE_END.split(source.text) if sentence
    ]
    scores = [sum(map(len, wanted & _words(sentence))) for sentence, _ in sentences]
    if not any(scores):
        return None
    sentence, source = sentences[scores.index(max(scores))]
    return f"{sentence[:SENTENCE]} [{source.source_id}]"


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if not word.isascii() or len(word) >= WORD_LETTERS}
