"""The HTTP API of a host: builds every resource from the parts of the host. Each resource lists its own operations."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import bollard
from bollard.host.approvals.approvers import Approvers
from bollard.host.audit.erasure import Eraser
from bollard.host.backup.log_verification import LogVerification
from bollard.host.channels.clicks import Clicks, StopRequests
from bollard.host.files.uploads import MessageUploads
from bollard.host.http.auth.callers import Authenticator, IdentityAuthenticator
from bollard.host.http.auth.channel_signatures import ChannelSignatures
from bollard.host.http.auth.presence import Presence
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.http.console.build import ConsoleBuild
from bollard.host.http.console.files import ConsoleFiles
from bollard.host.http.console.pages import ConsolePages
from bollard.host.http.events.channel_controls import ChannelControls
from bollard.host.http.events.hook_answers import HookAnswers
from bollard.host.http.events.hook_reception import HookReception
from bollard.host.http.events.message_inputs import MessageInputs
from bollard.host.http.events.payloads import MESSAGE_HINT, Payloads
from bollard.host.http.events.reception import EventReception
from bollard.host.http.events.upload_bodies import UploadBodies
from bollard.host.http.guard import Guard, Traffic
from bollard.host.http.idempotency import Repeats
from bollard.host.http.mcp.agent_tools import MessageParts
from bollard.host.http.mcp.gateway import McpGateway
from bollard.host.http.openapi.document import Description
from bollard.host.http.operations import Operation, Resource
from bollard.host.http.queries import Pages
from bollard.host.http.rates import ConcurrencyLimit, identity_rates, stranger_rates
from bollard.host.http.resources.agents import Agents, Bindings
from bollard.host.http.resources.approvals import ApprovalRoutes
from bollard.host.http.resources.artifacts import Artifacts
from bollard.host.http.resources.audit import Audit
from bollard.host.http.resources.bots import Bots
from bollard.host.http.resources.capabilities import Capabilities
from bollard.host.http.resources.catalogue import CatalogueRoutes
from bollard.host.http.resources.channel_artifacts import ChannelArtifacts
from bollard.host.http.resources.channel_uploads import ChannelUploads
from bollard.host.http.resources.channels import Channels
from bollard.host.http.resources.conversations import Conversations
from bollard.host.http.resources.event_stream import EventStreamRoutes
from bollard.host.http.resources.events import EventList, Events
from bollard.host.http.resources.external_runs import ExternalExecution, run_tokens
from bollard.host.http.resources.files import Files
from bollard.host.http.resources.health import DrainControl, Health, HostStatus, Readiness
from bollard.host.http.resources.hooks import Hooks
from bollard.host.http.resources.identity import IDENTITY_RESOURCES, identity_resources
from bollard.host.http.resources.knowledge_documents import KNOWLEDGE_RESOURCES, knowledge_resources
from bollard.host.http.resources.mcp_servers import McpServers
from bollard.host.http.resources.metrics import Metrics, PoolVitals
from bollard.host.http.resources.models import Models
from bollard.host.http.resources.overview import Overview, PartHealth
from bollard.host.http.resources.people import People
from bollard.host.http.resources.permissions import Permissions
from bollard.host.http.resources.plugin_development import PluginDev, PluginLogs
from bollard.host.http.resources.plugins import Plugins
from bollard.host.http.resources.questions import Questions
from bollard.host.http.resources.run_calls import RunCalls
from bollard.host.http.resources.run_control import Control
from bollard.host.http.resources.run_route import RunRoutes
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.http.resources.runs import Runs
from bollard.host.http.resources.runtimes import RUNTIME_RESOURCES, runtime_resources
from bollard.host.http.resources.schedules import Schedules
from bollard.host.http.resources.secrets import Secrets
from bollard.host.http.resources.skills import Skills
from bollard.host.http.resources.state import StateControl
from bollard.host.http.resources.subscriptions import Subscriptions
from bollard.host.http.resources.tickets import Tickets
from bollard.host.http.resources.uploads import Uploads
from bollard.host.http.router import Router
from bollard.host.http.streams.run_socket import RunSocket
from bollard.host.identity.audience import Audience
from bollard.host.limits import MESSAGE_BODY_BYTES
from bollard.host.log.removal import StatePurger
from bollard.host.parts import HostParts
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.runs.control import RunControl
from bollard.host.runs.external import ExternalRuns
from bollard.host.settings import Settings
from bollard.host.workers.boundary import SupervisedPool

RESOURCES: Final[tuple[type[Resource], ...]] = (
    Runs,
    RunCalls,
    RunRoutes,
    Questions,
    Control,
    RunSocket,
    ExternalExecution,
    Events,
    Channels,
    Schedules,
    Hooks,
    ChannelArtifacts,
    ChannelUploads,
    EventStreamRoutes,
    EventList,
    Subscriptions,
    Agents,
    Capabilities,
    Permissions,
    Bindings,
    Bots,
    Conversations,
    People,
    Artifacts,
    Uploads,
    StateControl,
    ApprovalRoutes,
    Audit,
    Plugins,
    PluginLogs,
    PluginDev,
    CatalogueRoutes,
    Skills,
    Files,
    *KNOWLEDGE_RESOURCES,
    McpServers,
    Models,
    McpGateway,
    Secrets,
    *RUNTIME_RESOURCES,
    Tickets,
    *IDENTITY_RESOURCES,
    Health,
    Metrics,
    DrainControl,
    Overview,
    Description,
)
"""All resources, the most used first. A test compares this list with a running host."""


def operations() -> list[Operation]:
    """All operations of the API; needs no host."""
    return [operation for resource in RESOURCES for operation in resource.operations()]


class Api:
    """The resources of a host, and the router that serves them."""

    def __init__(
        self, parts: HostParts, standing: Callable[[], HostStatus], pools: Callable[[], Sequence[SupervisedPool]]
    ) -> None:
        storage, operating, settings = parts.storage, parts.operating, parts.settings
        audience = parts.audience
        authenticator = operating.admitting(IdentityAuthenticator(parts.keys.token, parts.identity, storage.clock))
        readiness = Readiness(
            standing, storage.journal, storage.store, storage.clock, parts.trail.numbers, parts.worker_level
        )
        external_runs = ExternalRuns(parts.keys.cursor_secret, storage.clock, parts.core.dispatcher.live)
        tickets, presence = TicketRegistry(storage.clock), Presence(audience.is_current)
        traffic = Traffic(
            event_bytes=settings.event_bytes,
            rates=identity_rates(storage.clock, settings.requests_per_minute),
            strangers=stranger_rates(storage.clock),
            at_once=ConcurrencyLimit(settings.requests_at_once),
            watch=operating.watch,
            hidden=parts.redactor.everywhere,
            silent=readiness.silent,
        )
        guard = Guard(
            authenticator=authenticator,
            tickets=tickets,
            repeats=Repeats(
                journal=storage.journal, store=storage.store, clock=storage.clock, secret=parts.keys.cursor_secret
            ),
            run_tokens=run_tokens(external_runs),
            presence=presence,
            traffic=traffic,
        )
        self.resources: tuple[Resource, ...] = (
            *_run_resources(parts, traffic, audience, presence, external_runs),
            *_saved_resources(parts),
            *_operator_resources(parts, authenticator, readiness, pools),
            Overview(
                store=storage.store,
                audience=audience,
                questions=parts.core.questions,
                health=PartHealth(
                    readiness=readiness,
                    placements=parts.fleet.of,
                    mcp=parts.saved.mcp,
                    delivery=parts.delivery,
                    data=settings.data,
                ),
                clock=storage.clock,
            ),
            Tickets(tickets, self.operation_at),
            Description(operations),
        )
        self.app = Router(self.resources, guard, _console(settings).answer)

    def operation_at(self, path: str) -> Operation | None:
        """The operation that serves a GET of this path."""
        return self.app.operation_at(path)


def _console(settings: Settings) -> ConsolePages:
    """The console: its files are in the package unless a setting names another folder."""
    folder = Path(settings.console_files or Path(bollard.__file__).with_name("console"))
    reserved = {operation.path.split("/")[1] for operation in operations()}
    return ConsolePages(ConsoleFiles(folder), ConsoleBuild(folder), reserved)


def _run_resources(
    parts: HostParts, traffic: Traffic, audience: Audience, presence: Presence, external_runs: ExternalRuns
) -> tuple[Resource, ...]:
    """The resources of events, runs and agents."""
    core, storage, directory, channels = parts.core, parts.storage, parts.directory, parts.channels
    journal, store, blobs, clock = storage.journal, storage.store, storage.blobs, storage.clock
    agents, rates, strangers, hidden = directory.agents, traffic.rates, traffic.strangers, traffic.hidden
    rows, live, pages = RunRows(store, audience, clock), core.dispatcher.live, Pages(parts.keys.cursor_secret)
    payloads = Payloads(blobs, traffic.event_bytes)
    messages = Payloads(blobs, MESSAGE_BODY_BYTES, reason="message_body", hint=MESSAGE_HINT)
    external = ExternalExecution(runs=external_runs, live=live, store=store, rows=rows, hidden=hidden)
    run_control = RunControl(store, live)
    inputs = MessageInputs(
        reach=ArtifactReach(store, clock),
        known=core.intake.deduplication,
        blobs=blobs,
        clock=clock,
        terms=storage.terms,
        redactor=parts.redactor,
    )
    # Payloads of their own: clients without a token must not use up the capacity of callers.
    strange_payloads = Payloads(blobs, traffic.event_bytes)
    reception = EventReception(
        intake=core.intake, payloads=payloads, store=store, clock=clock, terms=storage.terms, inputs=inputs
    )
    hook_reception = HookReception(
        repository=parts.saved.hooks,
        taking=reception,
        payloads=strange_payloads,
        answers=HookAnswers(core.reader),
        clock=clock,
        strangers=strangers,
    )
    signatures = ChannelSignatures(channels, clock, rates, strangers)
    uploads = _uploads_of(parts)
    approvers = Approvers(audience, agents, parts.identity.links)
    control = Control(core=core, control=run_control, rows=rows, store=store, inputs=inputs, messages=messages)
    return (
        Runs(core=core, store=store, rows=rows, external=external, pages=pages, inputs=inputs, messages=messages),
        RunCalls(store, rows, pages),
        RunRoutes(core.intake, store, rows),
        Questions(core.questions, rows, pages),
        control,
        RunSocket(reader=core.reader, rows=rows, control=control, rates=rates, presence=presence),
        external,
        Events(
            intake=core.intake,
            channel_intake=parts.channel_intake,
            taking=reception,
            payloads=payloads,
            channels=channels,
            hooks=parts.saved.hooks,
            rows=rows,
        ),
        # Payloads of their own: clients without a token must not use up the capacity of callers.
        Channels(
            repository=channels,
            intake=parts.channel_intake,
            taking=reception,
            payloads=strange_payloads,
            store=store,
            pages=pages,
            audience=audience,
            controls=_channel_controls(parts, audience, approvers),
            signatures=signatures,
        ),
        ChannelArtifacts(store, blobs, clock, signatures),
        Hooks(parts.saved.hooks, hook_reception, pages, clock),
        EventStreamRoutes(parts.outgoing.streams, parts.outgoing.changes, store, audience),
        EventList(store, pages, audience),
        Subscriptions(parts.outgoing.subscriptions, parts.outgoing.webhooks, pages),
        Agents(
            agents,
            parts.saved.agents,
            directory.runners,
            parts.core.offers,
            pages,
            next(iter(parts.settings.origins), None),
        ),
        Capabilities(core=core, agents=agents, pages=pages),
        Permissions(agents=agents, repository=parts.saved.agents, offers=core.offers, control=run_control, rows=rows),
        Bindings(parts.saved.agents.bindings, pages),
        Bots(parts.bots, channels, pages),
        Conversations(store, pages, audience, eraser_of(parts), parts.saved.schedules.repository),
        Artifacts(store, blobs, clock, audience, journal, storage.fetch),
        Uploads(uploads, UploadBodies(uploads, blobs), rows),
        ChannelUploads(uploads, UploadBodies(uploads, blobs), signatures),  # their own capacity, as for events
        StateControl(StatePurger(store, journal, clock)),
        ApprovalRoutes(approvals=core.approvals, store=store, approvers=approvers, audience=audience, pages=pages),
        McpGateway(
            MessageParts(core=core, agents=agents, rows=rows, clock=clock),
            run_control,
            hide=str if hidden is None else hidden.text,
            rates=rates,
            strangers=strangers,
        ),
    )


def _channel_controls(parts: HostParts, audience: Audience, approvers: Approvers) -> ChannelControls:
    core, links, store = parts.core, parts.identity.links, parts.storage.store
    clicks = Clicks(
        approvals=core.approvals,
        questions=core.questions,
        approvers=approvers,
        audience=audience,
        links=links,
        store=store,
    )
    agents = parts.directory.agents
    stops = StopRequests(
        dispatcher=core.dispatcher, gates=core.gates, agents=agents, audience=audience, links=links, store=store
    )
    return ChannelControls(clicks, stops)


def _saved_resources(parts: HostParts) -> tuple[Resource, ...]:
    """The resources that people save and look up."""
    saved, storage, secret = parts.saved, parts.storage, parts.keys.cursor_secret
    pages = Pages(secret)
    return (
        Plugins(fleet=parts.fleet, repository=saved.plugins, catalogue=parts.catalogue, pages=pages),
        PluginLogs(fleet=parts.fleet, repository=saved.plugins),
        PluginDev(taking=saved.plugins.uploads, workbench=saved.workbench),
        CatalogueRoutes(
            parts.catalogue,
            plugins=saved.plugins,
            fleet=parts.fleet,
            skills=saved.skills.repository,
            servers=saved.mcp.repository,
            pages=pages,
        ),
        Schedules(saved.schedules, pages),
        Skills(saved.skills.repository, saved.skills.catalogue, pages),
        Files(parts.core.files, storage.blobs, parts.redactor, pages),
        *knowledge_resources(saved.library, storage.blobs, storage.clock, secret),
        McpServers(saved.mcp, pages),
        Secrets(parts.vault, pages),
        Models(parts.models, pages, storage.clock),
        *runtime_resources(saved.runtimes, secret, storage.clock),
        *identity_resources(parts.identity, secret),
        People(
            identity=parts.identity,
            eraser=eraser_of(parts),
            files=parts.core.files,
            uploads=_uploads_of(parts),
            library=saved.library,
            schedules=saved.schedules.repository,
            journal=storage.journal,
            clock=storage.clock,
            data=parts.settings.data,
        ),
    )


def _uploads_of(parts: HostParts) -> MessageUploads:
    storage = parts.storage
    return MessageUploads(
        journal=storage.journal,
        store=storage.store,
        blobs=storage.blobs,
        clock=storage.clock,
        terms=storage.terms,
        redactor=parts.redactor,
    )


def eraser_of(parts: HostParts) -> Eraser:
    archive = parts.settings.data / "archive"
    return Eraser(parts.storage.store, parts.storage.journal, parts.storage.clock, archive)


def _operator_resources(
    parts: HostParts, authenticator: Authenticator, readiness: Readiness, pools: Callable[[], Sequence[SupervisedPool]]
) -> tuple[Resource, ...]:
    """The resources that operators watch and verify with."""
    storage = parts.storage
    return (
        *parts.operating.resources(
            core=parts.core,
            journal=storage.journal,
            authenticator=authenticator,
            readiness=readiness,
            pools=lambda: [_vitals_of(pool) for pool in pools()],
            delivery=parts.delivery,
            witness=parts.trail.numbers,
            sandbox=lambda: parts.tools.confinement.shown,
            worker_level=parts.worker_level,
        ),
        Audit(
            store=storage.store,
            journal=storage.journal,
            clock=storage.clock,
            pages=Pages(parts.keys.cursor_secret),
            key=parts.keys.heads,
            verifier=LogVerification(parts.settings, storage.clock),
        ),
    )


def _vitals_of(pool: SupervisedPool) -> PoolVitals:
    problem = pool.problem
    return PoolVitals(
        name=pool.source.name,
        status=pool.status,
        problem=problem.sentence if problem else None,
        workers=len(pool.views),
        crashes=pool.crashes,
    )
