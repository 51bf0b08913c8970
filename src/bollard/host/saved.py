"""The repositories of saved resources, and the capabilities that depend on them: agents, plugins, skills, MCP servers,
knowledge, runtimes, schedules, webhook routes."""

from collections.abc import Callable, Sequence

import msgspec

from bollard import __version__
from bollard.host.agents.agent_repository import AgentRepository, ConfigSecrets
from bollard.host.agents.routing import AgentDirectory
from bollard.host.core import Core, Storage
from bollard.host.egress.client import EgressClient
from bollard.host.hooks.registry import HOOK_SECRET, HookRepository
from bollard.host.knowledge.library import KnowledgeSource, Library, Rerank
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.mcp.source import McpSource
from bollard.host.models.calls import ModelCaller, ModelGateway
from bollard.host.models.pricing import guess_texts
from bollard.host.plugins.code_store import CodeStore
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.repository import PluginRepository
from bollard.host.plugins.tools import PluginSkillFolders, PluginTools
from bollard.host.plugins.workbench import Workbench
from bollard.host.runs.control import LiveSkillReach
from bollard.host.runtimes.connections import RemoteRuntimes, build_runtimes
from bollard.host.schedules.parts import ScheduleParts
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealed_secrets import SealedSecrets
from bollard.host.secrets.sealing import Sealer
from bollard.host.secrets.vault import Vault
from bollard.host.settings import Settings
from bollard.host.skills.source import SkillParts, build_skills
from bollard.host.store.store import Store
from bollard.protocol import RerankScore


class GuardParts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that stores, seals and hides secrets, and the client that checks outgoing requests."""

    vault: Vault
    sealer: Sealer
    redactor: Redactor
    egress: EgressClient


class SavedParts(msgspec.Struct, frozen=True, kw_only=True):
    """The repositories of a host, and the sources of capabilities behind them."""

    agents: AgentRepository
    plugins: PluginRepository
    workbench: Workbench
    skills: SkillParts
    mcp: McpSource
    library: Library
    runtimes: RemoteRuntimes
    schedules: ScheduleParts
    hooks: HookRepository

    async def load(self, store: Store) -> None:
        await self.agents.load(store)  # before a runner brings an agent that a saved one overrides
        await self.plugins.load()
        await self.skills.repository.load(store)
        await self.mcp.load(store)
        await self.library.book.load(store)
        await self.runtimes.load(store)
        await self.schedules.repository.load(store)
        await self.hooks.load(store)


def open_saved(
    storage: Storage,
    directory: AgentDirectory,
    core: Core,
    *,
    settings: Settings,
    fleet: PluginFleet,
    library: Library,
    schedules: ScheduleParts,
    guards: GuardParts,
    host_id: str,
    is_open: Callable[[str], bool],
) -> SavedParts:
    """Build the repositories, not loaded yet. `is_open` says whether a workspace is open."""
    journal, store, clock, data = storage.journal, storage.store, storage.clock, settings.data
    plugins = PluginRepository(
        fleet=fleet,
        code_store=CodeStore(data / "plugins"),
        journal=journal,
        store=store,
        clock=clock,
        agents=directory.agents,
        bindings=directory.bindings,
        sandbox_roots=settings.sandbox_roots,
    )
    agents = AgentRepository(
        SavedChanges(journal, clock),
        store=store,
        agents=directory.agents,
        bindings=directory.bindings,
        clock=clock,
        gates=core.gates,
        runners=directory.runners,
        has_file=core.files.has,
        secrets=ConfigSecrets(guards.vault),
    )
    folders = PluginSkillFolders(fleet)
    skills = build_skills(
        journal=journal,
        clock=clock,
        folder=data / "skills",
        plugins=folders.of,
        plugins_revision=folders.revision,
        reach=LiveSkillReach(core.dispatcher.live, directory.agents),
        host_version=__version__,
    )
    mcp = McpSource(
        changes=SavedChanges(journal, clock),
        secrets=guards.vault,
        clock=clock,
        home=data / "mcp",
        egress=guards.egress,
        sandbox=fleet.sandbox,
        is_open=is_open,
        hide=guards.redactor.text,
    )
    runtimes = build_runtimes(
        journal=journal,
        clock=clock,
        fleet=fleet,
        plugins=plugins,
        host_id=host_id,
        host_version=__version__,
        is_open=is_open,
    )
    for source in (PluginTools(fleet), skills.source, mcp, KnowledgeSource(library.book, is_open)):
        core.sources.add(source)
    return SavedParts(
        agents=agents,
        plugins=plugins,
        workbench=Workbench(fleet=fleet, repository=plugins, journal=journal, clock=clock),
        skills=skills,
        mcp=mcp,
        library=library,
        runtimes=runtimes,
        schedules=schedules,
        hooks=HookRepository(
            SavedChanges(journal, clock), SealedSecrets(HOOK_SECRET, clock, guards.sealer, guards.redactor), is_open
        ),
    )


def rerank_with(gateway: ModelGateway) -> Rerank:
    """A reranker for knowledge bases that no run pays for: the workspace pays."""

    async def rerank(workspace: str, model_id: str, query: str, texts: Sequence[str]) -> Sequence[RerankScore]:
        tokens = guess_texts((query, *texts))
        async with gateway.place(ModelCaller(workspace=workspace, by="knowledge"), model_id, tokens) as place:
            return await place.backend.rerank(query, texts, None, place.key)

    return rerank
