"""Embeds texts with the static model of wordllama: offline, fast, and with the same result on every machine.

The vector of a text is the sum of the vectors of its words, which are cached. That is several times as fast as
tokenizing each text, and finds a little better, because line ends and punctuation do not count. All 256 dimensions are
used: 128 and 64 were measured to find less.
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
"""Components of a vector of length 1 with 256 dimensions are hardly ever larger than a half."""
_MOST: Final = 127
_GROUP_WORDS: Final = WORDS_KEPT // 2
"""Words that are embedded under one lock. A question may come between two groups."""


class Embedder:
    """Thread-safe; embeds one request at a time."""

    def __init__(self) -> None:
        self._tokenizer, self._weights = _loaded()
        self._lock = threading.Lock()
        self._rows: dict[str, int] = {}
        self._sums = np.zeros((WORDS_KEPT, DIMENSIONS), dtype=np.float32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row of length 1 for each text; zeros for a text without words."""
        found = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for group in _groups([[word[:WORD_CHARACTERS] for word in words(text)] for text in texts]):
            with self._lock:
                self._know({word for _, piece in group for word in piece})
                for index, piece in group:
                    found[index] += self._sums[[self._rows[word] for word in piece]].sum(axis=0)
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
    """Group the words of texts by index; long texts are split, so that the words of a group fit into the cache."""
    group: list[tuple[int, list[str]]] = []
    room = _GROUP_WORDS
    for index, text in enumerate(texts):
        for start in range(0, len(text), _GROUP_WORDS):
            part = text[start : start + _GROUP_WORDS]
            if len(part) > room:
                yield group
                group, room = [], _GROUP_WORDS
            group.append((index, part))
            room -= len(part)
    if group:
        yield group


def _loaded() -> tuple[Any, Vectors]:
    """Return the tokenizer and the weights of the model inside the package."""
    import wordllama  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] -- a base without embeddings needs none

    # The package is its own cache folder, because wordllama looks for its tokenizer in a folder that does not exist.
    model: Any = wordllama.WordLlama.load(cache_dir=pathlib.Path(wordllama.__file__).parent, disable_download=True)
    model.tokenizer.no_padding()
    return model.tokenizer, model.embedding


def quantised(vectors: Vectors) -> npt.NDArray[np.int8]:
    """Return one byte for each component. The direction of a row is exact to about a hundredth, its length is not."""
    return np.clip(np.rint(vectors * _SCALE), -_MOST, _MOST).astype(np.int8)


def dequantised(dot: Vectors) -> Vectors:
    """Scale products with quantised rows to products with the rows."""
    return dot / _SCALE
