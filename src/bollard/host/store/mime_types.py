"""Which kinds of content are taken. Pure. Nothing is, unless the list says so; `*/*` says everything."""

from collections.abc import Iterable
from typing import Final

import msgspec

__all__ = ["ANY_MIME_TYPE", "MimeTypes", "is_pattern"]

_EVERY: Final = "*/*"
_CHARACTERS: Final = 127
_TOKEN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$&-^_.+")


class MimeTypes(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns such as `image/png`, `image/*` and `*/*`. A denied type is not taken even when it is allowed."""

    allow: frozenset[str]
    deny: frozenset[str] = frozenset()

    def admits(self, mime_type: str) -> bool:
        kind, _, detail = mime_type.partition(";")[0].strip().lower().partition("/")
        if not (_is_token(kind) and _is_token(detail)):
            return False
        patterns = (f"{kind}/{detail}", f"{kind}/*", _EVERY)
        return _any(patterns, self.allow) and not _any(patterns, self.deny)


ANY_MIME_TYPE: Final = MimeTypes(allow=frozenset({_EVERY}))


def is_pattern(text: str) -> bool:
    """Whether a list can have it: a media type, all of a kind, or everything."""
    kind, _, detail = text.lower().partition("/")
    return text == _EVERY or (_is_token(kind) and (detail == "*" or _is_token(detail)))


def _any(patterns: Iterable[str], listed: frozenset[str]) -> bool:
    return any(pattern in listed for pattern in patterns)


def _is_token(text: str) -> bool:
    return 0 < len(text) <= _CHARACTERS and _TOKEN.issuperset(text)
