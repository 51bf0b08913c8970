"""The indexing thread: indexes waiting documents, migrates vectors, and erases deleted data, in small transactions.

The tables record the progress, so that the next process continues unfinished work.
"""

import contextlib
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from bollard.knowledge.chunk_tables import ChunkTables, index_text
from bollard.knowledge.chunking import Piece, pieces_of
from bollard.knowledge.database import Database
from bollard.knowledge.embedding import Embedder, quantised
from bollard.knowledge.errors import OutOfService, Unreadable, WriterLost
from bollard.knowledge.extraction import Extractor
from bollard.knowledge.library import Base, Now, encoded, system_now_ms
from bollard.knowledge.limits import BATCH_CHUNKS, INDEX_ATTEMPTS, PROBLEM_CHARACTERS
from bollard.knowledge.plain_text import Extracted
from bollard.wire.knowledge_frames import UNFINISHED, DocumentProblem

# --- jobs ---
# Every step checks again that its document must still be indexed: it may be deleted or changed meanwhile.


_NEXT: Final = (
    "SELECT document.number, document.base, name, mime_type, chunks, done_chunks, status, attempts, "
    "embedding, chunk_tokens, overlap_tokens FROM knowledge_documents AS document "
    "JOIN knowledge_bases AS base_row ON base_row.number = document.base "
    "WHERE status IN ('indexing', 'waiting') ORDER BY status, document.number LIMIT 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A document to index, starting at chunk `done` if an earlier process began it."""

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
        """The next document, already begun or waiting longest; its status becomes `indexing`. `None` if there is none,
        or if the next one was given up: see `is_waiting`."""
        database = self._database
        with database.writing():
            rows = database.fetch(_NEXT)
            if not rows:
                return None
            number, base, name, mime_type, chunks, done, status, attempts, embedding, size, overlap = rows[0]
            if attempts >= INDEX_ATTEMPTS:
                self._fail(
                    base,
                    number,
                    Unreadable(
                        f"indexing it ended the process {attempts} times",
                        hint="split it, or send its text",
                        reason="index_attempts",
                        attempts=attempts,
                    ),
                )
                return None
            if status == "waiting":
                self._chunks.remove(base, number)
                chunks = done = 0
            database.run(
                "UPDATE knowledge_documents SET status = 'indexing', chunks = ?, done_chunks = ?, error = NULL, "
                "problem = NULL, attempts = attempts + 1, updated_ms = ? WHERE number = ?",
                (chunks, done, self._now_ms(), number),
            )
        described = Base(number=base, embedding=embedding, chunk_tokens=size, overlap_tokens=overlap)
        return Job(number=number, base=described, name=name, mime_type=mime_type, chunks=chunks, done=done)

    def is_waiting(self) -> bool:
        return bool(
            self._database.read("SELECT 1 FROM knowledge_documents WHERE status IN ('indexing', 'waiting') LIMIT 1")
        )

    def content(self, job: Job) -> bytes | None:
        """The content; `None` if the document was deleted."""
        rows = self._database.read("SELECT body FROM knowledge_contents WHERE document = ?", (job.number,))
        return bytes(rows[0][0]) if rows else None

    def plan(self, job: Job, chunks: int) -> int | None:
        """Set the number of chunks. Returns how many are stored; `None` if the document changed or is gone."""
        done = job.done if job.chunks == chunks else 0
        with self._database.writing():
            if not self._is_wanted(job):
                return None
            if not done:
                self._chunks.remove(job.base.number, job.number)
            self._progress(job, chunks, done)
        return done

    def add(self, job: Job, pieces: Sequence[tuple[Piece, str]], vectors: bytes | None, done: int, chunks: int) -> bool:
        """Store one batch. False if the document must not be indexed any more."""
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

    def fail(self, job: Job, error: Unreadable) -> None:
        """Mark the document as failed with the reason, and delete its chunks."""
        with self._database.writing():
            if self._is_wanted(job):
                self._fail(job.base.number, job.number, error)

    def put_back(self, job: Job) -> None:
        """Undo the attempt count, because the process stops in order."""
        with self._database.writing():
            self._database.run(
                "UPDATE knowledge_documents SET attempts = attempts - 1 WHERE number = ? AND attempts > 0",
                (job.number,),
            )

    def to_purge(self) -> tuple[int, int] | None:
        """A base with deleted data to erase, and its number of deletions."""
        rows = self._database.read("SELECT number, purge FROM knowledge_bases WHERE purge > 0 ORDER BY number LIMIT 1")
        return rows[0] if rows else None

    def purged(self, base: int, purge: int) -> None:
        """Mark the base as erased, unless more was deleted since."""
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

    def _fail(self, base: int, document: int, error: Unreadable) -> None:
        problem = DocumentProblem(reason=error.reason, hint=error.hint, details=error.details)
        self._chunks.remove(base, document)
        self._database.run(
            "UPDATE knowledge_documents SET status = 'failed', error = ?, problem = ?, chunks = 0, done_chunks = 0, "
            "updated_ms = ? WHERE number = ?",
            (error.message[:PROBLEM_CHARACTERS], encoded(problem), self._now_ms(), document),
        )


_RETRY_S: Final = 0.5
"""Delay before a failed step is retried."""


class Indexer:
    """Does the work in one thread. `wake` signals new work; `busy` is called with whether there is work."""

    def __init__(
        self,
        database: Database,
        chunks: ChunkTables,
        embedder: Callable[[], Embedder],
        data: Path,
        busy: Callable[[bool], None],
    ) -> None:
        self._database = database
        self._chunks = chunks
        self._jobs = Jobs(database, chunks)
        self._embedder = embedder
        self._extractor = Extractor()
        self._mark = data / UNFINISHED
        self._tell_busy = busy
        self._work = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="indexer", daemon=True)

    def start(self) -> None:
        self._work.set()
        self._thread.start()

    def announce(self) -> None:
        """Write the marker before work is committed, so that a crash in between leaves it behind."""
        self._mark.touch(mode=0o600)

    def wake(self) -> None:
        self._work.set()

    def stop(self, patience_s: float) -> None:
        """Stop at the next batch."""
        self._ending.set()
        self._work.set()
        self._extractor.interrupt()
        self._thread.join(patience_s)
        self._extractor.close()

    def _serve(self) -> None:
        """An unexpected error ends the process; it restarts, and the attempt counts for the current document."""
        try:
            self._serve_until_stopped()
        except BaseException:  # noqa: BLE001 -- a boundary: the thread must not end alone
            traceback.print_exc()
            os._exit(1)

    def _serve_until_stopped(self) -> None:
        while not self._ending.is_set():
            self._work.wait()
            self._work.clear()
            self._tell_busy(True)
            try:
                while not self._ending.is_set() and self._step():
                    pass
                if not self._ending.is_set():
                    self._rest()
            except WriterLost:
                raise
            except OutOfService:
                self._ending.wait(_RETRY_S)
                self._work.set()

    def _rest(self) -> None:
        """Remove the marker if there is still no work."""
        self._mark.unlink(missing_ok=True)
        if self._work.is_set():
            self._mark.touch(mode=0o600)
        else:
            self._tell_busy(False)

    def _step(self) -> bool:
        """Index one document, or do one step of migrating or erasing. False if there is nothing to do."""
        if (job := self._jobs.next()) is not None:
            try:
                self._index(job)
            except OutOfService:
                with contextlib.suppress(OutOfService):
                    self._jobs.put_back(job)
                raise
            return True
        if self._jobs.is_waiting() or self._chunks.vectors.move():
            return True
        deleted = self._jobs.to_purge()
        if deleted is None:
            return False
        base, purge = deleted
        while not self._database.purge(base):
            if self._ending.is_set() or self._jobs.is_waiting():
                return True
        if self._database.settle():
            self._jobs.purged(base, purge)
        else:
            self._ending.wait(_RETRY_S)  # a reader keeps deleted data in the write-ahead log
        return True

    def _index(self, job: Job) -> None:
        content = self._jobs.content(job)
        if content is None:
            return
        try:
            document = self._extractor.extract(content, mime_type=job.mime_type, name=job.name)
        except Unreadable as error:
            if self._ending.is_set():
                self._jobs.put_back(job)
            else:
                self._jobs.fail(job, error)
            return
        del content
        pieces = pieces_of(document, chunk_tokens=job.base.chunk_tokens, overlap_tokens=job.base.overlap_tokens)
        if self._written(job, document, pieces):
            self._jobs.finish(job)
        elif self._ending.is_set():
            self._jobs.put_back(job)

    def _written(self, job: Job, document: Extracted, pieces: list[Piece]) -> bool:
        done = self._jobs.plan(job, len(pieces))
        if done is None:
            return False
        rest = iter(pieces[done:])
        while batch := [(piece, document.text[piece.start : piece.end]) for piece in islice(rest, BATCH_CHUNKS)]:
            if self._ending.is_set():
                return False
            vectors = None if job.base.embedding == "none" else self._vectors(batch)
            done += len(batch)
            if not self._jobs.add(job, batch, vectors, done, len(pieces)):
                return False
        return True

    def _vectors(self, batch: Sequence[tuple[Piece, str]]) -> bytes:
        texts = [index_text(piece.headings, text) for piece, text in batch]
        return quantised(self._embedder().embed(texts)).tobytes()
