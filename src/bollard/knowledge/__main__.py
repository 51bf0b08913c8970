"""`python -m bollard.knowledge FD`: the knowledge process. The host starts it with one end of a socket pair; it ends
with that socket, or with the host."""

import contextlib
import gc
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from bollard.confine.helper import confine_helper
from bollard.helper.host_link import HostGone, HostLink, deny_inspection, host_socket, live_with_host
from bollard.knowledge.chunk_tables import ChunkTables
from bollard.knowledge.database import Database
from bollard.knowledge.embedding import Embedder
from bollard.knowledge.errors import KnowledgeError, OutOfService, Unreadable, WriterLost
from bollard.knowledge.extraction import Extractor
from bollard.knowledge.indexing import Indexer
from bollard.knowledge.library import Library
from bollard.knowledge.limits import ATTACHMENT_S, READERS
from bollard.knowledge.retrieval import Retrieval
from bollard.knowledge.sqlite import SqliteKnowledge
from bollard.knowledge.vectors import Matrices, VectorTables
from bollard.wire import knowledge_frames as frames

_STOP_S: Final = 10.0
"""Time limit for the current batch when the host disconnects."""
_Read = frames.AskDocuments | frames.AskDocument | frames.AskContent | frames.Retrieve
_Write = frames.OpenBase | frames.DropBase | frames.PutDocument | frames.DropDocument


def serve(link: HostLink[frames.FromHost]) -> int:
    """Serve until the host sends `Close`; returns 0 after an orderly end. Raises `HostGone`."""
    begin = link.expect(frames.Begin)
    try:
        if begin.is_confined:
            begin = _confine(begin)
        database, vectors = _opened(begin)
        chunks = ChunkTables(database, vectors)
        library = Library(database, chunks)
        library.open()
        chunks.open()
    except OutOfService as error:
        link.say(frames.encode_frame(_refused(error)))
        return 1
    except OSError as error:
        unusable = OutOfService(
            f"the data directory cannot be used: {error.strerror}",
            hint="check its permissions",
            reason="data_unusable",
            problem=error.strerror or "",
        )
        link.say(frames.encode_frame(_refused(unusable)))
        return 1
    service = _Service(link, library, chunks, database, Path(begin.data))
    link.say(frames.encode_frame(frames.Opened(vectors=vectors.searched_by)))
    try:
        service.serve()
    finally:
        service.close()
        database.close()
    return 0


def _confine(begin: frames.Begin) -> frames.Begin:
    """Keep the folder of the process, and what a connection to PostgreSQL needs: a port, or a socket file. Returns the
    order with the address and the password that it cannot look up any more. Nothing has started a thread yet."""
    if not begin.database:
        SqliteKnowledge(Path(begin.data)).close_to_others()  # a confined process changes no mode
        confine_helper(writable=(begin.data,))
        return begin
    # An extra, only needed here.
    from bollard.knowledge.postgres import resolve_connection  # noqa: PLC0415

    found = resolve_connection(begin.database)
    if found.port is None:
        confine_helper(writable=(begin.data,), readable=found.files, sockets="own")
    else:
        confine_helper(writable=(begin.data,), readable=found.files, sockets="loopback", ports=(found.port,))
    return msgspec.structs.replace(begin, database=found.url)


def _opened(begin: frames.Begin) -> tuple[Database, VectorTables]:
    """Open the database and the vector tables. Raises `OutOfService` and `OSError`."""
    if not begin.database:
        sqlite = SqliteKnowledge(Path(begin.data))
        sqlite.open()
        return sqlite, Matrices(sqlite)
    # An extra, only needed here.
    from bollard.knowledge.pgvector import open_vectors  # noqa: PLC0415
    from bollard.knowledge.postgres import PostgresKnowledge  # noqa: PLC0415

    postgres = PostgresKnowledge(begin.database, is_alone=begin.is_alone)
    postgres.open()
    return postgres, open_vectors(postgres)


class _Service:
    """Runs reads concurrently and writes one after the other."""

    def __init__(
        self, link: HostLink[frames.FromHost], library: Library, chunks: ChunkTables, database: Database, data: Path
    ) -> None:
        self._link = link
        self._library = library
        self._database = database
        embedder = _once(Embedder)
        self._retrieval = Retrieval(database, library, chunks, embedder)
        self._indexer = Indexer(database, chunks, embedder, data, lambda busy: self._say(frames.Busy(busy=busy)))
        self._extractor = Extractor(ATTACHMENT_S)
        self._extracting = ThreadPoolExecutor(1, "extractor")
        self._readers = ThreadPoolExecutor(READERS, "reader")
        self._writer = ThreadPoolExecutor(1, "writer")

    def serve(self) -> None:
        self._indexer.start()
        while True:
            for message in self._link.hear():
                match message:
                    case frames.Close():
                        return
                    case frames.Begin():
                        raise HostGone
                    case frames.OpenBase() | frames.DropBase() | frames.PutDocument() | frames.DropDocument() as order:
                        self._writer.submit(self._answered, order.call, lambda order=order: self._write(order))
                    case frames.ExtractText() as order:
                        self._extracting.submit(self._answered, order.call, lambda order=order: self._extract(order))
                    case order:
                        self._readers.submit(self._answered, order.call, lambda order=order: self._read(order))

    def close(self) -> None:
        self._extractor.interrupt()
        for pool in (self._writer, self._readers, self._extracting):
            pool.shutdown(wait=True, cancel_futures=True)
        self._extractor.close()
        self._indexer.stop(_STOP_S)

    def _answered(self, call: int, work: Callable[[], frames.Answer]) -> None:
        try:
            answer = work()
        except WriterLost as error:
            self._say(_failed(call, error))
            os._exit(1)  # the next process can write
        except KnowledgeError as error:
            answer = _failed(call, error)
        except Exception as error:  # noqa: BLE001 -- a boundary: every call gets an answer
            problem = type(error).__name__
            failure = OutOfService(f"the knowledge process failed: {problem}", reason="internal", problem=problem)
            answer = _failed(call, failure)
        self._say(answer)

    def _say(self, message: frames.FromKnowledge) -> None:
        """Ignores that the host is gone: the reading thread notices."""
        with contextlib.suppress(HostGone):
            self._link.say(frames.encode_frame(message))

    def _read(self, order: _Read) -> frames.Answer:
        base = self._library.base(order.workspace, order.kb_id)
        match order:
            case frames.AskDocuments():
                return frames.Listed(call=order.call, documents=self._library.documents(base, order.after, order.limit))
            case frames.AskDocument():
                return frames.Shown(call=order.call, document=self._library.document(base, order.document_id))
            case frames.AskContent():
                return frames.Body(call=order.call, content=self._library.content(base, order.document_id))
            case frames.Retrieve():
                found = self._retrieval.answer(base, order.query, order.top_k, order.filters)
                return frames.Found(call=order.call, chunks=found)

    def _extract(self, order: frames.ExtractText) -> frames.Answer:
        try:
            found = self._extractor.extract(order.content, mime_type=order.mime_type, name=order.name).text
        except Unreadable as error:
            problem = f"{error.message}. {error.hint}" if error.hint else error.message
            return frames.Text(call=order.call, problem=problem)
        part = found[order.offset : order.offset + order.limit]
        return frames.Text(call=order.call, text=part, characters=len(found))

    def _write(self, order: _Write) -> frames.Answer:
        self._indexer.announce()
        try:
            return self._written(order)
        finally:
            self._indexer.wake()

    def _written(self, order: _Write) -> frames.Answer:
        match order:
            case frames.OpenBase():
                self._library.open_base(order)
            case frames.DropBase():
                dropped = self._library.drop_base(order.workspace, order.kb_id)
                if dropped is not None and self._database.purge(dropped):
                    self._database.settle()
            case frames.PutDocument():
                return frames.Shown(call=order.call, document=self._library.put(order))
            case frames.DropDocument():
                self._library.drop(order.workspace, order.kb_id, order.document_id)
        return frames.Done(call=order.call)


def _once(make: Callable[[], Embedder]) -> Callable[[], Embedder]:
    """Call `make` once, on first use. Other threads wait for the result."""
    lock = threading.Lock()
    made = cache(make)

    def get() -> Embedder:
        with lock:
            return made()

    return get


def _failed(call: int, error: KnowledgeError) -> frames.Failed:
    return frames.Failed(
        call=call, code=error.code, message=error.message, hint=error.hint, reason=error.reason, details=error.details
    )


def _refused(error: OutOfService) -> frames.Refused:
    return frames.Refused(message=error.message, hint=error.hint, reason=error.reason, details=error.details)


_COLLECT_AFTER: Final = 20_000


def main() -> int:
    """Serve one host; 0 after an orderly end."""
    deny_inspection()
    try:
        with host_socket() as connection:
            live_with_host()
            logging.disable(logging.CRITICAL)  # libraries set up logging of their own
            gc.freeze()  # keeps the loaded modules out of garbage collection
            gc.set_threshold(_COLLECT_AFTER, 20, 20)
            return serve(HostLink(connection, frames.decode_from_host, frames.FRAME_BYTES))
    except HostGone:
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
