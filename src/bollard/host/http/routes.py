"""The table of routes, and what is behind them. Each resource has a module; which token opens a route is said here."""

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.routing import Route

from bollard.host.agents.agent import AgentBook
from bollard.host.agents.binding_book import BindingBook
from bollard.host.agents.keeping import Keeper
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.errors import HostError
from bollard.host.http.agents import Agents
from bollard.host.http.bindings import Bindings
from bollard.host.http.control import Control
from bollard.host.http.events import Events
from bollard.host.http.external import ExternalExecution, run_token_check
from bollard.host.http.guard import Elsewhere, Guarded, Handler, Unauthenticated
from bollard.host.http.health import Health
from bollard.host.http.run_rows import RunRows
from bollard.host.http.runs import Runs
from bollard.host.http.token import AdminToken
from bollard.host.runs.control import RunControl
from bollard.host.runs.external import ExternalRuns
from bollard.host.store.boundary import Store
from bollard.protocol import AgentRunnerDiscovery, JsonObject

__all__ = ["Api"]


class Api:
    """What the routes need, and the routes."""

    def __init__(
        self,
        *,
        core: Core,
        store: Store,
        clock: Clock,
        agents: AgentBook,
        bindings: BindingBook,
        keeper: Keeper,
        runners: Mapping[str, AgentRunnerDiscovery],
        token: AdminToken,
        cursor_secret: bytes,
        health: Callable[[], JsonObject],
    ) -> None:
        rows, live = RunRows(store), core.dispatcher.live
        outside = ExternalRuns(cursor_secret, clock)
        self._token = token
        self._by_run_token = run_token_check(token, outside)
        self._external = ExternalExecution(runs=outside, live=live, store=store, rows=rows)
        self._runs = Runs(core=core, store=store, rows=rows, external=self._external, cursor_secret=cursor_secret)
        self._control = Control(core=core, control=RunControl(store, live), rows=rows)
        self._events = Events(core.intake)
        self._agents = Agents(agents, keeper, runners)
        self._bindings = Bindings(bindings, keeper)
        self._health = Health(health)

    def routes(self) -> list[Route]:
        """Those that are used most come first."""
        known = [
            self._admin("POST", "/api/v1/runs", self._runs.create),
            self._admin("GET", "/api/v1/runs", self._runs.list),
            self._admin("GET", "/api/v1/runs/{run_id}", self._runs.get),
            self._admin("GET", "/api/v1/runs/{run_id}/stream", self._runs.stream),
            self._admin("GET", "/api/v1/runs/{run_id}/records", self._runs.records),
            self._admin("POST", "/api/v1/runs/{run_id}/cancel", self._control.cancel),
            self._admin("POST", "/api/v1/runs/{run_id}/steer", self._control.steer),
            self._outside("POST", "/api/v1/runs/{run_id}/results", self._external.append),
            self._outside("POST", "/api/v1/runs/{run_id}/finalize", self._external.finalize),
            self._admin("GET", "/api/v1/runs/{run_id}/grant", self._control.grant),
            self._admin("GET", "/api/v1/runs/{run_id}/explain", self._control.explain),
            self._admin("POST", "/api/v1/runs/{run_id}/revoke", self._control.revoke),
            self._admin("POST", "/api/v1/events", self._events.post),
            self._admin("POST", "/api/v1/resolve", self._events.resolve),
            self._admin("GET", "/api/v1/agents", self._agents.list),
            self._admin("GET", "/api/v1/agents/{agent_id}", self._agents.get),
            self._admin("PUT", "/api/v1/agents/{agent_id}", self._agents.put),
            self._admin("DELETE", "/api/v1/agents/{agent_id}", self._agents.delete),
            self._admin("GET", "/api/v1/runners", self._agents.list_runners),
            self._admin("GET", "/api/v1/bindings", self._bindings.list),
            self._admin("GET", "/api/v1/bindings/{binding_id}", self._bindings.get),
            self._admin("PUT", "/api/v1/bindings/{binding_id}", self._bindings.put),
            self._admin("DELETE", "/api/v1/bindings/{binding_id}", self._bindings.delete),
            self._open("GET", "/healthz", self._health.alive),
            self._open("GET", "/readyz", self._health.ready),
        ]
        return [*known, Route("/{path:path}", Elsewhere(known))]

    def _admin(self, method: str, path: str, handler: Handler) -> Route:
        return Route(path, Guarded(handler, self._by_admin_token), methods=[method])

    def _outside(self, method: str, path: str, handler: Handler) -> Route:
        return Route(path, Guarded(handler, self._by_run_token), methods=[method])

    @staticmethod
    def _open(method: str, path: str, handler: Handler) -> Route:
        return Route(path, handler, methods=[method])

    def _by_admin_token(self, request: Request) -> HostError | None:
        return None if self._token.allows(request.headers.get("authorization")) else Unauthenticated()
