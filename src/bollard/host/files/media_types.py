"""Media types of files: the type that the first bytes show, and whether they fit a declared type. Pure."""

import codecs
from collections.abc import Callable, Mapping
from typing import Final

HEAD_BYTES: Final = 512
"""The beginning of a content that its type is read from."""
UNKNOWN_TYPE: Final = "application/octet-stream"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."


def _begins(*magics: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.startswith(magics)


def _riff(kind: bytes) -> Callable[[bytes], bool]:
    return lambda head: head[:4] == b"RIFF" and head[8:12] == kind


def _is_iso_media(head: bytes) -> bool:
    return head[4:8] == b"ftyp"


def _is_mp3(head: bytes) -> bool:
    return head.startswith(b"ID3") or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0)


_ZIP: Final = _begins(b"PK\x03\x04", b"PK\x05\x06")
_SHOWN_BY: Final[Mapping[str, Callable[[bytes], bool]]] = {
    "image/png": _begins(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": _begins(b"\xff\xd8\xff"),
    "image/gif": _begins(b"GIF87a", b"GIF89a"),
    "image/webp": _riff(b"WEBP"),
    "image/bmp": _begins(b"BM"),
    "image/tiff": _begins(b"II*\0", b"MM\0*"),
    "application/pdf": _begins(b"%PDF-"),
    "application/zip": _ZIP,
    f"{_OFFICE}wordprocessingml.document": _ZIP,
    f"{_OFFICE}spreadsheetml.sheet": _ZIP,
    f"{_OFFICE}presentationml.presentation": _ZIP,
    "application/gzip": _begins(b"\x1f\x8b"),
    "audio/wav": _riff(b"WAVE"),
    "audio/x-wav": _riff(b"WAVE"),
    "audio/ogg": _begins(b"OggS"),
    "audio/flac": _begins(b"fLaC"),
    "audio/mpeg": _is_mp3,
    "audio/mp4": _is_iso_media,
    "video/mp4": _is_iso_media,
    "video/quicktime": _is_iso_media,
    "video/webm": _begins(b"\x1aE\xdf\xa3"),
    "audio/webm": _begins(b"\x1aE\xdf\xa3"),
}
"""Types that the first bytes show. Other types are taken as declared."""
_SEEN: Final = (
    *("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf", "audio/wav", "audio/ogg"),
    *("audio/flac", "video/webm", "video/mp4", "application/zip"),
)
"""Types that are recognised without a declaration."""
_BY_ENDING: Final[Mapping[str, str]] = {
    "csv": "text/csv",
    "docx": f"{_OFFICE}wordprocessingml.document",
    "gif": "image/gif",
    "htm": "text/html",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "log": "text/plain",
    "md": "text/markdown",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "ogg": "audio/ogg",
    "pdf": "application/pdf",
    "png": "image/png",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}


def plain_type(media_type: str) -> str:
    """The type without its parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def fits(declared: str, head: bytes) -> bool:
    """Whether a content with these first bytes can have the declared type. Text has no NUL byte, except in UTF-16 and
    UTF-32."""
    kind = plain_type(declared)
    if kind.startswith("text/"):
        return b"\0" not in head or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
    shows = _SHOWN_BY.get(kind)
    return shows is None or shows(head)


def named_type(name: str | None) -> str | None:
    """The type that the ending of a name stands for; `None` for an unknown ending."""
    return _BY_ENDING.get((name or "").rpartition(".")[2].lower())


def shown_type(head: bytes) -> str:
    """The type that the first bytes show."""
    return next((kind for kind in _SEEN if _SHOWN_BY[kind](head)), UNKNOWN_TYPE)


def type_of(name: str | None, head: bytes) -> str:
    """The type of a content that declares none: by the ending of its name if the bytes fit, else by its bytes."""
    by_name = named_type(name)
    return by_name if by_name is not None and fits(by_name, head) else shown_type(head)


def artifact_type_of(media_type: str) -> str:
    """`image`, `audio` or `video`, else `file`."""
    kind = plain_type(media_type).partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "file"
