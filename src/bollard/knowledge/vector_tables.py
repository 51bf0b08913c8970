"""Where the vectors of chunks are and who finds the nearest, as a boundary: this process (`matrices`), or a PostgreSQL
that has pgvector (`pgvector`). Both find the same."""

from collections.abc import Sequence
from typing import Literal, Protocol

from bollard.knowledge.embedding import Vectors

__all__ = ["Near", "VectorTables"]

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
