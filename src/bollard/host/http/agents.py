"""`/agents` and `/runners`: what is there, what people saved, and saving it. A secret is never in an answer."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.agent import Agent, AgentBook
from bollard.host.agents.keeping import Keeper
from bollard.host.agents.saving import agent_to_wire
from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.control import ADMIN
from bollard.host.http.requests import whole_number
from bollard.host.http.run_rows import WORKSPACE
from bollard.protocol import AgentRunnerDiscovery, JsonObject

__all__ = ["Agents", "named_by_path"]


class Agents:
    """Agents that can be run, and those that could be if their runner were there."""

    def __init__(self, book: AgentBook, keeper: Keeper, runners: Mapping[str, AgentRunnerDiscovery]) -> None:
        self._book = book
        self._keeper = keeper
        self._runners = runners

    async def list(self, request: Request) -> Response:
        del request
        ready = {agent.agent_id: agent for agent in self._book.all() if agent.workspace == WORKSPACE}
        absent = {agent.agent_id: agent for agent in self._book.saved(WORKSPACE) if agent.agent_id not in ready}
        items = [_listed(agent, agent_id in ready) for agent_id, agent in sorted({**ready, **absent}.items())]
        return JsonAnswer({"items": items})

    async def get(self, request: Request) -> Response:
        agent_id: str = request.path_params["agent_id"]
        # An agent with its runner has the runner's form, which says what may be shown; without it nothing is.
        agent = self._book.get(agent_id, WORKSPACE) or self._keeper.saved_agent(agent_id, WORKSPACE)
        if agent is None:
            raise NotFound("there is no such agent", hint="`bollard agents` lists them")
        return JsonAnswer(agent_to_wire(agent))

    async def put(self, request: Request) -> Response:
        body = named_by_path(await read_body(request), "agent_id", request.path_params["agent_id"])
        agent = await self._keeper.save_agent(body, WORKSPACE, ADMIN)
        return JsonAnswer(agent_to_wire(agent), status_code=201 if agent.revision == 1 else 200)

    async def delete(self, request: Request) -> Response:
        agent_id: str = request.path_params["agent_id"]
        revision = whole_number(request, "revision", "send the revision you read")
        await self._keeper.delete_agent(agent_id, WORKSPACE, ADMIN, revision)
        return JsonAnswer({"agent_id": agent_id, "deleted": True})

    async def list_runners(self, request: Request) -> Response:
        del request
        items = [_offered(self._runners[runner_id]) for runner_id in sorted(self._runners)]
        return JsonAnswer({"items": items})


def named_by_path(body: JsonObject, field: str, name: str) -> JsonObject:
    """The body with the id of its path; one that names another is refused."""
    if body.get(field, name) != name:
        raise InvalidRequest(
            f"{field} differs from the path", hint=f"leave out {field}, or make them equal", field=field
        )
    return {**body, field: name}


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
