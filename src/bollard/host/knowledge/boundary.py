"""What the rest of the host knows of knowledge: bases that people edit, documents in them, and questions to them."""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from bollard.protocol import JsonObject, JsonValue, KnowledgeChunk

__all__ = ["BaseSpec", "Document", "DocumentStatus", "KnowledgeEngine", "NewDocument", "Question"]

DocumentStatus = Literal["waiting", "indexing", "ready", "failed"]


class BaseSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One knowledge base as an operator described it. A change of what shapes its chunks re-indexes its documents."""

    workspace: str
    kb_id: str
    name: str = ""
    description: str = ""
    embedding: str = "bundled"
    """`bundled`, or `none` (full text only)."""
    chunk_tokens: int = 320
    overlap_tokens: int = 40
    flow: tuple[str, ...] = ("private",)
    """The flow bits that a run takes in when it reads from it (`private`, `untrusted`)."""


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it was given. The same id again replaces it."""

    document_id: str
    name: str
    mime_type: str
    content: bytes
    source: str = ""
    """Where it comes from, as people should cite it; its name where empty."""
    metadata: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it stands."""

    document_id: str
    name: str
    mime_type: str
    size_bytes: int
    sha256: str
    status: DocumentStatus
    chunks: int
    done_chunks: int
    """Of `chunks`: the progress of indexing."""
    error: str | None
    source: str
    metadata: JsonObject
    created_ms: int
    updated_ms: int


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for. `filters` compares metadata of documents: by key a value, or a list of allowed values."""

    query: str
    top_k: int = 5
    filters: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])


class KnowledgeEngine(Protocol):
    """Documents, their chunks and vectors, in a process of its own that starts when it is first needed.

    All methods raise `KnowledgeUnavailable` when that process cannot be had, and `NotFound` for a document that is not
    there.
    """

    async def resume(self) -> None:
        """Go on with what an earlier process left undone, where there is something."""
        ...

    async def open_base(self, spec: BaseSpec) -> None:
        """Make it, or take over what changed; documents are indexed anew where chunks would differ."""
        ...

    async def drop_base(self, workspace: str, kb_id: str) -> None:
        """With all that was made of its documents, on disk too."""
        ...

    async def put(self, workspace: str, kb_id: str, document: NewDocument) -> Document:
        """On disk when it returns; indexing goes on behind it."""
        ...

    async def documents(self, workspace: str, kb_id: str, after: str, limit: int) -> Sequence[Document]:
        """In order of their ids."""
        ...

    async def document(self, workspace: str, kb_id: str, document_id: str) -> Document: ...

    async def content(self, workspace: str, kb_id: str, document_id: str) -> bytes: ...

    async def drop(self, workspace: str, kb_id: str, document_id: str) -> None: ...

    async def retrieve(self, workspace: str, kb_id: str, question: Question) -> Sequence[KnowledgeChunk]:
        """Best first. `source` names document and heading; `metadata` has `document_id`, `headings`, `position`, and
        what the document was given with."""
        ...

    async def close(self) -> None: ...
