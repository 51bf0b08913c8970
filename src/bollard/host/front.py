"""Everything of a host that answers requests, made of its parts. What each answers is in `http`."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from bollard.host.agents.agent import AgentBook, RunnerKey
from bollard.host.agents.binding_book import BindingBook
from bollard.host.audit.witness import WitnessNumbers
from bollard.host.channels.book import ChannelBook
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.delivery.delivery import Delivery
from bollard.host.http.audit import Audit
from bollard.host.http.authentication import IdentityAuthenticator
from bollard.host.http.callers import Authenticator
from bollard.host.http.edge_rates import AtOnce, identity_rates, stranger_rates
from bollard.host.http.files import Files
from bollard.host.http.identity import identity_resources
from bollard.host.http.knowledge_documents import knowledge_resources
from bollard.host.http.mcp_servers import McpServers
from bollard.host.http.models import Models
from bollard.host.http.operating import Operating
from bollard.host.http.operations import Resource
from bollard.host.http.pages import Pages
from bollard.host.http.plugin_dev import PluginDev
from bollard.host.http.plugin_logs import PluginLogs
from bollard.host.http.plugins import Plugins
from bollard.host.http.readiness import Standing
from bollard.host.http.routes import Api
from bollard.host.http.runtimes import runtime_resources
from bollard.host.http.secrets import Secrets
from bollard.host.http.skills import Skills
from bollard.host.http.token import AdminToken
from bollard.host.http.vitals import PoolVitals
from bollard.host.identity.audience import Audience
from bollard.host.identity.book import IdentityBook
from bollard.host.kept import Kept
from bollard.host.log.journal import Journal
from bollard.host.models.opening import OpenedModels
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import Vault
from bollard.host.settings import Settings
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.workers.boundary import SupervisedPool
from bollard.protocol import AgentRunnerDiscovery
from bollard.trust.keys import VerifyKey

__all__ = ["Front"]


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """What the API is made of. The composition root fills it in, once everything is there."""

    settings: Settings
    token: AdminToken
    cursor_secret: bytes
    key: VerifyKey
    """What the heads of the log are verified with."""
    journal: Journal
    store: Store
    blobs: BlobStore
    clock: Clock
    core: Core
    identity: IdentityBook
    agents: AgentBook
    bindings: BindingBook
    runners: Mapping[RunnerKey, AgentRunnerDiscovery]
    fleet: PluginFleet
    kept: Kept
    models: OpenedModels
    vault: Vault
    redactor: Redactor
    channels: ChannelBook
    delivery: Delivery
    operating: Operating
    standing: Callable[[], Standing]
    pools: Callable[[], Sequence[SupervisedPool]]
    witness: Callable[[], WitnessNumbers]
    sandbox: Callable[[], str]

    def open(self) -> Api:
        authenticator = self.operating.admitting(IdentityAuthenticator(self.token, self.identity, self.clock))
        return Api(
            core=self.core,
            store=self.store,
            blobs=self.blobs,
            journal=self.journal,
            clock=self.clock,
            agents=self.agents,
            bindings=self.bindings,
            keeper=self.kept.agents,
            runners=self.runners,
            channels=self.channels,
            authenticator=authenticator,
            audience=self._audience(),
            cursor_secret=self.cursor_secret,
            event_bytes=self.settings.event_bytes,
            rates=identity_rates(self.clock, self.settings.requests_per_minute),
            strangers=stranger_rates(self.clock),
            at_once=AtOnce(self.settings.requests_at_once),
            watch=self.operating.watch,
            hidden=self.redactor.everywhere,
            others=(*self._of_keepers(), *self._of_operators(authenticator)),
        )

    def _audience(self) -> Audience:
        return Audience(
            agents=self.agents,
            users=self.identity.users,
            links=self.identity.links,
            callers=self.identity.callers,
            store=self.store,
        )

    def _of_keepers(self) -> tuple[Resource, ...]:
        """What people save and look up."""
        plugins, abilities, pages = self.kept.plugins, self.kept.abilities, Pages(self.cursor_secret)
        return (
            Plugins(fleet=self.fleet, keeper=plugins, pages=pages),
            PluginLogs(fleet=self.fleet, keeper=plugins),
            PluginDev(taking=plugins.taking, workbench=self.kept.workbench),
            Skills(abilities.skills.book, abilities.skills.catalogue, pages),
            Files(self.core.files, self.blobs, self.redactor, pages),
            *knowledge_resources(abilities.library, self.blobs, self.clock, self.cursor_secret),
            McpServers(abilities.mcp, pages),
            Secrets(self.vault, pages),
            Models(self.models, pages, self.clock),
            *runtime_resources(self.kept.runtimes, self.cursor_secret, self.clock),
            *identity_resources(self.identity, self.cursor_secret),
        )

    def _of_operators(self, authenticator: Authenticator) -> tuple[Resource, ...]:
        """What is watched, turned and verified."""
        return (
            *self.operating.resources(
                core=self.core,
                journal=self.journal,
                store=self.store,
                authenticator=authenticator,
                standing=self.standing,
                pools=lambda: [_vitals_of(pool) for pool in self.pools()],
                delivery=self.delivery,
                witness=self.witness,
                sandbox=self.sandbox,
            ),
            Audit(
                store=self.store,
                journal=self.journal,
                clock=self.clock,
                pages=Pages(self.cursor_secret),
                key=self.key,
            ),
        )


def _vitals_of(pool: SupervisedPool) -> PoolVitals:
    return PoolVitals(
        name=pool.source.name,
        status=pool.status,
        problem=pool.problem,
        workers=len(pool.views),
        crashes=pool.crashes,
    )
