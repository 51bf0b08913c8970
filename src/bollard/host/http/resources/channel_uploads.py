"""Uploads of a channel: files for its next events, whole or in pieces, with its own signature and for nothing else.

The signature covers the method, the path and the query, so it is verified before any byte of the file is received. The
query has the digest of the file: the host accepts no other content.
"""

import re
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.signing import ID_HEADER
from bollard.host.errors import InvalidRequest
from bollard.host.files.media_types import UNKNOWN_TYPE
from bollard.host.files.uploads import MessageUploads, NewUpload, OpenUpload
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.channel_signatures import TARGET_SIGNATURE, ChannelSignatures
from bollard.host.http.events.incoming import caller_name
from bollard.host.http.events.upload_bodies import UploadBodies, check_place
from bollard.host.http.operations import QueryField
from bollard.host.http.queries import whole_number_in
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.http.resources.uploads import (
    ADDED,
    BINARY,
    CONTENT,
    DELETED,
    DIGEST,
    DIGEST_CHARACTERS,
    OPEN,
    PLACE,
    added,
    shown,
)
from bollard.host.limits import FILE_NAME_CHARACTERS
from bollard.host.log.saved_resources import Saved
from bollard.host.scope import Scope

_CHANNEL: Final = "/api/v1/channels/{channel_id}"
_UPLOAD: Final = f"{_CHANNEL}/uploads/{{upload_id}}"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_FACTS: Final = (
    *PLACE,
    QueryField(
        name="mime_type",
        summary="The media type, which must fit the content.",
        most=FILE_NAME_CHARACTERS,
        default=UNKNOWN_TYPE,
        example="text/plain",
    ),
    replace(DIGEST, required=True),
)
_SIZE: Final = QueryField(
    name="size_bytes", summary="The size of the file.", kind="number", least=1, required=True, example=len(CONTENT)
)
_OFFSET: Final = QueryField(
    name="offset", summary="The position of the first byte.", kind="number", required=True, example=0
)


class ChannelUploads(DeclaredResource):
    """Uploads of files for the events of channels."""

    tag = "channels"

    def __init__(self, uploads: MessageUploads, bodies: UploadBodies, signatures: ChannelSignatures) -> None:
        self._uploads = uploads
        self._bodies = bodies
        self._signatures = signatures

    @operation(
        f"POST {_CHANNEL}/artifacts",
        name="addChannelArtifact",
        summary="Upload a file for the next event of a channel.",
        description="Needs no token: the secret of the channel signs `webhook-id`, `webhook-timestamp`, and `POST` "
        "with the path and the query in place of the body. The body is the file. An event of the channel in the same "
        "conversation and thread attaches it by its id. The host deletes it after a day if no event does.",
        open=True,
        query=_FACTS,
        headers=TARGET_SIGNATURE,
        body=BINARY,
        body_example=CONTENT,
        body_media=(UNKNOWN_TYPE,),
        repeat="own",
        answers={201: ADDED},
        errors=("unauthenticated", "conflict", "payload_too_large", "storage_full"),
    )
    async def add(self, request: Request) -> Response:
        saved = self._signatures.signer(request)
        new = self._declared(request, saved, 0)
        return added(await self._bodies.whole(request, new, saved.id))

    @operation(
        f"POST {_CHANNEL}/uploads",
        name="beginChannelUpload",
        summary="Begin to upload a file of a channel in pieces.",
        description="As `/uploads`, signed as `/channels/{channel_id}/artifacts`. The request has no body. A "
        "repeat with the same `webhook-id` gets the same upload.",
        open=True,
        query=(*_FACTS, _SIZE),
        headers=TARGET_SIGNATURE,
        repeat="own",
        answers={201: OPEN.answer("The upload.")},
        errors=("unauthenticated", "payload_too_large", "storage_full"),
    )
    async def begin(self, request: Request) -> Response:
        saved = self._signatures.signer(request)
        new = self._declared(request, saved, _number(request, _SIZE))
        return shown(await self._uploads.begin(new), status_code=201)

    @operation(
        f"GET {_UPLOAD}",
        name="getChannelUpload",
        summary="Show the offset of an upload of a channel: the number of bytes on disk.",
        open=True,
        headers=TARGET_SIGNATURE,
        answers={200: OPEN.answer("The upload.")},
        errors=("unauthenticated", "not_found"),
    )
    async def get(self, request: Request) -> Response:
        return shown(await self._found(request))

    @operation(
        f"PATCH {_UPLOAD}",
        name="appendChannelUpload",
        summary="Send the next piece of an upload of a channel.",
        description="Bytes that the host has are compared and not written again, as with `/uploads`.",
        open=True,
        query=(_OFFSET,),
        headers=TARGET_SIGNATURE,
        body=BINARY,
        body_example="quarter,revenue\n",
        body_media=(UNKNOWN_TYPE,),
        answers={200: OPEN.answer("The upload with its new offset.")},
        errors=("unauthenticated", "not_found", "conflict", "payload_too_large", "storage_full"),
    )
    async def append(self, request: Request) -> Response:
        upload = await self._found(request)
        offset = await self._bodies.piece(request, upload, _number(request, _OFFSET))
        return shown(replace(upload, offset=offset))

    @operation(
        f"POST {_UPLOAD}/finish",
        name="finishChannelUpload",
        summary="Finish an upload of a channel: its content becomes an artifact.",
        open=True,
        headers=TARGET_SIGNATURE,
        answers={201: ADDED},
        errors=("unauthenticated", "not_found", "conflict", "storage_full"),
    )
    async def finish(self, request: Request) -> Response:
        upload = await self._found(request)
        return added(await self._uploads.finish(upload, upload.new.sha256 or ""))

    @operation(
        f"DELETE {_UPLOAD}",
        name="deleteChannelUpload",
        summary="Cancel an upload of a channel.",
        open=True,
        headers=TARGET_SIGNATURE,
        answers={200: DELETED},
        errors=("unauthenticated", "not_found"),
    )
    async def delete(self, request: Request) -> Response:
        upload = await self._found(request)
        await self._uploads.cancel(upload)
        return JsonAnswer({"upload_id": upload.upload_id, "deleted": True})

    def _declared(self, request: Request, saved: Saved[SavedChannel], size_bytes: int) -> NewUpload:
        query, channel = request.query_params, saved.value
        if _DIGEST.fullmatch(query["sha256"]) is None:
            raise InvalidRequest(
                "sha256 is not a SHA-256 in hex",
                reason="upload_digest",
                hint="send the 64 lower-case hex digits of the digest of the content",
                field="sha256",
            )
        new = NewUpload(
            place=Scope(
                workspace=saved.workspace,
                bot=query.get("bot") or channel.bot,
                conversation=query["conversation"],
                thread=query.get("thread"),
            ),
            by=caller_name(saved.id),
            name=query.get("name"),
            mime_type=query.get("mime_type", UNKNOWN_TYPE),
            size_bytes=size_bytes,
            sha256=query["sha256"],
            key=request.headers[ID_HEADER],
        )
        check_place(new.place)
        self._uploads.check(new)
        return new

    async def _found(self, request: Request) -> OpenUpload:
        saved, upload_id = self._signatures.signer(request), request.path_params["upload_id"]
        return await self._uploads.find(saved.workspace, caller_name(saved.id), upload_id[:DIGEST_CHARACTERS])


def _number(request: Request, field: QueryField) -> int:
    return whole_number_in(request.query_params[field.name], field.name, "send a number of bytes")
