"""Every skill that a workspace has now, whoever brought it: what each is, and the content of its files."""

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Final, Protocol

import msgspec
import structlog

from bollard.host.skills.brought import Brought, BroughtFolder, PluginSkills, read_brought, read_file
from bollard.host.skills.keeping import SkillBook
from bollard.host.skills.skill import OfferedSkill, Unusable
from bollard.host.skills.skill_files import FileEntry

__all__ = ["Revised", "SkillCatalogue"]

_log = structlog.get_logger("bollard.skills")
_FOLDERS: Final = 256
"""Plugins whose folders are remembered as they were read."""


class Revised(Protocol):
    """Something that says when it changed."""

    def __call__(self) -> int: ...


class _Known(msgspec.Struct, frozen=True):
    revision: int
    skills: dict[str, tuple[OfferedSkill, BroughtFolder | None]]
    unusable: tuple[Unusable, ...]


class SkillCatalogue:
    """One per host."""

    def __init__(self, book: SkillBook, plugins: PluginSkills, plugins_revision: Revised) -> None:
        self._book = book
        self._plugins = plugins
        self._plugins_revision = plugins_revision
        self._read: OrderedDict[tuple[Path, str], Brought] = OrderedDict()
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
        skills: dict[str, tuple[OfferedSkill, BroughtFolder | None]] = {}
        unusable: list[Unusable] = []
        for saved in self._book.all(workspace):
            skills[saved.id] = (saved.thing.offered(), None)
        for place in self._plugins(workspace):
            brought = self._brought(place)
            skills |= {skill.skill_id: (skill, place) for skill in brought.skills}
            unusable += brought.unusable
        return _Known(revision, skills, tuple(unusable))

    def _brought(self, place: BroughtFolder) -> Brought:
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
