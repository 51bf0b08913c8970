"""`/agents` and `/runners`: what is there, what people saved, and saving it. A secret is never in an answer."""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.agent import Agent, AgentRegistry, RunnerKey
from bollard.host.agents.agent_document import SavedAgent, agent_to_wire
from bollard.host.agents.agent_repository import AgentRepository
from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.examples import AGENT_EXAMPLE, LISTED_AGENT_EXAMPLE, RUNNER_EXAMPLE, page_example
from bollard.host.http.openapi.schemas import ANY, FLAG, LABEL, NUMBER, TEXT, array_of, fields, named
from bollard.host.http.operations import PAGE, Answer, Operation, QueryField, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.revisions import edited_revision, held_to_match, revised, with_revision
from bollard.protocol import AgentRunnerDiscovery, JsonObject

_SECONDS: Final[JsonObject] = {"type": "number", "exclusiveMinimum": 0}
_LISTED: Final = named(
    "ListedAgent",
    fields(
        agent_id=TEXT,
        runner_id=TEXT,
        label=LABEL,
        deadline_s=_SECONDS,
        concurrency=TEXT,
        revision=NUMBER,
        available=FLAG,
    ),
)
_AGENT: Final = named(
    "Agent",
    fields(
        {"description": LABEL},
        agent_id=TEXT,
        runner_id=TEXT,
        label=LABEL,
        config=ANY,
        policy=ANY,
        deadline_s=_SECONDS,
        idle_s=_SECONDS,
        repeatable=FLAG,
        revision=NUMBER,
    ),
)
_RUNNER: Final = named(
    "Runner",
    fields(
        {"description": LABEL},
        runner_id=TEXT,
        plugin=TEXT,
        plugin_version=TEXT,
        name=TEXT,
        label=LABEL,
        capabilities=ANY,
        permissions={"type": "object", "additionalProperties": array_of(TEXT)},
        config_schema=array_of(ANY),
        metadata=ANY,
    ),
)
REVISION: Final = QueryField(name="revision", summary="The revision that is deleted.", kind="number", example=1)


class Agents:
    """Agents that can be run, and those that could be if their runner were there."""

    def __init__(
        self,
        book: AgentRegistry,
        repository: AgentRepository,
        runners: Mapping[RunnerKey, AgentRunnerDiscovery],
        pages: Pages,
    ) -> None:
        self._book = book
        self._repository = repository
        self._runners = runners
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        agents, agent = "/api/v1/agents", "/api/v1/agents/{agent_id}"
        saved = Answer(summary="The agent as it is now.", schema=_AGENT, example=AGENT_EXAMPLE)
        return [
            Operation(
                method="GET",
                path=agents,
                handler=Agents.list,
                name="listAgents",
                tag="agents",
                summary="The agents of the workspace.",
                right="agents.read",
                query=PAGE,
                answers={
                    200: Answer(
                        summary="A page of agents.", schema=page_of(_LISTED), example=page_example(LISTED_AGENT_EXAMPLE)
                    )
                },
            ),
            Operation(
                method="GET",
                path=agent,
                handler=Agents.get,
                name="getAgent",
                tag="agents",
                summary="One agent.",
                description="A secret of its configuration is shown as `__kept__`.",
                right="agents.read",
                editable=True,
                answers={200: saved},
                errors=("not_found",),
            ),
            Operation(
                method="PUT",
                path=agent,
                handler=Agents.put,
                name="saveAgent",
                tag="agents",
                summary="Save an agent, or a new revision of one.",
                description="`config` fills in the form of the runner, and `__kept__` in it keeps the secret that "
                "is there. `policy` says what runs may do and who may talk to them. Valid for every "
                "run that is created from then on.",
                right="agents.write",
                body=SavedAgent,
                body_example={"runner_id": "plugin:local/parrot/default", "label": {"en_US": "Polly"}},
                editable=True,
                answers={
                    200: saved,
                    201: Answer(
                        summary="The agent is new.",
                        links=leads_to("agent_id", getAgent="Read it again.", deleteAgent="Forget it."),
                        schema=_AGENT,
                        example=AGENT_EXAMPLE,
                    ),
                },
                errors=("conflict", "precondition_failed"),
            ),
            Operation(
                method="DELETE",
                path=agent,
                handler=Agents.delete,
                name="deleteAgent",
                tag="agents",
                summary="Forget an agent that was saved.",
                description="An agent that bindings name is not deleted, nor one that a runner has by itself. Runs"
                " that have begun go on.",
                right="agents.write",
                query=(REVISION,),
                editable=True,
                answers={
                    200: Answer(
                        summary="It is gone.",
                        schema=fields(agent_id=TEXT, deleted=FLAG),
                        example={"agent_id": "polly", "deleted": True},
                    )
                },
                errors=("not_found", "conflict", "precondition_failed"),
            ),
            Operation(
                method="GET",
                path="/api/v1/runners",
                handler=Agents.list_runners,
                name="listRunners",
                tag="agents",
                summary="What plugins offer to make agents of.",
                right="runners.read",
                query=PAGE,
                answers={
                    200: Answer(
                        summary="A page of runners.", schema=page_of(_RUNNER), example=page_example(RUNNER_EXAMPLE)
                    )
                },
            ),
        ]

    async def list(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        ready = {agent.agent_id: agent for agent in self._book.all() if agent.workspace == workspace}
        absent = {agent.agent_id: agent for agent in self._book.saved(workspace) if agent.agent_id not in ready}
        found = [agent for _, agent in sorted({**ready, **absent}.items())]
        return self._pages.of_all(
            request, "agents.list", found, _agent_id, lambda agent: _listed(agent, agent.agent_id in ready)
        )

    async def get(self, request: Request) -> Response:
        agent = self._found(request.path_params["agent_id"], caller_of(request).workspace)
        if agent is None:
            raise NotFound("there is no such agent", hint="`bollard agents` lists them")
        return revised(request, agent_to_wire(agent), agent.revision)

    async def put(self, request: Request) -> Response:
        caller, agent_id = caller_of(request), request.path_params["agent_id"]
        body = named_by_path(await read_body(request), "agent_id", agent_id)
        body = with_revision(body, edited_revision(request, self._revision(agent_id, caller.workspace), body))
        with held_to_match(request):
            agent = await self._repository.save_agent(body, caller.workspace, caller.name)
        return revised(request, agent_to_wire(agent), agent.revision, status_code=201 if agent.revision == 1 else 200)

    async def delete(self, request: Request) -> Response:
        caller, agent_id = caller_of(request), request.path_params["agent_id"]
        revision = edited_revision(request, self._revision(agent_id, caller.workspace))
        with held_to_match(request):
            await self._repository.delete_agent(agent_id, caller.workspace, caller.name, revision)
        return JsonAnswer({"agent_id": agent_id, "deleted": True})

    def _found(self, agent_id: str, workspace: str) -> Agent | None:
        # An agent with its runner has the runner's form, which says what may be shown; without it nothing is.
        return self._book.get(agent_id, workspace) or self._repository.saved_agent(agent_id, workspace)

    def _revision(self, agent_id: str, workspace: str) -> int | None:
        agent = self._found(agent_id, workspace)
        return None if agent is None else agent.revision

    async def list_runners(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        found = [runner for key, runner in sorted(self._runners.items(), key=_by_key) if key[0] == workspace]
        return self._pages.of_all(request, "runners.list", found, lambda runner: runner.manifest.id, _offered)


def named_by_path(body: JsonObject, field: str, name: str) -> JsonObject:
    """The body with the id of its path; one that names another is refused."""
    if body.get(field, name) != name:
        raise InvalidRequest(
            f"{field} differs from the path", hint=f"leave out {field}, or make them equal", field=field
        )
    return {**body, field: name}


def _by_key(item: tuple[RunnerKey, AgentRunnerDiscovery]) -> RunnerKey:
    return item[0]


def _agent_id(agent: Agent) -> str:
    return agent.agent_id


def _listed(agent: Agent, available: bool) -> JsonObject:
    return {
        "agent_id": agent.agent_id,
        "runner_id": agent.runner_id,
        "label": {**agent.label},
        "deadline_s": agent.deadline_s,
        "concurrency": agent.policy.concurrency.mode,
        "revision": agent.revision,
        "available": available,
    }


def _offered(runner: AgentRunnerDiscovery) -> JsonObject:
    """The manifest as the runner declares it: the most that its agents may be granted, and the form to fill in."""
    manifest = runner.manifest
    asked: JsonObject = {family: [*names] for family, names in manifest.permissions.model_dump().items() if names}
    return {
        "runner_id": manifest.id,
        "plugin": f"{runner.plugin_author}/{runner.plugin_name}",
        "plugin_version": runner.plugin_version,
        **{name: value for name, value in manifest.to_wire().items() if name != "id"},
        "permissions": asked,
    }
