"""`/agents`, `/bindings` and `/runners`: save agents and bindings, and list runners. No answer has a secret."""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.agent import Agent, AgentRegistry, RunnerKey
from bollard.host.agents.agent_repository import AGENT, BINDING, AgentRepository, BindingRepository
from bollard.host.agents.binding import Binding
from bollard.host.agents.saved_agent import SavedAgent, agent_to_wire, agent_without_runner
from bollard.host.grants.agent_warnings import warnings_of
from bollard.host.grants.offer import Offers
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.schemas import ANY, LABEL, TEXT, array_of, fields, map_of
from bollard.host.http.operations import PAGE
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer_body, operation
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes, shown_as
from bollard.host.identity.caller import Caller
from bollard.host.log.saved_resources import Saved
from bollard.protocol import AgentRunnerDiscovery, JsonObject
from bollard.protocol.form import with_display_texts

_SECONDS: Final[JsonObject] = {"type": "number", "exclusiveMinimum": 0}
_LISTED: Final = answer_body(
    "ListedAgent",
    {
        "agent_id": "polly",
        "runner_id": "plugin:local/parrot/default",
        "label": {"en_US": "Polly"},
        "deadline_s": 300.0,
        "concurrency": "queue",
        "revision": 1,
        "available": True,
        "enabled": True,
    },
    label=LABEL,
    deadline_s=_SECONDS,
)
_AGENT: Final = shown_as(
    "Agent",
    SavedAgent,
    {"agent_id": "polly", "runner_id": "plugin:local/parrot/default", "label": {"en_US": "Polly"}, "warnings": []},
    agent_id=TEXT,  # the id of a built-in agent may be longer than a chosen one
    warnings=array_of(fields(reason=TEXT, message=TEXT, hint=TEXT, details=map_of(TEXT))),
)
_RUNNER: Final = answer_body(
    "Runner",
    {
        "runner_id": "plugin:local/parrot/default",
        "plugin": "local/parrot",
        "plugin_version": "0.0.0",
        "name": "default",
        "label": {"en_US": "Parrot"},
        "capabilities": {"streaming": True, "steering": False},
        "permissions": {"history": ["page"]},
        "config_schema": [],
        "metadata": {},
    },
    {"description": LABEL},
    label=LABEL,
    capabilities=ANY,
    permissions={"type": "object", "additionalProperties": array_of(TEXT)},
    config_schema=array_of(ANY),
    metadata=ANY,
)
_RESOURCE: Final = SavedResource(
    kind=AGENT,
    path="/api/v1/agents",
    id="agent_id",
    names=("Agent", "Agents"),
    right="agents",
    body=SavedAgent,
    body_example={"runner_id": "plugin:local/parrot/default", "label": {"en_US": "Polly"}},
    shown=_AGENT,
    listed=_LISTED,
    summaries={"delete": "Delete a saved agent."},
    descriptions={
        "get": "A secret of the configuration is shown as `__kept__`. `warnings` names what runs of the agent would "
        "lack now: models, tools, knowledge bases and files that do not exist, and permissions that the policy does "
        "not give. A warning refuses nothing.",
        "save": "`config` fills in the form of the runner; `__kept__` keeps the present secret. `policy` says what "
        "runs may do and who may talk to them. It applies to every run that is created from then on.",
        "delete": "An agent that bindings name cannot be deleted, nor the own agent of a runner. Active runs continue.",
    },
)


class Agents(SavedRoutes[Agent]):
    """Agents with their runner, and saved agents whose runner is not there."""

    resource = _RESOURCE

    def __init__(
        self,
        registry: AgentRegistry,
        repository: AgentRepository,
        runners: Mapping[RunnerKey, AgentRunnerDiscovery],
        offers: Offers,
        pages: Pages,
        address: str | None,
    ) -> None:
        """`address` is the public address of the host. Without one, forms show the address of the request."""
        self._address = address
        self._offers = offers
        self._registry = registry
        self._agents = repository
        self._runners = runners
        self._pages = pages

    def all(self, caller: Caller) -> list[Saved[Agent]]:
        ready = {agent.agent_id: agent for agent in self._registry.all() if agent.workspace == caller.workspace}
        saved = {agent.agent_id: agent for agent in self._registry.saved(caller.workspace)}
        return [_saved(agent) for _, agent in sorted({**saved, **ready}.items())]

    def find(self, caller: Caller, resource_id: str) -> Saved[Agent] | None:
        # With its runner an agent has a form, which says which fields are secret; without it no field is shown.
        workspace = caller.workspace
        agent = self._registry.get(resource_id, workspace) or self._registry.saved_one(resource_id, workspace)
        return None if agent is None else _saved(agent)

    async def show(self, saved: Saved[Agent]) -> JsonObject:
        agent = saved.value
        available = self._registry.get(agent.agent_id, agent.workspace) is not None
        warnings = warnings_of(agent, self._offers.of(agent.workspace), available=available)
        return {**agent_to_wire(agent), "warnings": [each.to_wire() for each in warnings]}

    def show_item(self, saved: Saved[Agent]) -> JsonObject:
        agent = saved.value
        return {
            "agent_id": agent.agent_id,
            "runner_id": agent.runner_id,
            "label": {**agent.label},
            "deadline_s": agent.deadline_s,
            "concurrency": agent.policy.concurrency.mode,
            "revision": agent.revision,
            "available": self._registry.get(agent.agent_id, agent.workspace) is not None,
            "enabled": agent.enabled,
        }

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[Agent], JsonObject]:
        saved = await self._agents.save(body, caller.workspace, resource_id, by=caller.name, edited=edited)
        return self.find(caller, resource_id) or _saved(agent_without_runner(saved)), {}

    async def remove(self, caller: Caller, resource_id: str, edited: int | None) -> JsonObject:
        await self._agents.delete(caller.workspace, resource_id, by=caller.name, edited=edited)
        return {}

    @operation(
        "GET /api/v1/runners",
        name="listRunners",
        summary="List the runners that plugins offer.",
        description="`config_schema` is the form of the configuration. A field with `locked`, the reason by locale, "
        "has its default as its value. A `display` row shows its default; the host has replaced its placeholders.",
        right="runners.read",
        query=PAGE,
        answers={200: _RUNNER.page("runners")},
    )
    async def list_runners(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        found = [self._runners[key] for key in sorted(self._runners) if key[0] == workspace]
        host_url = self._address or str(request.base_url).rstrip("/")

        def offered(runner: AgentRunnerDiscovery) -> JsonObject:
            return _offered(runner, {"host_url": host_url, "workspace": workspace})

        return self._pages.of_all(request, "runners.list", found, lambda runner: runner.manifest.id, offered)


def _saved(agent: Agent) -> Saved[Agent]:
    return Saved(workspace=agent.workspace, id=agent.agent_id, revision=agent.revision, value=agent)


def _offered(runner: AgentRunnerDiscovery, shown: Mapping[str, str]) -> JsonObject:
    """The manifest as the runner declares it: the most that its agents may be granted, and the form to fill in. `shown`
    are the values of placeholders."""
    form = with_display_texts(runner.manifest.config_schema, {**shown, "runner_id": runner.manifest.id})
    manifest = runner.manifest.model_copy(update={"config_schema": form})
    asked: JsonObject = {family: [*names] for family, names in manifest.permissions.model_dump().items() if names}
    return {
        "runner_id": manifest.id,
        "plugin": f"{runner.plugin_author}/{runner.plugin_name}",
        "plugin_version": runner.plugin_version,
        **{name: value for name, value in manifest.to_wire().items() if name != "id"},
        "permissions": asked,
    }


_BINDING_BODY: Final[JsonObject] = {
    "agent_id": "polly",
    "scope": {"channel": "ci"},
    "filters": [{"field": "event_type", "values": ["build.failed"]}],
}
_BINDING: Final = SavedResource(
    kind=BINDING,
    path="/api/v1/bindings",
    id="binding_id",
    names=("Binding", "Bindings"),
    right="bindings",
    body=Binding,
    body_example=_BINDING_BODY,
    shown=shown_as("Binding", Binding, {"binding_id": "builds", **_BINDING_BODY}),
    descriptions={
        "save": "Of several bindings that match, the one with the more specific scope wins, then the one with more "
        "filters, then the one with the higher priority. Two bindings that match equally are refused."
    },
)


class Bindings(SavedRoutes[Binding]):
    """The bindings of a workspace."""

    resource = _BINDING

    def __init__(self, repository: BindingRepository, pages: Pages) -> None:
        super().__init__(repository, pages)
        self._repository: BindingRepository = repository

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[Binding], JsonObject]:
        return await self._repository.save(body, caller.workspace, resource_id, by=caller.name, edited=edited), {}
