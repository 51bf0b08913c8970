"""Files inside the body of a message: base64 elements and data URLs, as bytes with a name and a type. Pure."""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from bollard.host.errors import InvalidRequest, PayloadTooLarge
from bollard.host.files.media_types import HEAD_BYTES, type_of
from bollard.host.limits import INLINE_FILES_BYTES
from bollard.protocol import ContentElement, FileBase64Content, FileUrlContent, ImageBase64Content, ImageUrlContent

_DATA_URL: Final = re.compile(r"data:([A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64})(?:;[A-Za-z0-9=._-]{1,64})*;base64,")
_DATA: Final = "data:"


class InlineFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a message, with its content."""

    content: bytes
    mime_type: str
    name: str | None = None


def inline_files(contents: Iterable[ContentElement], within: str) -> dict[int, InlineFile]:
    """The inline files, by the index of their element. `within` is the prefix of the fields in errors. Raises
    `InvalidRequest`, `PayloadTooLarge`."""
    found: dict[int, InlineFile] = {}
    size = 0
    for number, element in enumerate(contents):
        encoded = _encoded(element)
        if encoded is None:
            continue
        file = _decoded(*encoded, f"{within}contents.{number}")
        if isinstance(element, ImageBase64Content | ImageUrlContent) and not file.mime_type.startswith("image/"):
            raise _invalid(f"{within}contents.{number}", "is not an image", "send PNG, JPEG, GIF or WebP")
        found[number] = file
        size += len(file.content)
        if size > INLINE_FILES_BYTES:
            raise PayloadTooLarge(
                f"the files in a message have at most {INLINE_FILES_BYTES} bytes",
                reason="inline_files",
                hint="upload them with POST /api/v1/artifacts",
                field=f"{within}contents.{number}",
                limit=INLINE_FILES_BYTES,
            )
    return found


def _encoded(element: ContentElement) -> tuple[str, str | None] | None:
    """The base64 or data URL of an element, and its name; `None` for a text, an address or an artifact."""
    match element:
        case ImageBase64Content():
            return element.image_base64, None
        case FileBase64Content():
            return element.file_base64, element.file_name
        case ImageUrlContent() if element.image_url.url.startswith(_DATA):
            return element.image_url.url, None
        case FileUrlContent() if element.file_url.startswith(_DATA):
            return element.file_url, element.file_name
        case _:
            return None


def _decoded(text: str, name: str | None, field: str) -> InlineFile:
    declared: str | None = None
    if text.startswith(_DATA):
        matched = _DATA_URL.match(text)
        if matched is None:
            raise _invalid(field, "is not a base64 data URL", "send base64 with its media type")
        declared, text = matched[1].lower(), text[matched.end() :]
    try:
        content = msgspec.convert(text, bytes)  # several times as fast as the standard library
    except msgspec.ValidationError:
        raise _invalid(field, "is not base64", "encode the bytes of the file") from None
    if not content:
        raise _invalid(field, "is empty", "send the bytes of the file")
    return InlineFile(content=content, mime_type=declared or type_of(name, content[:HEAD_BYTES]), name=name)


def _invalid(field: str, problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {problem}", reason="inline_file", hint=hint, field=field, problem=problem)
