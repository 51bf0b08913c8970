"""The checks of names and keys that a real host makes before a call has an effect. Pure."""

import hashlib
import re
from typing import Final

from bollard.sdk.errors import api_failure

STATE_TTL_S: Final = 10 * 365 * 24 * 3600
"""The longest time to live of a value."""
_KEY_BYTES: Final = 1024
_NAME_CHARACTERS: Final = 255
_CONTROL: Final = re.compile(r"[\0-\x1f\x7f]")
_MIME_TYPE: Final = re.compile(r"[^/\s]+/[^/\s]+")


def check_key(key: str) -> None:
    """Refuse a key that some store cannot hold."""
    if "\0" in key:
        raise _wrong("key", "contains the character U+0000")
    if len(key.encode("utf-8", "replace")) > _KEY_BYTES:
        raise _wrong("key", f"is longer than {_KEY_BYTES} bytes in UTF-8")


def check_ttl(ttl: int | None) -> None:
    if ttl is not None and ttl > STATE_TTL_S:
        raise _wrong("ttl", f"is more than {STATE_TTL_S} seconds")


def check_artifact(name: str, mime_type: str | None) -> None:
    """Refuse a name or media type that people cannot be shown."""
    if not name.strip() or len(name) > _NAME_CHARACTERS:
        raise _wrong("name", f"is empty or longer than {_NAME_CHARACTERS} characters")
    if _CONTROL.search(name):
        raise _wrong("name", "holds a control character")
    if mime_type is not None and not _MIME_TYPE.match(mime_type):
        raise _wrong("mime_type", f"content of type {mime_type!r} is not accepted")


def check_question(query: str) -> None:
    if not query.strip():
        raise api_failure("invalid_argument", "the question is empty", {"field": "query", "reason": "question_empty"})


def seal_key(listing: str, key: str) -> str:
    """An opaque cursor after a key, good for one listing only."""
    return f"{_mark(listing, key)}.{key}"


def open_key(listing: str, cursor: str) -> str:
    """Return the key of a cursor. Raises `invalid_argument` if it is not a cursor of this listing."""
    mark, _, key = cursor.partition(".")
    if mark != _mark(listing, key):
        raise _wrong("cursor", "is no cursor of this listing")
    return key


def _mark(listing: str, key: str) -> str:
    return hashlib.sha256(f"{listing}\n{key}".encode()).hexdigest()[:12]


def _wrong(field: str, problem: str) -> Exception:
    return api_failure("invalid_argument", f"{field}: {problem}", {"field": field})
