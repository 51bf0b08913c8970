"""`/artifacts`: what is known of an artifact, and its content. Never shown as a page: who made it is not trusted."""

import asyncio
import re
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bollard.host.clock import Clock
from bollard.host.errors import NotFound
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.byte_ranges import Span, Unsatisfiable, span_of
from bollard.host.http.callers import caller_of
from bollard.host.http.errors import RangeNotSatisfiable
from bollard.host.http.examples import ARTIFACT_EXAMPLE
from bollard.host.http.operations import Answer, HeaderField, Operation
from bollard.host.identity.audience import Audience
from bollard.host.runapi.artifacts import metadata_of
from bollard.host.store.blobs import CHUNK_BYTES, BlobStore
from bollard.host.store.boundary import Store
from bollard.host.store.rows import ArtifactRow
from bollard.protocol import ArtifactMetadata

__all__ = ["Artifacts"]

_ID_CHARACTERS: Final = 256
_BYTES: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}(?:;[ -~]*)?", re.ASCII)
_TAG: Final = '"9f2c1e"'


class Artifacts:
    """Reads artifacts for people and programs."""

    def __init__(self, store: Store, blobs: BlobStore, clock: Clock, audience: Audience) -> None:
        self._store = store
        self._audience = audience
        self._blobs = blobs
        self._clock = clock

    @staticmethod
    def operations() -> list[Operation]:
        artifact = "/api/v1/artifacts/{artifact_id}"
        content = Answer(
            summary="The content.",
            schema={"type": "string", "format": "binary"},
            example="of the first workspace",
            media_type=_BYTES,
            headers={"ETag": "The digest of the content.", "Content-Disposition": "Its name, if it has one."},
        )
        return [
            Operation(
                method="GET",
                path=artifact,
                handler=Artifacts.get,
                name="getArtifact",
                tag="artifacts",
                summary="What is known of an artifact.",
                right="artifacts.read",
                answers={200: Answer(summary="The artifact.", schema=ArtifactMetadata, example=ARTIFACT_EXAMPLE)},
                errors=("not_found",),
            ),
            Operation(
                method="GET",
                path=f"{artifact}/content",
                handler=Artifacts.content,
                name="getArtifactContent",
                tag="artifacts",
                summary="The content of an artifact, or one range of its bytes.",
                description="Always a download, never a page. One `Range` of bytes is honoured.",
                right="artifacts.read",
                headers=(
                    HeaderField(name="Range", summary="One range of bytes.", example="bytes=0-5"),
                    HeaderField(
                        name="If-Range", summary="The range only while the content has this tag.", example=_TAG
                    ),
                    HeaderField(
                        name="If-None-Match", summary="Answered with 304 where the content has this tag.", example=_TAG
                    ),
                ),
                answers={
                    200: content,
                    206: Answer(
                        summary="The range.",
                        schema=content.schema,
                        example="of the",
                        media_type=_BYTES,
                        headers={**content.headers, "Content-Range": "Which bytes of how many."},
                    ),
                    304: Answer(summary="The reader has it already."),
                },
                errors=("not_found", "range_not_satisfiable"),
            ),
        ]

    async def get(self, request: Request) -> Response:
        return JsonAnswer(metadata_of(await self._found(request)).to_wire())

    async def content(self, request: Request) -> Response:
        row = await self._found(request)
        if row.sha256 is None:
            raise NotFound("the artifact has no content here", hint="its metadata says where it is")
        size, tag = await asyncio.to_thread(self._blobs.size, row.sha256), f'"{row.sha256}"'
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={"etag": tag})
        whole = request.headers.get("if-range", tag) != tag
        try:
            span = None if whole else span_of(request.headers.get("range"), size)
        except Unsatisfiable:
            raise RangeNotSatisfiable(
                f"the content has {size} bytes", hint="ask for bytes that it has", size=size
            ) from None
        headers = {"etag": tag, "accept-ranges": "bytes", "content-disposition": _disposition(row)}
        if span is not None:
            headers["content-range"] = f"bytes {span.first}-{span.end - 1}/{size}"
        wanted = span or Span(0, size)
        headers["content-length"] = str(wanted.length)
        body = self._read(row.sha256, wanted) if request.method == "GET" else _nothing()
        status = 200 if span is None else 206
        return StreamingResponse(body, status_code=status, headers=headers, media_type=_media_type(row))

    async def _read(self, sha256: str, span: Span) -> AsyncGenerator[bytes]:
        place = span.first
        while place < span.end:
            part = await asyncio.to_thread(self._blobs.read, sha256, place, min(CHUNK_BYTES, span.end - place))
            if not part:
                return  # it was swept meanwhile: the reader sees that bytes are missing
            place += len(part)
            yield part

    async def _found(self, request: Request) -> ArtifactRow:
        artifact_id: str = request.path_params["artifact_id"]
        row = None
        if len(artifact_id) <= _ID_CHARACTERS:
            row = await asyncio.to_thread(self._store.artifact, caller_of(request).workspace, artifact_id)
        if row is not None and not await self._audience.sees_run(caller_of(request), row.run_id):
            row = None
        if row is None or (row.expires_ms is not None and row.expires_ms <= self._clock.now_ms()):
            raise NotFound("there is no such artifact", hint="records and messages name artifacts")
        return row


async def _nothing() -> AsyncGenerator[bytes]:
    return
    yield b""


def _media_type(row: ArtifactRow) -> str:
    """As whoever made it says, where that can stand in a header."""
    said = row.mime_type
    return said if said is not None and _MEDIA_TYPE.fullmatch(said) is not None else _BYTES


def _disposition(row: ArtifactRow) -> str:
    return "attachment" if not row.name else f"attachment; filename*=UTF-8''{quote(row.name, safe='')}"
