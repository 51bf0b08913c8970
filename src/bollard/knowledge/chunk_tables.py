"""Chunks with their words and vectors, in their tables. Writing is part of somebody else's transaction."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bollard.knowledge.chunking import Piece
from bollard.knowledge.database import Database, Row
from bollard.segments import segment

__all__ = ["ChunkTables", "VectorRow", "index_text"]

_REMOVE_ROWS: Final = 1000
"""Chunks that are in memory while a document is taken away."""
_GENERATION_CHUNKS: Final = 4096
"""Chunks that may come before what was counted is counted again."""
_VECTOR_ROWS: Final = 512
"""Batches of vectors that are read at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """The vectors of chunks whose numbers follow each other."""

    first_chunk: int
    document: int
    chunks: int
    body: bytes


def index_text(headings: Sequence[str], body: str) -> str:
    """What a chunk is found by: its words, and those of the headings above it."""
    return "\n".join((*headings, body))


class ChunkTables:
    """`removals` counts, for each base, how often chunks went away."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last = 0
        self.removals: Counter[int] = Counter()

    def open(self) -> None:
        """After the database is."""
        self._last = self._database.read("SELECT coalesce(max(number), 0) FROM knowledge_chunks")[0][0]

    def generation(self, base: int) -> int:
        """Changes when chunks go away, and when many have come."""
        return self.removals[base] + self._last // _GENERATION_CHUNKS

    # --- writing ---

    def add(self, base: int, document: int, pieces: Sequence[tuple[Piece, str]], vectors: bytes | None) -> None:
        """One batch: its chunks have numbers that follow each other, larger than all before."""
        first = self._last + 1
        self._last += len(pieces)
        self._database.run_many(
            "INSERT INTO knowledge_chunks (number, document, first_character, last_character, page, headings, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (number, document, piece.start, piece.end, piece.page, _encoded(piece.headings), text)
                for number, (piece, text) in enumerate(pieces, start=first)
            ],
        )
        words = [segment(index_text(piece.headings, text)) for piece, text in pieces]
        self._database.add_words(base, list(enumerate(words, start=first)))
        if vectors is not None:
            self._database.run(
                "INSERT INTO knowledge_vectors (base, first_chunk, document, chunks, body) VALUES (?, ?, ?, ?, ?)",
                (base, first, document, len(pieces), vectors),
            )

    def remove(self, base: int, document: int) -> None:
        """All of one document. What the index still holds of them is to be cleared away."""
        database = self._database
        while rows := database.fetch(
            "SELECT number, headings, body FROM knowledge_chunks WHERE document = ? ORDER BY number LIMIT ?",
            (document, _REMOVE_ROWS),
        ):
            database.forget_words(
                base, [(number, segment(index_text(_decoded(headings), body))) for number, headings, body in rows]
            )
            database.run("DELETE FROM knowledge_chunks WHERE document = ? AND number <= ?", (document, rows[-1][0]))
            database.run("DELETE FROM knowledge_vectors WHERE document = ?", (document,))
            database.run("UPDATE knowledge_bases SET purge = purge + 1 WHERE number = ?", (base,))
            self.removals[base] += 1

    def remove_all(self, base: int) -> None:
        """Those of every document of a base."""
        database = self._database
        database.drop_words(base)
        database.run("DELETE FROM knowledge_vectors WHERE base = ?", (base,))
        database.run(
            "DELETE FROM knowledge_chunks WHERE document IN (SELECT number FROM knowledge_documents WHERE base = ?)",
            (base,),
        )
        self.removals[base] += 1

    # --- reading ---

    def vectors(self, base: int, after: int) -> Iterator[VectorRow]:
        """Those of chunks with larger numbers than `after`, in order."""
        while True:
            rows = self._database.read(
                "SELECT first_chunk, document, chunks, body FROM knowledge_vectors "
                "WHERE base = ? AND first_chunk > ? ORDER BY first_chunk LIMIT ?",
                (base, after, _VECTOR_ROWS),
            )
            for first_chunk, document, chunks, body in rows:
                yield VectorRow(first_chunk=first_chunk, document=document, chunks=chunks, body=bytes(body))
            if len(rows) < _VECTOR_ROWS:
                return
            after = rows[-1][0]

    def rows(self, numbers: Sequence[int]) -> dict[int, Row]:
        """Number, document_id, name, source, headings, page, start, end, text and metadata of those that are there."""
        rows = self._database.read(
            "SELECT chunk.number, document_id, name, source, headings, page, first_character, last_character, body, "  # noqa: S608
            "metadata FROM knowledge_chunks AS chunk JOIN knowledge_documents AS document "
            f"ON document.number = chunk.document WHERE {self._database.among('chunk.number')}",
            (self._database.listed(numbers),),
        )
        return {row[0]: row for row in rows}


def _encoded(headings: Sequence[str]) -> str:
    return msgspec.json.encode(headings).decode()


def _decoded(text: str) -> Any:
    return msgspec.json.decode(text)
