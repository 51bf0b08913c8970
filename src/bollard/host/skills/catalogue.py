"""The skills of a workspace, both saved ones and those of its plugins, and the content of their files."""

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
from bollard.host.errors import HostError, InvalidRequest, StorageUnavailable, caused_by
from bollard.host.limits import SKILL_BYTES, SKILL_FILES, SKILLS_OF_PLUGIN
from bollard.host.reason import why_error
from bollard.host.skills.repository import SkillRepository
from bollard.host.skills.skill import FileEntry, OfferedSkill, Unusable, read_content

# --- skills of plugins, read through a confined folder that follows no links; all calls block ---

_REINSTALL: Final = "restart the plugin, or install it again"
_ENTRIES: Final = 4 * SKILL_FILES
"""Entries read of one skill, folders included."""


class PluginSkillFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The `skills` folder of one plugin in one workspace."""

    plugin_id: str
    folder: Path
    digest: str
    """The digest of the plugin's code; other code is read again."""


PluginSkills = Callable[[str], Sequence[PluginSkillFolder]]
"""The skill folders of the plugins of a workspace."""


class FolderSkills(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of one folder, and why others cannot be used."""

    skills: tuple[OfferedSkill, ...] = ()
    unusable: tuple[Unusable, ...] = ()


def read_plugin_skills(plugin: PluginSkillFolder) -> FolderSkills:
    """Every skill of a plugin. An invalid skill does not affect the others. A missing folder or a link has none."""
    skills: list[OfferedSkill] = []
    unusable: list[Unusable] = []
    with contextlib.suppress(OSError, ConfineError), Folder(plugin.folder) as folder:
        names = [entry.path for entry in folder.entries() if entry.kind == "folder"]
        for name in names[:SKILLS_OF_PLUGIN]:
            try:
                skills.append(_read_skill(folder, name, plugin.plugin_id))
            except (HostError, ConfineError, OSError) as error:
                reason = why_error(error)
                unusable.append(Unusable(skill_id=f"{plugin.plugin_id}/{name}", reason=reason))
    return FolderSkills(skills=tuple(skills), unusable=tuple(unusable))


def _read_skill(folder: Folder, name: str, plugin_id: str) -> OfferedSkill:
    files: dict[str, bytes] = {}
    left = SKILL_BYTES
    for entry in folder.walk(name, limit=_ENTRIES):
        if entry.kind != "file":
            continue
        if len(files) == SKILL_FILES:
            raise InvalidRequest(
                f"the skill has more than {SKILL_FILES} files", reason="skill_too_many_files", limit=SKILL_FILES
            )
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


def read_file(plugin: PluginSkillFolder, name: str, path: str, sha256: str) -> bytes:
    """One file of a skill, if it is unchanged since the skill was read. Raises `StorageUnavailable`."""
    try:
        with Folder(plugin.folder) as folder:
            content = folder.read(f"{name}/{path}", limit=SKILL_BYTES)
    except (ConfineError, OSError) as error:
        raise StorageUnavailable(
            f"the file {path} of the skill {name} cannot be read: {error}",
            reason="skill_file_unreadable",
            hint=_REINSTALL,
            skill=name,
            file=path,
            **caused_by(error),
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise StorageUnavailable(
            f"the file {path} of the skill {name} was changed after the plugin was installed",
            reason="skill_file_changed",
            hint=_REINSTALL,
            skill=name,
            file=path,
        )
    return content


# --- the catalogue ---

_log = structlog.get_logger("bollard.skills")
_FOLDERS: Final = 256
"""Cached plugin folders."""


class Revised(Protocol):
    """Returns a number that grows with every change."""

    def __call__(self) -> int: ...


class _WorkspaceSkills(msgspec.Struct, frozen=True):
    revision: int
    skills: dict[str, tuple[OfferedSkill, PluginSkillFolder | None]]
    unusable: tuple[Unusable, ...]


class SkillCatalogue:
    """Finds the skills of a workspace, cached until something changes. One per host."""

    def __init__(self, repository: SkillRepository, plugins: PluginSkills, plugins_revision: Revised) -> None:
        self._repository = repository
        self._plugins = plugins
        self._plugins_revision = plugins_revision
        self._folders: OrderedDict[tuple[Path, str], FolderSkills] = OrderedDict()
        self._workspaces: dict[str, _WorkspaceSkills] = {}

    @property
    def revision(self) -> int:
        return self._repository.revision + self._plugins_revision()

    def all(self, workspace: str) -> list[OfferedSkill]:
        return [skill for skill, _ in self._of(workspace).skills.values()]

    def unusable(self, workspace: str) -> tuple[Unusable, ...]:
        return self._of(workspace).unusable

    def find(self, workspace: str, skill_id: str) -> OfferedSkill | None:
        entry = self._of(workspace).skills.get(skill_id)
        return None if entry is None else entry[0]

    async def content(self, workspace: str, skill: OfferedSkill, entry: FileEntry) -> bytes:
        """The content of one of its files. Raises `StorageUnavailable`."""
        known = self._of(workspace).skills.get(skill.skill_id)
        plugin = None if known is None else known[1]
        if plugin is None:
            return await self._repository.read(workspace, entry.sha256)
        name = skill.skill_id.removeprefix(f"{plugin.plugin_id}/")
        return await asyncio.to_thread(read_file, plugin, name, entry.path, entry.sha256)

    def _of(self, workspace: str) -> _WorkspaceSkills:
        cached, revision = self._workspaces.get(workspace), self.revision
        if cached is None or cached.revision != revision:
            cached = self._workspaces[workspace] = self._load(workspace, revision)
        return cached

    def _load(self, workspace: str, revision: int) -> _WorkspaceSkills:
        skills: dict[str, tuple[OfferedSkill, PluginSkillFolder | None]] = {}
        unusable: list[Unusable] = []
        for saved in self._repository.all(workspace):
            skills[saved.id] = (saved.value.offered(), None)
        for plugin in self._plugins(workspace):
            folder = self._folder_skills(plugin)
            skills |= {skill.skill_id: (skill, plugin) for skill in folder.skills}
            unusable += folder.unusable
        return _WorkspaceSkills(revision, skills, tuple(unusable))

    def _folder_skills(self, plugin: PluginSkillFolder) -> FolderSkills:
        """The skills of a plugin. Blocks for the first read of each version: a few small files."""
        key = (plugin.folder, plugin.digest)
        skills = self._folders.get(key)
        if skills is None:
            skills = self._folders[key] = read_plugin_skills(plugin)
            for each in skills.unusable:
                _log.warning("a skill of a plugin cannot be used", skill=each.skill_id, problem=each.reason.sentence)
            if len(self._folders) > _FOLDERS:
                self._folders.popitem(last=False)
        return skills
