"""Everything about skills, put together."""

from pathlib import Path

import msgspec

from bollard.host.clock import Clock
from bollard.host.log.journal import Journal
from bollard.host.log.saved_changes import SavedChanges
from bollard.host.skills.brought import PluginSkills
from bollard.host.skills.catalogue import Revised, SkillCatalogue
from bollard.host.skills.content_files import ContentFiles
from bollard.host.skills.keeping import SkillBook
from bollard.host.skills.skill_source import SkillReach, Skills

__all__ = ["OpenedSkills", "open_skills"]


class OpenedSkills(msgspec.Struct, frozen=True, kw_only=True):
    """What the surface and the runs ask about skills."""

    book: SkillBook
    catalogue: SkillCatalogue
    source: Skills


def open_skills(
    *,
    journal: Journal,
    clock: Clock,
    folder: Path,
    plugins: PluginSkills,
    plugins_revision: Revised,
    reach: SkillReach,
    host_version: str,
) -> OpenedSkills:
    """Built, and not filled yet."""
    book = SkillBook(SavedChanges(journal, clock), ContentFiles(folder), clock)
    catalogue = SkillCatalogue(book, plugins, plugins_revision)
    return OpenedSkills(
        book=book, catalogue=catalogue, source=Skills(catalogue, book, reach, host_version=host_version)
    )
