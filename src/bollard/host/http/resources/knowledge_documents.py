"""`/knowledge/{kb_id}/documents`: upload documents as files or JSON, and show their index status."""

from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest, Overloaded, PayloadTooLarge
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.events.payloads import Payloads
from bollard.host.http.operations import PAGE, Answer, OtherBody, QueryField, Resource
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.resources.declaration import DeclaredResource, answer, operation
from bollard.host.http.resources.knowledge import (
    BASE_PATH,
    DOCUMENT,
    FILES,
    Knowledge,
    WrittenDocument,
    document_id_in,
    media_type_of,
)
from bollard.host.knowledge.boundary import NewDocument, check_metadata
from bollard.host.knowledge.library import Library
from bollard.host.knowledge.limits import DOCUMENT_BYTES, DOCUMENT_NAME_CHARACTERS, SOURCE_CHARACTERS
from bollard.host.runs.ids import IdMaker
from bollard.host.store.blobs import BlobStore
from bollard.protocol import JsonObject
from bollard.wire import FrameError, decode

_DOCUMENTS: Final = f"{BASE_PATH}/documents"
_DOCUMENT: Final = f"{_DOCUMENTS}/{{document_id}}"
_JSON: Final = "application/json"
_BYTES: Final = "application/octet-stream"
_BINARY: Final[JsonObject] = {"type": "string", "format": "binary"}
_MARKDOWN: Final = "# Leave\n\nThirty days a year.\n"
_EXAMPLES: Final = {"text/html": "<h1>Leave</h1><p>Thirty days a year.</p>", "application/pdf": "%PDF-1.7 …"}
_FILE_BODIES: Final = {
    media: OtherBody(schema=_BINARY, example=_EXAMPLES.get(media, _MARKDOWN if media in FILES[:2] else "PK…"))
    for media in FILES
}
_QUERY: Final = (
    QueryField(
        name="name",
        summary="The name of a document that is sent as a file.",
        most=DOCUMENT_NAME_CHARACTERS,
        example="leave.md",
    ),
    QueryField(
        name="source", summary="The source to cite.", most=SOURCE_CHARACTERS, example="https://wiki.example.org/leave"
    ),
    QueryField(name="metadata", summary="Metadata of the document, as a JSON object.", example='{"language":"en"}'),
)
_BODY: Final[JsonObject] = {"name": "leave.md", "text": "# Leave\n\nThirty days a year.", "mime_type": "text/markdown"}
_PUT_ERRORS: Final = ("not_found", "payload_too_large", "unsupported_media_type", "knowledge_unavailable")


_KEPT: Final = DOCUMENT.answer("The document is on disk and is being indexed.")


class KnowledgeDocuments(DeclaredResource):
    """Documents of knowledge bases."""

    tag = "knowledge"

    def __init__(self, library: Library, payloads: Payloads, clock: Clock, pages: Pages) -> None:
        """`payloads` receives documents only, within their own limit. Large documents are streamed to disk."""
        self._library = library
        self._payloads = payloads
        self._clock = clock
        self._pages = pages
        self._ids = IdMaker()

    @operation(
        f"GET {_DOCUMENTS}",
        name="listKnowledgeDocuments",
        summary="List the documents of a base with their index status, by id.",
        right="knowledge.read",
        query=PAGE,
        answers={200: DOCUMENT.page("documents")},
        errors=("not_found", "knowledge_unavailable"),
    )
    async def list(self, request: Request) -> Response:
        workspace, kb_id = caller_of(request).workspace, request.path_params["kb_id"]
        self._library.book.get(workspace, kb_id)
        purpose = f"knowledge.documents/{kb_id}"
        after = self._pages.place(request, purpose)
        rows = await self._library.documents(workspace, kb_id, str(after or ""), page_limit(request) + 1)
        return self._pages.of_rows(request, purpose, rows, DOCUMENT.of, lambda row: row.document_id)

    @operation(
        f"GET {_DOCUMENT}",
        name="getKnowledgeDocument",
        summary="Show one document with its index status.",
        description="`done_chunks` of `chunks` are indexed. `error` is the sentence that says why a "
        "document is `failed`. `problem` has its reason for programs, the hint and the details; it is null for a "
        "document that an earlier version failed to index.",
        right="knowledge.read",
        answers={200: DOCUMENT.answer("The document.")},
        errors=("not_found", "knowledge_unavailable"),
    )
    async def get(self, request: Request) -> Response:
        found = await self._library.document(*self._named(request))
        return JsonAnswer(DOCUMENT.of(found))

    @operation(
        f"GET {_DOCUMENT}/content",
        name="getKnowledgeDocumentContent",
        summary="Download a document.",
        description="Always a download, never a page.",
        right="knowledge.ask",
        answers={
            200: Answer(
                summary="The content.",
                schema=_BINARY,
                example="# Leave",
                media_type=_BYTES,
                headers={"ETag": "The digest of the content.", "Content-Disposition": "Its name."},
            ),
            304: Answer(summary="The client has it already."),
        },
        errors=("not_found", "knowledge_unavailable"),
    )
    async def content(self, request: Request) -> Response:
        where = self._named(request)
        found = await self._library.document(*where)
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}",
            "etag": f'"{found.sha256}"',
        }
        if headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={"etag": headers["etag"]})
        content = await self._library.content(*where)
        return Response(content, headers=headers, media_type=_BYTES)

    @operation(
        f"POST {_DOCUMENTS}",
        name="addKnowledgeDocument",
        summary="Add a document to a base, as a file or as text in JSON.",
        description="The document is on disk when the host answers, and is indexed afterwards. The media type of a "
        "file gives its format, and `name`, `source` and `metadata` are in the query. With an `Idempotency-Key` "
        "the host compares the length of a file, not its content.",
        right="knowledge.write",
        query=_QUERY,
        body=WrittenDocument,
        body_example=_BODY,
        body_media=(_JSON, *FILES),
        other_bodies=_FILE_BODIES,
        repeat="head",
        answers={202: _KEPT},
        errors=_PUT_ERRORS,
    )
    async def add(self, request: Request) -> Response:
        return await self._taken(request, None)

    @operation(
        f"PUT {_DOCUMENT}",
        name="putKnowledgeDocument",
        summary="Save a document under an id. An existing document is replaced.",
        right="knowledge.write",
        query=_QUERY,
        body=WrittenDocument,
        body_example=_BODY,
        body_media=(_JSON, *FILES),
        other_bodies=_FILE_BODIES,
        answers={202: _KEPT},
        errors=_PUT_ERRORS,
    )
    async def put(self, request: Request) -> Response:
        return await self._taken(request, document_id_in(request.path_params["document_id"]))

    @operation(
        f"DELETE {_DOCUMENT}",
        name="deleteKnowledgeDocument",
        summary="Delete a document with its chunks and vectors.",
        right="knowledge.write",
        answers={200: answer("The document is deleted.", kb_id="handbook", document_id="leave.md", deleted=True)},
        errors=("not_found", "knowledge_unavailable"),
    )
    async def delete(self, request: Request) -> Response:
        workspace, kb_id, document_id = self._named(request)
        await self._library.drop(workspace, kb_id, document_id, by=caller_of(request).name)
        return JsonAnswer({"kb_id": kb_id, "document_id": document_id, "deleted": True})

    def _named(self, request: Request) -> tuple[str, str, str]:
        workspace, kb_id = caller_of(request).workspace, request.path_params["kb_id"]
        self._library.book.get(workspace, kb_id)
        return workspace, kb_id, document_id_in(request.path_params["document_id"])

    async def _taken(self, request: Request, document_id: str | None) -> Response:
        caller, kb_id = caller_of(request), request.path_params["kb_id"]
        self._library.book.get(caller.workspace, kb_id)
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        written = media in ("", _JSON)  # a body without a media type is JSON, as everywhere
        new = await (self._written(request, document_id) if written else self._sent(request, document_id))
        made = await self._library.put(caller.workspace, kb_id, new, by=caller.name)
        return JsonAnswer(DOCUMENT.of(made), status_code=202)

    async def _written(self, request: Request, document_id: str | None) -> NewDocument:
        """A document in a JSON body."""
        given = parsed(WrittenDocument, await read_body(request))
        if request.query_params:
            field = next(iter(request.query_params))
            raise InvalidRequest(
                f"{field} belongs in the body", reason="query_in_body", hint="send it with the text", field=field
            )
        if document_id is not None and given.document_id not in (None, document_id):
            raise InvalidRequest(
                "document_id differs from the path",
                reason="id_differs_from_path",
                hint="leave out document_id, or make them equal",
                field="document_id",
            )
        return NewDocument(
            document_id=document_id or given.document_id or self._new_id(),
            name=given.name,
            mime_type=given.mime_type,
            content=given.text.encode(),
            source=given.source,
            metadata=check_metadata(given.metadata),
        )

    async def _sent(self, request: Request, document_id: str | None) -> NewDocument:
        """A document as a file, with its metadata in the query."""
        query = request.query_params
        name = query.get("name") or document_id
        if name is None:
            raise InvalidRequest("a file needs a name", reason="document_name", hint="send it as ?name=…", field="name")
        mime_type = media_type_of(request.headers.get("content-type", ""), name)
        metadata = check_metadata(_metadata(query.get("metadata")))
        return NewDocument(
            document_id=document_id or self._new_id(),
            name=name,
            mime_type=mime_type,
            content=await self._received(request),
            source=query.get("source", ""),
            metadata=metadata,
        )

    async def _received(self, request: Request) -> bytes:
        try:
            async with self._payloads.received(request) as payload:
                return await self._payloads.read(payload)
        except PayloadTooLarge:
            raise PayloadTooLarge(
                f"a document is at most {DOCUMENT_BYTES} bytes",
                reason="document_too_large",
                hint="split it",
                field="body",
                most=DOCUMENT_BYTES,
            ) from None
        except Overloaded:
            raise Overloaded(
                "too many large documents arrive at once", reason="too_many_documents", hint="try again in a moment"
            ) from None

    def _new_id(self) -> str:
        return f"doc_{self._ids.next(self._clock.now_ms())}"


def _metadata(text: str | None) -> JsonObject:
    if text is None:
        return {}
    try:
        value = decode(text.encode())
    except (FrameError, UnicodeEncodeError) as error:
        raise InvalidRequest(
            "metadata is not JSON", reason="metadata_json", hint="send one JSON object", field="metadata"
        ) from error
    if not isinstance(value, dict):
        raise InvalidRequest(
            "metadata is not an object", reason="metadata_object", hint="send one JSON object", field="metadata"
        )
    return value


KNOWLEDGE_RESOURCES: Final[tuple[type[Resource], ...]] = (Knowledge, KnowledgeDocuments)


def knowledge_resources(library: Library, blobs: BlobStore, clock: Clock, secret: bytes) -> tuple[Resource, ...]:
    """The resources of the API for knowledge bases."""
    pages = Pages(secret)
    documents = KnowledgeDocuments(library, Payloads(blobs, DOCUMENT_BYTES), clock, pages)
    return Knowledge(library, pages), documents
