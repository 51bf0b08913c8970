"""Knowledge bases, documents and questions, as the host sees them, and the interface of the engine."""

from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.knowledge.bases import SavedKnowledgeBase
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


class NewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document to save. It replaces the document with the same id."""

    document_id: str
    name: str
    mime_type: str
    content: bytes
    source: str = ""
    """The source to cite; empty for the name of the document."""
    metadata: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A saved document with its index status."""

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
    problem: JsonObject | None = None
    """Why it failed, for programs: `reason`, `hint` and `details`."""
    source: str
    metadata: JsonObject
    created_ms: int
    updated_ms: int


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A query. `filters` compares metadata of documents: for each key a value, or a list of allowed values."""

    query: str
    top_k: int = 5
    filters: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])


class DocumentText(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the text of a document, or why it has none."""

    text: str = ""
    characters: int = 0
    """Of the whole text."""
    problem: str | None = None


class KnowledgeEngine(Protocol):
    """Stores documents with their chunks and vectors, in a separate process that starts on first use.

    All methods raise `KnowledgeUnavailable` if the process is unavailable, and `NotFound` for an unknown document.
    """

    async def resume(self) -> None:
        """Continue work that an earlier process left unfinished, if there is any."""
        ...

    async def open_base(self, workspace: str, base: SavedKnowledgeBase) -> None:
        """Create or change the base. Documents are indexed again if their chunks would differ."""
        ...

    async def drop_base(self, workspace: str, kb_id: str) -> None:
        """Delete the base with its documents, chunks and vectors, also on disk."""
        ...

    async def put(self, workspace: str, kb_id: str, document: NewDocument) -> Document:
        """Save the document; it is on disk when this returns. Indexing continues in the background."""
        ...

    async def documents(self, workspace: str, kb_id: str, after: str, limit: int) -> Sequence[Document]:
        """A page of documents, ordered by id."""
        ...

    async def document(self, workspace: str, kb_id: str, document_id: str) -> Document: ...

    async def content(self, workspace: str, kb_id: str, document_id: str) -> bytes: ...

    async def drop(self, workspace: str, kb_id: str, document_id: str) -> None: ...

    async def retrieve(self, workspace: str, kb_id: str, question: Question) -> Sequence[KnowledgeChunk]:
        """Matching chunks, best first. `source` names document and heading; `metadata` has `document_id`, `headings`,
        `position`, and the metadata of the document."""
        ...

    async def extract(self, *, name: str, mime_type: str, content: bytes, offset: int, limit: int) -> DocumentText:
        """The text of a document that is in no base: `limit` characters from `offset` on."""
        ...

    async def close(self) -> None: ...


# --- questions and results ---


CUT: Final = " […]"
"""Marks the end of a truncated chunk."""


def checked_question(query: str, top_k: int, filters: JsonObject | None) -> Question:
    """Validate a question. Raises `InvalidRequest`."""
    if not query.strip():
        raise _invalid("query", "the question is empty", "write a question", reason="question_empty")
    if len(query) > QUESTION_CHARACTERS:
        raise _invalid(
            "query",
            f"the question is longer than {QUESTION_CHARACTERS} characters",
            "shorten it",
            reason="question_too_long",
            most=QUESTION_CHARACTERS,
        )
    narrowed = filters or {}
    if len(narrowed) > FILTERS:
        raise _invalid(
            "filters", f"there are more than {FILTERS} filters", "remove some", reason="too_many_filters", most=FILTERS
        )
    for name, value in narrowed.items():
        _check_filter(name, value)
    return Question(query=query, top_k=top_k, filters=narrowed)


def _check_filter(name: str, value: JsonValue) -> None:
    where = f"filters.{name[:64]}"
    values = value if isinstance(value, list) else [value]
    if not values or len(values) > FILTER_VALUES:
        raise _invalid(
            where,
            f"has no value, or more than {FILTER_VALUES}",
            "give one value or a list of allowed values",
            reason="filter_values",
            most=FILTER_VALUES,
        )
    long = len(name) > FILTER_CHARACTERS or any(
        isinstance(each, str) and len(each) > FILTER_CHARACTERS for each in values
    )
    if long or not all(isinstance(each, str | int | float | bool) for each in values):
        raise _invalid(
            where,
            "is not a text, number or boolean",
            f"use values of at most {FILTER_CHARACTERS} characters",
            reason="filter_value_type",
            most=FILTER_CHARACTERS,
        )


def check_metadata(metadata: JsonObject) -> JsonObject:
    """Validate the metadata of a document: names with a value or a list of values, so that questions can filter by it.
    Raises `InvalidRequest`."""
    count = 0
    for name, value in metadata.items():
        values = value if isinstance(value, list) else [value]
        count += max(1, len(values))
        if not 0 < len(name) <= METADATA_KEY_CHARACTERS:
            raise _invalid(
                "metadata",
                f"a name does not have 1 to {METADATA_KEY_CHARACTERS} characters",
                "choose another name",
                reason="metadata_name",
                most=METADATA_KEY_CHARACTERS,
            )
        if not all(each is None or isinstance(each, str | int | float | bool) for each in values):
            raise _invalid(
                f"metadata.{name}", "is neither a value nor a list of values", "make it flat", reason="metadata_nested"
            )
    if count > METADATA_VALUES or len(encode(metadata)) > METADATA_BYTES:
        raise _invalid(
            "metadata",
            f"has more than {METADATA_VALUES} values or {METADATA_BYTES} bytes",
            "put it into the document",
            reason="metadata_too_large",
            most=METADATA_VALUES,
            most_bytes=METADATA_BYTES,
        )
    return metadata


def reordered(chunks: Sequence[KnowledgeChunk], scores: Sequence[RerankScore]) -> list[KnowledgeChunk]:
    """The chunks in the order of the rerank model, with its scores. Chunks without a score come last."""
    best = sorted(
        {each.index: each for each in scores if each.index < len(chunks)}.values(), key=lambda each: -each.score
    )
    first = [chunks[each.index].model_copy(update={"score": each.score}) for each in best]
    named = {each.index for each in best}
    return [*first, *(chunk for index, chunk in enumerate(chunks) if index not in named)]


def fitted(chunks: Sequence[KnowledgeChunk], top_k: int) -> list[KnowledgeChunk]:
    """The best chunks that fit into one answer. A text that is too long is truncated and marked."""
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


def _invalid(field: str, message: str, hint: str, *, reason: str, **details: int) -> InvalidRequest:
    return InvalidRequest(f"{field}: {message}", hint=hint, reason=reason, field=field, **details)
