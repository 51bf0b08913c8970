"""`/files`: the files of a workspace. An upload goes to disk while it arrives. A file never changes."""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import InvalidRequest, Overloaded, PayloadTooLarge
from bollard.host.files.file_repository import FileRepository, NewFile, WorkspaceFile
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.downloads import CONTENT_ANSWERS, CONTENT_HEADERS, content_of, is_media_type
from bollard.host.http.events.payloads import Payloads
from bollard.host.http.openapi.schemas import FLAG, TEXT, fields
from bollard.host.http.operations import PAGE, Answer, QueryField, leads_to
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation
from bollard.host.limits import FILE_BYTES, FILE_NAME_CHARACTERS
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.blobs import BlobStore
from bollard.protocol import JsonObject

_FILES: Final = "/api/v1/files"
_FILE: Final = "/api/v1/files/{file_id}"
_BYTES: Final = "application/octet-stream"
_BINARY: Final[JsonObject] = {"type": "string", "format": "binary"}
_SHOWN: Final = answer_body(
    "WorkspaceFile",
    {
        "file_id": "file_01a1d1c3b2a89f2c1e7b40d5",
        "name": "prices.csv",
        "mime_type": "text/csv",
        "size_bytes": 5120,
        "sha256": "9f2c1e" + "0" * 58,
        "created_at": 1794735484.0,
        "created_by": "admin",
    },
)

_NAME: Final = QueryField(
    name="name", summary="The name of the file.", most=FILE_NAME_CHARACTERS, default="file", example="prices.csv"
)


class Files(DeclaredResource):
    """Files of workspaces."""

    tag = "files"

    def __init__(self, book: FileRepository, blobs: BlobStore, redactor: Redactor, pages: Pages) -> None:
        self._book = book
        self._blobs = blobs
        self._payloads = Payloads(blobs, FILE_BYTES)
        self._redactor = redactor
        self._pages = pages

    @operation(
        f"GET {_FILES}",
        name="listFiles",
        summary="List the files of the workspace, oldest first.",
        right="files.read",
        query=PAGE,
        answers={200: _SHOWN.page("files")},
    )
    async def list(self, request: Request) -> Response:
        found = self._book.all(caller_of(request).workspace)
        return self._pages.of_all(request, "files.list", found, lambda file: file.file_id, _shown)

    @operation(
        f"GET {_FILE}",
        name="getFile",
        summary="Show one file.",
        right="files.read",
        answers={200: _SHOWN.answer("The file.")},
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        return JsonAnswer(_shown(self._found(request)))

    @operation(
        f"GET {_FILE}/content",
        name="getFileContent",
        summary="Download a file, or one range of its bytes.",
        description="Always a download, never a page. One `Range` of bytes is supported.",
        right="files.read",
        headers=CONTENT_HEADERS,
        answers=CONTENT_ANSWERS,
        errors=("not_found", "range_not_satisfiable"),
    )
    async def content(self, request: Request) -> Response:
        file = self._found(request)
        return await content_of(request, self._blobs, file.sha256, file.name, file.mime_type)

    @operation(
        f"POST {_FILES}",
        name="addFile",
        summary="Upload a file to the workspace.",
        description="The body is the file; its `Content-Type` is stored with it. The file is on disk when the host "
        "answers. No agent can read it until a configuration or a policy names its id. The host refuses a "
        "file that contains a secret of the workspace. With an `Idempotency-Key` the host compares the "
        "length, not the content.",
        right="files.write",
        query=(_NAME,),
        body=_BINARY,
        body_example="item,price\nrope,12\n",
        body_media=(_BYTES,),
        repeat="head",
        answers={
            201: _SHOWN.answer(
                "The file is stored.", links=leads_to("file_id", getFile="Read it again.", deleteFile="Delete it.")
            )
        },
        errors=("conflict", "payload_too_large", "storage_full"),
    )
    async def add(self, request: Request) -> Response:
        caller = caller_of(request)
        name, mime_type = _name(request), _media_type(request)
        self._refuse_secret(caller.workspace, name, "name")
        self._refuse_secret(caller.workspace, mime_type, "content-type")
        self._book.check_room(caller.workspace)  # before a large body is received in vain
        try:
            file = await self._kept(request, name, mime_type)
        except PayloadTooLarge:
            hint = "give the agent a smaller file, or put it where a tool can read it"
            raise PayloadTooLarge(
                f"a file is at most {FILE_BYTES} bytes",
                reason="file_too_large",
                hint=hint,
                field="body",
                most=FILE_BYTES,
            ) from None
        except Overloaded:
            raise Overloaded(
                "too many large files arrive at once", reason="too_many_files", hint="try again in a moment"
            ) from None
        return JsonAnswer(_shown(file), status_code=201)

    @operation(
        f"DELETE {_FILE}",
        name="deleteFile",
        summary="Delete a file. Runs that were granted it can no longer read it.",
        right="files.write",
        answers={
            200: Answer(
                summary="The file is deleted.",
                schema=fields(file_id=TEXT, deleted=FLAG),
                example={"file_id": _SHOWN.example["file_id"], "deleted": True},
            )
        },
        errors=("not_found",),
    )
    async def delete(self, request: Request) -> Response:
        caller, file_id = caller_of(request), request.path_params["file_id"]
        await self._book.remove(caller.workspace, file_id, by=caller.name)
        return JsonAnswer({"file_id": file_id, "deleted": True})

    def _found(self, request: Request) -> WorkspaceFile:
        return self._book.get(caller_of(request).workspace, request.path_params["file_id"])

    async def _kept(self, request: Request, name: str, mime_type: str) -> WorkspaceFile:
        caller = caller_of(request)
        scrubber = self._redactor.scrubber(caller.workspace)
        async with self._payloads.received(request) as payload:
            if scrubber.active and await asyncio.to_thread(scrubber.holds_among, self._payloads.pieces(payload)):
                raise _has_secret("body")
            sha256 = await self._payloads.store(payload)
            new = NewFile(name=name, mime_type=mime_type, size_bytes=payload.size, sha256=sha256)
            return await self._book.add(caller.workspace, new, by=caller.name)

    def _refuse_secret(self, workspace: str, text: str, field: str) -> None:
        if self._redactor.scrubber(workspace).holds(text):
            raise _has_secret(field)


def _shown(file: WorkspaceFile) -> JsonObject:
    return _SHOWN.of(file, created_by=file.by)


def _has_secret(field: str) -> InvalidRequest:
    return InvalidRequest(
        "the file contains a secret of the workspace",
        reason="file_has_secret",
        hint="remove it: runners get secrets through `secret` fields of their configuration",
        field=field,
    )


def _name(request: Request) -> str:
    """A name without a path, because runners may write the file under it."""
    name = request.query_params.get("name", str(_NAME.default))
    if name in (".", "..") or not name.isprintable() or any(each in name for each in "/\\"):
        raise InvalidRequest(
            "the file name is invalid",
            reason="file_name",
            hint="leave out folders and unprintable characters",
            field="name",
        )
    return name


def _media_type(request: Request) -> str:
    declared = request.headers.get("content-type", _BYTES)
    if len(declared) > FILE_NAME_CHARACTERS or not is_media_type(declared):
        raise InvalidRequest(
            "Content-Type is not a media type",
            reason="content_type",
            hint=f"send one such as text/csv, or {_BYTES}",
            field="content-type",
        )
    return declared
