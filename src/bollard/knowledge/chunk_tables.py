"""Stores chunks, their words and their vectors. Writes are part of the caller's transaction."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from bollard.knowledge.chunking import Piece
from bollard.knowledge.database import Database, Row
from bollard.knowledge.vectors import VectorTables
from bollard.segments import segment

_REMOVE_ROWS: Final = 1000
"""Chunks in memory while a document is deleted."""
_GENERATION_CHUNKS: Final = 4096
"""New chunks after which cached counts are invalid."""


def index_text(headings: Sequence[str], body: str) -> str:
    """The words of a chunk and of the headings above it."""
    return "\n".join((*headings, body))


class ChunkTables:
    """The chunks of every base."""

    def __init__(self, database: Database, vectors: VectorTables) -> None:
        self._database = database
        self._last = 0
        self._removals: Counter[int] = Counter()
        self.vectors = vectors

    def open(self) -> None:
        """Called after the database is open."""
        self._last = self._database.read("SELECT coalesce(max(number), 0) FROM knowledge_chunks")[0][0]

    def generation(self, base: int) -> int:
        """Changes when chunks go away, and when many have come."""
        return self._removals[base] + self._last // _GENERATION_CHUNKS

    # --- writing ---

    def make(self, base: int) -> None:
        """Create the tables of a new base."""
        self._database.make_words(base)
        self.vectors.make(base)

    def add(self, base: int, document: int, pieces: Sequence[tuple[Piece, str]], vectors: bytes | None) -> None:
        """Add one batch. Its chunks have consecutive numbers, larger than all before."""
        first = self._last + 1
        self._last += len(pieces)
        rows = [
            (number, document, piece.start, piece.end, piece.page, msgspec.json.encode(piece.headings).decode(), text)
            for number, (piece, text) in enumerate(pieces, start=first)
        ]
        words = [segment(index_text(piece.headings, text)) for piece, text in pieces]
        self._database.add_chunks(base, rows, words)
        if vectors is not None:
            self.vectors.add(base, document, first, vectors)

    def remove(self, base: int, document: int) -> None:
        """Delete all chunks of a document. The index still contains their words until it is purged."""
        database = self._database
        while rows := database.fetch(
            "SELECT number, headings, body FROM knowledge_chunks WHERE document = ? ORDER BY number LIMIT ?",
            (document, _REMOVE_ROWS),
        ):
            database.forget_words(
                base,
                [(number, segment(index_text(msgspec.json.decode(headings), body))) for number, headings, body in rows],
            )
            database.run("DELETE FROM knowledge_chunks WHERE document = ? AND number <= ?", (document, rows[-1][0]))
            self.vectors.remove(base, document)
            database.run("UPDATE knowledge_bases SET purge = purge + 1 WHERE number = ?", (base,))
            self._removals[base] += 1

    def remove_all(self, base: int) -> None:
        """Delete the chunks of every document of a base."""
        database = self._database
        database.drop_words(base)
        self.vectors.remove_all(base)
        database.run(
            "DELETE FROM knowledge_chunks WHERE document IN (SELECT number FROM knowledge_documents WHERE base = ?)",
            (base,),
        )
        self._removals[base] += 1

    # --- reading ---

    def rows(self, numbers: Sequence[int]) -> dict[int, Row]:
        """Number, document_id, name, source, headings, page, start, end, text and metadata of the chunks that exist."""
        rows = self._database.read(
            "SELECT chunk.number, document_id, name, source, headings, page, first_character, last_character, body, "  # noqa: S608
            "metadata FROM knowledge_chunks AS chunk JOIN knowledge_documents AS document "
            f"ON document.number = chunk.document WHERE {self._database.among('chunk.number')}",
            (self._database.listed(numbers),),
        )
        return {row[0]: row for row in rows}
