"""The rules for artifacts: names, media types and lifetime. Pure. Files of workspaces never expire."""

from collections.abc import Iterable
from typing import Final

import msgspec

from bollard.host.errors import SettingsError

_EVERY: Final = "*/*"
_CHARACTERS: Final = 127
_TOKEN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789!#$&-^_.+")


class MimeTypes(msgspec.Struct, frozen=True, kw_only=True):
    """Patterns such as `image/png`, `image/*` and `*/*`. An empty list admits nothing; `deny` overrides `allow`."""

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
    """Whether the text is a media type, or a pattern such as `image/*` or `*/*`."""
    kind, _, detail = text.lower().partition("/")
    return text == _EVERY or (_is_token(kind) and (detail == "*" or _is_token(detail)))


def _any(patterns: Iterable[str], listed: frozenset[str]) -> bool:
    return any(pattern in listed for pattern in patterns)


def _is_token(text: str) -> bool:
    return 0 < len(text) <= _CHARACTERS and _TOKEN.issuperset(text)


NAME_CHARACTERS: Final = 255
"""The longest name of an artifact, as for file names."""
_LAST_CONTROL: Final = 0x1F
_DELETE: Final = 0x7F
_DAY_MS: Final = 24 * 3600 * 1000
_BYTES: Final = "application/octet-stream"


class ArtifactTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for all artifacts of a host, except uploaded files."""

    life_ms: int | None = None
    """Time from the record to the expiry; `None` is for ever."""
    mime_types: MimeTypes = ANY_MIME_TYPE

    def expires_ms(self, now_ms: int) -> int | None:
        return None if self.life_ms is None else now_ms + self.life_ms

    def type_problem(self, mime_type: str | None) -> str | None:
        """The problem with a media type, if any. Content without one is `application/octet-stream`."""
        checked = _BYTES if mime_type is None else mime_type
        if (problem := name_problem(checked)) is not None:
            return problem
        if self.mime_types.admits(checked):
            return None
        allowed = ", ".join(sorted(self.mime_types.allow)) or "none"
        return f"content of type {checked[:NAME_CHARACTERS]!r} is not accepted; allowed are {allowed}"


ANY_TERMS: Final = ArtifactTerms()


def terms_of(days: float, mime_types: Iterable[str]) -> ArtifactTerms:
    """Build the rules from the settings; 0 days is for ever. Raises `SettingsError`."""
    allow = frozenset(each.lower() for each in mime_types)
    if wrong := sorted(each for each in allow if not is_pattern(each)):
        raise SettingsError(
            f"artifact_mime_types contains {wrong[0]!r}, which is not a media type",
            reason="not_a_media_type",
            hint="use media types such as text/plain, image/* or */*",
            field="artifact_mime_types",
            value=wrong[0],
        )
    life_ms = max(round(days * _DAY_MS), 1) if days else None
    return ArtifactTerms(life_ms=life_ms, mime_types=MimeTypes(allow=allow))


def name_problem(text: str) -> str | None:
    """The problem with the name of an artifact, if any."""
    if not text.strip() or len(text) > NAME_CHARACTERS:
        return f"is empty or longer than {NAME_CHARACTERS} characters"
    if any(ord(character) <= _LAST_CONTROL or ord(character) == _DELETE for character in text):
        return "holds a control character"
    return None
