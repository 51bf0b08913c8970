"""What runs of this host can do, put together: every source of capabilities, and what must be kept of them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bollard import __version__
from bollard.host.agents.agent import AgentBook
from bollard.host.capabilities.registry import Sources
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.knowledge.library import Library, Rerank
from bollard.host.knowledge.source import KnowledgeSource
from bollard.host.log.journal import Journal
from bollard.host.log.saved_changes import SavedChanges
from bollard.host.mcp.source import McpSource
from bollard.host.models.calling import Asker, ModelDesk
from bollard.host.models.pricing import guess_texts
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.skill_folders import PluginSkillFolders
from bollard.host.plugins.tool_source import PluginTools
from bollard.host.runs.skill_reach import LiveSkillReach
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import Vault
from bollard.host.skills.opening import OpenedSkills, open_skills
from bollard.host.store.boundary import Store
from bollard.protocol import RerankScore

__all__ = ["Abilities", "open_abilities", "rerank_with"]


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What has a life of its own among the sources."""

    skills: OpenedSkills
    mcp: McpSource
    library: Library

    async def load(self, store: Store) -> None:
        await self.skills.book.load(store)
        await self.mcp.load(store)
        await self.library.book.load(store)


def open_abilities(
    sources: Sources,
    *,
    core: Core,
    library: Library,
    journal: Journal,
    clock: Clock,
    data: Path,
    fleet: PluginFleet,
    agents: AgentBook,
    vault: Vault,
    redactor: Redactor,
    is_open: Callable[[str], bool],
) -> Abilities:
    """Adds to `sources` what the plugins, skills and MCP servers of this host offer."""
    folders = PluginSkillFolders(fleet)
    skills = open_skills(
        journal=journal,
        clock=clock,
        folder=data / "skills",
        plugins=folders.of,
        plugins_revision=folders.revision,
        reach=LiveSkillReach(core.dispatcher.live, agents),
        host_version=__version__,
    )
    mcp = McpSource(
        changes=SavedChanges(journal, clock),
        secrets=vault,
        clock=clock,
        home=data / "mcp",
        is_open=is_open,
        hide=redactor.text,
    )
    for source in (PluginTools(fleet), skills.source, mcp, KnowledgeSource(library.book, is_open)):
        sources.add(source)
    return Abilities(skills=skills, mcp=mcp, library=library)


def rerank_with(desk: ModelDesk) -> Rerank:
    """Knowledge bases ask models through this where no run asks: the workspace pays."""

    async def rerank(workspace: str, model_id: str, query: str, texts: Sequence[str]) -> Sequence[RerankScore]:
        tokens = guess_texts((query, *texts))
        async with desk.place(Asker(workspace=workspace, by="knowledge"), model_id, tokens) as place:
            return await place.backend.rerank(query, texts, None, place.key)

    return rerank
