"""`/mcp-servers`: save MCP servers, show their state, consent to their tools, and log in to them."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.capabilities.capability import RISKS
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import ANY, FLAG, TEXT, TIME, array_of, choice, fields, map_of, maybe, named
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer, answer_body, operation
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes
from bollard.host.http.revisions import revised, tag_of
from bollard.host.identity.caller import Caller
from bollard.host.log.saved_resources import Saved
from bollard.host.mcp.consent import ConsentMcpTools, ServerTool, terms_on
from bollard.host.mcp.logins import BeginMcpLogin, CompleteMcpLogin
from bollard.host.mcp.server_repository import MCP_SERVER, ServerRecord
from bollard.host.mcp.servers import SavedMcpServer
from bollard.host.mcp.source import McpSource
from bollard.protocol import JsonObject

_TOOL: Final = named(
    "McpTool",
    fields(
        {
            "id": TEXT,
            "description": TEXT,
            "input_schema": ANY,
            "output_schema": maybe(ANY),
            "definition_sha256": TEXT,
            "risk": choice(*RISKS),
            "flow": fields(reads_private=FLAG, brings_untrusted=FLAG, sends_out=FLAG),
            "effects": choice("none", "idempotent", "at_most_once"),
            "approval": choice("never", "on_risk", "always"),
        },
        name=TEXT,
        state=choice("offered", "new", "changed", "missing", "refused", "unusable"),
        problem=TEXT,
        problem_details=ANY,
        agreed=maybe(fields(definition_sha256=TEXT, by=TEXT, at=TIME)),
        diff=array_of(TEXT),
    ),
)
_TRANSPORT: Final[JsonObject] = {
    "command": TEXT,
    "args": array_of(TEXT),
    "env": map_of(TEXT),
    "url": TEXT,
    "headers": map_of(TEXT),
    "auth": choice("oauth"),
    "client_id": TEXT,
    "client_secret": TEXT,
    "scopes": array_of(TEXT),
}
_LISTED: Final = answer_body(
    "McpServer",
    {
        "server_id": "github",
        "enabled": True,
        "url": "https://mcp.example.org/mcp",
        "headers": {"Authorization": "Bearer secret:github"},
        "protocol": "auto",
        "timeout_s": 60.0,
        "allow": ["*"],
        "status": "connected",
        "problem": "",
        "problem_details": {},
        "hint": "",
        "protocol_version": "2026-07-28",
        "server_name": "github",
        "server_version": "1.4.0",
        "offered": 0,
        "waiting": 1,
        "revision": 1,
    },
    _TRANSPORT,
    protocol=choice("auto", "legacy"),
    status=choice("disabled", "connecting", "connected", "waiting", "needs_login"),
    problem_details=ANY,
    protocol_version=maybe(TEXT),
    server_name=maybe(TEXT),
    server_version=maybe(TEXT),
)
_SHOWN: Final = _LISTED.extended(
    "McpServerWhole",
    {
        "tools": [
            {
                "name": "create_issue",
                "state": "new",
                "problem": "create_issue of the server github has no consent yet",
                "problem_details": {"problem_type": "mcp.tool_new", "server": "github", "name": "create_issue"},
                "agreed": None,
                "diff": [],
                "id": "mcp:github/create_issue",
                "description": "Create an issue.",
                "input_schema": {"type": "object", "properties": {"title": {"type": "string"}}},
                "output_schema": None,
                "definition_sha256": "0" * 64,
                "risk": "high",
                "flow": {"reads_private": True, "brings_untrusted": True, "sends_out": True},
                "effects": "at_most_once",
                "approval": "on_risk",
            }
        ],
        "log": [],
    },
    tools=array_of(_TOOL),
    log=array_of(TEXT),
)


_DRAFT: Final[JsonObject] = {
    "type": "object",
    "description": "The body of `PUT /api/v1/mcp-servers/{server_id}`.",
    "properties": {"command": TEXT, "url": TEXT},
}
_TRIED: Final = answer_body(
    "TriedMcpServer",
    {
        "status": "connected",
        "problem": "",
        "problem_details": {},
        "hint": "",
        "protocol_version": "2026-07-28",
        "server_name": "github",
        "server_version": "1.4.0",
        "tools": [],
        "log": [],
    },
    status=choice("connected", "connecting", "waiting", "needs_login"),
    problem_details=ANY,
    protocol_version=maybe(TEXT),
    server_name=maybe(TEXT),
    server_version=maybe(TEXT),
    tools=array_of(_TOOL),
    log=array_of(TEXT),
)


def tool_shown(tool: ServerTool) -> JsonObject:
    """One tool, on the consented or the suggested terms."""
    agreed, capability = tool.agreed, tool.capability
    shown: JsonObject = {
        "name": tool.name,
        "state": tool.state,
        "problem": tool.problem.sentence,
        "problem_details": {**tool.problem.details},
        "agreed": None
        if agreed is None
        else {"definition_sha256": agreed.definition_sha256, "by": agreed.by, "at": agreed.at},
        "diff": [*tool.diff],
    }
    if capability is None:
        return shown
    return {
        **shown,
        "id": capability.id,
        "description": capability.description,
        "input_schema": capability.input_schema,
        "output_schema": capability.output_schema,
        "definition_sha256": capability.definition_sha256,
        **msgspec.to_builtins(terms_on(capability)),
    }


_SERVER: Final = "/api/v1/mcp-servers/{server_id}"
_RESOURCE: Final = SavedResource(
    kind=MCP_SERVER,
    path="/api/v1/mcp-servers",
    id="server_id",
    names=("McpServer", "McpServers"),
    right="mcp",
    body=SavedMcpServer,
    body_example={
        "url": "https://mcp.example.org/mcp",
        "headers": {"Authorization": "Bearer secret:github"},
        "enabled": False,
    },
    shown=_SHOWN,
    listed=_LISTED,
    summaries={
        "list": "List the MCP servers of the workspace, with the state of each connection.",
        "get": "Show one MCP server: its state, its tools, and the last lines of its stderr.",
        "save": "Save an MCP server, or a new revision of it. The host connects in the background.",
        "delete": "Delete an MCP server with its consents, and end its process.",
    },
    descriptions={
        "get": "A tool is `offered`, `new` (without consent), `changed` since the consent (see `diff`), `missing`, "
        "`refused` by the list of allowed tools, or `unusable`. Only an offered tool can be called.",
        "save": "Either `command` with `args` and `env`, a program that the host runs in a sandbox, or `url` with "
        "`headers`. Write secrets as `secret:NAME`. With `auth: oauth` a person logs in. A new server offers no tool "
        "before a person consents to it.",
    },
)


class McpServers(SavedRoutes[ServerRecord]):
    """The MCP servers of a workspace."""

    resource = _RESOURCE

    def __init__(self, source: McpSource, pages: Pages) -> None:
        super().__init__(source.repository, pages)
        self._source = source

    def response(self, request: Request, saved: Saved[ServerRecord], body: JsonObject) -> Response:
        del request
        # The state of a connection changes without a new revision, so no reader gets a 304.
        return JsonAnswer(body, headers={"etag": tag_of(saved.revision)})

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[ServerRecord], JsonObject]:
        return await self._source.save(body, caller.workspace, resource_id, by=caller.name, edited=edited), {}

    @operation(
        f"POST {_SERVER}/consent",
        name="consentMcpTools",
        summary="Consent to tools as they are defined now, and withdraw the consent to others.",
        description="A consent is to the definition with this digest; a changed definition needs a new one. Without "
        "`risk`, `flow`, `effects` or `approval` the suggested value applies.",
        right="mcp.write",
        body=ConsentMcpTools,
        body_example={"tools": [{"name": "create_issue", "definition_sha256": "0" * 64, "risk": "medium"}]},
        answers={200: _RESOURCE.answer},
        errors=("not_found", "conflict"),
    )
    async def consent(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        self._repository.get(caller.workspace, name)
        given = parsed(ConsentMcpTools, await read_body(request))
        saved = await self._source.consent(caller.workspace, name, given, caller.name)
        return revised(request, await self.show(saved), saved.revision)

    @operation(
        f"POST {_SERVER}/refresh",
        name="refreshMcpServer",
        summary="Connect now, or list the tools of a connected server again, and wait for the result.",
        right="mcp.write",
        answers={200: _RESOURCE.answer},
        errors=("not_found", "conflict"),
    )
    async def refresh(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        await self._source.refresh(caller.workspace, name)
        return JsonAnswer(await self.show(self._repository.get(caller.workspace, name)))

    @operation(
        f"POST {_SERVER}/login",
        name="beginMcpLogin",
        summary="Begin a login for a server with `auth: oauth`; returns the address for the browser.",
        description="The browser returns to `redirect_uri` with `code` and `state`. The client sends both to "
        "`…/login/complete` within ten minutes, once. Only loopback addresses are accepted.",
        right="mcp.write",
        body=BeginMcpLogin,
        body_example={"redirect_uri": "http://127.0.0.1:53682/callback"},
        answers={
            200: answer(
                "Where to go.",
                authorization_url="https://login.example.org/authorize?response_type=code&state=Zq0…",
                state="Zq0…",
                expires_at=1767226200.0,
            )
        },
        errors=("not_found", "conflict"),
    )
    async def login(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        self._repository.get(caller.workspace, name)
        given = parsed(BeginMcpLogin, await read_body(request))
        begun = await self._source.begin_login(caller.workspace, name, given.redirect_uri, caller.name)
        return JsonAnswer(
            {"authorization_url": begun.url, "state": begun.state, "expires_at": begun.expires_ms / 1000},
            headers={"cache-control": "no-store"},
        )

    @operation(
        f"POST {_SERVER}/login/complete",
        name="completeMcpLogin",
        summary="Complete a login with the code from the browser, and reconnect the server.",
        right="mcp.write",
        body=CompleteMcpLogin,
        body_example={"code": "SplxlOBeZQQYbYS6WxSbIA", "state": "Zq0"},
        answers={200: _RESOURCE.answer},
        errors=("not_found", "conflict"),
    )
    async def complete_login(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        self._repository.get(caller.workspace, name)
        given = parsed(CompleteMcpLogin, await read_body(request))
        saved = await self._source.complete_login(caller.workspace, name, given, caller.name)
        return JsonAnswer(await self.show(saved))

    @operation(
        f"POST {_SERVER}/logout",
        name="logoutMcpServer",
        summary="Delete the tokens of a server. Its tools are unavailable until a person logs in again.",
        right="mcp.write",
        answers={200: _RESOURCE.answer},
        errors=("not_found", "conflict"),
    )
    async def logout(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        return JsonAnswer(await self.show(await self._source.logout(caller.workspace, name, caller.name)))

    @operation(
        "POST /api/v1/mcp-servers/try",
        name="tryMcpServer",
        summary="Connect an unsaved server, list its tools, and disconnect it.",
        description="The body is that of `PUT /api/v1/mcp-servers/{server_id}`. Nothing is saved: a command runs in a "
        "temporary folder and ends before the answer. If the server cannot be connected, `status` is `waiting` or "
        "`needs_login`, and `problem` and `hint` say why.",
        right="mcp.write",
        body=_DRAFT,
        body_example={"command": "/nowhere/at/all"},
        answers={200: _TRIED.answer("The result.")},
        errors=("rate_limited",),
    )
    async def try_out(self, request: Request) -> Response:
        tried = await self._source.try_out(await read_body(request), caller_of(request).workspace)
        return JsonAnswer(
            {
                "status": tried.status,
                "problem": tried.problem.sentence,
                "problem_details": {**tried.problem.details},
                "hint": tried.hint,
                "protocol_version": None if tried.info is None else tried.info.protocol,
                "server_name": None if tried.info is None else tried.info.server_name,
                "server_version": None if tried.info is None else tried.info.server_version,
                "tools": [tool_shown(tool) for tool in tried.tools],
                "log": [*tried.log],
            }
        )

    def show_item(self, saved: Saved[ServerRecord]) -> JsonObject:
        connection = self._source.connection(saved.workspace, saved.id)
        info = None if connection is None else connection.server_info
        tools = [] if connection is None else connection.tools
        return {
            **saved.value.server.to_wire(),
            "status": "disabled" if connection is None else connection.status,
            "problem": "" if connection is None else connection.problem.sentence,
            "problem_details": {} if connection is None else {**connection.problem.details},
            "hint": "" if connection is None else connection.hint,
            "protocol_version": None if info is None else info.protocol,
            "server_name": None if info is None else info.server_name,
            "server_version": None if info is None else info.server_version,
            "offered": sum(tool.state == "offered" for tool in tools),
            "waiting": sum(tool.state in {"new", "changed"} for tool in tools),
            "revision": saved.revision,
        }

    async def show(self, saved: Saved[ServerRecord]) -> JsonObject:
        connection = self._source.connection(saved.workspace, saved.id)
        tools = [] if connection is None else [tool_shown(tool) for tool in connection.tools]
        return {**self.show_item(saved), "tools": [*tools], "log": [] if connection is None else [*connection.log]}
