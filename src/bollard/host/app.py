"""The composition root: builds every part of the host from its settings, and starts and stops them in order."""

import asyncio
import secrets
from collections.abc import Mapping

import structlog
from starlette.types import ASGIApp

from bollard import __version__
from bollard.host.abilities import rerank_with
from bollard.host.actions.budgets import day_budgets
from bollard.host.actions.kept_budgets import KeptBudgets
from bollard.host.agents.agent import Agent, AgentBook
from bollard.host.agents.binding_book import BindingBook
from bollard.host.audit.trail import Trail
from bollard.host.capabilities.registry import Sources
from bollard.host.channels.book import ChannelBook
from bollard.host.channels.channel_actions import ChannelActions
from bollard.host.clock import Clock, SystemClock
from bollard.host.core import build_core
from bollard.host.delivery.delivery import Delivery
from bollard.host.egress.client import EgressClient
from bollard.host.engine.local import LocalEngine
from bollard.host.front import Front
from bollard.host.housekeeping import Housekeeping
from bollard.host.http.edge import Edge
from bollard.host.http.operating import Operating
from bollard.host.http.operations import Resource
from bollard.host.http.readiness import Standing
from bollard.host.http.token import AdminToken
from bollard.host.identity.book import open_identity
from bollard.host.identity.caller import DEFAULT_WORKSPACE
from bollard.host.kept import open_kept
from bollard.host.knowledge.opening import open_library
from bollard.host.limits import HOUSEKEEPING_S
from bollard.host.log.desks import choose_desk
from bollard.host.log.journal import Journal
from bollard.host.log.retention import retention_of
from bollard.host.log.saved_changes import SavedChanges
from bollard.host.log.writer_process import WriterProcess
from bollard.host.models.opening import open_models
from bollard.host.plugins.fitting import Origin
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.quarantine import QuarantineLog
from bollard.host.plugins.shared import said_id, shared_sources
from bollard.host.runapi.reach import ArtifactReach
from bollard.host.runapi.tool_artifacts import RunArtifacts
from bollard.host.runs.config_secrets import ConfigSecrets
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealing import KEY_FILE, Sealer
from bollard.host.secrets.vault import Vault
from bollard.host.settings import Settings
from bollard.host.shutdown import Shutdown
from bollard.host.store.artifact_terms import terms_of
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.store.opening import choose_store
from bollard.host.tools.builtin import BuiltinTools
from bollard.host.tools.workspaces import Workspaces
from bollard.host.workers.boundary import SupervisedPool
from bollard.host.workers.plugin import PluginSource
from bollard.protocol import AgentRunnerDiscovery
from bollard.trust.keys import load_or_make_secret, load_or_make_signing_key

__all__ = ["Host"]

_log = structlog.get_logger("bollard.host")
_HEADS_KEY = "heads.ed25519"


class Host:
    """A whole host in one process."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        housekeeping_s: float = HOUSEKEEPING_S,
        redactor: Redactor | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`redactor` is the one that the log goes through; `environment` may name models, and say
        how traces get to their collector."""
        self.settings = settings
        self._clock = clock or SystemClock()
        self._incarnation = f"{self._clock.now_ms():011x}{secrets.token_hex(4)}"
        keys = settings.data / "keys"
        self.token, self.new_token = AdminToken.open(keys / "admin-token.sha256")
        self._signing_key = load_or_make_signing_key(keys / _HEADS_KEY)
        self._cursor_secret = load_or_make_secret(keys / "cursors.secret")
        self._store: Store = choose_store(
            settings.database, settings.data, self._clock, alone=settings.journal == "thread"
        )
        self._blobs = BlobStore(settings.data / "blobs")
        self.broken = asyncio.Event()
        """Set when the host cannot write any more and must be stopped."""
        self._desk = choose_desk(
            settings,
            store=self._store,
            blobs=self._blobs,
            clock=self._clock,
            incarnation=self._incarnation,
            key=self._signing_key,
            lost=self._journal_lost,
        )
        self.redactor = redactor or Redactor()
        self._environment: Mapping[str, str] = environment or {}
        self._sealer = Sealer(keys / KEY_FILE)
        self.egress = EgressClient.of_setting(settings.egress_allow)
        self._agents = AgentBook()
        self._bindings = BindingBook()
        self._runners: dict[tuple[str, str], AgentRunnerDiscovery] = {}
        self._tools = BuiltinTools(
            clock=self._clock, workspaces=Workspaces(settings.data / "workspaces"), fetcher=self.egress
        )
        self._capability_sources = Sources([self._tools])  # what needs what starts later is added as it is there
        self._retention = retention_of(settings.retention)
        self._terms = terms_of(settings.artifact_days, settings.artifact_mime_types)
        self._housekeeping_s = housekeeping_s
        self.fleet = PluginFleet(
            clock=self._clock,
            host_version=__version__,
            agents=self._agents,
            runners=self._runners,
            first_workspace=DEFAULT_WORKSPACE,
            redactor=self.redactor,
        )
        self._ready = False
        self._operating = Operating(
            settings, self._clock, version=__version__, instance=self._incarnation, environment=self._environment
        )

    async def start(self) -> ASGIApp:
        """Everything that must be there before a request is taken. Workers start in the background."""
        if isinstance(self._desk, WriterProcess):
            self._desk.spawn()  # it starts beside the rest
        probing = asyncio.create_task(asyncio.to_thread(self._tools.look_around, self.settings.sandbox))
        self._open_log()
        if self._writes_first:
            await self._journal.start()
        await asyncio.to_thread(self._store.open)
        await self._open_people()
        await self._open_core()
        await self._open_kept()
        await self._open_channels()
        await self._set_going()
        self._api = self._front().open()
        await probing
        self._ready = True
        return Edge(self._api.app, self.settings)

    def _open_log(self) -> None:
        """The journal, and who watches it. Nothing is written before it is started."""
        self._journal = Journal(self._desk)
        self._operating.start(self._journal)
        self._quarantines = QuarantineLog(self._journal, self._clock)
        self._trail = Trail(
            self.settings,
            store=self._store,
            journal=self._journal,
            clock=self._clock,
            incarnation=self._incarnation,
            workspace=DEFAULT_WORKSPACE,
        )
        self._engine = LocalEngine(self._journal, self._store, self._clock, self._incarnation)

    @property
    def _writes_first(self) -> bool:
        """Whether the journal comes before everything that is read: on PostgreSQL another host may be at work, and what
        is read before it has gone would not be true afterwards. A data directory has a lock of its own."""
        return bool(self.settings.database) and isinstance(self._desk, WriterProcess)

    async def _open_people(self) -> None:
        """Who may come in, what is shared with everybody, and the secrets."""
        for source, origin in self._sources():
            self.fleet.share(source, origin, await asyncio.to_thread(said_id, source))
        self.vault = Vault(journal=self._journal, clock=self._clock, sealer=self._sealer, redactor=self.redactor)
        await self.vault.load(self._store)
        self._identity = open_identity(journal=self._journal, clock=self._clock, fingerprint=self.vault.fingerprints.of)
        self._identity.workspaces.watch(self.fleet.open_workspace, self._close_workspace)
        await self._identity.load(self._store)

    async def _open_core(self) -> None:
        """Models and knowledge, what was spent, and the heart over all of them."""
        self._library = open_library(self.settings, self._journal, self._clock)
        self._models = open_models(
            journal=self._journal,
            clock=self._clock,
            vault=self.vault,
            redactor=self.redactor,
            environment=self._environment,
            default_model=self.settings.default_model,
            workspace=DEFAULT_WORKSPACE,
        )
        await self._models.book.load(self._store)
        self._library.connect(rerank_with(self._models.desk))
        self._capability_sources.add(self._models.source)
        budgets = day_budgets(
            self._clock, self.settings.calls_per_day, self.settings.tokens_per_day, self.settings.cost_per_day
        )
        self._kept_budgets = KeptBudgets(budgets, self._journal, self._clock)
        await self._kept_budgets.load(self._store)
        self._core = build_core(
            library=self._library,
            journal=self._journal,
            store=self._store,
            blobs=self._blobs,
            clock=self._clock,
            engine=self._engine,
            agents=self._agents,
            bindings=self._bindings,
            pools=self.fleet.pools,
            host_version=__version__,
            cursor_secret=self._cursor_secret,
            runs_at_once=self.settings.runs_at_once,
            starting=lambda: self.fleet.is_starting,
            counts=self._operating.runs,
            tracer=self._operating.tracer,
            names=self._identity.links.names,
            redactor=self.redactor,
            secrets=ConfigSecrets(self.vault, self.redactor),
            sources=self._capability_sources,
            budgets=budgets,
            models=self._models.desk,
            terms=self._terms,
        )
        await self._core.files.load(self._store, self._identity.workspaces.open_ids())
        reach = ArtifactReach(self._store, self._clock).find
        self._tools.connect(
            artifacts=RunArtifacts(self._core.dispatcher.live.get, reach, self._blobs, self._terms),
            questions=self._core.questions,
        )

    async def _open_kept(self) -> None:
        """What people saved: agents, plugins, skills, servers, runtimes."""
        self._kept = open_kept(
            self._capability_sources,
            core=self._core,
            library=self._library,
            journal=self._journal,
            store=self._store,
            clock=self._clock,
            data=self.settings.data,
            fleet=self.fleet,
            agents=self._agents,
            bindings=self._bindings,
            runners=self._runners,
            vault=self.vault,
            redactor=self.redactor,
            host_id=self._signing_key.verify_key.key_id,
            is_open=self._identity.workspaces.is_open,
        )
        await self._kept.load(self._store)

    async def _open_channels(self) -> None:
        """Where events come from and messages go."""
        self._channels = ChannelBook(
            SavedChanges(self._journal, self._clock),
            self._store,
            self._clock,
            self._identity.workspaces.is_open,
            sealer=self._sealer,
            redactor=self.redactor,
            egress=self.egress,
        )
        await self._channels.load()
        self._capability_sources.add(ChannelActions(self._channels))
        self._delivery = Delivery(
            journal=self._journal, store=self._store, hub=self._core.hub, clock=self._clock, channels=self._channels
        )
        self._core.intake.entered = self._delivery.follow

    async def _set_going(self) -> None:
        self._trail.start()
        if not self._writes_first:
            await self._journal.start()
        self.fleet.start()
        self._kept.abilities.mcp.start()
        self._library.start()
        await self._core.approvals.load(self._core.takeover.lost_are_ended)
        tasks = [
            asyncio.create_task(self._core.takeover.run()),
            asyncio.create_task(self._delivery.run(self._core.takeover.lost_are_ended)),
            *self._housekeeping().start(),
        ]
        self._shutdown = Shutdown(
            core=self._core,
            delivery=self._delivery,
            kept=self._kept,
            models=self._models,
            library=self._library,
            fleet=self.fleet,
            budgets=self._kept_budgets,
            journal=self._journal,
            trail=self._trail,
            store=self._store,
            operating=self._operating,
            grace_s=self.settings.grace_s,
            tasks=tasks,
        )

    def _front(self) -> Front:
        return Front(
            settings=self.settings,
            token=self.token,
            cursor_secret=self._cursor_secret,
            key=self._signing_key.verify_key,
            journal=self._journal,
            store=self._store,
            blobs=self._blobs,
            clock=self._clock,
            core=self._core,
            identity=self._identity,
            agents=self._agents,
            bindings=self._bindings,
            runners=self._runners,
            fleet=self.fleet,
            kept=self._kept,
            models=self._models,
            vault=self.vault,
            redactor=self.redactor,
            channels=self._channels,
            delivery=self._delivery,
            operating=self._operating,
            standing=self._standing,
            pools=self.pools,
            witness=self._trail.numbers,
            sandbox=lambda: self._tools.walls.shown,
        )

    async def drain(self) -> None:
        """Take nothing new, and let runs end. Requests are answered meanwhile and afterwards."""
        await self._shutdown.drain()

    async def stop(self) -> None:
        """Drain, and close everything."""
        await self._shutdown.drain()  # it is ready until its runs have ended
        self._ready = False
        await self._shutdown.stop()

    async def abandon(self) -> None:
        """Stop without a word to the log, because nothing can be written: the next start recovers."""
        self._ready = False
        await self._shutdown.abandon()

    def _close_workspace(self, workspace: str) -> None:
        self._shutdown.close_workspace(workspace)

    def _journal_lost(self) -> None:
        _log.critical("the journal process is gone: nothing can be written, so the host stops")
        self._ready = False
        self.broken.set()

    def _housekeeping(self) -> Housekeeping:
        return Housekeeping(
            core=self._core,
            journal=self._journal,
            store=self._store,
            blobs=self._blobs,
            clock=self._clock,
            tools=self._tools,
            trail=self._trail,
            retention=self._retention,
            every_s=self._housekeeping_s,
            look=self._look,
        )

    def _look(self) -> None:
        self._quarantines.look(self.fleet.fittings)
        self._kept_budgets.save()

    def _standing(self) -> Standing:
        return Standing(
            started=self._ready,
            broken=self.broken.is_set(),
            draining=self._core.dispatcher.draining,
            recovered=self._core.takeover.lost_are_ended.is_set(),
        )

    def resources(self) -> tuple[Resource, ...]:
        """Everything that answers requests, once the host has started."""
        return self._api.resources

    def agents(self) -> list[Agent]:
        """Every agent that can be run now."""
        return self._agents.all()

    def pools(self) -> list[SupervisedPool]:
        """The workers of each plugin that were started, or are about to be."""
        return [each.pool for each in self.fleet.fittings if each.pool.status != "idle"]

    def _sources(self) -> list[tuple[PluginSource, Origin]]:
        return shared_sources(self.settings)
