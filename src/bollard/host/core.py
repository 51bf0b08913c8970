"""The heart of a host, put together: from an event to a run to its end. The composition root gives it its rim; tests
and the simulator give it another."""

from collections.abc import Callable, Mapping

import msgspec

from bollard.host.actions.budgets import Budgets
from bollard.host.actions.detached_calls import DetachedCalls
from bollard.host.actions.executor import Executor
from bollard.host.actions.outputs import BlobArtifacts
from bollard.host.agents.agent import AgentBook
from bollard.host.agents.binding_book import BindingBook
from bollard.host.agents.gates import FrontGates
from bollard.host.agents.names import Names, own_names
from bollard.host.approvals.approval import Approval
from bollard.host.approvals.detached import Carried
from bollard.host.approvals.opening import Approvals, open_approvals
from bollard.host.capabilities.registry import Sources
from bollard.host.clock import Clock
from bollard.host.engine.boundary import Engine
from bollard.host.files.file_book import FileBook
from bollard.host.grants.offers import Offers
from bollard.host.grants.session import RunSession
from bollard.host.intake.agent_calls import AgentCalls
from bollard.host.intake.agent_tools import AgentTools
from bollard.host.intake.child_calls import ChildCalls
from bollard.host.intake.intake import Intake
from bollard.host.intake.steering import Claims
from bollard.host.intake.steering_calls import SteeringCalls
from bollard.host.knowledge.library import Library
from bollard.host.limits import QUEUED_RUNS, RUNS_AT_ONCE
from bollard.host.log.journal import Journal
from bollard.host.models.calling import ModelDesk
from bollard.host.questions.desk import QuestionDesk
from bollard.host.recovery import Recovery
from bollard.host.runapi.gate import Handler, RunApi, StreamHandler
from bollard.host.runapi.gateway_tokens import GatewayTokens
from bollard.host.runapi.handlers import handlers
from bollard.host.runapi.models import ModelPorts, Models
from bollard.host.runapi.platform_calls import PlatformCalls
from bollard.host.runapi.reach import ArtifactReach
from bollard.host.runapi.tool_calls import ToolCalls
from bollard.host.runs.config_secrets import ConfigSecrets
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.hub import Hub
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.opening import Opening
from bollard.host.runs.parked import Parked
from bollard.host.runs.reading import RunReader
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.takeover import Takeover
from bollard.host.telemetry.counts import RunCounts
from bollard.host.telemetry.tracer import Tracer
from bollard.host.workers.boundary import WorkerPool
from bollard.protocol.limits import STEERING_QUEUE

__all__ = ["Core", "build_core"]


class Core(msgspec.Struct, frozen=True, kw_only=True):
    """What the rim talks to."""

    offers: Offers
    files: FileBook
    executor: Executor
    approvals: Approvals
    questions: QuestionDesk
    hub: Hub
    maker: RunMaker
    dispatcher: Dispatcher
    intake: Intake
    gates: FrontGates
    reader: RunReader
    recovery: Recovery
    takeover: Takeover
    tool_calls: ToolCalls
    gateway_tokens: GatewayTokens
    terms: ArtifactTerms
    """On which artifacts are taken."""
    answered: frozenset[str]
    """The actions of the run API that this host answers."""

    async def close(self, grace_s: float) -> None:
        """Take nothing new, let runs end, stop the rest."""
        await self.dispatcher.close(grace_s)
        await self.approvals.close()
        await self.questions.close()
        self.hub.close()  # whoever still reads waits for a run that this host does not go on with
        await self.intake.close()


def build_core(
    *,
    journal: Journal,
    store: Store,
    blobs: BlobStore,
    clock: Clock,
    engine: Engine,
    agents: AgentBook,
    bindings: BindingBook,
    pools: Mapping[tuple[str, str], WorkerPool],
    host_version: str,
    cursor_secret: bytes,
    runs_at_once: int = RUNS_AT_ONCE,
    queued_runs: int = QUEUED_RUNS,
    unread: int = STEERING_QUEUE,
    starting: Callable[[], bool] = lambda: False,
    ids: IdMaker | None = None,
    names: Names = own_names,
    sources: Sources | None = None,
    budgets: Budgets | None = None,
    counts: RunCounts | None = None,
    tracer: Tracer | None = None,
    redactor: Redactor | None = None,
    secrets: ConfigSecrets | None = None,
    library: Library | None = None,
    models: ModelDesk | None = None,
    terms: ArtifactTerms = ANY_TERMS,
) -> Core:
    """Everything between an event and the log, over these parts."""
    hub, gates, claims = Hub(), FrontGates(names), Claims()
    counts, tracer = counts or RunCounts(), tracer or Tracer(clock)
    sources = Sources() if sources is None else sources
    files = FileBook(journal, clock)
    offers = Offers(agents, sources, files)
    ids = ids or IdMaker()
    maker = RunMaker(clock, ids, offers.of)
    answers: dict[str, Handler] = {}  # filled below: what answers a run may start other runs
    streams: dict[str, StreamHandler] = {}
    dispatcher = Dispatcher(
        journal=journal,
        hub=hub,
        clock=clock,
        pools=pools,
        engine=engine,
        opening=Opening(store, clock, host_version, secrets=secrets),
        api=RunApi(answers, clock, counts, tracer, streams),
        runs_at_once=runs_at_once,
        counts=counts,
        tracer=tracer,
        redactor=redactor,
        terms=terms,
    )
    intake = Intake(
        journal=journal,
        store=store,
        hub=hub,
        clock=clock,
        agents=agents,
        bindings=bindings,
        maker=maker,
        dispatcher=dispatcher,
        claims=claims,
        gates=gates,
        starting=starting,
        queued_runs=queued_runs,
        unread=unread,
    )
    child_calls = ChildCalls(intake, dispatcher, agents, store)
    sources.add(AgentTools(agents, child_calls, dispatcher.live.get))

    async def carry(session: RunSession, approval: Approval) -> Carried:
        return await detached.carry(session, approval)

    parked = Parked(dispatcher.live)
    questions = QuestionDesk(live=dispatcher.live, parked=parked, clock=clock, take=SteeringCalls(intake.giving).text)
    intake.giving.claimed = questions.message_came
    approvals = open_approvals(
        journal=journal,
        clock=clock,
        store=store,
        live=dispatcher.live,
        parked=parked,
        agents=agents,
        carry=carry,
        raises=lambda event, workspace, agent_id: intake.accept(event, workspace, agent_id, keep=True),
        offered=lambda workspace, thing: sources.get(workspace, thing) is not None,
        holds_secret=lambda workspace, value: redactor is not None and redactor.value(workspace, value) != value,
    )
    budgets = budgets or Budgets(clock)
    executor = Executor(
        approver=approvals,
        adapters=sources,
        store=store,
        artifacts=BlobArtifacts(blobs, terms),
        clock=clock,
        redactor=redactor,
        budgets=budgets,
        counts=counts,
    )
    detached = DetachedCalls(executor, journal, clock)
    tool_calls = ToolCalls(executor)
    asked = None
    if models is not None:
        asked = Models(
            ModelPorts(
                desk=models,
                budgets=budgets,
                clock=clock,
                counts=counts.models,
                tracer=tracer,
                find=ArtifactReach(store, clock).find,
                blobs=blobs,
            )
        )
        streams["models.stream"] = asked.stream
    answers |= handlers(
        store=store,
        blobs=blobs,
        clock=clock,
        cursor_secret=cursor_secret,
        host_version=host_version,
        steering_pull=SteeringCalls(intake.giving).pull,
        agents_call=AgentCalls(tool_calls, child_calls).call,
        tools_call=tool_calls.call,
        platform_request=PlatformCalls(tool_calls).request,
        models=asked,
        library=library,
        terms=terms,
    )
    recovery = Recovery(store, clock, agents, engine.incarnation)
    takeover = Takeover(
        recovery,
        journal=journal,
        hub=hub,
        agents=agents,
        intake=intake,
        backlog=dispatcher.backlog,
        ids=ids,
        counts=counts,
    )
    dispatcher.end_on_disk = takeover.end
    return Core(
        offers=offers,
        files=files,
        executor=executor,
        approvals=approvals,
        questions=questions,
        hub=hub,
        maker=maker,
        dispatcher=dispatcher,
        intake=intake,
        gates=gates,
        reader=RunReader(store, hub, dispatcher.live, takeover.lost_are_ended),
        recovery=recovery,
        takeover=takeover,
        tool_calls=tool_calls,
        gateway_tokens=GatewayTokens(),
        terms=terms,
        answered=frozenset((*answers, *streams)),
    )
