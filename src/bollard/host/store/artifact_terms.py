"""On which terms artifacts are taken: what they may be called, of which media types they are, how long they are kept.
Pure. Files of workspaces are kept until somebody deletes them, whatever is said here.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from bollard.host.errors import SettingsError
from bollard.host.store.mime_types import ANY_MIME_TYPE, MimeTypes, is_pattern

__all__ = ["ANY_TERMS", "NAME_CHARACTERS", "ArtifactTerms", "name_problem", "terms_of"]

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
