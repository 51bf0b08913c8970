"""Images and files inside messages, as formats of vendors want them. Pure.

Content is untrusted: it is labelled, encoded and passed on, never interpreted.
"""

import base64
import binascii
import re
from typing import Final

import msgspec

from bollard.host.files.media_types import UNKNOWN_TYPE, named_type, shown_type
from bollard.host.models.failures import failed
from bollard.protocol import ContentElement, FileBase64Content, ImageBase64Content, Message, TextContent

_DATA_URL: Final = re.compile(r"data:([A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64})(?:;[A-Za-z0-9=._-]{1,64})*;base64,")
_READABLE: Final = frozenset({"application/json", "application/xml", "application/yaml"})


class Inline(msgspec.Struct, frozen=True, kw_only=True):
    """Content as it stands in a request."""

    mime: str
    base64: str
    name: str | None = None

    @property
    def data_url(self) -> str:
        return f"data:{self.mime};base64,{self.base64}"

    @property
    def is_image(self) -> bool:
        return self.mime.startswith("image/")


def elements_of(message: Message) -> tuple[ContentElement, ...]:
    """The content as elements, without empty text. Raises `ModelFailed` for an unresolved artifact."""
    if isinstance(message.content, str):
        return (TextContent(text=message.content),) if message.content else ()
    if any(element.type == "artifact" for element in message.content):
        raise failed(
            "not_supported",
            "a message contains an unresolved artifact",
            "model.artifact",
            hint="send its content or its text",
        )
    return tuple(each for each in message.content if not isinstance(each, TextContent) or each.text)


def text_of(message: Message) -> str:
    """All text of a message, for roles that allow text only."""
    if isinstance(message.content, str):
        return message.content
    return "\n\n".join(each.text for each in message.content if isinstance(each, TextContent) and each.text)


def inline_image(element: ImageBase64Content) -> Inline:
    """Read raw base64 or a data URL. Raises `ModelFailed` if it is not an image."""
    found = _inline(element.image_base64, None)
    if not found.is_image:
        raise failed(
            "invalid_request",
            "the image has an unsupported format",
            "model.image_format",
            hint="send PNG, JPEG, GIF or WebP",
        )
    return found


def inline_file(element: FileBase64Content) -> Inline:
    """The media type follows from the name, else from the first bytes."""
    return _inline(element.file_base64, element.file_name)


def inline_url(url: str) -> Inline | None:
    """The image that a data URL holds; `None` for an address."""
    return _inline(url, None) if url.startswith("data:") else None


def readable(file: Inline) -> str | None:
    """The text of a file that is text, with its name before it."""
    if not (file.mime.startswith("text/") or file.mime in _READABLE):
        return None
    try:
        text = base64.b64decode(file.base64, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None
    return f"{file.name or 'file'}:\n{text}"


def mention(name: str | None, url: str) -> str:
    """The text that replaces a file which the model cannot read."""
    return f"{name or 'file'}: {url}"


def _inline(text: str, name: str | None) -> Inline:
    matched = _DATA_URL.match(text)
    if matched is not None:
        return Inline(mime=matched[1].lower(), base64=text[matched.end() :], name=name)
    if text.startswith("data:"):
        raise failed(
            "invalid_request", "a data URL is not base64", "model.data_url", hint="send base64 with its media type"
        )
    return Inline(mime=named_type(name) or _shown(text), base64=text, name=name)


def _shown(text: str) -> str:
    try:
        return shown_type(base64.b64decode(text[:24]))
    except (binascii.Error, ValueError):
        return UNKNOWN_TYPE
