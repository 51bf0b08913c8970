"""The MCP gateway. `/mcp/run` serves the tools of one run to a harness with a token of that run; `/mcp` serves agents
to clients with an API key."""

from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from bollard.host.errors import Unauthenticated
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import bearer_of, caller_of
from bollard.host.http.guard import Rates
from bollard.host.http.idempotency import key_of
from bollard.host.http.mcp.agent_tools import AgentTools, MessageParts
from bollard.host.http.mcp.exchange import McpExchange
from bollard.host.http.mcp.run_tools import RunTools
from bollard.host.http.openapi.answers import ERROR
from bollard.host.http.openapi.schemas import ANY, NUMBER, TEXT, fields, named
from bollard.host.http.operations import Answer, HeaderField, Operation
from bollard.host.http.request_log import traceparent_of
from bollard.host.run_api.gateway import AUDIENCE
from bollard.host.runs.control import RunControl
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import JsonObject

RUN_PATH: Final = "/mcp/run"
_AGENTS_PATH: Final = "/mcp"
_ID: Final[JsonObject] = {"type": ["string", "integer", "null"]}
_MESSAGE: Final = named(
    "McpMessage",
    fields(
        {"id": _ID, "result": ANY, "error": fields({"data": {}}, code=NUMBER, message=TEXT)}, jsonrpc={"const": "2.0"}
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
        summary="The response as JSON, or as server-sent events with progress for a slow call.",
        schema=_MESSAGE,
        example={"jsonrpc": "2.0", "id": 1, "result": {}},
        stream_example='event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n\n',
    ),
    202: Answer(summary="The notification was accepted."),
    400: Answer(summary="The body is not a message of a supported version.", schema=_REFUSED, example=_NO_MESSAGE),
    404: Answer(
        summary="From 2026-07-28 on: unknown method. Or unknown workspace.", schema=_REFUSED, example=_NO_METHOD
    ),
}
_VERSION: Final = HeaderField(
    name="MCP-Protocol-Version", summary="The MCP version of the message.", example="2025-11-25"
)


class McpGateway:
    """The two MCP endpoints, and the tokens for runs."""

    def __init__(
        self, parts: MessageParts, control: RunControl, *, hide: Callable[[str], str], rates: Rates, strangers: Rates
    ) -> None:
        """`hide` removes secrets from a text."""
        self._parts = parts
        self._control = control
        self._hide = hide
        self._rates = rates
        self._strangers = strangers
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
                summary="The tools of one run, as an MCP server over streamable HTTP.",
                description="Needs the token of `issueRunMcpToken`, which is valid while the run is active. Every call "
                "passes the grant, the approvals and the log, like a call of the runner itself.",
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
                summary="The agents that the caller may use, as an MCP server over streamable HTTP.",
                description="Each agent is a tool that takes `text`. A call starts a run and returns its last "
                "messages. A repeat with the same `Idempotency-Key` gets the first run.",
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
                summary="Issue a token for the tools of a run over MCP.",
                description="Valid only at `/mcp/run`, until the run has ended. It is shown once, after its record is "
                "durable. Pass it on in a file or in the environment.",
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
        row = await self._parts.rows.of(request)
        run = self._control.live(row.run_id)
        token = await self._parts.core.gateway_tokens.issue(run, caller_of(request).name)
        body: JsonObject = {"run_id": row.run_id, "token": token, "audience": AUDIENCE, "path": RUN_PATH}
        return JsonAnswer(body, status_code=201)

    async def serve_run(self, request: Request) -> ASGIApp:
        run = self._run(request)
        name = f"run:{run.facts.run_id}"
        error = self._rates.take(f"{run.facts.workspace}/{name}")
        if error is not None:
            raise error
        core = self._parts.core
        return await self._of_runs.answer(request, name, RunTools(run, core.tool_calls, core.answered, self._hide))

    async def serve_agents(self, request: Request) -> ASGIApp:
        caller = caller_of(request)
        tools = AgentTools(caller, self._parts, key_of(request), traceparent_of(request))
        return await self._of_agents.answer(request, f"{caller.workspace}/{caller.name}", tools)

    def _run(self, request: Request) -> LiveRun:
        """The run of the token. Raises `Unauthenticated`, or `RateExceeded` after many attempts."""
        token = bearer_of(request)
        run = None if token is None else self._parts.core.gateway_tokens.run_of(token)
        if run is None:
            client = request.client
            raise self._strangers.take("" if client is None else client.host) or Unauthenticated(
                "this is not the token of an active run",
                reason="run_token",
                hint="get one with POST /api/v1/runs/{run_id}/mcp-token; it ends with its run",
            )
        return run
