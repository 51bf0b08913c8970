"""`/capabilities`: the capabilities of a workspace, offered and unavailable. `/agents/{id}/capabilities`: those that
the runs of an agent get, and the reasons. Nothing here grants anything."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.agent import AgentRegistry
from bollard.host.capabilities.capability import KINDS, RISKS, Capability, Flow
from bollard.host.core import Core
from bollard.host.errors import NotFound
from bollard.host.grants.explanation import Explanation, concerned, explain_capability
from bollard.host.grants.session import RunSession
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import ANY, DECIDED_BY, FLAG, TEXT, array_of, choice, fields, maybe, named
from bollard.host.http.operations import PAGE, Answer, QueryField, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.runs.event import NewEvent
from bollard.host.scope import Scope
from bollard.host.texts import LOCALES
from bollard.protocol import JsonObject

_LIST: Final = "capabilities.list"
_ID: Final = "mcp:github/create_issue"
_FLOW: Final = fields(reads_private=FLAG, brings_untrusted=FLAG, sends_out=FLAG)
_DEFINED: Final[JsonObject] = {
    "name": TEXT,
    "kind": choice(*KINDS),
    "description": TEXT,
    "source": TEXT,
    "version": TEXT,
    "definition_sha256": TEXT,
    "risk": choice(*RISKS),
    "flow": _FLOW,
    "effects": choice("none", "idempotent", "at_most_once"),
    "approval": choice("never", "on_risk", "always"),
}
_OFFERED: Final = named(
    "Capability", fields({**_DEFINED, "reason": TEXT, "reason_details": ANY}, id=TEXT, available=FLAG)
)
_GRANTED: Final = named(
    "AgentCapability",
    fields(
        {**_DEFINED, "input_schema": ANY, "output_schema": maybe(ANY), "code": TEXT},
        id=TEXT,
        present=FLAG,
        operations=array_of(TEXT),
        reasons=array_of(DECIDED_BY),
    ),
)
_DEFINED_EXAMPLE: Final[JsonObject] = {
    "id": _ID,
    "name": "create_issue",
    "kind": "mcp",
    "description": "Open an issue.",
    "source": "mcp:github",
    "version": "https://mcp.example.org",
    "definition_sha256": "0" * 64,
    "risk": "high",
    "flow": {"reads_private": False, "brings_untrusted": False, "sends_out": True},
    "effects": "at_most_once",
    "approval": "on_risk",
}
_GRANTED_EXAMPLE: Final[JsonObject] = {
    **_DEFINED_EXAMPLE,
    "input_schema": {"type": "object"},
    "present": True,
    "operations": ["tools.call", "tools.detail"],
    "reasons": [{"layer": "policy", "text": f"The agent's policy adds {_ID}."}],
}


class Capabilities(DeclaredResource):
    """Lists and explains capabilities."""

    tag = "capabilities"

    def __init__(self, *, core: Core, agents: AgentRegistry, pages: Pages) -> None:
        self._offers = core.offers
        self._maker = core.maker
        self._agents = agents
        self._pages = pages

    @operation(
        "GET /api/v1/capabilities",
        name="listCapabilities",
        summary="List the capabilities that the workspace offers to its agents.",
        description="The list includes unavailable capabilities with the `reason`; an `id` that ends in `/` stands for "
        "all ids with this prefix. An offered capability is not granted: the policy or the configuration of "
        "an agent must name it.",
        right="capabilities.read",
        query=PAGE,
        answers={
            200: Answer(
                summary="A page of capabilities.",
                schema=page_of(_OFFERED),
                example=page_example({**_DEFINED_EXAMPLE, "available": True}),
            )
        },
    )
    async def list(self, request: Request) -> Response:
        offer = self._offers.of(caller_of(request).workspace)
        shown = {each.id: {**_defined(each), "available": True} for each in offer.capabilities.values()}
        for name, why in offer.absent.items():
            about = {"reason": why.sentence, "reason_details": {**why.details}}
            shown[name] = {"id": name, "available": False, **about}
        items = [shown[name] for name in sorted(shown)]
        return self._pages.of_all(request, _LIST, items, lambda item: str(item["id"]), lambda item: item)

    @operation(
        "GET /api/v1/agents/{agent_id}/capabilities",
        name="explainAgentCapabilities",
        summary="Explain which capabilities a run of an agent would get now, and why.",
        description="The answer has the graph of a new run, and every other capability that the agent asks for with "
        "the layer that denies it. `capability` selects one capability and adds its schemas, even if the agent "
        "does not ask for it.",
        right="capabilities.read",
        query=(
            QueryField(name="capability", summary="A capability id, or a name that models see.", example=_ID),
            QueryField(name="locale", summary="The language of the reasons.", choices=LOCALES, default="en_US"),
        ),
        answers={
            200: Answer(
                summary="The capabilities.",
                schema=fields(agent_id=TEXT, graph_sha256=TEXT, items=array_of(_GRANTED)),
                example={"agent_id": "polly", "graph_sha256": "0" * 64, "items": [_GRANTED_EXAMPLE]},
            )
        },
        errors=("not_found",),
    )
    async def of_agent(self, request: Request) -> Response:
        workspace, agent_id = caller_of(request).workspace, request.path_params["agent_id"]
        agent = self._agents.get(agent_id, workspace)
        if agent is None:
            waits = self._agents.saved_one(agent_id, workspace) is not None
            problem = f"the runner of agent {agent_id} is not there" if waits else "there is no such agent"
            reason = "runner_missing" if waits else "no_agent"
            raise NotFound(problem, reason=reason, hint="`bollard agents` lists them", agent=agent_id)
        scope = Scope(workspace=workspace)
        event = NewEvent(source="preview", source_id="preview", event_type="message.received", scope=scope)
        session, offer = self._maker.session(event, agent, "run_preview"), self._offers.of(workspace)
        named, locale = request.query_params.get("capability"), request.query_params.get("locale", "en_US")
        ids = concerned(session.grant, session.graph) if named is None else [named]
        found = [(each, explain_capability(session.grant, session.graph, offer, each)) for each in ids]
        whole = named is not None  # the schemas of all capabilities would be too large for one answer
        items = [
            _explained(session, offer.capabilities.get(each), each, why, locale, whole=whole) for each, why in found
        ]
        return JsonAnswer({"agent_id": agent_id, "graph_sha256": session.graph.sha256, "items": [*items]})


def _explained(
    session: RunSession, offered: Capability | None, asked: str, found: Explanation, locale: str, *, whole: bool
) -> JsonObject:
    """The capability of the frozen graph, or else the one that the workspace offers, if any."""
    node = session.graph.node(asked)
    capability = offered if node is None else node.capability
    item: JsonObject = {"id": asked} if capability is None else {**_defined(capability)}
    item |= {} if node is None else {"name": node.name}
    if whole and capability is not None:
        item["input_schema"] = capability.input_schema
        item |= {} if capability.output_schema is None else {"output_schema": capability.output_schema}
    item["present"] = node is not None
    item["operations"] = [] if node is None else [*sorted(node.operations)]
    item |= {} if found.code is None else {"code": found.code}
    item["reasons"] = [reason.to_wire(locale) for reason in found.reasons]
    return item


def _defined(capability: Capability) -> JsonObject:
    return {
        "id": capability.id,
        "name": capability.name,
        "kind": capability.kind,
        "description": capability.description,
        "source": capability.source,
        "version": capability.version,
        "definition_sha256": capability.definition_sha256,
        "risk": capability.risk,
        "flow": _flow(capability.flow),
        "effects": capability.effects,
        "approval": capability.approval,
    }


def _flow(flow: Flow) -> JsonObject:
    return {"reads_private": flow.reads_private, "brings_untrusted": flow.brings_untrusted, "sends_out": flow.sends_out}
