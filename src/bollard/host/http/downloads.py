"""A stored content as an answer: a download, whole or one range of it. Who may read it was decided before."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bollard.host.http.errors import RangeNotSatisfiable
from bollard.host.http.operations import Answer, HeaderField
from bollard.host.store.artifact_terms import NAME_CHARACTERS
from bollard.host.store.blobs import CHUNK_BYTES, BlobStore

# `Range` of a request for content: one range of bytes, or the whole. Pure.


_RANGE: Final = re.compile(r"bytes=(\d{0,15})-(\d{0,15})")


class Span(msgspec.Struct, frozen=True):
    """Bytes from `first` up to, and without, `end`."""

    first: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.first


class Unsatisfiable(Exception):
    """No byte of the content is in the range."""


def span_of(header: str | None, size: int) -> Span | None:
    """The range that is wanted of so many bytes; nothing for all of them. Several ranges, and what is no range at all,
    mean all too, as the standard has it. Raises `Unsatisfiable`."""
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        if int(last) == 0 or size == 0:
            raise Unsatisfiable
        return Span(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise Unsatisfiable
    return Span(int(first), min(size, int(last) + 1) if last else size)


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
    HeaderField(name="If-Range", summary="The range only while the content has this tag.", example=_TAG),
    HeaderField(name="If-None-Match", summary="Answered with 304 where the content has this tag.", example=_TAG),
)
CONTENT_ANSWERS: Final[Mapping[int, Answer]] = {
    200: _WHOLE,
    206: Answer(
        summary="The range.",
        schema=_WHOLE.schema,
        example="of the",
        media_type=_BYTES,
        headers={**_WHOLE.headers, "Content-Range": "Which bytes of how many."},
    ),
    304: Answer(summary="The reader has it already."),
}


async def content_of(
    request: Request, blobs: BlobStore, sha256: str, name: str | None, mime_type: str | None
) -> Response:
    """Raises `NotFound`, `RangeNotSatisfiable`."""
    size, tag = await asyncio.to_thread(blobs.size, sha256), f'"{sha256}"'
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"etag": tag})
    whole = request.headers.get("if-range", tag) != tag
    try:
        span = None if whole else span_of(request.headers.get("range"), size)
    except Unsatisfiable:
        raise RangeNotSatisfiable(
            f"the content has {size} bytes", hint="ask for bytes that it has", size=size
        ) from None
    headers = {"etag": tag, "accept-ranges": "bytes", "content-disposition": _disposition(name)}
    if span is not None:
        headers["content-range"] = f"bytes {span.first}-{span.end - 1}/{size}"
    wanted = span or Span(0, size)
    headers["content-length"] = str(wanted.length)
    body = _read(blobs, sha256, wanted) if request.method == "GET" else _nothing()
    # As whoever made it says, where that can stand in a header.
    media_type = mime_type if mime_type is not None and is_media_type(mime_type) else _BYTES
    return StreamingResponse(body, status_code=200 if span is None else 206, headers=headers, media_type=media_type)


def is_media_type(text: str) -> bool:
    """Whether it can stand in a header as one."""
    return _MEDIA_TYPE.fullmatch(text) is not None


async def _read(blobs: BlobStore, sha256: str, span: Span) -> AsyncGenerator[bytes]:
    place = span.first
    while place < span.end:
        part = await asyncio.to_thread(blobs.read, sha256, place, min(CHUNK_BYTES, span.end - place))
        if not part:
            return  # it was swept meanwhile: the reader sees that bytes are missing
        place += len(part)
        yield part


async def _nothing() -> AsyncGenerator[bytes]:
    return
    yield b""


def _disposition(name: str | None) -> str:
    """A name that is too long for a header is cut: there are artifacts from before names were checked."""
    if not name:
        return "attachment"
    return f"attachment; filename*=UTF-8''{quote(name[:NAME_CHARACTERS], safe='', errors='replace')}"
