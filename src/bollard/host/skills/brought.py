"""The skills that plugins bring in their folder `skills`, one folder each. A bad one is a warning and hides no other.

All calls block. Files are reached through a confined folder: a link is no file of a skill, and nothing leads out.
"""

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bollard.confine.errors import ConfineError
from bollard.confine.folder import Folder
from bollard.host.errors import HostError, InvalidRequest, StorageUnavailable
from bollard.host.limits import SKILL_BYTES, SKILL_FILES, SKILLS_OF_PLUGIN
from bollard.host.skills.skill import OfferedSkill, Unusable
from bollard.host.skills.skill_files import read_content

__all__ = ["Brought", "BroughtFolder", "PluginSkills", "read_brought", "read_file"]

_AGAIN: Final = "restart the plugin, or install it again"
_ENTRIES: Final = 4 * SKILL_FILES
"""What is looked at of one skill, folders included."""


class BroughtFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The skills of one plugin in one workspace."""

    plugin_id: str
    folder: Path
    digest: str
    """Of the plugin's code: other code is read again."""


PluginSkills = Callable[[str], Sequence[BroughtFolder]]
"""What the plugins of a workspace bring now."""


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """What one plugin's folder holds."""

    skills: tuple[OfferedSkill, ...] = ()
    unusable: tuple[Unusable, ...] = ()


def read_brought(place: BroughtFolder) -> Brought:
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
    return Brought(skills=tuple(found), unusable=tuple(unusable))


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


def read_file(place: BroughtFolder, name: str, path: str, sha256: str) -> bytes:
    """One file of a skill, as it was when the skill was read. Raises `StorageUnavailable`."""
    try:
        with Folder(place.folder) as folder:
            content = folder.read(f"{name}/{path}", limit=SKILL_BYTES)
    except (ConfineError, OSError) as error:
        raise StorageUnavailable(f"a file of the skill cannot be read: {error}", hint=_AGAIN) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise StorageUnavailable("a file of the skill was changed after the plugin came", hint=_AGAIN)
    return content
