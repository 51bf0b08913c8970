"""On which terms artifacts are taken: what they may be called, of which media types they are, how long they are kept.
Pure. Files of workspaces are kept until somebody deletes them, whatever is said here.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from bollard.host.errors import SettingsError

# Which kinds of content are taken. Pure. Nothing is, unless the list says so; `*/*` says everything.


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


NAME_CHARACTERS: Final = 255
"""The name of an artifact; as long as file names are."""
_LAST_CONTROL: Final = 0x1F
_DELETE: Final = 0x7F
_DAY_MS: Final = 24 * 3600 * 1000
_BYTES: Final = "application/octet-stream"


class ArtifactTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The same for all artifacts of a host that people did not bring themselves."""

    life_ms: int | None = None
    """Time from the record to the end; for ever, where there is none."""
    mime_types: MimeTypes = ANY_MIME_TYPE

    def expires_ms(self, now_ms: int) -> int | None:
        return None if self.life_ms is None else now_ms + self.life_ms

    def type_problem(self, mime_type: str | None) -> str | None:
        """What is wrong with a media type, and what would be right. A content without one is bytes."""
        said = _BYTES if mime_type is None else mime_type
        if (problem := name_problem(said)) is not None:
            return problem
        if self.mime_types.admits(said):
            return None
        allowed = ", ".join(sorted(self.mime_types.allow)) or "none"
        return f"content of type {said[:NAME_CHARACTERS]!r} is not taken; allowed are {allowed}"


ANY_TERMS: Final = ArtifactTerms()


def terms_of(days: float, mime_types: Iterable[str]) -> ArtifactTerms:
    """From the settings: 0 days is for ever. Raises `SettingsError`."""
    allow = frozenset(each.lower() for each in mime_types)
    if wrong := sorted(each for each in allow if not is_pattern(each)):
        raise SettingsError(
            f"artifact_mime_types has {wrong[0]!r} in it",
            hint="use media types such as text/plain, image/* or */*",
            field="artifact_mime_types",
        )
    life_ms = max(round(days * _DAY_MS), 1) if days else None
    return ArtifactTerms(life_ms=life_ms, mime_types=MimeTypes(allow=allow))


def name_problem(text: str) -> str | None:
    """What is wrong with a name that people will see, in one line, if anything is."""
    if not text.strip() or len(text) > NAME_CHARACTERS:
        return f"is empty or longer than {NAME_CHARACTERS} characters"
    if any(ord(character) <= _LAST_CONTROL or ord(character) == _DELETE for character in text):
        return "holds a control character"
    return None
