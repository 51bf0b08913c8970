"""Bases, documents and chunks over a database that is open, without the process around."""

from collections.abc import Sequence

from bollard.knowledge.chunk_tables import ChunkTables
from bollard.knowledge.chunking import Piece
from bollard.knowledge.database import Database
from bollard.knowledge.indexing import Jobs
from bollard.knowledge.library import Library
from bollard.knowledge.vectors import VectorTables
from bollard.wire.knowledge_frames import OpenBase, PutDocument

__all__ = ["Tables"]


class Tables:
    """One base `k` of one workspace `w`."""

    def __init__(self, database: Database, vectors: VectorTables) -> None:
        self.database = database
        self.vectors = vectors
        self.chunks = ChunkTables(database, vectors)
        self.library = Library(database, self.chunks)
        self.jobs = Jobs(database, self.chunks)
        self.library.open()
        self.chunks.open()

    @property
    def base(self) -> int:
        return self.library.base("w", "k").number

    def open_base(self, embedding: str = "bundled") -> None:
        self.library.open_base(
            OpenBase(call=1, workspace="w", kb_id="k", embedding=embedding, chunk_tokens=320, overlap_tokens=40)
        )

    def put(self, document_id: str) -> None:
        self.library.put(
            PutDocument(
                call=1,
                workspace="w",
                kb_id="k",
                document_id=document_id,
                name=document_id,
                mime_type="text/plain",
                content=b"x",
                source="",
                metadata={},
            )
        )

    def index(self, texts: Sequence[str], vectors: bytes | None = None) -> None:
        """The document that is next, with these as its chunks."""
        job = self.jobs.next()
        assert job is not None
        assert self.jobs.plan(job, len(texts)) == 0
        batch = [(Piece(index, index + 1, ()), text) for index, text in enumerate(texts)]
        assert self.jobs.add(job, batch, vectors, len(texts), len(texts))
        self.jobs.finish(job)
