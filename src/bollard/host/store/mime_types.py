"""Which kinds of content are taken. Pure. Nothing is, unless the list says so; `*/*` says everything."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bollard.host.errors import InvalidRequest

__all__ = ["ANY_MIME_TYPE", "MimeTypes"]

_CHARACTERS: Final = 127
_TOKEN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$&-^_.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MimeTypes:
    """Patterns such as `image/png`, `image/*` and `*/*`. A denied type is not taken even when it is allowed."""

    allow: frozenset[str]
    deny: frozenset[str] = frozenset()

    def admits(self, mime_type: str) -> bool:
        kind, _, detail = mime_type.partition(";")[0].strip().lower().partition("/")
        if not (_is_token(kind) and _is_token(detail)):
            return False
        patterns = (f"{kind}/{detail}", f"{kind}/*", "*/*")
        return _any(patterns, self.allow) and not _any(patterns, self.deny)

    def check(self, mime_type: str) -> None:
        """Raises `InvalidRequest`."""
        if not self.admits(mime_type):
            hint = f"allowed are {', '.join(sorted(self.allow)) or 'none'}"
            raise InvalidRequest(
                f"content of type {mime_type[:_CHARACTERS]!r} is not taken", hint=hint, field="mime_type"
            )


ANY_MIME_TYPE: Final = MimeTypes(allow=frozenset({"*/*"}))


def _any(patterns: Iterable[str], listed: frozenset[str]) -> bool:
    return any(pattern in listed for pattern in patterns)


def _is_token(text: str) -> bool:
    return 0 < len(text) <= _CHARACTERS and _TOKEN.issuperset(text)
