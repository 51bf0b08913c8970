"""The thread that indexes what waits, moves vectors to where the database searches them, and clears away what was
deleted, one thing at a time, in small transactions.

What was begun and not ended goes on with the next process: the tables say how far it was.
"""

import contextlib
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from bollard.knowledge.chunk_tables import ChunkTables, index_text
from bollard.knowledge.chunking import Piece, pieces_of
from bollard.knowledge.database import Database
from bollard.knowledge.embedding import Embedder, quantised
from bollard.knowledge.errors import OutOfService, Unreadable, WriterLost
from bollard.knowledge.extracted import Extracted
from bollard.knowledge.extraction import Extractor
from bollard.knowledge.jobs import Job, Jobs
from bollard.knowledge.limits import BATCH_CHUNKS
from bollard.wire.knowledge_frames import UNFINISHED

__all__ = ["Indexer"]

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
