"""`POST /artifacts` and `/uploads`: upload files for messages, whole or in pieces that can be resumed."""

import hashlib
from typing import Annotated, Final

from msgspec.structs import replace
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import InvalidRequest
from bollard.host.files.media_types import UNKNOWN_TYPE
from bollard.host.files.message_file import MessageFile
from bollard.host.files.uploads import MessageUploads, NewUpload, OpenUpload
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import Id, parsed
from bollard.host.http.events.upload_bodies import UploadBodies, check_place
from bollard.host.http.openapi.schemas import FLAG, TEXT, fields
from bollard.host.http.operations import Answer, HeaderField, QueryField, leads_to
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.limits import EVENT_NAME_CHARACTERS, FILE_NAME_CHARACTERS
from bollard.host.scope import Scope
from bollard.protocol import ArtifactRef, Digest, Int, JsonObject, Strict

_UPLOAD: Final = "/api/v1/uploads/{upload_id}"
_OFFSET: Final = "upload-offset"
BINARY: Final[JsonObject] = {"type": "string", "format": "binary"}
DIGEST_CHARACTERS: Final = 64
CONTENT: Final = "quarter,revenue\n1,12\n"
SHA256: Final = hashlib.sha256(CONTENT.encode()).hexdigest()
_OFFSET_CHARACTERS: Final = 15
_EXAMPLE: Final[JsonObject] = {
    "artifact_id": "art_msg_9f2c1e0b7d4a",
    "artifact_type": "image",
    "mime_type": "image/png",
    "name": "chart.png",
    "size_bytes": 5120,
    "sha256": "9f2c1e" + "0" * 58,
    "expires_at": 1794821884.0,
}
ADDED: Final = Answer(
    summary="The file is on disk. A message of the conversation can attach it.",
    schema=ArtifactRef,
    example=_EXAMPLE,
    links=leads_to("artifact_id", getArtifact="Its metadata.", getArtifactContent="Its content."),
)
OPEN: Final = answer_body(
    "Upload", {"upload_id": "3f0c5e7a9b1d4f62", "offset": 0, "size_bytes": 5120, "expires_at": 1794821884.0}
)

DELETED: Final = Answer(
    summary="The upload is deleted.",
    schema=fields(upload_id=TEXT, deleted=FLAG),
    example={"upload_id": OPEN.example["upload_id"], "deleted": True},
)


class BeginUpload(Strict):
    """`POST /api/v1/uploads`: begin an upload in pieces."""

    conversation: Id = Field(description="The conversation whose messages may attach the file.")
    thread: Id | None = None
    bot: Id | None = None
    name: Annotated[str, Field(min_length=1, max_length=FILE_NAME_CHARACTERS)] | None = None
    mime_type: Annotated[str, Field(min_length=1, max_length=FILE_NAME_CHARACTERS)] = UNKNOWN_TYPE
    size_bytes: Annotated[Int, Field(ge=1)]


class FinishUpload(Strict):
    """`POST /api/v1/uploads/{id}/finish`."""

    sha256: Digest = Field(description="The SHA-256 of the whole content, in hex.")


def _place_field(name: str, summary: str, example: str, *, required: bool = False) -> QueryField:
    return QueryField(name=name, summary=summary, most=EVENT_NAME_CHARACTERS, example=example, required=required)


PLACE: Final = (
    _place_field("conversation", "The conversation whose messages may attach the file.", "support-7", required=True),
    _place_field("thread", "Its thread.", "t-1"),
    _place_field("bot", "Its bot.", "helper-bot"),
    QueryField(name="name", summary="The name of the file.", most=FILE_NAME_CHARACTERS, example="chart.txt"),
)
DIGEST: Final = QueryField(
    name="sha256", summary="The SHA-256 of the content, in hex.", most=DIGEST_CHARACTERS, example=SHA256
)


class Uploads(DeclaredResource):
    """Uploads of files for messages."""

    tag = "artifacts"

    def __init__(self, uploads: MessageUploads, bodies: UploadBodies, rows: RunRows) -> None:
        self._uploads = uploads
        self._bodies = bodies
        self._rows = rows

    @operation(
        "POST /api/v1/artifacts",
        name="addArtifact",
        summary="Upload a file for a message of a conversation.",
        description="The body is the file; its `Content-Type` must fit its content. A message of the same "
        "conversation, thread and bot attaches it by its id. The host deletes it after a day if no message does. The "
        "same file sent again is the same artifact. Use `/uploads` to send it in pieces.",
        right="runs.create",
        query=(*PLACE, DIGEST),
        body=BINARY,
        body_example=CONTENT,
        body_media=(UNKNOWN_TYPE,),
        repeat="head",
        answers={201: ADDED},
        errors=("conflict", "payload_too_large", "storage_full"),
    )
    async def add(self, request: Request) -> Response:
        query, caller = request.query_params, caller_of(request)
        new = NewUpload(
            place=Scope(
                workspace=caller.workspace,
                bot=query.get("bot"),
                conversation=query["conversation"],
                thread=query.get("thread"),
            ),
            by=caller.name,
            name=query.get("name"),
            mime_type=request.headers.get("content-type", UNKNOWN_TYPE),
            size_bytes=0,
            sha256=query.get("sha256"),
        )
        await self._check(request, new)
        return added(await self._bodies.whole(request, new))

    async def _check(self, request: Request, new: NewUpload) -> None:
        check_place(new.place)
        await self._rows.check_entering(caller_of(request), new.place)
        self._uploads.check(new)

    @operation(
        "POST /api/v1/uploads",
        name="beginUpload",
        summary="Begin to upload a file in pieces.",
        description="Send the pieces with `PATCH`, then finish the upload. After an interruption `HEAD` tells where "
        "to continue, also after a restart of the host. An upload expires after a day.",
        right="runs.create",
        body=BeginUpload,
        body_example={"conversation": "support-7", "name": "chart.txt", "mime_type": "text/plain", "size_bytes": 12},
        answers={201: OPEN.answer("The upload.", links=leads_to("upload_id", getUpload="Its offset."))},
        errors=("conflict", "payload_too_large", "storage_full"),
    )
    async def begin(self, request: Request) -> Response:
        body, caller = parsed(BeginUpload, await read_body(request)), caller_of(request)
        place = Scope(workspace=caller.workspace, bot=body.bot, conversation=body.conversation, thread=body.thread)
        new = NewUpload(
            place=place, by=caller.name, name=body.name, mime_type=body.mime_type, size_bytes=body.size_bytes
        )
        await self._check(request, new)
        return shown(await self._uploads.begin(new), status_code=201)

    @operation(
        f"GET {_UPLOAD}",
        name="getUpload",
        summary="Show the offset of an upload: the number of bytes on disk.",
        right="runs.create",
        answers={200: OPEN.answer("The upload.")},
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        return shown(await self._found(request))

    @operation(
        f"PATCH {_UPLOAD}",
        name="appendUpload",
        summary="Send the next piece of an upload.",
        description="`Upload-Offset` is the position of the piece. Bytes that the host has are compared and not "
        "written again; a piece behind missing bytes, or with other bytes, is refused with `conflict`, and "
        "`details.expected` is the offset to continue at. Of an interrupted request the received bytes stay.",
        right="runs.create",
        headers=(
            HeaderField(name="Upload-Offset", summary="The position of the first byte.", example="0", required=True),
        ),
        body=BINARY,
        body_example="quarter,revenue\n",
        body_media=(UNKNOWN_TYPE,),
        answers={200: OPEN.answer("The upload with its new offset.")},
        errors=("not_found", "conflict", "payload_too_large", "storage_full"),
    )
    async def append(self, request: Request) -> Response:
        text = request.headers.get(_OFFSET, "")
        if not (text.isascii() and text.isdigit() and len(text) <= _OFFSET_CHARACTERS):
            raise InvalidRequest(
                "Upload-Offset is not a number of bytes",
                reason="upload_offset",
                hint="send the offset that HEAD shows",
                field="upload-offset",
            )
        upload = await self._found(request)
        offset = await self._bodies.piece(request, upload, int(text))
        return shown(replace(upload, offset=offset))

    @operation(
        f"POST {_UPLOAD}/finish",
        name="finishUpload",
        summary="Finish an upload: its content becomes an artifact.",
        right="runs.create",
        body=FinishUpload,
        body_example={"sha256": SHA256},
        answers={201: ADDED},
        errors=("not_found", "conflict", "storage_full"),
    )
    async def finish(self, request: Request) -> Response:
        body = parsed(FinishUpload, await read_body(request))
        return added(await self._uploads.finish(await self._found(request), body.sha256))

    @operation(
        f"DELETE {_UPLOAD}",
        name="deleteUpload",
        summary="Cancel an upload.",
        right="runs.create",
        answers={200: DELETED},
        errors=("not_found",),
    )
    async def delete(self, request: Request) -> Response:
        upload = await self._found(request)
        await self._uploads.cancel(upload)
        return JsonAnswer({"upload_id": upload.upload_id, "deleted": True})

    async def _found(self, request: Request) -> OpenUpload:
        caller, upload_id = caller_of(request), request.path_params["upload_id"]
        return await self._uploads.find(caller.workspace, caller.name, upload_id[:DIGEST_CHARACTERS])


def added(file: MessageFile) -> Response:
    return JsonAnswer(file.reference(), status_code=201)


def shown(upload: OpenUpload, *, status_code: int = 200) -> Response:
    body = OPEN.of(upload, size_bytes=upload.new.size_bytes)
    return JsonAnswer(body, status_code=status_code, headers={_OFFSET: str(upload.offset)})
