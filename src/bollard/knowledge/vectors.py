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
"""Batches that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The vectors of chunks whose numbers follow each other."""

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
        """The first ones of any base, which are not here any more."""
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
        """How many there are up to that chunk. What comes has larger numbers, so this only ever becomes less."""
        counted = "SELECT count(*) FROM knowledge_vectors WHERE base = ? AND first_chunk <= ?"
        return self._database.read(counted, (base, last))[0][0]

    def rows(self, base: int, after: int) -> Iterator[VectorRow]:
        """Those of chunks with larger numbers than `after`, in order."""
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
"""The number of a chunk, and how near it is: 1 for the same direction."""


class VectorTables(Protocol):
    """Vectors come quantised, a byte for each number. Writing is part of somebody else's transaction."""

    searched_by: Literal["process", "database"]

    def make(self, base: int) -> None:
        """What a new base needs."""
        ...

    def add(self, base: int, document: int, first_chunk: int, body: bytes) -> None:
        """Those of chunks whose numbers follow each other, and are larger than all that were there."""
        ...

    def remove(self, base: int, document: int) -> None: ...

    def remove_all(self, base: int) -> None:
        """The base goes away."""
        ...

    def nearest(self, base: int, vector: Vectors, limit: int, documents: Sequence[int] | None) -> list[Near]:
        """Nearest first, of what is committed; of these documents where given. What is not near at all is left out."""
        ...

    def move(self) -> bool:
        """One step, and one transaction, of taking over what another way of keeping vectors left. False when nothing
        is left."""
        ...


_BLOCK: Final = 1024
"""Rows that are multiplied at once: as many as stay in the processor's own memory."""
_PARTS: Final = 32
"""Parts of one base before they are put together."""


@dataclass(frozen=True, slots=True)
class _Part:
    batches: int
    numbers: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int8]


@dataclass(slots=True)
class _Kept:
    batches: int = 0
    last: int = 0
    parts: list[_Part] = field(default_factory=list[_Part])

    @property
    def size(self) -> int:
        return sum(part.rows.nbytes for part in self.parts)


class Matrices:
    """Implements `VectorTables` over batches. Thread-safe."""

    searched_by: Literal["process", "database"] = "process"

    def __init__(self, batches: VectorBatches, most_bytes: int = MATRIX_BYTES) -> None:
        self._batches = batches
        self._most_bytes = most_bytes
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def make(self, base: int) -> None:
        """Batches of all bases lie in one table."""

    def add(self, base: int, document: int, first_chunk: int, body: bytes) -> None:
        self._batches.add(base, document, first_chunk, body)

    def remove(self, base: int, document: int) -> None:
        self._batches.remove(base, document)

    def remove_all(self, base: int) -> None:
        self._batches.remove_all(base)

    def move(self) -> bool:
        return False

    def nearest(self, base: int, vector: Vectors, limit: int, documents: Sequence[int] | None) -> list[Near]:
        with self._lock:
            parts = self._current(base)
        chosen = None if documents is None else np.asarray(documents, dtype=np.int64)
        best: list[tuple[npt.NDArray[np.int64], Vectors]] = []
        for part in parts if parts is not None else _parts_of(self._batches.rows(base, 0)):
            best = [_best([*best, _scored(part, vector, chosen)], limit)]
        if not best:
            return []
        numbers, scores = best[0]
        order = np.lexsort((numbers, -scores))
        return [(int(numbers[index]), float(scores[index])) for index in order if scores[index] > 0]

    def _current(self, base: int) -> list[_Part] | None:
        """What is in memory of a base, with what came since; `None` when it does not fit."""
        kept = self._kept.get(base)
        if kept is None or kept.batches != self._batches.count(base, kept.last):  # some went away
            kept = _Kept()
        for part in _parts_of(self._batches.rows(base, kept.last)):
            kept.parts.append(part)
            kept.batches += part.batches
            kept.last = int(part.numbers[-1])
            if kept.size > self._most_bytes:
                self._kept.pop(base, None)
                return None
        if len(kept.parts) > _PARTS:
            kept.parts = [_joined(kept.parts)]
        self._kept[base] = kept
        self._kept.move_to_end(base)
        while sum(each.size for each in self._kept.values()) > self._most_bytes:
            self._kept.popitem(last=False)
        return [*kept.parts]


def _parts_of(rows: Iterable[VectorRow]) -> Iterable[_Part]:
    """Batches as they lie in the tables, some together."""
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
