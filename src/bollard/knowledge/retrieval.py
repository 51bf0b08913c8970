"""Answers questions by words and by meaning, and fuses both rankings.

The search by words uses the rarest words of a question: ranking a word that half of the chunks contain is slow and
changes little. The search by meaning compares every chunk of a base.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from bollard.knowledge.chunk_tables import ChunkTables
from bollard.knowledge.database import Database, Row
from bollard.knowledge.embedding import Embedder
from bollard.knowledge.errors import Unusable
from bollard.knowledge.library import Base, Library
from bollard.knowledge.limits import CANDIDATES, FREQUENCIES, MATCHES
from bollard.segments import terms
from bollard.wire.knowledge_frames import TOP_K, Chunk

# --- filters by metadata ---


def matches(metadata: Mapping[str, Any], filters: Mapping[str, Any]) -> bool:
    """Whether each filter matches: the value is equal, or one of a list of values. A list in the metadata matches with
    any of its values; a missing key does not match."""
    return all(key in metadata and _agrees(metadata[key], wanted) for key, wanted in filters.items())


def _agrees(value: Any, wanted: Any) -> bool:
    allowed = cast("list[Any]", wanted) if isinstance(wanted, list) else [wanted]
    held = cast("list[Any]", value) if isinstance(value, list) else [value]
    return any(_same(each, other) for each in held for other in allowed)


def _same(one: Any, other: Any) -> bool:
    """Unlike in Python, `1` does not equal `True` here."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


# --- reciprocal rank fusion ---


_DAMPING: Final = 60
"""The usual constant of reciprocal rank fusion."""


def fused(orders: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Best first. The score is 1 for the first of every ranking, and near 0 for the last of one ranking only."""
    scores: dict[int, float] = {}
    for order in orders:
        for place, number in enumerate(order):
            scores[number] = scores.get(number, 0.0) + 1.0 / (_DAMPING + 1 + place)
    best = len(orders) / (_DAMPING + 1)
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [(number, score / best) for number, score in ranked]


_WORTH_CACHING = 512
"""Smallest number that is cached. Smaller numbers are quick to count, and each new chunk matters for them."""


class Retrieval:
    """Answers questions. Thread-safe."""

    def __init__(
        self, database: Database, library: Library, chunks: ChunkTables, embedder: Callable[[], Embedder]
    ) -> None:
        """`embedder` is called for the first question by meaning."""
        self._library = library
        self._database = database
        self._chunks = chunks
        self._embedder = embedder
        self._frequencies = _Frequencies(database, chunks)

    def answer(self, base: Base, query: str, top_k: int, filters: Mapping[str, Any]) -> list[Chunk]:
        """Return the best chunks, best first. Raises `Unusable`."""
        if not 0 < top_k <= TOP_K:
            raise Unusable(
                f"top_k is {top_k}",
                hint=f"ask for 1 to {TOP_K} chunks",
                reason="top_k_out_of_range",
                top_k=top_k,
                most=TOP_K,
            )
        documents = None
        if filters:
            documents = [
                number for number, metadata in self._library.metadata(base.number) if matches(metadata, filters)
            ]
            if not documents:
                return []
        orders = [self._by_words(base.number, terms(query), documents)]
        if base.embedding != "none":
            vector = self._embedder().embed([query])[0]
            if vector.any():
                near = self._chunks.vectors.nearest(base.number, vector, CANDIDATES, documents)
                orders.append([number for number, _ in near])
        ranked = fused(orders)[: 2 * top_k]  # some may have been deleted since
        rows = self._chunks.rows([number for number, _ in ranked])
        return [_chunk(rows[number], score) for number, score in ranked if number in rows][:top_k]

    def _by_words(self, base: int, wanted: list[str], documents: Sequence[int] | None) -> list[int]:
        chosen, every = chosen_terms({term: self._frequencies.of(base, term) for term in wanted})
        if not chosen:
            return []
        return self._database.search(base, chosen, every=every, limit=CANDIDATES, documents=documents)


def chosen_terms(frequencies: Mapping[str, int]) -> tuple[list[str], bool]:
    """The words to search for, and whether a chunk must contain all of them: the rarest words whose chunks can be
    ranked; all known words if even the rarest is too common."""
    there = sorted((count, term) for term, count in frequencies.items() if count)
    chosen: list[str] = []
    room = MATCHES
    for count, term in there:
        room -= count
        if room < 0:
            break
        chosen.append(term)
    return (chosen, False) if chosen else ([term for _, term in there], True)


class _Frequencies:
    """The numbers of chunks with common words. A number is cached until chunks are deleted or many are added."""

    def __init__(self, database: Database, chunks: ChunkTables) -> None:
        self._database = database
        self._chunks = chunks
        self._cache: dict[tuple[int, int, str], int] = {}
        self._lock = threading.Lock()

    def of(self, base: int, term: str) -> int:
        key = (base, self._chunks.generation(base), term)
        with self._lock:
            if key in self._cache:
                return self._cache[key]
        count = self._database.frequency(base, term)
        if count >= _WORTH_CACHING:
            with self._lock:
                if len(self._cache) >= FREQUENCIES:
                    self._cache.clear()
                self._cache[key] = count
        return count


def _chunk(row: Row, score: float) -> Chunk:
    number, document_id, name, source, headings, page, start, end, text, metadata = row
    return Chunk(
        number=number,
        text=text,
        score=score,
        document_id=document_id,
        name=name,
        source=source,
        headings=msgspec.json.decode(headings),
        page=page,
        start=start,
        end=end,
        metadata=msgspec.json.decode(metadata),
    )
