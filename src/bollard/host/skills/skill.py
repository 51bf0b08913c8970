"""A skill as it is offered and as it is saved. Values only."""

from typing import Final, Literal

import msgspec
from pydantic import Field, ValidationError

from bollard.host.errors import HostError, InvalidRequest
from bollard.host.skills.skill_files import FileEntry, SkillContent
from bollard.protocol import Digest, Flag, Int, JsonObject, Strict, first_problem

__all__ = ["KeptSkill", "KeptVersion", "OfferedSkill", "Unusable", "kept_from_store"]

Origin = Literal["workspace", "plugin"]
_MINE: Final = "workspace"


class OfferedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill that a workspace has now."""

    skill_id: str
    """`report-writer`, or `author/plugin/report-writer` for that of a plugin."""
    description: str
    digest: str
    files: tuple[FileEntry, ...]
    wishes: tuple[str, ...]
    source: str = _MINE
    """`workspace`, or `plugin:author/name`."""
    authored: bool = False
    """Whether a run wrote it: what it says is no more trustworthy than what that run read."""

    def file(self, path: str) -> FileEntry | None:
        """Only a file that was there when the skill was taken has a name here."""
        return next((each for each in self.files if each.path == path), None)


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that is there and cannot be used, and why."""

    skill_id: str
    reason: str


class _File(Strict):
    path: str
    size: Int = Field(ge=0)
    sha256: Digest


class KeptVersion(Strict):
    """One version: what it says of itself, and which content its files have."""

    digest: Digest
    description: str
    files: tuple[_File, ...]
    wishes: tuple[str, ...] = ()
    by: str
    at_ms: Int = Field(ge=0)
    authored: Flag = False

    @staticmethod
    def of(content: SkillContent, *, by: str, at_ms: int, authored: bool) -> "KeptVersion":
        return KeptVersion(
            digest=content.digest,
            description=content.text.description,
            files=tuple(_File(path=each.path, size=each.size, sha256=each.sha256) for each in content.files),
            wishes=content.text.wishes,
            by=by,
            at_ms=at_ms,
            authored=authored,
        )


class KeptSkill(Strict):
    """One skill of a workspace, as it is saved."""

    name: str
    current: KeptVersion
    earlier: tuple[KeptVersion, ...] = ()
    """Newest first."""

    @property
    def contents(self) -> frozenset[str]:
        """The digests of the files that must stay."""
        return frozenset(file.sha256 for version in (self.current, *self.earlier) for file in version.files)

    def offered(self) -> OfferedSkill:
        now = self.current
        return OfferedSkill(
            skill_id=self.name,
            description=now.description,
            digest=now.digest,
            files=tuple(FileEntry(path=each.path, size=each.size, sha256=each.sha256) for each in now.files),
            wishes=now.wishes,
            authored=now.authored,
        )


def kept_from_store(body: JsonObject, workspace: str) -> KeptSkill:
    """What `to_wire` gave to the store. Raises `HostError`."""
    del workspace
    try:
        return KeptSkill.from_wire(body)
    except ValidationError as error:
        field, problem = first_problem(error)
        raised: HostError = InvalidRequest(f"{field}: {problem}", field=field)
        raise raised from error
