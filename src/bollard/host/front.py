"""The HTTP API of a host, made of its parts."""

from collections.abc import Callable, Sequence

from bollard.host.http.auth.authentication import IdentityAuthenticator
from bollard.host.http.auth.callers import Authenticator
from bollard.host.http.edge.rates import ConcurrencyLimit, identity_rates, stranger_rates
from bollard.host.http.operations import Resource
from bollard.host.http.queries import Pages
from bollard.host.http.resources.audit import Audit
from bollard.host.http.resources.files import Files
from bollard.host.http.resources.knowledge_documents import knowledge_resources
from bollard.host.http.resources.mcp_servers import McpServers
from bollard.host.http.resources.metrics import PoolVitals
from bollard.host.http.resources.models import Models
from bollard.host.http.resources.plugin_development import PluginDev, PluginLogs
from bollard.host.http.resources.plugins import Plugins
from bollard.host.http.resources.readiness import HostStatus, Readiness
from bollard.host.http.resources.runtimes import runtime_resources
from bollard.host.http.resources.secrets import Secrets
from bollard.host.http.resources.skills import Skills
from bollard.host.http.resources.workspaces import identity_resources
from bollard.host.http.routes import Api, Traffic
from bollard.host.identity.audience import Audience
from bollard.host.parts import HostParts
from bollard.host.workers.boundary import SupervisedPool


def open_api(
    parts: HostParts, standing: Callable[[], HostStatus], pools: Callable[[], Sequence[SupervisedPool]]
) -> Api:
    """The API of a host."""
    storage, operating = parts.storage, parts.operating
    authenticator = operating.admitting(IdentityAuthenticator(parts.keys.token, parts.identity, storage.clock))
    readiness = Readiness(standing, storage.journal, storage.store, storage.clock, parts.trail.numbers)
    return Api(
        core=parts.core,
        storage=storage,
        directory=parts.directory,
        saved_agents=parts.saved.agents,
        channels=parts.channels,
        authenticator=authenticator,
        audience=_audience(parts),
        cursor_secret=parts.keys.cursor_secret,
        traffic=Traffic(
            event_bytes=parts.settings.event_bytes,
            rates=identity_rates(storage.clock, parts.settings.requests_per_minute),
            strangers=stranger_rates(storage.clock),
            at_once=ConcurrencyLimit(parts.settings.requests_at_once),
            watch=operating.watch,
            hidden=parts.redactor.everywhere,
            silent=readiness.silent,
        ),
        others=(*_saved_resources(parts), *_operator_resources(parts, authenticator, readiness, pools)),
    )


def _audience(parts: HostParts) -> Audience:
    return Audience(
        agents=parts.directory.agents,
        users=parts.identity.users,
        links=parts.identity.links,
        callers=parts.identity.callers,
        store=parts.storage.store,
    )


def _saved_resources(parts: HostParts) -> tuple[Resource, ...]:
    """The resources that people save and look up."""
    saved, storage, secret = parts.saved, parts.storage, parts.keys.cursor_secret
    pages = Pages(secret)
    return (
        Plugins(fleet=parts.fleet, repository=saved.plugins, pages=pages),
        PluginLogs(fleet=parts.fleet, repository=saved.plugins),
        PluginDev(taking=saved.plugins.uploads, workbench=saved.workbench),
        Skills(saved.skills.repository, saved.skills.catalogue, pages),
        Files(parts.core.files, storage.blobs, parts.redactor, pages),
        *knowledge_resources(saved.library, storage.blobs, storage.clock, secret),
        McpServers(saved.mcp, pages),
        Secrets(parts.vault, pages),
        Models(parts.models, pages, storage.clock),
        *runtime_resources(saved.runtimes, secret, storage.clock),
        *identity_resources(parts.identity, secret),
    )


def _operator_resources(
    parts: HostParts,
    authenticator: Authenticator,
    readiness: Readiness,
    pools: Callable[[], Sequence[SupervisedPool]],
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
        ),
        Audit(
            store=storage.store,
            journal=storage.journal,
            clock=storage.clock,
            pages=Pages(parts.keys.cursor_secret),
            key=parts.keys.heads,
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
