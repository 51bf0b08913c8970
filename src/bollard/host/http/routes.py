"""Builds every resource of the API with the parts that they share. Each resource lists its own operations."""

from collections.abc import Sequence
from typing import Final

from starlette.types import ASGIApp

from bollard.host.agents.agent_repository import AgentRepository
from bollard.host.agents.routing import AgentDirectory
from bollard.host.channels.registry import ChannelRepository
from bollard.host.core import Core, Storage
from bollard.host.http.auth.callers import Authenticator
from bollard.host.http.auth.presence import Presence
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.http.events.attachments import Attachments
from bollard.host.http.events.payloads import Payloads
from bollard.host.http.events.reception import EventReception
from bollard.host.http.guard import Guard, Traffic
from bollard.host.http.idempotency import Repeats
from bollard.host.http.mcp.agent_tools import MessageParts
from bollard.host.http.mcp.gateway import McpGateway
from bollard.host.http.openapi.document import Description
from bollard.host.http.operations import Operation, Resource
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import Agents
from bollard.host.http.resources.approvals import ApprovalRoutes
from bollard.host.http.resources.artifacts import Artifacts
from bollard.host.http.resources.audit import Audit
from bollard.host.http.resources.bindings import Bindings
from bollard.host.http.resources.capabilities import Capabilities
from bollard.host.http.resources.channels import Channels
from bollard.host.http.resources.conversations import Conversations
from bollard.host.http.resources.event_list import EventList
from bollard.host.http.resources.events import Events
from bollard.host.http.resources.external_runs import ExternalExecution, run_tokens
from bollard.host.http.resources.files import Files
from bollard.host.http.resources.health import DrainControl, Health
from bollard.host.http.resources.knowledge_documents import KNOWLEDGE_RESOURCES
from bollard.host.http.resources.mcp_servers import McpServers
from bollard.host.http.resources.metrics import Metrics
from bollard.host.http.resources.models import Models
from bollard.host.http.resources.plugin_development import PluginDev, PluginLogs
from bollard.host.http.resources.plugins import Plugins
from bollard.host.http.resources.questions import Questions
from bollard.host.http.resources.run_calls import RunCalls
from bollard.host.http.resources.run_control import Control
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.http.resources.runs import Runs
from bollard.host.http.resources.runtimes import RUNTIME_RESOURCES
from bollard.host.http.resources.secrets import Secrets
from bollard.host.http.resources.skills import Skills
from bollard.host.http.resources.state import StateControl
from bollard.host.http.resources.tickets import Tickets
from bollard.host.http.resources.workspaces import IDENTITY_RESOURCES
from bollard.host.http.router import Router
from bollard.host.http.streams.run_socket import RunSocket
from bollard.host.identity.audience import Audience
from bollard.host.log.removal import StatePurger
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.runs.control import RunControl
from bollard.host.runs.external import ExternalRuns

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
"""All resources, the most used first. A test compares this list with a running host."""


def operations() -> list[Operation]:
    """All operations of the API; needs no host."""
    return [operation for resource in RESOURCES for operation in resource.operations()]


class Api:
    """Builds the resources and the application that serves them."""

    def __init__(
        self,
        *,
        core: Core,
        storage: Storage,
        directory: AgentDirectory,
        saved_agents: AgentRepository,
        channels: ChannelRepository,
        authenticator: Authenticator,
        audience: Audience,
        cursor_secret: bytes,
        traffic: Traffic,
        others: Sequence[Resource] = (),
    ) -> None:
        """`others` are the resources that the composition root builds."""
        journal, store, blobs, clock = storage.journal, storage.store, storage.blobs, storage.clock
        agents, rates, strangers, hidden = directory.agents, traffic.rates, traffic.strangers, traffic.hidden
        rows, live = RunRows(store, audience, clock), core.dispatcher.live
        pages, tickets = Pages(cursor_secret), TicketRegistry(clock)
        payloads = Payloads(blobs, traffic.event_bytes)
        reception = EventReception(core.intake, payloads, store, clock, core.terms)
        outside = ExternalRuns(cursor_secret, clock, live)
        external = ExternalExecution(runs=outside, live=live, store=store, rows=rows, hidden=hidden)
        run_control = RunControl(store, live)
        attachments = Attachments(ArtifactReach(store, clock), core.intake.deduplication)
        control = Control(core=core, control=run_control, rows=rows, store=store, attachments=attachments)
        presence = Presence(audience.is_current)
        guard = Guard(
            authenticator=authenticator,
            tickets=tickets,
            repeats=Repeats(journal=journal, store=store, clock=clock, secret=cursor_secret),
            run_tokens=run_tokens(outside),
            presence=presence,
            traffic=traffic,
        )
        self._resources: tuple[Resource, ...] = (
            Runs(core=core, store=store, rows=rows, external=external, pages=pages, attachments=attachments),
            RunCalls(store, rows, pages),
            Questions(core.questions, rows, pages),
            control,
            RunSocket(reader=core.reader, rows=rows, control=control, rates=rates, presence=presence),
            external,
            Events(intake=core.intake, taking=reception, payloads=payloads, channels=channels, rows=rows),
            # Payloads of their own: clients without a token must not use up the capacity of callers.
            Channels(
                repository=channels,
                taking=reception,
                payloads=Payloads(blobs, traffic.event_bytes),
                store=store,
                pages=pages,
                clock=clock,
                audience=audience,
                rates=rates,
                strangers=strangers,
            ),
            EventList(store, pages, audience),
            Agents(agents, saved_agents, directory.runners, pages),
            Capabilities(core=core, agents=agents, pages=pages),
            Bindings(saved_agents.bindings, pages),
            Conversations(store, pages, audience),
            Artifacts(store, blobs, clock, audience, journal),
            StateControl(StatePurger(store, journal, clock)),
            ApprovalRoutes(approvals=core.approvals, store=store, agents=agents, audience=audience, pages=pages),
            McpGateway(
                MessageParts(core=core, agents=agents, rows=rows, clock=clock),
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
        """The operation that serves a GET of this path."""
        return self._router.operation_at(path)
