"""Downloads of stored content, whole or one range. The caller of this module checks access."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bollard.host.http.errors import RangeNotSatisfiable
from bollard.host.http.operations import Answer, HeaderField
from bollard.host.store.artifact_terms import NAME_CHARACTERS
from bollard.host.store.blobs import CHUNK_BYTES, BlobStore

_RANGE: Final = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


def span_of(header: str | None, size: int) -> range | None:
    """The range of a `Range` header; `None` for the whole content, also for several ranges and malformed ones (RFC
    9110). Raises `RangeNotSatisfiable`."""
    match = None if header is None else _RANGE.fullmatch(header.strip())
    if match is None or match.group(0) == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        if int(last) == 0 or size == 0:
            raise _outside(size)
        return range(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise _outside(size)
    return range(int(first), min(size, int(last) + 1) if last else size)


def _outside(size: int) -> RangeNotSatisfiable:
    return RangeNotSatisfiable(
        f"the range is outside of the content, which has {size} bytes",
        reason="range",
        hint="request a range inside of the content",
        size=size,
    )


_BYTES: Final = "application/octet-stream"
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}(?:;[ -~]*)?", re.ASCII)
_TAG: Final = '"9f2c1e"'
_WHOLE: Final = Answer(
    summary="The content.",
    schema={"type": "string", "format": "binary"},
    example="of the first workspace",
    media_type=_BYTES,
    headers={"ETag": "The digest of the content.", "Content-Disposition": "Its name, if it has one."},
)
CONTENT_HEADERS: Final = (
    HeaderField(name="Range", summary="One range of bytes.", example="bytes=0-5"),
    HeaderField(name="If-Range", summary="The range applies only if the content has this tag.", example=_TAG),
    HeaderField(name="If-None-Match", summary="Answered with 304 if the content has this tag.", example=_TAG),
)
CONTENT_ANSWERS: Final[Mapping[int, Answer]] = {
    200: _WHOLE,
    206: Answer(
        summary="The range.",
        schema=_WHOLE.schema,
        example="of the",
        media_type=_BYTES,
        headers={**_WHOLE.headers, "Content-Range": "The range and the size of the content."},
    ),
    304: Answer(summary="The client has it already."),
}


async def content_of(
    request: Request, blobs: BlobStore, sha256: str, name: str | None, mime_type: str | None
) -> Response:
    """The content as a response. Raises `NotFound` and `RangeNotSatisfiable`."""
    size, tag = await asyncio.to_thread(blobs.size, sha256), f'"{sha256}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"etag": tag})
    whole = request.headers.get("if-range", tag) != tag
    span = None if whole else span_of(request.headers.get("range"), size)
    headers = {"etag": tag, "accept-ranges": "bytes", "content-disposition": _disposition(name)}
    if span is not None:
        headers["content-range"] = f"bytes {span.start}-{span.stop - 1}/{size}"
    wanted = range(size) if span is None else span
    headers["content-length"] = str(len(wanted))
    body = _read(blobs, sha256, wanted) if request.method == "GET" else _nothing()
    media_type = mime_type if mime_type is not None and is_media_type(mime_type) else _BYTES
    return StreamingResponse(body, status_code=200 if span is None else 206, headers=headers, media_type=media_type)


def is_media_type(text: str) -> bool:
    """Whether it is a valid media type for a header."""
    return _MEDIA_TYPE.fullmatch(text) is not None


async def _read(blobs: BlobStore, sha256: str, span: range) -> AsyncGenerator[bytes]:
    position = span.start
    while position < span.stop:
        part = await asyncio.to_thread(blobs.read, sha256, position, min(CHUNK_BYTES, span.stop - position))
        if not part:
            return  # it was swept: the client sees a body that is too short
        position += len(part)
        yield part


async def _nothing() -> AsyncGenerator[bytes]:
    return
    yield b""


def _disposition(name: str | None) -> str:
    """Long names are cut: older artifacts have unchecked names."""
    if not name:
        return "attachment"
    return f"attachment; filename*=UTF-8''{quote(name[:NAME_CHARACTERS], safe='', errors='replace')}"
