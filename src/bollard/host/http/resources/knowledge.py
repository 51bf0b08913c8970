"""`/knowledge`: save knowledge bases, and query them."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.errors import UnsupportedMedia
from bollard.host.http.openapi.schemas import ANY, TEXT, choice, fields, maybe
from bollard.host.http.operations import Answer
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer, answer_body, operation
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes, shown_as
from bollard.host.identity.caller import Caller
from bollard.host.knowledge.bases import KNOWLEDGE_BASE, SavedKnowledgeBase
from bollard.host.knowledge.boundary import checked_question
from bollard.host.knowledge.library import Library
from bollard.host.knowledge.limits import (
    DOCUMENT_ID_CHARACTERS,
    DOCUMENT_NAME_CHARACTERS,
    MIME_CHARACTERS,
    QUESTION_CHARACTERS,
    SOURCE_CHARACTERS,
)
from bollard.host.log.saved_resources import Saved
from bollard.protocol import Int, JsonObject, KnowledgeResult, Strict, limits

# --- documents ---


_VAGUE: Final = "application/octet-stream"
_DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
FILES: Final[tuple[str, ...]] = ("text/plain", "text/markdown", "text/html", "application/pdf", _DOCX, _VAGUE)
"""Media types of a document; for the last one the name decides."""
_OTHERS: Final = frozenset({*FILES[:-1], "application/xhtml+xml", "application/yaml", "application/toml"})
"""Media types that are read besides `text/…`."""
_BY_SUFFIX: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".pdf": "application/pdf",
    ".docx": _DOCX,
    **dict.fromkeys((".txt", ".text", ".log", ".csv", ".rst", ".json", ".yaml", ".yml"), "text/plain"),
}
_ID_PATTERN: Final = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{DOCUMENT_ID_CHARACTERS - 1}}}$"
_ID: Final = re.compile(_ID_PATTERN.replace("$", r"\Z"))

DocumentId = Annotated[str, Field(pattern=_ID_PATTERN)]
DOCUMENT: Final = answer_body(
    "KnowledgeDocument",
    {
        "document_id": "leave.md",
        "name": "leave.md",
        "mime_type": "text/markdown",
        "size_bytes": 4211,
        "sha256": "9f2c1e" + "0" * 58,
        "status": "indexing",
        "chunks": 12,
        "done_chunks": 4,
        "error": None,
        "problem": None,
        "source": "https://wiki.example.org/leave",
        "metadata": {"language": "en"},
        "created_at": 1794735484.0,
        "updated_at": 1794735484.0,
    },
    status=choice("waiting", "indexing", "ready", "failed"),
    error=maybe(TEXT),
    problem=maybe(fields(reason=TEXT, hint=TEXT, details=ANY)),
    metadata=ANY,
)
CHUNK_EXAMPLE: Final[JsonObject] = {
    "chunk_id": "leave.md#3",
    "kb_id": "handbook",
    "text": "Everybody has thirty days of leave a year.",
    "score": 0.92,
    "source": {
        "document_id": "leave.md",
        "name": "leave.md",
        "source": "https://wiki.example.org/leave",
        "headings": ["Leave", "How much"],
    },
    "metadata": {"document_id": "leave.md", "headings": ["Leave", "How much"], "position": 3, "language": "en"},
}


class WrittenDocument(Strict):
    """A document as JSON: its text and its metadata."""

    document_id: DocumentId | None = None
    name: Annotated[str, Field(min_length=1, max_length=DOCUMENT_NAME_CHARACTERS)]
    text: str
    mime_type: Annotated[str, Field(pattern=r"^text/(?:plain|markdown|html)$", max_length=MIME_CHARACTERS)] = (
        "text/plain"
    )
    source: Annotated[str, Field(max_length=SOURCE_CHARACTERS)] = ""
    metadata: JsonObject = Field(
        default_factory=dict, description="Names with a value or a list of values; queries can filter by them."
    )


class AskKnowledge(Strict):
    """`POST /api/v1/knowledge/{kb_id}/retrieve`."""

    query: Annotated[str, Field(min_length=1, max_length=QUESTION_CHARACTERS)]
    top_k: Annotated[Int, Field(ge=1, le=limits.SEARCH_TOP_K)] = 5
    filters: JsonObject = Field(
        default_factory=dict, description="Metadata of documents: for each name a value, or a list of allowed values."
    )


def document_id_in(text: str) -> str:
    """Raises `InvalidRequest` for an invalid id."""
    if _ID.match(text) is None:
        raise InvalidRequest(
            "document_id is not a valid id",
            reason="document_id",
            hint=f"use 1 to {DOCUMENT_ID_CHARACTERS} letters, digits, dots, hyphens and underscores",
            field="document_id",
            most=DOCUMENT_ID_CHARACTERS,
        )
    return text


def media_type_of(declared: str, name: str) -> str:
    """The media type of a document, by its header, or by its name for a generic one. Raises `UnsupportedMedia`."""
    media = declared.partition(";")[0].strip().lower()
    if media == _VAGUE:
        media = _BY_SUFFIX.get(PurePosixPath(name).suffix.lower(), media)
    if media not in _OTHERS and not media.startswith("text/"):
        raise UnsupportedMedia(
            f"documents of type {media[:64]} are not supported",
            reason="document_type",
            hint="send text, Markdown, HTML, PDF or DOCX, with the right Content-Type or file extension",
            field="body",
            media=media[:64],
        )
    return media[:MIME_CHARACTERS]


BASE_PATH: Final = "/api/v1/knowledge/{kb_id}"
_BODY: Final[JsonObject] = {"name": "Handbook", "description": "How we work: leave, travel, equipment."}
_BASE: Final = SavedResource(
    kind=KNOWLEDGE_BASE,
    path="/api/v1/knowledge",
    id="kb_id",
    names=("KnowledgeBase", "KnowledgeBases"),
    right="knowledge",
    body=SavedKnowledgeBase,
    body_example=_BODY,
    shown=shown_as("KnowledgeBase", SavedKnowledgeBase, {"kb_id": "handbook", **_BODY}, rerank_model=maybe(TEXT)),
    deleted={"erased": True},
    summaries={"delete": "Delete a knowledge base with its documents."},
    descriptions={
        "save": "Agents get access by their configuration or policy. A change of `embedding`, `chunk_tokens` or "
        "`overlap_tokens` indexes the documents again, in the background.",
        "delete": "`erased` says whether every document is off the disk. The host erases the rest later.",
    },
    links={"listKnowledgeDocuments": "List its documents."},
)


class Knowledge(SavedRoutes[SavedKnowledgeBase]):
    """Knowledge bases, and test queries."""

    resource = _BASE

    def __init__(self, library: Library, pages: Pages) -> None:
        super().__init__(library.book, pages)
        self._library = library

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[SavedKnowledgeBase], JsonObject]:
        return await self._library.save(body, caller.workspace, resource_id, by=caller.name, edited=edited), {}

    async def remove(self, caller: Caller, resource_id: str, edited: int | None) -> JsonObject:
        erased = await self._library.delete(caller.workspace, resource_id, by=caller.name, edited=edited)
        return {"erased": erased}

    @operation(
        f"POST {BASE_PATH}/retrieve",
        name="askKnowledgeBase",
        summary="Query a knowledge base: passages with their sources, best first.",
        description="The same result as `knowledge.retrieve` of a run.",
        right="knowledge.ask",
        body=AskKnowledge,
        body_example={"query": "How many days of leave do I have?", "top_k": 3},
        answers={200: Answer(summary="The passages.", schema=KnowledgeResult, example={"chunks": [CHUNK_EXAMPLE]})},
        errors=("not_found", "knowledge_unavailable"),
    )
    async def retrieve(self, request: Request) -> Response:
        workspace, kb_id = caller_of(request).workspace, request.path_params["kb_id"]
        self._library.book.get(workspace, kb_id)
        asked = parsed(AskKnowledge, await read_body(request))
        question = checked_question(asked.query, asked.top_k, asked.filters)
        chunks = await self._library.retrieve(workspace, kb_id, question)
        return JsonAnswer(KnowledgeResult(chunks=tuple(chunks)).to_wire())

    @operation(
        f"POST {BASE_PATH}/reindex",
        name="reindexKnowledgeBase",
        summary="Index every document of a base again, in the background.",
        right="knowledge.write",
        answers={202: answer("It has begun.", kb_id="handbook")},
        errors=("not_found", "knowledge_unavailable"),
    )
    async def reindex(self, request: Request) -> Response:
        workspace, kb_id = caller_of(request).workspace, request.path_params["kb_id"]
        await self._library.index_anew(workspace, kb_id)
        return JsonAnswer({"kb_id": kb_id}, status_code=202)
