"""Stores knowledge bases and documents. Every writing method is one transaction."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from bollard.knowledge.chunk_tables import ChunkTables
from bollard.knowledge.database import Database, Row
from bollard.knowledge.errors import Absent, TooLarge
from bollard.knowledge.limits import METADATA_BYTES
from bollard.wire.knowledge_frames import DOCUMENT_BYTES, DocumentProblem, DocumentRow, OpenBase, PutDocument

INDEX_ANEW: Final = (
    "UPDATE knowledge_documents SET status = 'waiting', attempts = 0, error = NULL, problem = NULL WHERE base = ?"
)
"""Queues every document of a base for indexing again."""

_COLUMNS: Final = (
    "document_id, name, mime_type, size_bytes, sha256, status, chunks, done_chunks, error, problem, source, "
    "metadata, created_ms, updated_ms"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A saved base."""

    number: int
    embedding: str
    chunk_tokens: int
    overlap_tokens: int


Now = Callable[[], int]


def system_now_ms() -> int:
    return time.time_ns() // 1_000_000


class Library:
    """The tables of bases and documents."""

    def __init__(self, database: Database, chunks: ChunkTables, now_ms: Now = system_now_ms) -> None:
        self._database = database
        self._chunks = chunks
        self._now_ms = now_ms
        self._last_base = 0
        self._last_document = 0

    def open(self) -> None:
        """Called after the database is open."""
        read = self._database.read
        self._last_base = read("SELECT coalesce(max(number), 0) FROM knowledge_bases")[0][0]
        self._last_document = read("SELECT coalesce(max(number), 0) FROM knowledge_documents")[0][0]

    # --- bases ---

    def base(self, workspace: str, kb_id: str) -> Base:
        """Raises `Absent`."""
        return _one_base(self._database.read(_BASE, (workspace, kb_id)), kb_id)

    def open_base(self, order: OpenBase) -> None:
        wanted = (order.embedding, order.chunk_tokens, order.overlap_tokens)
        database = self._database
        with database.writing():
            found = database.fetch(_BASE, (order.workspace, order.kb_id))
            if not found:
                self._last_base += 1
                database.run(
                    "INSERT INTO knowledge_bases (number, workspace, kb_id, embedding, chunk_tokens, overlap_tokens) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (self._last_base, order.workspace, order.kb_id, *wanted),
                )
                self._chunks.make(self._last_base)
            elif found[0][1:] != wanted:
                database.run(
                    "UPDATE knowledge_bases SET embedding = ?, chunk_tokens = ?, overlap_tokens = ? WHERE number = ?",
                    (*wanted, found[0][0]),
                )
                database.run(INDEX_ANEW, (found[0][0],))

    def drop_base(self, workspace: str, kb_id: str) -> int | None:
        """The number of the deleted base; `None` if it did not exist."""
        database = self._database
        with database.writing():
            found = database.fetch(_BASE, (workspace, kb_id))
            if not found:
                return None
            number: int = found[0][0]
            self._chunks.remove_all(number)
            database.run(
                "DELETE FROM knowledge_contents "
                "WHERE document IN (SELECT number FROM knowledge_documents WHERE base = ?)",
                (number,),
            )
            database.run("DELETE FROM knowledge_documents WHERE base = ?", (number,))
            database.run("DELETE FROM knowledge_bases WHERE number = ?", (number,))
        return number

    # --- documents ---

    def put(self, order: PutDocument) -> DocumentRow:
        """Save the document in place of an earlier one, and queue it for indexing."""
        metadata = encoded(order.metadata)
        if len(order.content) > DOCUMENT_BYTES or len(metadata) > METADATA_BYTES:
            raise TooLarge(
                "the document or its metadata is too large",
                hint=f"use at most {DOCUMENT_BYTES} bytes",
                reason="document_or_metadata_too_large",
                most=DOCUMENT_BYTES,
            )
        digest, now_ms = hashlib.sha256(order.content).hexdigest(), self._now_ms()
        database = self._database
        with database.writing():
            base = _one_base(database.fetch(_BASE, (order.workspace, order.kb_id)), order.kb_id)
            found = database.fetch(_KNOWN, (base.number, order.document_id))
            created_ms = found[0][1] if found else now_ms
            if found:
                self._remove(base.number, found[0][0])
            self._last_document += 1
            database.run(
                "INSERT INTO knowledge_documents (number, base, document_id, name, mime_type, size_bytes, sha256, "
                "source, metadata, created_ms, updated_ms, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting')",
                (
                    *(self._last_document, base.number, order.document_id, order.name, order.mime_type),
                    *(len(order.content), digest, order.source or order.name, metadata, created_ms, now_ms),
                ),
            )
            database.run("INSERT INTO knowledge_contents VALUES (?, ?)", (self._last_document, order.content))
            kept = database.fetch(_DOCUMENT, (base.number, order.document_id))
        return _document(kept[0])

    def documents(self, base: Base, after: str, limit: int) -> list[DocumentRow]:
        rows = self._database.read(
            f"SELECT {_COLUMNS} FROM knowledge_documents WHERE base = ? AND document_id > ? "  # noqa: S608
            "ORDER BY document_id LIMIT ?",
            (base.number, after, limit),
        )
        return [_document(row) for row in rows]

    def document(self, base: Base, document_id: str) -> DocumentRow:
        """Raises `Absent`."""
        rows = self._database.read(_DOCUMENT, (base.number, document_id))
        if not rows:
            raise _absent(document_id)
        return _document(rows[0])

    def content(self, base: Base, document_id: str) -> bytes:
        """Raises `Absent`."""
        rows = self._database.read(
            "SELECT body FROM knowledge_contents JOIN knowledge_documents ON number = document "
            "WHERE base = ? AND document_id = ?",
            (base.number, document_id),
        )
        if not rows:
            raise _absent(document_id)
        return bytes(rows[0][0])

    def drop(self, workspace: str, kb_id: str, document_id: str) -> None:
        """Raises `Absent`."""
        database = self._database
        with database.writing():
            base = _one_base(database.fetch(_BASE, (workspace, kb_id)), kb_id)
            found = database.fetch(_KNOWN, (base.number, document_id))
            if not found:
                raise _absent(document_id)
            self._remove(base.number, found[0][0])

    def metadata(self, base: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Of every document, by its number."""
        for number, text in self._database.read(
            "SELECT number, metadata FROM knowledge_documents WHERE base = ?", (base,)
        ):
            yield number, _decoded(text)

    # --- parts of transactions ---

    def _remove(self, base: int, document: int) -> None:
        self._chunks.remove(base, document)
        self._database.run("DELETE FROM knowledge_contents WHERE document = ?", (document,))
        self._database.run("DELETE FROM knowledge_documents WHERE number = ?", (document,))
        self._database.run("UPDATE knowledge_bases SET purge = purge + 1 WHERE number = ?", (base,))


_BASE: Final = (
    "SELECT number, embedding, chunk_tokens, overlap_tokens FROM knowledge_bases WHERE workspace = ? AND kb_id = ?"
)
_KNOWN: Final = "SELECT number, created_ms FROM knowledge_documents WHERE base = ? AND document_id = ?"


_DOCUMENT: Final = f"SELECT {_COLUMNS} FROM knowledge_documents WHERE base = ? AND document_id = ?"  # noqa: S608 -- ours


def _one_base(rows: list[Row], kb_id: str) -> Base:
    if not rows:
        raise Absent(
            f"knowledge base {kb_id[:100]} does not exist",
            hint="create it first",
            reason="no_knowledge_base",
            kb_id=kb_id[:100],
        )
    number, embedding, chunk_tokens, overlap_tokens = rows[0]
    return Base(number=number, embedding=embedding, chunk_tokens=chunk_tokens, overlap_tokens=overlap_tokens)


def _absent(document_id: str) -> Absent:
    return Absent(
        f"document {document_id[:150]} does not exist",
        hint="list the documents of the knowledge base",
        reason="no_document",
        document_id=document_id[:150],
    )


def _document(row: Row) -> DocumentRow:
    fields = dict(zip(_COLUMNS.split(", "), row, strict=True))
    problem = fields["problem"]
    if problem is not None:
        fields["problem"] = msgspec.json.decode(problem, type=DocumentProblem)
    return DocumentRow(**{**fields, "metadata": _decoded(fields["metadata"])})


def encoded(value: object) -> str:
    """JSON for a column."""
    return msgspec.json.encode(value).decode()


def _decoded(text: str) -> Any:
    return msgspec.json.decode(text)
