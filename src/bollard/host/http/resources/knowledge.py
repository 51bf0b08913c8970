"""`/knowledge`: the knowledge bases of a workspace, saved like everything that people edit, and asked to try them."""

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
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import ANY, FLAG, NUMBER, TEXT, TIME, array_of, choice, fields, maybe, named
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION, named_by_path
from bollard.host.http.revisions import edited_revision, held_to_match, revised
from bollard.host.knowledge.bases import KnowledgeBase, SavedKnowledgeBase, base_to_wire
from bollard.host.knowledge.boundary import Document, checked_question
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

# Knowledge bases and their documents as the API takes and shows them: shapes, examples, and reading them. Values and
# pure functions.


_VAGUE: Final = "application/octet-stream"
_DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
FILES: Final[tuple[str, ...]] = ("text/plain", "text/markdown", "text/html", "application/pdf", _DOCX, _VAGUE)
"""What a document may be sent as; the last where only its name says what it is."""
_OTHERS: Final = frozenset({*FILES[:-1], "application/xhtml+xml", "application/yaml", "application/toml"})
"""What is read beside every other kind of text."""
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
BASE: Final = named(
    "KnowledgeBase",
    fields(
        kb_id=TEXT,
        name=TEXT,
        description=TEXT,
        embedding=choice("bundled", "none"),
        chunk_tokens=NUMBER,
        overlap_tokens=NUMBER,
        flow=array_of(choice("private", "untrusted")),
        rerank_model=maybe(TEXT),
        revision=NUMBER,
    ),
)
BASE_EXAMPLE: Final[JsonObject] = {
    "kb_id": "handbook",
    "name": "Handbook",
    "description": "How we work: leave, travel, equipment.",
    "embedding": "bundled",
    "chunk_tokens": 320,
    "overlap_tokens": 40,
    "flow": ["private"],
    "rerank_model": None,
    "revision": 1,
}
DOCUMENT: Final = named(
    "KnowledgeDocument",
    fields(
        document_id=TEXT,
        name=TEXT,
        mime_type=TEXT,
        size_bytes=NUMBER,
        sha256=TEXT,
        status=choice("waiting", "indexing", "ready", "failed"),
        chunks=NUMBER,
        done_chunks=NUMBER,
        error=maybe(TEXT),
        source=TEXT,
        metadata=ANY,
        created_at=TIME,
        updated_at=TIME,
    ),
)
DOCUMENT_EXAMPLE: Final[JsonObject] = {
    "document_id": "leave.md",
    "name": "leave.md",
    "mime_type": "text/markdown",
    "size_bytes": 4211,
    "sha256": "9f2c1e" + "0" * 58,
    "status": "indexing",
    "chunks": 12,
    "done_chunks": 4,
    "error": None,
    "source": "https://wiki.example.org/leave",
    "metadata": {"language": "en"},
    "created_at": 1794735484.0,
    "updated_at": 1794735484.0,
}
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
    """A document that is sent as JSON: its text, and what is known of it."""

    document_id: DocumentId | None = None
    name: Annotated[str, Field(min_length=1, max_length=DOCUMENT_NAME_CHARACTERS)]
    text: str
    mime_type: Annotated[str, Field(pattern=r"^text/(?:plain|markdown|html)$", max_length=MIME_CHARACTERS)] = (
        "text/plain"
    )
    source: Annotated[str, Field(max_length=SOURCE_CHARACTERS)] = ""
    metadata: JsonObject = Field(
        default_factory=dict, description="Names with a value or a list of values; questions can be narrowed by them."
    )


class AskKnowledge(Strict):
    """`POST /api/v1/knowledge/{kb_id}/retrieve`."""

    query: Annotated[str, Field(min_length=1, max_length=QUESTION_CHARACTERS)]
    top_k: Annotated[Int, Field(ge=1, le=limits.SEARCH_TOP_K)] = 5
    filters: JsonObject = Field(
        default_factory=dict, description="Metadata of documents: a value, or a list of those that fit."
    )


def document_id_in(text: str) -> str:
    """Raises `InvalidRequest` for what cannot be the id of a document."""
    if _ID.match(text) is None:
        raise InvalidRequest(
            "document_id is no id of a document",
            hint=f"use 1 to {DOCUMENT_ID_CHARACTERS} letters, digits, dots, hyphens and underscores",
            field="document_id",
        )
    return text


def media_type_of(said: str, name: str) -> str:
    """What a document is, by its media type, and by its name where that says nothing. Raises `UnsupportedMedia`."""
    media = said.partition(";")[0].strip().lower()
    if media == _VAGUE:
        media = _BY_SUFFIX.get(PurePosixPath(name).suffix.lower(), media)
    if media not in _OTHERS and not media.startswith("text/"):
        raise UnsupportedMedia(
            f"{media[:64]} is not read here",
            hint="send text, Markdown, HTML, PDF or DOCX, and say so in Content-Type or by the end of the name",
            field="body",
        )
    return media[:MIME_CHARACTERS]


def document_shown(document: Document) -> JsonObject:
    return {
        "document_id": document.document_id,
        "name": document.name,
        "mime_type": document.mime_type,
        "size_bytes": document.size_bytes,
        "sha256": document.sha256,
        "status": document.status,
        "chunks": document.chunks,
        "done_chunks": document.done_chunks,
        "error": document.error,
        "source": document.source,
        "metadata": document.metadata,
        "created_at": document.created_ms / 1000,
        "updated_at": document.updated_ms / 1000,
    }


BASE_PATH: Final = "/api/v1/knowledge/{kb_id}"
_LIST: Final = "knowledge.list"
_BODY: Final[JsonObject] = {"name": "Handbook", "description": "How we work: leave, travel, equipment."}


class Knowledge:
    """Knowledge bases of a workspace."""

    def __init__(self, library: Library, pages: Pages) -> None:
        self._library = library
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        saved = Answer(summary="The base as it is now.", schema=BASE, example=BASE_EXAMPLE)
        made = Answer(
            summary="The base is new.",
            links=leads_to("kb_id", getKnowledgeBase="Read it again.", listKnowledgeDocuments="See what is in it."),
            schema=BASE,
            example=BASE_EXAMPLE,
        )
        return [
            Operation(
                method="GET",
                path="/api/v1/knowledge",
                handler=Knowledge.list,
                name="listKnowledgeBases",
                tag="knowledge",
                summary="The knowledge bases of the workspace.",
                right="knowledge.read",
                query=PAGE,
                answers={
                    200: Answer(summary="A page of bases.", schema=page_of(BASE), example=page_example(BASE_EXAMPLE))
                },
            ),
            Operation(
                method="GET",
                path=BASE_PATH,
                handler=Knowledge.get,
                name="getKnowledgeBase",
                tag="knowledge",
                summary="One knowledge base.",
                right="knowledge.read",
                editable=True,
                answers={200: saved},
                errors=("not_found",),
            ),
            Operation(
                method="PUT",
                path=BASE_PATH,
                handler=Knowledge.put,
                name="saveKnowledgeBase",
                tag="knowledge",
                summary="Save a knowledge base, or a new revision of one.",
                description="Nobody gets it by that: an agent's configuration or policy names it. Where `embedding`, "
                "`chunk_tokens` or `overlap_tokens` change, its documents are indexed anew in the background.",
                right="knowledge.write",
                body=SavedKnowledgeBase,
                body_example=_BODY,
                editable=True,
                answers={200: saved, 201: made},
                errors=("conflict", "precondition_failed"),
            ),
            *_deeds(),
        ]

    async def list(self, request: Request) -> Response:
        found = self._library.book.all(caller_of(request).workspace)
        return self._pages.of_all(request, _LIST, found, lambda saved: saved.id, _shown)

    async def get(self, request: Request) -> Response:
        saved = self._library.book.get(caller_of(request).workspace, request.path_params["kb_id"])
        return revised(request, _shown(saved), saved.revision)

    async def put(self, request: Request) -> Response:
        caller, kb_id = caller_of(request), request.path_params["kb_id"]
        body = named_by_path(await read_body(request), "kb_id", kb_id)
        before = self._library.book.find(caller.workspace, kb_id)
        edited = edited_revision(request, None if before is None else before.revision, body)
        if edited is None and isinstance(body.get("revision"), int):
            edited = parsed(SavedKnowledgeBase, body).revision
        with held_to_match(request):
            saved = await self._library.save(body, caller.workspace, kb_id, by=caller.name, edited=edited)
        return revised(request, _shown(saved), saved.revision, status_code=201 if saved.revision == 1 else 200)

    async def delete(self, request: Request) -> Response:
        caller, kb_id = caller_of(request), request.path_params["kb_id"]
        edited = edited_revision(request, self._library.book.get(caller.workspace, kb_id).revision)
        with held_to_match(request):
            erased = await self._library.delete(caller.workspace, kb_id, by=caller.name, edited=edited)
        return JsonAnswer({"kb_id": kb_id, "deleted": True, "erased": erased})

    async def retrieve(self, request: Request) -> Response:
        workspace, kb_id = caller_of(request).workspace, request.path_params["kb_id"]
        self._library.book.get(workspace, kb_id)
        asked = parsed(AskKnowledge, await read_body(request))
        question = checked_question(asked.query, asked.top_k, asked.filters)
        chunks = await self._library.retrieve(workspace, kb_id, question)
        return JsonAnswer(KnowledgeResult(chunks=tuple(chunks)).to_wire())

    async def reindex(self, request: Request) -> Response:
        workspace, kb_id = caller_of(request).workspace, request.path_params["kb_id"]
        await self._library.index_anew(workspace, kb_id)
        return JsonAnswer({"kb_id": kb_id}, status_code=202)


def _shown(saved: Saved[KnowledgeBase]) -> JsonObject:
    return {**base_to_wire(saved.thing), "revision": saved.revision}


def _deeds() -> list[Operation]:
    return [
        Operation(
            method="DELETE",
            path=BASE_PATH,
            handler=Knowledge.delete,
            name="deleteKnowledgeBase",
            tag="knowledge",
            summary="Delete a knowledge base with every document of it.",
            description="`erased` says whether all of it is off the disk; what is not is erased as soon as it can be.",
            right="knowledge.write",
            query=(REVISION,),
            editable=True,
            answers={
                200: Answer(
                    summary="It is gone.",
                    schema=fields(kb_id=TEXT, deleted=FLAG, erased=FLAG),
                    example={"kb_id": "handbook", "deleted": True, "erased": True},
                )
            },
            errors=("not_found", "conflict", "precondition_failed"),
        ),
        Operation(
            method="POST",
            path=f"{BASE_PATH}/retrieve",
            handler=Knowledge.retrieve,
            name="askKnowledgeBase",
            tag="knowledge",
            summary="What a base says about something: passages, best first, each with where it comes from.",
            description="The same that `knowledge.retrieve` answers to a run.",
            right="knowledge.ask",
            body=AskKnowledge,
            body_example={"query": "How many days of leave do I have?", "top_k": 3},
            answers={
                200: Answer(summary="The passages.", schema=KnowledgeResult, example={"chunks": [CHUNK_EXAMPLE]}),
            },
            errors=("not_found", "knowledge_unavailable"),
        ),
        Operation(
            method="POST",
            path=f"{BASE_PATH}/reindex",
            handler=Knowledge.reindex,
            name="reindexKnowledgeBase",
            tag="knowledge",
            summary="Index every document of a base anew, in the background.",
            right="knowledge.write",
            answers={
                202: Answer(summary="It has begun.", schema=fields(kb_id=TEXT), example={"kb_id": "handbook"}),
            },
            errors=("not_found", "knowledge_unavailable"),
        ),
    ]
