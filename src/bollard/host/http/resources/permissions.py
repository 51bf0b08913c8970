"""Permissions as sentences: of an agent, of an unsaved one, and of the grant of a run."""

from typing import Final, cast

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.actions.permissions import permissions_of
from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.agents.agent_repository import AGENT, AgentRepository
from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.capabilities.capability import RISKS
from bollard.host.grants.access import Rights, compile_access
from bollard.host.grants.offer import Offers
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.schemas import TEXT, array_of, choice, fields, named
from bollard.host.http.operations import Answer, QueryField
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.runs.control import RunControl
from bollard.host.texts import LOCALES, Locale
from bollard.protocol import JsonObject

_LOCALE: Final = QueryField(name="locale", summary="The language of `text`.", choices=LOCALES, default="en_US")
_VALUE: Final[JsonObject] = {"anyOf": [TEXT, array_of(TEXT)]}
_PERMISSION: Final = named(
    "Permission",
    fields(
        key=TEXT, fields={"type": "object", "additionalProperties": _VALUE}, policy=TEXT, risk=choice(*RISKS), text=TEXT
    ),
)
_ANSWER: Final = Answer(
    summary="The sentences.",
    schema=named("Permissions", fields(items=array_of(_PERMISSION))),
    example={
        "items": [
            {
                "key": "tool_asked",
                "fields": {"name": "create_issue", "id": "mcp:github/create_issue"},
                "policy": "/policy/access/resources/tools",
                "risk": "high",
                "text": "May call `create_issue` after approval.",
            }
        ]
    },
)
_ABOUT: Final = (
    "Each sentence has a `key` of a stable vocabulary, its `fields`, the `policy` that makes it true as a JSON pointer "
    "into the agent, and the `risk`; `text` is the sentence in the language of `locale`. The sentences grant nothing."
)


_DRAFT: Final[JsonObject] = {
    "type": "object",
    "description": "The body of `PUT /api/v1/agents/{agent_id}`.",
    "properties": {"runner_id": TEXT, "agent_id": TEXT},
    "required": ["runner_id"],
}


class Permissions(DeclaredResource):
    """Shows permissions."""

    tag = "agents"

    def __init__(
        self, *, agents: AgentRegistry, repository: AgentRepository, offers: Offers, control: RunControl, rows: RunRows
    ) -> None:
        self._agents = agents
        self._repository = repository
        self._offers = offers
        self._control = control
        self._rows = rows

    @operation(
        "GET /api/v1/agents/{agent_id}/permissions",
        name="explainAgentPermissions",
        summary="The permissions of an agent as sentences.",
        description=_ABOUT,
        right="agents.read",
        query=(_LOCALE,),
        answers={200: _ANSWER},
        errors=("not_found",),
    )
    async def of_agent(self, request: Request) -> Response:
        workspace, agent_id = caller_of(request).workspace, request.path_params["agent_id"]
        agent = self._agents.get(agent_id, workspace) or self._agents.saved_one(agent_id, workspace)
        if agent is None:
            raise AGENT.missing()
        return self._of(request, agent)

    @operation(
        "POST /api/v1/agents/permissions",
        name="previewAgentPermissions",
        summary="The permissions that an unsaved agent would have, as sentences.",
        description=f"The body is that of `PUT /api/v1/agents/{{agent_id}}`; `agent_id` may name the agent that is "
        f"being edited. Nothing is saved. {_ABOUT}",
        right="agents.write",
        query=(_LOCALE,),
        body=_DRAFT,
        body_example={"runner_id": "plugin:local/parrot/default"},
        answers={200: _ANSWER},
    )
    async def of_draft(self, request: Request) -> Response:
        return self._of(request, self._repository.draft(await read_body(request), caller_of(request).workspace))

    @operation(
        "GET /api/v1/runs/{run_id}/permissions",
        name="explainRunPermissions",
        summary="The grant of a run as sentences.",
        description=_ABOUT,
        right="grants.read",
        query=(_LOCALE,),
        answers={200: _ANSWER},
        errors=("not_found",),
    )
    async def of_run(self, request: Request) -> Response:
        row = await self._rows.of(request)
        grant, _ = await self._control.grant_of(row.run_id)
        agent = self._agents.saved_one(row.agent_id, row.workspace) or self._agents.get(row.agent_id, row.workspace)
        approval = ApprovalPolicy() if agent is None else agent.policy.approval
        return self._shown(request, grant.access.rights, approval)

    def _of(self, request: Request, agent: Agent) -> Response:
        access = compile_access(agent, self._offers.of(agent.workspace))
        return self._shown(request, access.rights, agent.policy.approval)

    def _shown(self, request: Request, rights: Rights, approval: ApprovalPolicy) -> Response:
        locale = cast("Locale", request.query_params.get("locale", "en_US"))
        capabilities = self._offers.of(caller_of(request).workspace).capabilities
        items = [each.to_wire(locale) for each in permissions_of(rights, approval, capabilities)]
        return JsonAnswer({"items": [*items]})
