"""Text as vectors, with the static model that comes with wordllama: no network, no time, the same on every machine.

A text is the sum of its words. Words are few and come again, so what a word is worth is kept; that makes it several
times as fast as cutting each text into the model's tokens, and finds a little better, since line ends and punctuation
count nothing. All 256 numbers are used: halves and quarters of them were measured to find less.
"""

import pathlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bollard.knowledge.limits import WORDS_KEPT
from bollard.segments import WORD_CHARACTERS, words

DIMENSIONS: Final = 256
Vectors = npt.NDArray[np.float32]
_SCALE: Final = 254.0
"""Of 256 numbers in a row of length 1 hardly one is larger than a half."""
_MOST: Final = 127
_GROUP_WORDS: Final = WORDS_KEPT // 2
"""Words that are looked at together. After as many, a question may come in between."""


class Embedder:
    """Thread-safe; embeds one request at a time."""

    def __init__(self) -> None:
        self._tokenizer, self._weights = _loaded()
        self._lock = threading.Lock()
        self._rows: dict[str, int] = {}
        self._sums = np.zeros((WORDS_KEPT, DIMENSIONS), dtype=np.float32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 for each text; zeros for one without a word."""
        found = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for group in _groups([[word[:WORD_CHARACTERS] for word in words(text)] for text in texts]):
            with self._lock:
                self._know({word for _, said in group for word in said})
                for index, said in group:
                    found[index] += self._sums[[self._rows[word] for word in said]].sum(axis=0)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.divide(found, lengths, out=found, where=lengths > 0)

    def _know(self, needed: set[str]) -> None:
        fresh = [word for word in needed if word not in self._rows]
        if len(self._rows) + len(fresh) > WORDS_KEPT:
            self._rows.clear()
            fresh = list(needed)
        if fresh:
            self._learn(fresh)

    def _learn(self, fresh: list[str]) -> None:
        encoded = self._tokenizer.encode_batch_fast(fresh, add_special_tokens=False)
        ids = [each.ids or [0] for each in encoded]
        starts = np.cumsum([0, *map(len, ids[:-1])])
        first = len(self._rows)
        sums = np.add.reduceat(self._weights[np.concatenate(ids)], starts, axis=0)
        self._sums[first : first + len(fresh)] = sums
        self._rows.update(zip(fresh, range(first, first + len(fresh)), strict=True))


def _groups(texts: list[list[str]]) -> Iterator[list[tuple[int, list[str]]]]:
    """Texts by their index, cut where they are long, so that the words of each group can be known at once."""
    group: list[tuple[int, list[str]]] = []
    room = _GROUP_WORDS
    for index, said in enumerate(texts):
        for start in range(0, len(said), _GROUP_WORDS):
            part = said[start : start + _GROUP_WORDS]
            if len(part) > room:
                yield group
                group, room = [], _GROUP_WORDS
            group.append((index, part))
            room -= len(part)
    if group:
        yield group


def _loaded() -> tuple[Any, Vectors]:
    """The tokenizer and the table of the model that lies inside the package."""
    import wordllama  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] -- whoever finds by words needs none

    # The folder of the package is named as its cache: it looks for its own tokenizer in a folder that is not there.
    model: Any = wordllama.WordLlama.load(cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return model.tokenizer, model.embedding


def quantised(vectors: Vectors) -> npt.NDArray[np.int8]:
    """A byte for each number. The length of a row is not kept exactly; its direction is, to within a hundredth."""
    return np.clip(np.rint(vectors * _SCALE), -_MOST, _MOST).astype(np.int8)


def dequantised(dot: Vectors) -> Vectors:
    """Products with quantised rows, as products with the rows."""
    return dot / _SCALE
