"""The composition root: builds every part of the host from its settings, starts the parts in order, and stops them."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog
from msgspec.structs import replace
from starlette.types import ASGIApp

from bollard import __version__
from bollard.confine.probe import Confinement, Findings, machine_findings
from bollard.confine.worker_level import choose_level
from bollard.host.actions.budgets import SavedBudgets, day_budgets
from bollard.host.agents.agent import Agent, AgentRegistry, RunnerKey
from bollard.host.agents.bot import BotRepository
from bollard.host.agents.routing import AgentDirectory, BindingRegistry
from bollard.host.api import Api
from bollard.host.approvals.approvers import Approvers
from bollard.host.audit.trail import AuditTrail
from bollard.host.catalogue.sources import catalogue_of
from bollard.host.channels.actions import ChannelActions
from bollard.host.channels.gate import ChannelGate
from bollard.host.channels.lazy_contents import LazyContents
from bollard.host.channels.registry import ChannelRepository
from bollard.host.channels.rooms import Rooms
from bollard.host.clock import Clock, SystemClock
from bollard.host.core import CapabilityParts, Core, HostIdentity, RunTelemetry, Storage, build_core
from bollard.host.delivery.contents import Contents
from bollard.host.delivery.outbox import Delivery
from bollard.host.delivery.viewers import Viewers
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connection_log import ConnectionLog
from bollard.host.egress.connection_records import connection_recorder
from bollard.host.egress.operator_dial import operator_dial
from bollard.host.egress.worker_proxy import WorkerProxy
from bollard.host.engine import LocalEngine
from bollard.host.events.channel_intake import ChannelIntake
from bollard.host.events.chat_commands import ChatCommands
from bollard.host.feed.bound_events import BoundEvents
from bollard.host.http.auth.callers import AdminToken
from bollard.host.http.edge import Edge
from bollard.host.http.operations import Resource
from bollard.host.http.resources.health import HostStatus, OperationParts
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import DEFAULT_WORKSPACE
from bollard.host.identity.directory import IdentityDirectory, open_identity
from bollard.host.identity.sessions import SessionOwner
from bollard.host.knowledge.library import Library, open_library
from bollard.host.limits import HOUSEKEEPING_S
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterProcess, choose_writer
from bollard.host.log.rebuild import check_saved, check_settled
from bollard.host.log.retention import retention_of
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.models.source import ModelParts, open_models
from bollard.host.parts import HostKeys, HostParts, Housekeeping, Shutdown
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.placement import Origin
from bollard.host.plugins.sandbox_access import sandbox_lines
from bollard.host.plugins.uploads import bundled_root, declared_plugin, shared_sources
from bollard.host.plugins.violations import ViolationLog
from bollard.host.run_api.artifacts import RunArtifacts
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.runs.backlog import RunLimits
from bollard.host.runs.hub import ReaderMemory
from bollard.host.runs.start_request import ConfigSecrets
from bollard.host.saved import GuardParts, SavedParts, open_saved, rerank_with
from bollard.host.schedules.parts import ScheduleParts, open_schedules
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealing import KEY_FILE, Sealer
from bollard.host.secrets.vault import Vault
from bollard.host.settings import Settings, SettingsError
from bollard.host.store.artifact_terms import terms_of
from bollard.host.store.blobs import BlobStore
from bollard.host.store.selection import choose_store
from bollard.host.store.store import Store
from bollard.host.subscriptions.outgoing_events import OutgoingEvents, build_outgoing_events
from bollard.host.subscriptions.subscription_repository import SubscriptionRepository
from bollard.host.subscriptions.webhooks import Webhooks
from bollard.host.tools.builtin import BuiltinTools, probe_sandbox
from bollard.host.tools.files import Workspaces
from bollard.host.workers.boundary import PluginSource, SupervisedPool
from bollard.host.workers.bounds import workspace_limits
from bollard.host.workers.sandbox import WorkerSandbox
from bollard.protocol import AgentRunnerDiscovery, PluginSandbox
from bollard.trust.key_files import load_or_make_secret
from bollard.trust.keys import load_or_make_signing_key

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
        on_broken: Callable[[], None] = lambda: None,
        findings: Callable[[], Findings] = machine_findings,
    ) -> None:
        """`redactor` also filters the host's log. `environment` may name models and the collector of traces.
        `on_broken` is called first when the host cannot write any more. `findings` probes the confinement of the
        machine for workers."""
        self.settings = settings
        self._clock = clock or SystemClock()
        self._incarnation = f"{self._clock.now_ms():011x}{secrets.token_hex(4)}"
        keys = settings.data / "keys"
        self.token, self.new_token = AdminToken.open(keys / "admin-token.sha256")
        self._signing_key = load_or_make_signing_key(keys / _HEADS_KEY)
        self._keys = HostKeys(
            token=self.token,
            cursor_secret=load_or_make_secret(keys / "cursors.secret"),
            heads=self._signing_key.verify_key,
        )
        self._sealer = Sealer(keys / KEY_FILE)
        self._store: Store = choose_store(
            settings.database, settings.data, self._clock, alone=settings.journal == "thread"
        )
        self._blobs = BlobStore(settings.data / "blobs")
        self.broken = asyncio.Event()
        """Set when the host cannot write any more and must be stopped."""
        self._on_broken = on_broken
        self._findings = findings
        self._gateway = choose_writer(
            settings,
            store=self._store,
            blobs=self._blobs,
            clock=self._clock,
            incarnation=self._incarnation,
            key=self._signing_key,
            lost=self._journal_lost,
        )
        self.redactor = redactor or Redactor()
        self.egress = EgressClient.of_settings(settings)
        self._catalogue = catalogue_of(settings, bundled_root(), self.egress, self._clock)
        self._environment: Mapping[str, str] = environment or {}
        self._housekeeping_s = housekeeping_s
        self._retention = retention_of(settings.retention)  # now: a setting that cannot work starts nothing
        self._terms = terms_of(settings.artifact_days, settings.artifact_mime_types)
        agents, runners = AgentRegistry(), dict[RunnerKey, AgentRunnerDiscovery]()
        self.fleet = PluginFleet(
            clock=self._clock,
            host_version=__version__,
            agents=agents,
            runners=runners,
            first_workspace=DEFAULT_WORKSPACE,
            redactor=self.redactor,
        )
        self._directory = AgentDirectory(
            agents=agents, bindings=BindingRegistry(), runners=runners, starting=lambda: self.fleet.is_starting
        )
        self._operating = OperationParts(
            settings,
            self._clock,
            version=__version__,
            instance=self._incarnation,
            environment=self._environment,
            dial=operator_dial(self.egress),
        )
        self._ready = False

    # --- start ---

    async def start(self) -> ASGIApp:
        """Start everything that must be there before a request is taken. Workers start in the background."""
        if isinstance(self._gateway, WriterProcess):
            self._gateway.spawn()  # beside the rest of the start
        root = self.settings.data / "workspaces"
        confinement = asyncio.create_task(asyncio.to_thread(probe_sandbox, self.settings.sandbox, root))
        storage = Storage(
            journal=Journal(self._gateway, self._operating.counts.commits.committed),
            store=self._store,
            blobs=self._blobs,
            clock=self._clock,
            terms=self._terms,
        )
        self._operating.start()
        violations = ViolationLog(storage.journal, self._clock, self._operating.counts.violations)
        self.fleet.on_violation = violations.note
        recorder = connection_recorder(storage.journal, self._clock)
        proxy = WorkerProxy(self.egress, ConnectionLog(recorder, self._operating.counts.proxy))
        self.fleet.sandbox = sandbox = await self._open_worker_sandbox(proxy)
        trail = await self._open_log(storage)
        vault = Vault(journal=storage.journal, clock=self._clock, sealer=self._sealer, redactor=self.redactor)
        await vault.load(self._store)
        identity = await self._open_identity(storage, vault)
        models = await self._open_models(storage, vault)
        channels = await self._open_channels(storage, identity, vault)
        storage = replace(storage, fetch=LazyContents(channels, storage.journal, self._blobs, self._clock).fetched)
        audience = self._open_audience(identity)
        delivery = self._open_delivery(storage, channels, Approvers(audience, self._directory.agents, identity.links))
        budgets = await self._open_budgets(storage)
        library = open_library(
            self.settings,
            storage.journal,
            self._clock,
            rerank_with(models.gateway),
            is_confined=self.fleet.sandbox.level.name != "none",
        )
        bots = BotRepository(SavedChanges(storage.journal, self._clock), self._directory.agents)
        await bots.load(self._store)
        core = self._build_core(storage, identity, vault, delivery, models, library, budgets, bots)
        schedules = self._open_schedules(storage, core, identity, channels)
        tools = self._open_tools(storage, core, library, schedules, Workspaces(root), await confinement)
        for source in (tools, models.source, ChannelActions(channels)):
            core.sources.add(source)
        await core.files.load(self._store, identity.workspaces.open_ids())
        saved = open_saved(
            storage,
            self._directory,
            core,
            settings=self.settings,
            fleet=self.fleet,
            library=library,
            schedules=schedules,
            guards=GuardParts(vault=vault, sealer=self._sealer, redactor=self.redactor, egress=self.egress),
            host_id=self._signing_key.verify_key.key_id,
            is_open=identity.workspaces.is_open,
        )
        outgoing = self._open_outgoing(storage, core, identity, vault, saved)
        await saved.load(self._store)
        await outgoing.load(self._store)
        self._parts = HostParts(
            settings=self.settings,
            keys=self._keys,
            storage=storage,
            directory=self._directory,
            identity=identity,
            audience=audience,
            vault=vault,
            redactor=self.redactor,
            fleet=self.fleet,
            catalogue=self._catalogue,
            violations=violations,
            worker_proxy=proxy,
            worker_level=sandbox.level,
            tools=tools,
            models=models,
            core=core,
            saved=saved,
            channels=channels,
            bots=bots,
            channel_intake=self._open_channel_intake(storage, identity, core, delivery),
            delivery=delivery,
            outgoing=outgoing,
            budgets=budgets,
            trail=trail,
            operating=self._operating,
        )
        await self._set_going(self._parts)
        self._api = Api(self._parts, self._standing, self.pools)
        self._ready = True
        return Edge(self._api.app, self.settings)

    async def _open_worker_sandbox(self, proxy: WorkerProxy) -> WorkerSandbox:
        """Choose the level of confinement. Raises `SettingsError` if the settings demand more than there is."""
        level = choose_level(self.settings.worker_sandbox, await asyncio.to_thread(self._findings))
        if level.is_refused:
            raise SettingsError(
                f"worker_sandbox is strict, and {level.problem}",
                reason="worker_sandbox_incomplete",
                hint=f"{level.hint}; or set worker_sandbox to best",
                field="worker_sandbox",
                problem=level.problem,
                problem_type=f"workers.{level.missing}",
            )
        if level.missing or level.name == "none":
            problem = level.problem or "the setting worker_sandbox is none"
            _log.warning("plugins are confined less than fully", level=level.name, problem=problem)
        named = (self.settings.tls_key, self.settings.tls_cert, "bollard.toml")
        withheld = [Path(path) for path in named if path]
        limits = workspace_limits(self.settings)
        return WorkerSandbox(level, proxy, self.settings.sandbox_roots, self.settings.data, limits, withheld)

    async def _open_log(self, storage: Storage) -> AuditTrail:
        """Open the store and check it against the log."""
        trail = AuditTrail(
            self.settings,
            store=self._store,
            journal=storage.journal,
            clock=self._clock,
            incarnation=self._incarnation,
            workspace=DEFAULT_WORKSPACE,
            dial=operator_dial(self.egress),
        )
        if self._writes_first:
            await storage.journal.start()
        await asyncio.to_thread(self._store.open)
        await asyncio.to_thread(check_settled, self._store)
        await asyncio.to_thread(check_saved, self._store, self._signing_key, self.settings.broken_log)
        await trail.check(self._keys.heads)
        return trail

    @property
    def _writes_first(self) -> bool:
        """Whether the journal starts before the store is read. On PostgreSQL another host may still write, and what is
        read before it has gone would be stale. A data directory has a lock."""
        return bool(self.settings.database) and isinstance(self._gateway, WriterProcess)

    async def _open_identity(self, storage: Storage, vault: Vault) -> IdentityDirectory:
        """Open users, keys and workspaces. Every workspace gets the plugins that all of them share."""
        for source, origin in self._sources():
            declared = await asyncio.to_thread(declared_plugin, source)
            if declared is None:
                self.fleet.share(source, origin)
                continue
            # The Python runtime applies the manifest itself; for another program the host does.
            access = declared.access if declared.access.command else None
            needs = declared.access.sandbox
            if lines := [*sandbox_lines(needs, PluginSandbox())]:
                _log.info("a plugin of the settings may use more than nothing", plugin=source.name, needs=lines)
            self.fleet.share(source, origin, declared.plugin_id, access=access, sandbox=needs)
        identity = open_identity(
            journal=storage.journal, clock=self._clock, fingerprint=vault.fingerprints.of, admin_mark=self.token.mark
        )
        identity.workspaces.watch(self.fleet.open_workspace, self._close_workspace)
        await identity.load(self._store)
        return identity

    async def _open_models(self, storage: Storage, vault: Vault) -> ModelParts:
        models = open_models(
            journal=storage.journal,
            clock=self._clock,
            vault=vault,
            redactor=self.redactor,
            egress=self.egress,
            environment=self._environment,
            default_model=self.settings.default_model,
            workspace=DEFAULT_WORKSPACE,
        )
        await models.book.load(self._store)
        return models

    async def _open_channels(self, storage: Storage, identity: IdentityDirectory, vault: Vault) -> ChannelRepository:
        channels = ChannelRepository(
            SavedChanges(storage.journal, self._clock),
            self._clock,
            identity.workspaces.is_open,
            sealer=self._sealer,
            redactor=self.redactor,
            egress=self.egress,
            logins=vault,
        )
        await channels.load(storage.store)
        return channels

    def _open_channel_intake(
        self, storage: Storage, identity: IdentityDirectory, core: Core, delivery: Delivery
    ) -> ChannelIntake:
        rooms = Rooms(storage.journal, self._store, self._clock)
        commands = ChatCommands(
            intake=core.intake,
            rooms=rooms,
            agents=self._directory.agents,
            links=identity.links,
            codes=identity.codes,
            stop=core.dispatcher.stop,
        )
        return ChannelIntake(
            gate=ChannelGate(self._clock, identity.links.names),
            rooms=rooms,
            commands=commands,
            deduplication=core.intake.deduplication,
            replied=delivery.wake,
        )

    def _open_audience(self, identity: IdentityDirectory) -> Audience:
        return Audience(
            agents=self._directory.agents,
            users=identity.users,
            links=identity.links,
            callers=identity.callers,
            store=self._store,
        )

    def _open_delivery(self, storage: Storage, channels: ChannelRepository, approvers: Approvers) -> Delivery:
        viewers = Viewers(self._store, storage.journal, self._clock, approvers)
        delivery = Delivery(
            journal=storage.journal,
            store=self._store,
            hub=storage.hub,
            clock=self._clock,
            channels=channels,
            contents=Contents(self._store, self._clock, next(iter(self.settings.origins), None), viewers),
        )
        channels.forget = delivery.forget
        return delivery

    def _open_outgoing(
        self, storage: Storage, core: Core, identity: IdentityDirectory, vault: Vault, saved: SavedParts
    ) -> OutgoingEvents:
        journal, store, is_open = storage.journal, storage.store, identity.workspaces.is_open
        subscriptions = SubscriptionRepository(
            SavedChanges(journal, self._clock),
            self._clock,
            egress=self.egress,
            sealer=self._sealer,
            redactor=self.redactor,
        )
        webhooks = Webhooks(
            subscriptions,
            journal=journal,
            store=store,
            clock=self._clock,
            egress=self.egress,
            logins=vault,
            is_open=is_open,
        )
        bindings = self._directory.bindings
        return build_outgoing_events(
            BoundEvents(intake=core.intake, bindings=bindings, store=store, is_open=is_open),
            webhooks,
            bindings=saved.agents.bindings,
            routed=bindings,
            subscriptions=subscriptions,
            journal=journal,
            store=store,
            clock=self._clock,
        )

    async def _open_budgets(self, storage: Storage) -> SavedBudgets:
        settings = self.settings
        spent = day_budgets(self._clock, settings.calls_per_day, settings.tokens_per_day, settings.cost_per_day)
        budgets = SavedBudgets(spent, storage.journal, self._clock)
        await budgets.load(self._store)
        return budgets

    def _build_core(
        self,
        storage: Storage,
        identity: IdentityDirectory,
        vault: Vault,
        delivery: Delivery,
        models: ModelParts,
        library: Library,
        budgets: SavedBudgets,
        bots: BotRepository,
    ) -> Core:
        return build_core(
            storage,
            replace(self._directory, names=identity.links.names, bot_agent=bots.agent_of),
            pools=self.fleet.pools,
            engine=LocalEngine(storage.journal, self._store, self._clock, self._incarnation),
            identity=HostIdentity(version=__version__, cursor_secret=self._keys.cursor_secret),
            limits=RunLimits(runs_at_once=self.settings.runs_at_once, run_output_mib=self.settings.run_output_mib),
            capabilities=CapabilityParts(
                budgets=budgets.budgets,
                models=models.gateway,
                library=library,
                secrets=ConfigSecrets(vault, self.redactor),
                redactor=self.redactor,
            ),
            telemetry=RunTelemetry(self._operating.counts.runs, self._operating.tracer),
            replies=delivery,
        )

    def _open_schedules(
        self, storage: Storage, core: Core, identity: IdentityDirectory, channels: ChannelRepository
    ) -> ScheduleParts:
        return open_schedules(
            journal=storage.journal,
            store=storage.store,
            clock=self._clock,
            intake=core.intake,
            channels=channels,
            is_open=identity.workspaces.is_open,
            event_days=dict(self._retention.days).get("event.received"),
        )

    def _open_tools(
        self,
        storage: Storage,
        core: Core,
        library: Library,
        schedules: ScheduleParts,
        workspaces: Workspaces,
        confinement: Confinement,
    ) -> BuiltinTools:
        reach = ArtifactReach(self._store, self._clock).find
        return BuiltinTools(
            clock=self._clock,
            workspaces=workspaces,
            fetcher=self.egress,
            artifacts=RunArtifacts(core.dispatcher.live.get, reach, self._blobs, storage.terms, storage.fetch),
            documents=library,
            questions=core.questions,
            schedules=schedules.proposals,
            confinement=confinement,
            counts=self._operating.counts.runs,
        )

    async def _set_going(self, parts: HostParts) -> None:
        """Start what works by itself."""
        parts.trail.start()
        if not self._writes_first:
            await parts.storage.journal.start()
        await parts.trail.record_gap()
        self.fleet.start()
        parts.saved.mcp.start()
        parts.saved.library.start()
        lost_are_ended = parts.core.startup_recovery.lost_are_ended
        await parts.core.approvals.load(lost_are_ended)
        tasks = [
            asyncio.create_task(parts.core.startup_recovery.run()),
            asyncio.create_task(parts.delivery.run(lost_are_ended)),
            asyncio.create_task(parts.saved.schedules.ticker.run()),
            asyncio.create_task(parts.outgoing.run(lost_are_ended)),
            *Housekeeping(parts=parts, retention=self._retention, every_s=self._housekeeping_s).start(),
        ]
        self._shutdown = Shutdown(parts=parts, tasks=tasks)

    # --- stop ---

    async def drain(self) -> None:
        """Stop accepting work and let runs end. The host keeps answering requests."""
        await self._shutdown.drain()

    async def stop(self) -> None:
        """Drain, and close everything."""
        await self._shutdown.drain()  # the host is ready until its runs have ended
        self._ready = False
        await self._shutdown.stop()

    async def abandon(self) -> None:
        """Stop without writing, because nothing can be written. The next start recovers."""
        self._ready = False
        await self._shutdown.abandon()

    def _close_workspace(self, workspace: str) -> None:
        self._shutdown.close_workspace(workspace)

    def _journal_lost(self) -> None:
        self._on_broken()  # before anything that needs memory
        self._ready = False
        self.broken.set()
        _log.critical("the journal process is gone: nothing can be written, so the host stops")

    def _sources(self) -> list[tuple[PluginSource, Origin]]:
        """The plugins that every workspace has."""
        return shared_sources(self.settings)

    # --- questions about the host ---

    def _standing(self) -> HostStatus:
        return HostStatus(
            started=self._ready,
            broken=self.broken.is_set(),
            draining=self._parts.core.dispatcher.draining,
            recovered=self._parts.core.startup_recovery.lost_are_ended.is_set(),
        )

    def resources(self) -> tuple[Resource, ...]:
        """The resources of the API, once the host has started."""
        return self._api.resources

    @property
    def reader_memory(self) -> ReaderMemory:
        """The bytes that wait for readers, once the host has started."""
        return self._parts.core.hub.memory

    def sign_in_ticket(self) -> str:
        """A ticket for one session of the installation, once the host has started."""
        return self._parts.identity.tickets.issue(SessionOwner())

    def agents(self) -> list[Agent]:
        """The agents that can be run now."""
        return self._directory.agents.all()

    def pools(self) -> list[SupervisedPool]:
        """The worker pools that were started or are about to be."""
        return [each.pool for each in self.fleet.placements if each.pool.status != "idle"]
