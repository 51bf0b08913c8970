"""Every resource of the API, and the parts that they share. What each offers is in its own list of operations."""

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.types import ASGIApp

from bollard.host.agents.agent import AgentBook, RunnerKey
from bollard.host.agents.binding_book import BindingBook
from bollard.host.agents.keeping import Keeper
from bollard.host.channels.book import ChannelBook
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.http.agents import Agents
from bollard.host.http.approvals import ApprovalRoutes
from bollard.host.http.artifacts import Artifacts
from bollard.host.http.attachments import Attachments
from bollard.host.http.audit import Audit
from bollard.host.http.bindings import Bindings
from bollard.host.http.callers import Authenticator
from bollard.host.http.capabilities import Capabilities
from bollard.host.http.channels import Channels
from bollard.host.http.control import Control
from bollard.host.http.conversations import Conversations
from bollard.host.http.description import Description
from bollard.host.http.draining import DrainControl
from bollard.host.http.edge_rates import AtOnce
from bollard.host.http.event_list import EventList
from bollard.host.http.event_taking import EventTaking
from bollard.host.http.events import Events
from bollard.host.http.external import ExternalExecution, run_tokens
from bollard.host.http.files import Files
from bollard.host.http.guard import Guard, Rates, Unlimited
from bollard.host.http.health import Health
from bollard.host.http.identity import IDENTITY_RESOURCES
from bollard.host.http.knowledge_documents import KNOWLEDGE_RESOURCES
from bollard.host.http.mcp_agent_tools import Talking
from bollard.host.http.mcp_gateway import McpGateway
from bollard.host.http.mcp_servers import McpServers
from bollard.host.http.metrics import Metrics
from bollard.host.http.models import Models
from bollard.host.http.operations import Operation, Resource
from bollard.host.http.pages import Pages
from bollard.host.http.payloads import Payloads
from bollard.host.http.plugin_dev import PluginDev
from bollard.host.http.plugin_logs import PluginLogs
from bollard.host.http.plugins import Plugins
from bollard.host.http.presence import Presence
from bollard.host.http.questions import Questions
from bollard.host.http.repeats import Repeats
from bollard.host.http.router import Router
from bollard.host.http.run_calls import RunCalls
from bollard.host.http.run_rows import RunRows
from bollard.host.http.run_socket import RunSocket
from bollard.host.http.runs import Runs
from bollard.host.http.runtimes import RUNTIME_RESOURCES
from bollard.host.http.secrets import Secrets
from bollard.host.http.skills import Skills
from bollard.host.http.state import StateControl
from bollard.host.http.ticket_routes import Tickets
from bollard.host.http.tickets import TicketBook
from bollard.host.http.watching import RequestWatch
from bollard.host.identity.audience import Audience
from bollard.host.limits import EVENT_BYTES
from bollard.host.log.journal import Journal
from bollard.host.log.state_removal import StatePurger
from bollard.host.runapi.reach import ArtifactReach
from bollard.host.runs.control import RunControl
from bollard.host.runs.external import ExternalRuns
from bollard.host.secrets.redactor import Scrubber
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.protocol import AgentRunnerDiscovery

__all__ = ["RESOURCES", "Api", "operations"]

RESOURCES: Final[tuple[type[Resource], ...]] = (
    Runs,
    RunCalls,
    Questions,
    Control,
    RunSocket,
    ExternalExecution,
    Events,
    Channels,
    EventList,
    Agents,
    Capabilities,
    Bindings,
    Conversations,
    Artifacts,
    StateControl,
    ApprovalRoutes,
    Audit,
    Plugins,
    PluginLogs,
    PluginDev,
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
    Description,
)
"""Everything that has operations, those that are used most first. A test holds it against what a host has."""


def operations() -> list[Operation]:
    """Everything that the API has; needs no host."""
    return [operation for resource in RESOURCES for operation in resource.operations()]


class Api:
    """What the resources need, and the application that serves them."""

    def __init__(
        self,
        *,
        core: Core,
        store: Store,
        blobs: BlobStore,
        journal: Journal,
        clock: Clock,
        agents: AgentBook,
        bindings: BindingBook,
        keeper: Keeper,
        runners: Mapping[RunnerKey, AgentRunnerDiscovery],
        channels: ChannelBook,
        authenticator: Authenticator,
        audience: Audience,
        cursor_secret: bytes,
        event_bytes: int = EVENT_BYTES,
        rates: Rates | None = None,
        strangers: Rates | None = None,
        at_once: AtOnce | None = None,
        watch: RequestWatch | None = None,
        hidden: Scrubber | None = None,
        others: Sequence[Resource] = (),
    ) -> None:
        """`others` are the resources whose parts are not named here: the composition root has them."""
        rows, live = RunRows(store, audience, clock), core.dispatcher.live
        pages, tickets = Pages(cursor_secret), TicketBook(clock)
        payloads = Payloads(blobs, event_bytes)
        taking = EventTaking(core.intake, payloads, store, clock, core.terms)
        outside = ExternalRuns(cursor_secret, clock, live)
        external = ExternalExecution(runs=outside, live=live, store=store, rows=rows, hidden=hidden)
        run_control = RunControl(store, live)
        attachments = Attachments(ArtifactReach(store, clock), core.intake.known)
        control = Control(core=core, control=run_control, rows=rows, store=store, attachments=attachments)
        presence = Presence(audience.is_current)
        guard = Guard(
            authenticator=authenticator,
            tickets=tickets,
            repeats=Repeats(journal=journal, store=store, clock=clock, secret=cursor_secret),
            run_tokens=run_tokens(outside),
            rates=rates,
            strangers=strangers,
            at_once=at_once,
            watch=watch,
            presence=presence,
            hidden=hidden,
        )
        self._resources: tuple[Resource, ...] = (
            Runs(core=core, store=store, rows=rows, external=external, pages=pages, attachments=attachments),
            RunCalls(store, rows, pages),
            Questions(core.questions, rows, pages),
            control,
            RunSocket(reader=core.reader, rows=rows, control=control, rates=rates or Unlimited(), presence=presence),
            external,
            Events(intake=core.intake, taking=taking, payloads=payloads, channels=channels, rows=rows),
            # Strangers send to channels too: what they send takes no place from those who have a token.
            Channels(
                book=channels,
                taking=taking,
                payloads=Payloads(blobs, event_bytes),
                store=store,
                pages=pages,
                clock=clock,
                audience=audience,
                rates=rates,
                strangers=strangers,
            ),
            EventList(store, pages, audience),
            Agents(agents, keeper, runners, pages),
            Capabilities(core=core, agents=agents, pages=pages),
            Bindings(bindings, keeper, pages),
            Conversations(store, pages, audience),
            Artifacts(store, blobs, clock, audience, journal),
            StateControl(StatePurger(store, journal, clock)),
            ApprovalRoutes(approvals=core.approvals, store=store, agents=agents, audience=audience, pages=pages),
            McpGateway(
                Talking(core=core, agents=agents, rows=rows, clock=clock),
                run_control,
                hide=str if hidden is None else hidden.text,
                rates=rates,
                strangers=strangers,
            ),
            Tickets(tickets, self.operation_at),
            Description(operations),
            *others,
        )
        self._router = Router(self._resources, guard)

    @property
    def app(self) -> ASGIApp:
        return self._router

    @property
    def resources(self) -> tuple[Resource, ...]:
        return self._resources

    def operation_at(self, path: str) -> Operation | None:
        """What a GET of this path asks for."""
        return self._router.operation_at(path)
