"""Every skill that a workspace has now, whoever brought it: what each is, and the content of its files."""

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec
import structlog

from bollard.confine.errors import ConfineError
from bollard.confine.folder import Folder
from bollard.host.errors import HostError, InvalidRequest, StorageUnavailable
from bollard.host.limits import SKILL_BYTES, SKILL_FILES, SKILLS_OF_PLUGIN
from bollard.host.skills.repository import SkillRepository
from bollard.host.skills.skill import FileEntry, OfferedSkill, Unusable, read_content

# The skills that plugins bring in their folder `skills`, one folder each. A bad one is a warning and hides no other.
#
# All calls block. Files are reached through a confined folder: a link is no file of a skill, and nothing leads out.


_AGAIN: Final = "restart the plugin, or install it again"
_ENTRIES: Final = 4 * SKILL_FILES
"""What is looked at of one skill, folders included."""


class PluginSkillFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of one plugin in one workspace."""

    plugin_id: str
    folder: Path
    digest: str
    """Of the plugin's code: other code is read again."""


PluginSkills = Callable[[str], Sequence[PluginSkillFolder]]
"""What the plugins of a workspace bring now."""


class FolderSkills(msgspec.Struct, frozen=True, kw_only=True):
    """What one plugin's folder holds."""

    skills: tuple[OfferedSkill, ...] = ()
    unusable: tuple[Unusable, ...] = ()


def read_brought(place: PluginSkillFolder) -> FolderSkills:
    """Every skill of a plugin. A folder that is not there, or is a link, holds none."""
    found: list[OfferedSkill] = []
    unusable: list[Unusable] = []
    with contextlib.suppress(OSError, ConfineError), Folder(place.folder) as folder:
        names = [entry.path for entry in folder.entries() if entry.kind == "folder"]
        for name in names[:SKILLS_OF_PLUGIN]:
            try:
                found.append(_skill(folder, name, place.plugin_id))
            except (HostError, ConfineError, OSError) as error:
                unusable.append(Unusable(skill_id=f"{place.plugin_id}/{name}", reason=str(error)))
    return FolderSkills(skills=tuple(found), unusable=tuple(unusable))


def _skill(folder: Folder, name: str, plugin_id: str) -> OfferedSkill:
    files: dict[str, bytes] = {}
    left = SKILL_BYTES
    for entry in folder.walk(name, limit=_ENTRIES):
        if entry.kind != "file":
            continue
        if len(files) == SKILL_FILES:
            raise InvalidRequest(f"it has more than {SKILL_FILES} files")
        content = files[entry.path.removeprefix(f"{name}/")] = folder.read(entry.path, limit=left)
        left -= len(content)
    content = read_content(files, name)
    return OfferedSkill(
        skill_id=f"{plugin_id}/{name}",
        description=content.text.description,
        digest=content.digest,
        files=content.files,
        wishes=content.text.wishes,
        source=f"plugin:{plugin_id}",
    )


def read_file(place: PluginSkillFolder, name: str, path: str, sha256: str) -> bytes:
    """One file of a skill, as it was when the skill was read. Raises `StorageUnavailable`."""
    try:
        with Folder(place.folder) as folder:
            content = folder.read(f"{name}/{path}", limit=SKILL_BYTES)
    except (ConfineError, OSError) as error:
        raise StorageUnavailable(f"a file of the skill cannot be read: {error}", hint=_AGAIN) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise StorageUnavailable("a file of the skill was changed after the plugin came", hint=_AGAIN)
    return content


_log = structlog.get_logger("bollard.skills")
_FOLDERS: Final = 256
"""Plugins whose folders are remembered as they were read."""


class Revised(Protocol):
    """Something that says when it changed."""

    def __call__(self) -> int: ...


class _Known(msgspec.Struct, frozen=True):
    revision: int
    skills: dict[str, tuple[OfferedSkill, PluginSkillFolder | None]]
    unusable: tuple[Unusable, ...]


class SkillCatalogue:
    """One per host."""

    def __init__(self, book: SkillRepository, plugins: PluginSkills, plugins_revision: Revised) -> None:
        self._book = book
        self._plugins = plugins
        self._plugins_revision = plugins_revision
        self._read: OrderedDict[tuple[Path, str], FolderSkills] = OrderedDict()
        self._known: dict[str, _Known] = {}

    @property
    def revision(self) -> int:
        return self._book.revision + self._plugins_revision()

    def all(self, workspace: str) -> list[OfferedSkill]:
        return [skill for skill, _ in self._of(workspace).skills.values()]

    def unusable(self, workspace: str) -> tuple[Unusable, ...]:
        return self._of(workspace).unusable

    def find(self, workspace: str, skill_id: str) -> OfferedSkill | None:
        found = self._of(workspace).skills.get(skill_id)
        return None if found is None else found[0]

    async def content(self, workspace: str, skill: OfferedSkill, entry: FileEntry) -> bytes:
        """Of one of its files. Raises `StorageUnavailable`."""
        found = self._of(workspace).skills.get(skill.skill_id)
        place = None if found is None else found[1]
        if place is None:
            return await self._book.read(workspace, entry.sha256)
        name = skill.skill_id.removeprefix(f"{place.plugin_id}/")
        return await asyncio.to_thread(read_file, place, name, entry.path, entry.sha256)

    def _of(self, workspace: str) -> _Known:
        known, revision = self._known.get(workspace), self.revision
        if known is None or known.revision != revision:
            known = self._known[workspace] = self._look(workspace, revision)
        return known

    def _look(self, workspace: str, revision: int) -> _Known:
        skills: dict[str, tuple[OfferedSkill, PluginSkillFolder | None]] = {}
        unusable: list[Unusable] = []
        for saved in self._book.all(workspace):
            skills[saved.id] = (saved.thing.offered(), None)
        for place in self._plugins(workspace):
            brought = self._brought(place)
            skills |= {skill.skill_id: (skill, place) for skill in brought.skills}
            unusable += brought.unusable
        return _Known(revision, skills, tuple(unusable))

    def _brought(self, place: PluginSkillFolder) -> FolderSkills:
        """Read once for each version of a plugin: a few small files, while nothing else waits for them."""
        key = (place.folder, place.digest)
        found = self._read.get(key)
        if found is None:
            found = self._read[key] = read_brought(place)
            for each in found.unusable:
                _log.warning("a skill of a plugin cannot be used", skill=each.skill_id, problem=each.reason)
            if len(self._read) > _FOLDERS:
                self._read.popitem(last=False)
        return found
