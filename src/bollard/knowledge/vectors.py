"""Vectors in batches, one row per batch, for both databases, and the interface of vector search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from bollard.knowledge.database import Database
from bollard.knowledge.embedding import DIMENSIONS, Vectors

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
