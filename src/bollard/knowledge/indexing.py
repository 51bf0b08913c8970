"""The thread that indexes what waits, moves vectors to where the database searches them, and clears away what was
deleted, one thing at a time, in small transactions.

What was begun and not ended goes on with the next process: the tables say how far it was.
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
from bollard.knowledge.library import Base, Now, system_now_ms
from bollard.knowledge.limits import BATCH_CHUNKS, INDEX_ATTEMPTS, PROBLEM_CHARACTERS
from bollard.knowledge.plain_text import Extracted
from bollard.wire.knowledge_frames import UNFINISHED

__all__ = ["Indexer", "Job", "Jobs"]


# What is to be indexed and cleared away, and how far that is, in the tables: the next process needs no more.
#
# Every step looks again whether its document is still to be indexed: people may take it away or change it meanwhile.


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


_RETRY_S: Final = 0.5
"""Time after which something that could not be done is tried again."""


class Indexer:
    """`wake` says that there may be work; `busy` is told whether there is."""

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
        """Before something is written that makes work: a process that dies in between leaves the mark."""
        self._mark.touch(mode=0o600)

    def wake(self) -> None:
        self._work.set()

    def stop(self, patience_s: float) -> None:
        """End at the next batch."""
        self._ending.set()
        self._work.set()
        self._extractor.interrupt()
        self._thread.join(patience_s)
        self._extractor.close()

    def _serve(self) -> None:
        """What nobody foresaw ends the process: it is started again, and counts against the document at hand."""
        try:
            self._serve_until_told()
        except BaseException:  # noqa: BLE001 -- a boundary: the thread must not end alone
            traceback.print_exc()
            os._exit(1)

    def _serve_until_told(self) -> None:
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
        """Nothing is left to do, unless something came while that was found out."""
        self._mark.unlink(missing_ok=True)
        if self._work.is_set():
            self._mark.touch(mode=0o600)
        else:
            self._tell_busy(False)

    def _step(self) -> bool:
        """One document, or one step of moving vectors or of clearing away. False when there is nothing."""
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
            self._ending.wait(_RETRY_S)  # somebody reads; what was deleted is still in the log of changes
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
                self._jobs.fail(job, error.message)
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
