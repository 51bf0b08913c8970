"""What is to be indexed and cleared away, and how far that is, in the tables: the next process needs no more.

Every step looks again whether its document is still to be indexed: people may take it away or change it meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bollard.knowledge.chunk_tables import ChunkTables
from bollard.knowledge.chunking import Piece
from bollard.knowledge.database import Database
from bollard.knowledge.library import Base, Now, system_now_ms
from bollard.knowledge.limits import INDEX_ATTEMPTS, PROBLEM_CHARACTERS

__all__ = ["Job", "Jobs"]

_NEXT: Final = (
    "SELECT document.number, document.base, name, mime_type, chunks, done_chunks, status, attempts, "
    "embedding, chunk_tokens, overlap_tokens FROM knowledge_documents AS document "
    "JOIN knowledge_bases AS kept ON kept.number = document.base "
    "WHERE status IN ('indexing', 'waiting') ORDER BY status, document.number LIMIT 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A document that is to be indexed, from `done` on when an earlier process had begun."""

    number: int
    base: Base
    name: str
    mime_type: str
    chunks: int
    done: int


class Jobs:
    """Used by the thread that indexes."""

    def __init__(self, database: Database, chunks: ChunkTables, now_ms: Now = system_now_ms) -> None:
        self._database = database
        self._chunks = chunks
        self._now_ms = now_ms

    def next(self) -> Job | None:
        """What was begun, then what waits longest; it is `indexing` from here on. `None` when there is nothing, or when
        the next was given up: `is_waiting` tells."""
        database = self._database
        with database.writing():
            rows = database.fetch(_NEXT)
            if not rows:
                return None
            number, base, name, mime_type, chunks, done, status, attempts, embedding, size, overlap = rows[0]
            if attempts >= INDEX_ATTEMPTS:
                self._fail(base, number, f"indexing it ended the process {attempts} times")
                return None
            if status == "waiting":
                self._chunks.remove(base, number)
                chunks = done = 0
            database.run(
                "UPDATE knowledge_documents SET status = 'indexing', chunks = ?, done_chunks = ?, error = NULL, "
                "attempts = attempts + 1, updated_ms = ? WHERE number = ?",
                (chunks, done, self._now_ms(), number),
            )
        described = Base(number=base, embedding=embedding, chunk_tokens=size, overlap_tokens=overlap)
        return Job(number=number, base=described, name=name, mime_type=mime_type, chunks=chunks, done=done)

    def is_waiting(self) -> bool:
        return bool(
            self._database.read("SELECT 1 FROM knowledge_documents WHERE status IN ('indexing', 'waiting') LIMIT 1")
        )

    def content(self, job: Job) -> bytes | None:
        """Its bytes; `None` when it is gone."""
        rows = self._database.read("SELECT body FROM knowledge_contents WHERE document = ?", (job.number,))
        return bytes(rows[0][0]) if rows else None

    def plan(self, job: Job, chunks: int) -> int | None:
        """Say how many chunks it has. How many are there already; `None` when it is not to be indexed any more."""
        done = job.done if job.chunks == chunks else 0
        with self._database.writing():
            if not self._is_wanted(job):
                return None
            if not done:
                self._chunks.remove(job.base.number, job.number)
            self._progress(job, chunks, done)
        return done

    def add(self, job: Job, pieces: Sequence[tuple[Piece, str]], vectors: bytes | None, done: int, chunks: int) -> bool:
        """One batch. False when the document is not to be indexed any more."""
        with self._database.writing():
            if not self._is_wanted(job):
                return False
            self._chunks.add(job.base.number, job.number, pieces, vectors)
            self._progress(job, chunks, done)
        return True

    def finish(self, job: Job) -> None:
        with self._database.writing():
            if self._is_wanted(job):
                self._database.run(
                    "UPDATE knowledge_documents SET status = 'ready', attempts = 0, updated_ms = ? WHERE number = ?",
                    (self._now_ms(), job.number),
                )

    def fail(self, job: Job, problem: str) -> None:
        """It stays, with the reason; nothing of it is found."""
        with self._database.writing():
            if self._is_wanted(job):
                self._fail(job.base.number, job.number, problem)

    def put_back(self, job: Job) -> None:
        """This process ends in good order: that was no attempt."""
        with self._database.writing():
            self._database.run(
                "UPDATE knowledge_documents SET attempts = attempts - 1 WHERE number = ? AND attempts > 0",
                (job.number,),
            )

    def to_purge(self) -> tuple[int, int] | None:
        """A base of which something is to be cleared away, and how often something was deleted."""
        rows = self._database.read("SELECT number, purge FROM knowledge_bases WHERE purge > 0 ORDER BY number LIMIT 1")
        return rows[0] if rows else None

    def purged(self, base: int, purge: int) -> None:
        """Unless more was deleted since."""
        with self._database.writing():
            self._database.run("UPDATE knowledge_bases SET purge = 0 WHERE number = ? AND purge = ?", (base, purge))

    def _is_wanted(self, job: Job) -> bool:
        return bool(
            self._database.fetch(
                "SELECT 1 FROM knowledge_documents WHERE number = ? AND status = 'indexing'", (job.number,)
            )
        )

    def _progress(self, job: Job, chunks: int, done: int) -> None:
        self._database.run(
            "UPDATE knowledge_documents SET chunks = ?, done_chunks = ?, updated_ms = ? WHERE number = ?",
            (chunks, done, self._now_ms(), job.number),
        )

    def _fail(self, base: int, document: int, problem: str) -> None:
        self._chunks.remove(base, document)
        self._database.run(
            "UPDATE knowledge_documents SET status = 'failed', error = ?, chunks = 0, done_chunks = 0, updated_ms = ? "
            "WHERE number = ?",
            (problem[:PROBLEM_CHARACTERS], self._now_ms(), document),
        )
