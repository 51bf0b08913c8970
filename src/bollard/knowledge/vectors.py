"""Vectors in batches, one row per batch, for both databases; the interface of vector search; the search in memory."""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from bollard.knowledge.database import Database
from bollard.knowledge.embedding import DIMENSIONS, Vectors, dequantised
from bollard.knowledge.limits import MATRIX_BYTES

_ROWS: Final = 512
"""Batches of one read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The vectors of consecutive chunks."""

    base: int
    first_chunk: int
    document: int
    body: bytes

    @property
    def chunks(self) -> int:
        return len(self.body) // DIMENSIONS


class VectorBatches:
    """The batches of every base."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # --- writing, as part of a transaction ---

    def add(self, base: int, document: int, first_chunk: int, body: bytes) -> None:
        self._database.run(
            "INSERT INTO knowledge_vectors (base, first_chunk, document, chunks, body) VALUES (?, ?, ?, ?, ?)",
            (base, first_chunk, document, len(body) // DIMENSIONS, body),
        )

    def remove(self, base: int, document: int) -> None:
        self._database.run("DELETE FROM knowledge_vectors WHERE base = ? AND document = ?", (base, document))

    def remove_all(self, base: int) -> None:
        self._database.run("DELETE FROM knowledge_vectors WHERE base = ?", (base,))

    def take(self, limit: int) -> list[VectorRow]:
        """Remove and return the first batches of any base."""
        rows = self._database.fetch(
            "SELECT base, first_chunk, document, body FROM knowledge_vectors ORDER BY base, first_chunk LIMIT ?",
            (limit,),
        )
        self._database.run_many(
            "DELETE FROM knowledge_vectors WHERE base = ? AND first_chunk = ?", [row[:2] for row in rows]
        )
        return [_row(*row) for row in rows]

    # --- reading ---

    def count(self, base: int, last: int) -> int:
        """Count the batches up to a chunk. New chunks have larger numbers, so this number never grows."""
        counted = "SELECT count(*) FROM knowledge_vectors WHERE base = ? AND first_chunk <= ?"
        return self._database.read(counted, (base, last))[0][0]

    def rows(self, base: int, after: int) -> Iterator[VectorRow]:
        """Yield the batches of chunks with larger numbers than `after`, in order."""
        while True:
            rows = self._database.read(
                "SELECT base, first_chunk, document, body FROM knowledge_vectors "
                "WHERE base = ? AND first_chunk > ? ORDER BY first_chunk LIMIT ?",
                (base, after, _ROWS),
            )
            for row in rows:
                yield _row(*row)
            if len(rows) < _ROWS:
                return
            after = rows[-1][1]


def _row(base: int, first_chunk: int, document: int, body: bytes) -> VectorRow:
    return VectorRow(base=base, first_chunk=first_chunk, document=document, body=bytes(body))


# --- the interface of vector search: in memory (`matrices`) or in PostgreSQL (`pgvector`), with the same results ---


Near = tuple[int, float]
"""The number of a chunk and its similarity: 1 for the same direction."""


class VectorTables(Protocol):
    """Stores quantised vectors, one byte for each component, in the transaction of the caller."""

    searched_by: Literal["process", "database"]

    def make(self, base: int) -> None:
        """Create the tables of a new base."""
        ...

    def add(self, base: int, document: int, first_chunk: int, body: bytes) -> None:
        """Add the vectors of consecutive chunks, with larger numbers than all before."""
        ...

    def remove(self, base: int, document: int) -> None: ...

    def remove_all(self, base: int) -> None:
        """Delete the vectors of a base."""
        ...

    def nearest(self, base: int, vector: Vectors, limit: int, documents: Sequence[int] | None) -> list[Near]:
        """Return the nearest committed chunks, nearest first; only chunks of `documents` if given. Chunks without
        similarity are omitted."""
        ...

    def move(self) -> bool:
        """Take over some vectors that another implementation left, in one transaction. False if there are none."""
        ...


_BLOCK: Final = 1024
"""Rows of one multiplication; they fit into the cache of the processor."""
_PARTS: Final = 32
"""Parts of one base before they are joined."""


@dataclass(frozen=True, slots=True)
class _Part:
    batches: int
    numbers: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int8]


@dataclass(slots=True)
class _Cached:
    batches: int = 0
    last: int = 0
    parts: list[_Part] = field(default_factory=list[_Part])

    @property
    def size(self) -> int:
        return sum(part.rows.nbytes for part in self.parts)


class Matrices(VectorBatches):
    """Implements `VectorTables`: searches the batches in memory. Thread-safe."""

    searched_by: Literal["process", "database"] = "process"

    def __init__(self, database: Database, most_bytes: int = MATRIX_BYTES) -> None:
        super().__init__(database)
        self._most_bytes = most_bytes
        self._cache: OrderedDict[int, _Cached] = OrderedDict()
        self._lock = threading.Lock()

    def make(self, base: int) -> None:
        """Nothing to do: the batches of all bases share a table."""

    def move(self) -> bool:
        return False

    def nearest(self, base: int, vector: Vectors, limit: int, documents: Sequence[int] | None) -> list[Near]:
        with self._lock:
            parts = self._current(base)
        chosen = None if documents is None else np.asarray(documents, dtype=np.int64)
        best: list[tuple[npt.NDArray[np.int64], Vectors]] = []
        for part in parts if parts is not None else _parts_of(self.rows(base, 0)):
            best = [_best([*best, _scored(part, vector, chosen)], limit)]
        if not best:
            return []
        numbers, scores = best[0]
        order = np.lexsort((numbers, -scores))
        return [(int(numbers[index]), float(scores[index])) for index in order if scores[index] > 0]

    def _current(self, base: int) -> list[_Part] | None:
        """Return the vectors of a base, with those added since the last call; `None` if they need too much memory."""
        cached = self._cache.get(base)
        if cached is None or cached.batches != self.count(base, cached.last):  # some were deleted
            cached = _Cached()
        for part in _parts_of(self.rows(base, cached.last)):
            cached.parts.append(part)
            cached.batches += part.batches
            cached.last = int(part.numbers[-1])
            if cached.size > self._most_bytes:
                self._cache.pop(base, None)
                return None
        if len(cached.parts) > _PARTS:
            cached.parts = [_joined(cached.parts)]
        self._cache[base] = cached
        self._cache.move_to_end(base)
        while sum(each.size for each in self._cache.values()) > self._most_bytes:
            self._cache.popitem(last=False)
        return [*cached.parts]


def _parts_of(rows: Iterable[VectorRow]) -> Iterable[_Part]:
    """Join some batches at a time."""
    waiting: list[VectorRow] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == 4 * _PARTS:
            yield _part(waiting)
            waiting = []
    if waiting:
        yield _part(waiting)


def _part(rows: list[VectorRow]) -> _Part:
    numbers = np.concatenate([np.arange(row.first_chunk, row.first_chunk + row.chunks) for row in rows])
    documents = np.repeat([row.document for row in rows], [row.chunks for row in rows])
    body = np.frombuffer(b"".join(row.body for row in rows), dtype=np.int8)
    return _Part(
        len(rows), numbers.astype(np.int64), documents.astype(np.int64), body.reshape(len(numbers), DIMENSIONS)
    )


def _joined(parts: list[_Part]) -> _Part:
    return _Part(
        sum(part.batches for part in parts),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.documents for part in parts]),
        np.concatenate([part.rows for part in parts]),
    )


def _scored(
    part: _Part, vector: Vectors, documents: npt.NDArray[np.int64] | None
) -> tuple[npt.NDArray[np.int64], Vectors]:
    numbers, rows = part.numbers, part.rows
    if documents is not None:
        wanted = np.isin(part.documents, documents)
        numbers, rows = numbers[wanted], rows[wanted]
    scores = np.empty(len(numbers), dtype=np.float32)
    block = np.empty((_BLOCK, DIMENSIONS), dtype=np.float32)
    for start in range(0, len(numbers), _BLOCK):
        some = rows[start : start + _BLOCK]
        np.copyto(block[: len(some)], some, casting="unsafe")
        np.dot(block[: len(some)], vector, out=scores[start : start + len(some)])
    return numbers, dequantised(scores)


def _best(found: list[tuple[npt.NDArray[np.int64], Vectors]], limit: int) -> tuple[npt.NDArray[np.int64], Vectors]:
    numbers = np.concatenate([each for each, _ in found])
    scores = np.concatenate([each for _, each in found])
    if len(numbers) > limit:
        at = np.argpartition(-scores, limit - 1)[:limit]
        numbers, scores = numbers[at], scores[at]
    return numbers, scores
