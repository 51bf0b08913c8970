"""What the rest of the host knows of knowledge: bases that people edit, documents in them, and questions to them."""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.knowledge.limits import (
    ANSWER_BYTES,
    CHUNK_TEXT_CHARACTERS,
    FILTER_CHARACTERS,
    FILTER_VALUES,
    FILTERS,
    METADATA_BYTES,
    METADATA_KEY_CHARACTERS,
    METADATA_VALUES,
    QUESTION_CHARACTERS,
)
from bollard.protocol import JsonObject, JsonValue, KnowledgeChunk, RerankScore
from bollard.wire import encode

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


# Questions and what is found: what may be asked, and how much of the answer leaves the host. Pure.


CUT: Final = " […]"
"""Stands where text of a chunk was cut off."""


def checked_question(query: str, top_k: int, filters: JsonObject | None) -> Question:
    """Raises `InvalidRequest` for what cannot be asked."""
    if not query.strip():
        raise _wrong("query", "there is no question in it", "say what to look for")
    if len(query) > QUESTION_CHARACTERS:
        raise _wrong("query", f"is longer than {QUESTION_CHARACTERS} characters", "ask for less at once")
    narrowed = filters or {}
    if len(narrowed) > FILTERS:
        raise _wrong("filters", f"there are more than {FILTERS}", "leave some out")
    for name, value in narrowed.items():
        _check_filter(name, value)
    return Question(query=query, top_k=top_k, filters=narrowed)


def _check_filter(name: str, value: JsonValue) -> None:
    where = f"filters.{name[:64]}"
    values = value if isinstance(value, list) else [value]
    if not values or len(values) > FILTER_VALUES:
        raise _wrong(where, f"has no value, or more than {FILTER_VALUES}", "give a value, or a list of those that fit")
    long = len(name) > FILTER_CHARACTERS or any(
        isinstance(each, str) and len(each) > FILTER_CHARACTERS for each in values
    )
    if long or not all(isinstance(each, str | int | float | bool) for each in values):
        raise _wrong(
            where, "is no text, number or switch", f"compare with values of at most {FILTER_CHARACTERS} characters"
        )


def check_metadata(metadata: JsonObject) -> JsonObject:
    """What a document is given along: names with a value or a list of values, so that questions can be narrowed by it.
    Raises `InvalidRequest`."""
    count = 0
    for name, value in metadata.items():
        values = value if isinstance(value, list) else [value]
        count += max(1, len(values))
        if not 0 < len(name) <= METADATA_KEY_CHARACTERS:
            raise _wrong("metadata", f"a name is not 1 to {METADATA_KEY_CHARACTERS} characters", "call it otherwise")
        if not all(each is None or isinstance(each, str | int | float | bool) for each in values):
            raise _wrong(f"metadata.{name}", "is neither a value nor a list of values", "make it flat")
    if count > METADATA_VALUES or len(encode(metadata)) > METADATA_BYTES:
        raise _wrong(
            "metadata", f"is more than {METADATA_VALUES} values or {METADATA_BYTES} bytes", "keep it in the document"
        )
    return metadata


def reordered(chunks: Sequence[KnowledgeChunk], scores: Sequence[RerankScore]) -> list[KnowledgeChunk]:
    """As a rerank model would have them, with its scores. Those that it says nothing of come behind, as they were."""
    best = sorted(
        {each.index: each for each in scores if each.index < len(chunks)}.values(), key=lambda each: -each.score
    )
    first = [chunks[each.index].model_copy(update={"score": each.score}) for each in best]
    named = {each.index for each in best}
    return [*first, *(chunk for index, chunk in enumerate(chunks) if index not in named)]


def fitted(chunks: Sequence[KnowledgeChunk], top_k: int) -> list[KnowledgeChunk]:
    """The best of them that one answer has room for; a text that is too long ends with a mark."""
    kept: list[KnowledgeChunk] = []
    room = ANSWER_BYTES
    for chunk in chunks[:top_k]:
        shown = chunk if len(chunk.text) <= CHUNK_TEXT_CHARACTERS else _cut(chunk)
        room -= len(encode(shown.to_wire())) + 1
        if room < 0:
            break
        kept.append(shown)
    return kept


def _cut(chunk: KnowledgeChunk) -> KnowledgeChunk:
    text = chunk.text[: CHUNK_TEXT_CHARACTERS - len(CUT)] + CUT
    return chunk.model_copy(update={"text": text, "metadata": {**chunk.metadata, "cut": True}})


def _wrong(where: str, problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"{where}: {problem}", hint=hint, field=where)
