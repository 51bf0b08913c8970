"""An engine in memory: texts of documents, found by the words that they share with a question. It indexes at once, so
that no document is ever pending."""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.knowledge.bases import SavedKnowledgeBase
from bollard.host.knowledge.boundary import Document, DocumentText, NewDocument, Question
from bollard.protocol import JsonObject, JsonValue, KnowledgeChunk

_WORDS: Final = re.compile(r"[^\W_]+|[\u3400-\u9fff]")
_Base = tuple[str, str]


class MemoryEngine:
    """Implements `KnowledgeEngine`. A paragraph is a chunk."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.bases: dict[_Base, SavedKnowledgeBase] = {}
        self._documents: dict[_Base, dict[str, tuple[Document, bytes]]] = {}

    async def resume(self) -> None:
        """Nothing is ever left undone."""

    async def open_base(self, workspace: str, base: SavedKnowledgeBase) -> None:
        key = (workspace, base.kb_id)
        self.bases[key] = base
        self._documents.setdefault(key, {})

    async def drop_base(self, workspace: str, kb_id: str) -> None:
        self.bases.pop((workspace, kb_id), None)
        self._documents.pop((workspace, kb_id), None)

    async def put(self, workspace: str, kb_id: str, document: NewDocument) -> Document:
        known, now = self._of(workspace, kb_id), self._clock.now_ms()
        before = known.get(document.document_id)
        count = len(_paragraphs(document.content))
        made = Document(
            document_id=document.document_id,
            name=document.name,
            mime_type=document.mime_type,
            size_bytes=len(document.content),
            sha256=sha256(document.content).hexdigest(),
            status="ready",
            chunks=count,
            done_chunks=count,
            error=None,
            source=document.source or document.name,
            metadata=document.metadata,
            created_ms=now if before is None else before[0].created_ms,
            updated_ms=now,
        )
        known[document.document_id] = (made, document.content)
        return made

    async def documents(self, workspace: str, kb_id: str, after: str, limit: int) -> Sequence[Document]:
        known = self._of(workspace, kb_id)
        return [known[each][0] for each in sorted(known) if each > after][:limit]

    async def document(self, workspace: str, kb_id: str, document_id: str) -> Document:
        return self._found(workspace, kb_id, document_id)[0]

    async def content(self, workspace: str, kb_id: str, document_id: str) -> bytes:
        return self._found(workspace, kb_id, document_id)[1]

    async def drop(self, workspace: str, kb_id: str, document_id: str) -> None:
        self._found(workspace, kb_id, document_id)
        del self._of(workspace, kb_id)[document_id]

    async def retrieve(self, workspace: str, kb_id: str, question: Question) -> Sequence[KnowledgeChunk]:
        asked = _words(question.query)
        found = [
            _scored(chunk, len(asked & _words(chunk.text)) / len(asked))
            for document, content in self._of(workspace, kb_id).values()
            if _fits(document.metadata, question.filters)
            for chunk in _chunks(kb_id, document, content)
            if asked & _words(chunk.text)
        ]
        return sorted(found, key=lambda chunk: (-chunk.score, chunk.chunk_id))[: question.top_k]

    async def extract(self, *, name: str, mime_type: str, content: bytes, offset: int, limit: int) -> DocumentText:
        """Every document is text."""
        text = content.decode()
        return DocumentText(text=text[offset : offset + limit], characters=len(text))

    async def close(self) -> None:
        self._documents = {}

    def _of(self, workspace: str, kb_id: str) -> dict[str, tuple[Document, bytes]]:
        known = self._documents.get((workspace, kb_id))
        if known is None:
            raise NotFound("there is no such knowledge base", reason="test", hint="open it first")
        return known

    def _found(self, workspace: str, kb_id: str, document_id: str) -> tuple[Document, bytes]:
        found = self._of(workspace, kb_id).get(document_id)
        if found is None:
            raise NotFound("there is no such document", reason="test", hint="`bollard knowledge documents` lists them")
        return found


def _scored(chunk: KnowledgeChunk, score: float) -> KnowledgeChunk:
    """The same chunk, as well as it fits."""
    return chunk.model_copy(update={"score": score})


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORDS.findall(text.casefold()))


def _paragraphs(content: bytes) -> list[str]:
    text = content.decode("utf-8", "replace")
    return [each.strip() for each in text.split("\n\n") if each.strip()]


def _chunks(kb_id: str, document: Document, content: bytes) -> list[KnowledgeChunk]:
    where: JsonObject = {
        "document_id": document.document_id,
        "name": document.name,
        "source": document.source,
        "headings": [],
    }
    return [
        KnowledgeChunk(
            chunk_id=f"{document.document_id}#{number}",
            kb_id=kb_id,
            text=text,
            score=0.0,
            source=where,
            metadata={**document.metadata, "document_id": document.document_id, "headings": [], "position": number},
        )
        for number, text in enumerate(_paragraphs(content))
    ]


def _fits(metadata: JsonObject, filters: JsonObject) -> bool:
    return all(_has(metadata.get(name), wanted) for name, wanted in filters.items())


def _has(value: JsonValue, wanted: JsonValue) -> bool:
    values = value if isinstance(value, list) else [value]
    allowed = wanted if isinstance(wanted, list) else [wanted]
    return any(each in allowed for each in values)
