"""The core of a host, put together: from an event to a run to its end. The composition root and the tests use it."""

from collections.abc import Mapping

import msgspec

from bollard.host.actions.budgets import Budgets
from bollard.host.actions.executor import DetachedCalls, Executor
from bollard.host.actions.wrappers import BlobArtifacts
from bollard.host.agents.gates import FrontGates
from bollard.host.agents.routing import AgentDirectory
from bollard.host.approvals.approvals import ApprovalRequests, Approvals, open_approvals
from bollard.host.approvals.questions import QuestionRegistry
from bollard.host.capabilities.sources import Sources
from bollard.host.clock import Clock
from bollard.host.engine import Engine
from bollard.host.events.agent_calls import AgentCalls, AgentTools, ChildCalls
from bollard.host.events.intake import Intake, IntakeListeners, ReplyFollower
from bollard.host.events.steering import SteeringCalls
from bollard.host.files.file_repository import FileRepository
from bollard.host.grants.offer import Offers
from bollard.host.knowledge.library import Library
from bollard.host.log.journal import Journal
from bollard.host.models.calls import ModelGateway
from bollard.host.recovery import Recovery
from bollard.host.run_api.gate import RunApi
from bollard.host.run_api.gateway import GatewayTokens
from bollard.host.run_api.handlers import HostFacts, data_handlers, knowledge_handlers, model_handlers
from bollard.host.run_api.history import thread_cursor
from bollard.host.run_api.models import ModelPorts, Models
from bollard.host.run_api.reach import ArtifactReach, FetchContent, as_stored
from bollard.host.run_api.storage import Files
from bollard.host.run_api.tools import PlatformCalls, ToolCalls
from bollard.host.runs.backlog import RunLimits
from bollard.host.runs.control import WaitingRuns
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.hub import Hub
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live_run import RunEnvironment
from bollard.host.runs.start_request import ConfigSecrets, StartRequestBuilder
from bollard.host.runs.stream import RunReader
from bollard.host.secrets.redactor import Redactor
from bollard.host.startup_recovery import LostRuns, StartupRecovery
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.store import Store
from bollard.host.telemetry.counts import RunCounts
from bollard.host.telemetry.tracer import Tracer
from bollard.host.workers.boundary import WorkerPool


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The storage of records and contents, and the clock."""

    journal: Journal
    store: Store
    blobs: BlobStore
    clock: Clock
    hub: Hub = msgspec.field(default_factory=Hub)
    """Shows records to readers as they arrive."""
    terms: ArtifactTerms = ANY_TERMS
    """On which artifacts are taken."""
    fetch: FetchContent = as_stored
    """Fetches contents that channels have."""


class HostIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The version that a host reports, and the secret that signs its cursors."""

    version: str
    cursor_secret: bytes


class CapabilityParts(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of runs, their budgets, and the secrets to redact."""

    sources: Sources = msgspec.field(default_factory=Sources)
    budgets: Budgets | None = None
    models: ModelGateway | None = None
    library: Library | None = None
    secrets: ConfigSecrets | None = None
    redactor: Redactor = msgspec.field(default_factory=Redactor)


class RunTelemetry(msgspec.Struct, frozen=True):
    """The counts and spans of runs."""

    counts: RunCounts
    tracer: Tracer


class Core(msgspec.Struct, frozen=True, kw_only=True):
    """The parts between an event and the log."""

    sources: Sources
    offers: Offers
    files: FileRepository
    approvals: Approvals
    questions: QuestionRegistry
    hub: Hub
    maker: RunMaker
    dispatcher: Dispatcher
    intake: Intake
    gates: FrontGates
    reader: RunReader
    recovery: Recovery
    startup_recovery: StartupRecovery
    tool_calls: ToolCalls
    gateway_tokens: GatewayTokens
    answered: frozenset[str]
    """The actions of the run API that this host answers."""

    async def close(self, grace_s: float) -> None:
        """Take nothing new, let runs end, stop the rest."""
        await self.dispatcher.close(grace_s)
        await self.approvals.close()
        await self.questions.close()
        self.hub.close()  # readers that are left wait for a run that this host no longer executes
        await self.intake.close()


def build_core(
    storage: Storage,
    directory: AgentDirectory,
    *,
    pools: Mapping[tuple[str, str], WorkerPool],
    engine: Engine,
    identity: HostIdentity,
    limits: RunLimits | None = None,
    capabilities: CapabilityParts | None = None,
    telemetry: RunTelemetry | None = None,
    replies: ReplyFollower | None = None,
    ids: IdMaker | None = None,
) -> Core:
    """Put together everything between an event and the log."""
    journal, store, clock, agents = storage.journal, storage.store, storage.clock, directory.agents
    limits, parts, ids = limits or RunLimits(), capabilities or CapabilityParts(), ids or IdMaker()
    counts, tracer = (telemetry.counts, telemetry.tracer) if telemetry else (RunCounts(), Tracer(clock))
    hub, gates, files = storage.hub, FrontGates(directory.names), FileRepository(journal, clock)
    offers = Offers(agents, parts.sources, files)
    maker = RunMaker(clock, ids, offers.of)
    recovery = Recovery(store, clock, agents, engine.incarnation)
    lost = LostRuns(recovery, journal=journal, hub=hub, counts=counts)
    api = RunApi(clock, counts, tracer)
    environment = RunEnvironment(
        journal=journal,
        hub=hub,
        clock=clock,
        api=api,
        counts=counts,
        redactor=parts.redactor,
        terms=storage.terms,
        run_output_mib=limits.run_output_mib,
    )
    dispatcher = Dispatcher(
        environment,
        pools=pools,
        engine=engine,
        opening=StartRequestBuilder(
            store, clock, identity.version, secrets=parts.secrets, cursor=thread_cursor(identity.cursor_secret)
        ),
        tracer=tracer,
        end_on_disk=lost.end,
        limits=limits,
    )
    parked = WaitingRuns(dispatcher.live)
    written = (lambda: None) if replies is None else replies.wake
    questions = QuestionRegistry(live=dispatcher.live, parked=parked, clock=clock, written=written)
    intake = Intake(
        journal=journal,
        store=store,
        clock=clock,
        hub=hub,
        directory=directory,
        maker=maker,
        dispatcher=dispatcher,
        gates=gates,
        limits=limits,
        listeners=IntakeListeners(replies, questions),
    )
    child_calls = ChildCalls(intake, dispatcher, agents, store)
    parts.sources.add(AgentTools(agents, child_calls, dispatcher.live.get))
    approval_requests = ApprovalRequests(
        journal=journal,
        clock=clock,
        live=dispatcher.live,
        parked=parked,
        agents=agents,
        holds_secret=parts.redactor.holds,
        counts=counts,
        written=written,
    )
    budgets = parts.budgets or Budgets(clock)
    executor = Executor(
        approver=approval_requests,
        adapters=parts.sources,
        store=store,
        artifacts=BlobArtifacts(storage.blobs, storage.terms),
        clock=clock,
        redactor=parts.redactor,
        budgets=budgets,
        counts=counts,
    )
    approvals = open_approvals(
        approval_requests,
        store=store,
        clock=clock,
        live=dispatcher.live,
        agents=agents,
        execute=DetachedCalls(executor, journal, clock, counts).execute,
        submit_event=intake.raise_event,
        is_offered=parts.sources.offers,
    )
    tool_calls = ToolCalls(executor)
    models = None
    if parts.models is not None:
        models = Models(
            ModelPorts(
                gateway=parts.models,
                budgets=budgets,
                clock=clock,
                counts=counts.models,
                tracer=tracer,
                find=ArtifactReach(store, clock).find,
                blobs=storage.blobs,
                fetch=storage.fetch,
            )
        )
    _serve(api, storage, identity, parts.library, models)
    api.handlers["steering.pull"] = SteeringCalls(intake.steering).pull
    api.handlers["agents.call"] = AgentCalls(tool_calls, child_calls).call
    api.handlers["tools.call"] = tool_calls.call
    api.handlers["platform.request"] = PlatformCalls(tool_calls).request
    startup_recovery = StartupRecovery(
        recovery, lost, journal=journal, agents=agents, intake=intake, backlog=dispatcher.backlog, ids=ids
    )
    return Core(
        sources=parts.sources,
        offers=offers,
        files=files,
        approvals=approvals,
        questions=questions,
        hub=hub,
        maker=maker,
        dispatcher=dispatcher,
        intake=intake,
        gates=gates,
        reader=RunReader(store, hub, dispatcher.live, startup_recovery.lost_are_ended),
        recovery=recovery,
        startup_recovery=startup_recovery,
        tool_calls=tool_calls,
        gateway_tokens=GatewayTokens(),
        answered=frozenset((*api.handlers, *api.streams)),
    )


def _serve(
    api: RunApi, storage: Storage, identity: HostIdentity, library: Library | None, models: Models | None
) -> None:
    """Add the handlers that need no run to be started."""
    store, blobs = storage.store, storage.blobs
    api.handlers |= data_handlers(store, blobs, storage.clock, storage.terms, identity.cursor_secret, storage.fetch)
    api.handlers["files.get"] = Files(store, blobs, library).get
    api.handlers["host.info"] = HostFacts(identity.version).info
    if models is not None:
        api.handlers |= model_handlers(models)
        api.streams["models.stream"] = models.stream
    if library is not None:
        api.handlers |= knowledge_handlers(library, models)
