"""The MCP gateway: `/mcp/run` serves what one run can do to a harness, by a token of that run alone; `/mcp` serves
whole agents to clients with a key. What is decided about either is decided elsewhere."""

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from bollard.host.errors import Unauthenticated
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import bearer_of, caller_of
from bollard.host.http.guard import Rates, Unlimited
from bollard.host.http.idempotency import key_of
from bollard.host.http.mcp.agent_tools import AgentTools, MessageParts
from bollard.host.http.mcp.exchange import McpExchange
from bollard.host.http.mcp.run_tools import RunTools
from bollard.host.http.openapi.answers import ERROR
from bollard.host.http.openapi.schemas import ANY, NUMBER, TEXT, fields, named
from bollard.host.http.operations import Answer, HeaderField, Operation
from bollard.host.http.request_log import traceparent_of
from bollard.host.run_api.gateway_tokens import AUDIENCE
from bollard.host.runs.control import RunControl
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import JsonObject

RUN_PATH: Final = "/mcp/run"
_AGENTS_PATH: Final = "/mcp"
_ID: Final[JsonObject] = {"type": ["string", "integer", "null"]}
_MESSAGE: Final = named(
    "McpMessage",
    fields(
        {"id": _ID, "result": ANY, "error": fields({"data": {}}, code=NUMBER, message=TEXT)},
        jsonrpc={"const": "2.0"},
    ),
)
_MESSAGE_IN: Final = named(
    "McpRequest",
    {"type": "object", "properties": {"jsonrpc": {"const": "2.0"}, "method": TEXT}, "required": ["method"]},
)
_REFUSED: Final[JsonObject] = {"anyOf": [_MESSAGE, ERROR]}
_PING: Final[JsonObject] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_NO_METHOD: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": 1,
    "error": {"code": -32601, "message": "there is no method prompts/list here"},
}
_NO_MESSAGE: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32600, "message": "send one JSON-RPC message, as an object; batches are not read"},
}
_ANSWERS: Final = {
    200: Answer(
        summary="The answer, as JSON; of a call that takes its time, as server-sent events with its progress.",
        schema=_MESSAGE,
        example={"jsonrpc": "2.0", "id": 1, "result": {}},
        stream_example='event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n\n',
    ),
    202: Answer(summary="A notification was taken."),
    400: Answer(
        summary="What was sent is no message of a version that is spoken here.", schema=_REFUSED, example=_NO_MESSAGE
    ),
    404: Answer(
        summary="From 2026-07-28 on: there is no such method. Or no such workspace.",
        schema=_REFUSED,
        example=_NO_METHOD,
    ),
}
_VERSION: Final = HeaderField(
    name="MCP-Protocol-Version", summary="The version of MCP that the message is of.", example="2025-11-25"
)


class McpGateway:
    """Both endpoints, and the tokens of the first."""

    def __init__(
        self,
        talking: MessageParts,
        control: RunControl,
        *,
        hide: Callable[[str], str],
        rates: Rates | None = None,
        strangers: Rates | None = None,
    ) -> None:
        """`hide` takes secrets out of a text."""
        self._talking = talking
        self._control = control
        self._hide = hide
        self._rates = rates or Unlimited()
        self._strangers = strangers or Unlimited()
        self._of_runs, self._of_agents = McpExchange(), McpExchange()

    @staticmethod
    def operations() -> list[Operation]:
        return [
            Operation(
                method="POST",
                path=RUN_PATH,
                handler=McpGateway.serve_run,
                name="serveRunOverMcp",
                tag="mcp gateway",
                summary="What one run can do, as an MCP server over streamable HTTP.",
                description="Opened by the token of `issueRunMcpToken` alone, for as long as its run goes on. Every "
                "call passes the grant, the approvals and the log, as a call of the runner itself does.",
                open=True,
                headers=(_VERSION,),
                body=_MESSAGE_IN,
                body_example=_PING,
                answers=_ANSWERS,
                errors=("unauthenticated", "rate_limited"),
            ),
            Operation(
                method="POST",
                path=_AGENTS_PATH,
                handler=McpGateway.serve_agents,
                name="serveAgentsOverMcp",
                tag="mcp gateway",
                summary="The agents that the caller may talk to, as an MCP server over streamable HTTP.",
                description="Each agent is a tool that takes `text`. A call starts a run and is answered by its last "
                "messages; an `Idempotency-Key` names the message, and the same again gets the first run.",
                right="runs.create",
                headers=(_VERSION,),
                body=_MESSAGE_IN,
                body_example=_PING,
                repeat="own",
                answers=_ANSWERS,
                errors=("rate_limited",),
            ),
            Operation(
                method="POST",
                path="/api/v1/runs/{run_id}/mcp-token",
                handler=McpGateway.issue,
                name="issueRunMcpToken",
                tag="mcp gateway",
                summary="A token with which a harness reaches what a run can do, over MCP.",
                description="Good at `/mcp/run` and nowhere else, until the run has ended. It is shown once, and that "
                "it was issued is on disk before. Hand it over in a file or in the environment.",
                right="runs.execute",
                run_token=True,
                answers={
                    201: Answer(
                        summary="The token.",
                        schema=fields(run_id=TEXT, token=TEXT, audience=TEXT, path=TEXT),
                        example={"run_id": "run_01", "token": "blg_…", "audience": AUDIENCE, "path": RUN_PATH},
                    )
                },
                errors=("not_found", "conflict", "audit_unavailable"),
            ),
        ]

    async def issue(self, request: Request) -> Response:
        row = await self._talking.rows.of(request)
        run = self._control.live(row.run_id)
        token = await self._talking.core.gateway_tokens.issue(run, caller_of(request).name)
        body: JsonObject = {"run_id": row.run_id, "token": token, "audience": AUDIENCE, "path": RUN_PATH}
        return JsonAnswer(body, status_code=201)

    async def serve_run(self, request: Request) -> ASGIApp:
        run = self._run(request)
        name = f"run:{run.facts.run_id}"
        refused = self._rates.take(f"{run.facts.workspace}/{name}")
        if refused is not None:
            raise refused
        core = self._talking.core
        return await self._of_runs.answer(request, name, RunTools(run, core.tool_calls, core.answered, self._hide))

    async def serve_agents(self, request: Request) -> ASGIApp:
        caller = caller_of(request)
        tools = AgentTools(caller, self._talking, key_of(request), traceparent_of(request))
        return await self._of_agents.answer(request, f"{caller.workspace}/{caller.name}", tools)

    def _run(self, request: Request) -> LiveRun:
        """The run of the token. Raises `Unauthenticated`, or `RateExceeded` after many attempts."""
        token = bearer_of(request)
        run = None if token is None else self._talking.core.gateway_tokens.run_of(token)
        if run is None:
            client = request.client
            raise self._strangers.take("" if client is None else client.host) or Unauthenticated(
                "this is not the token of an active run",
                reason="run_token",
                hint="get one with POST /api/v1/runs/{run_id}/mcp-token; it ends with its run",
            )
        return run
