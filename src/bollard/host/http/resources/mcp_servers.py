"""`/mcp-servers`: programs and addresses that speak MCP. Saving them, how they are, saying yes to their tools, and
logging in for them."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.examples import page_example
from bollard.host.http.openapi.schemas import FLAG, TEXT, TIME, fields
from bollard.host.http.operations import PAGE, Answer, Operation, leads_to, page_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.agents import REVISION, named_by_path
from bollard.host.http.resources.mcp_shapes import (
    MCP_SERVER,
    MCP_SERVER_EXAMPLE,
    MCP_SERVER_WHOLE,
    MCP_WHOLE_EXAMPLE,
    tool_shown,
)
from bollard.host.http.revisions import edited_revision, held_to_match, revised, tag_of
from bollard.host.log.saved_resources import Saved
from bollard.host.mcp.consent import ConsentMcpTools
from bollard.host.mcp.logins import BeginMcpLogin, CompleteMcpLogin
from bollard.host.mcp.server_repository import ServerRecord
from bollard.host.mcp.servers import SavedMcpServer, server_to_wire
from bollard.host.mcp.source import McpSource
from bollard.protocol import JsonObject

_SERVER: Final = "/api/v1/mcp-servers/{server_id}"
_LIST: Final = "mcp_servers.list"
_EXAMPLE: Final[JsonObject] = {
    "url": "https://mcp.example.org/mcp",
    "headers": {"Authorization": "Bearer secret:github"},
    "enabled": False,
}


class McpServers:
    """MCP servers of a workspace."""

    def __init__(self, source: McpSource, pages: Pages) -> None:
        self._source = source
        self._repository = source.repository
        self._pages = pages

    @staticmethod
    def operations() -> list[Operation]:
        whole = Answer(
            summary="The server, how it is, its tools, and the last lines of its stderr.",
            schema=MCP_SERVER_WHOLE,
            example=MCP_WHOLE_EXAMPLE,
        )
        return [
            Operation(
                method="GET",
                path="/api/v1/mcp-servers",
                handler=McpServers.list,
                name="listMcpServers",
                tag="mcp",
                summary="The MCP servers of the workspace, and whether they are connected.",
                right="mcp.read",
                query=PAGE,
                answers={
                    200: Answer(
                        summary="A page of servers.",
                        schema=page_of(MCP_SERVER),
                        example=page_example(MCP_SERVER_EXAMPLE),
                    )
                },
            ),
            Operation(
                method="GET",
                path=_SERVER,
                handler=McpServers.get,
                name="getMcpServer",
                tag="mcp",
                summary="One MCP server: how it is, and each of its tools with its state.",
                description="A tool is `offered`, `new` (nobody said yes), `changed` since somebody did (`diff` says "
                "how), `missing`, `refused` by the list of allowed tools, or `unusable`. Only an offered one can be "
                "called.",
                right="mcp.read",
                editable=True,
                answers={200: whole},
                errors=("not_found",),
            ),
            Operation(
                method="PUT",
                path=_SERVER,
                handler=McpServers.put,
                name="saveMcpServer",
                tag="mcp",
                summary="Save an MCP server, or a new revision of one. It is connected in the background.",
                description="Either `command` with `args` and `env`, a program that runs as the host's own user, or "
                "`url` with `headers`. What must not be seen is written as `secret:NAME`. With `auth: oauth` somebody "
                "logs in for it. Nothing of a new server is offered before somebody said yes to it.",
                right="mcp.write",
                body=SavedMcpServer,
                body_example=_EXAMPLE,
                editable=True,
                answers={
                    200: whole,
                    201: Answer(
                        summary="The server is new.",
                        links=leads_to("server_id", getMcpServer="Read it again.", deleteMcpServer="Forget it."),
                        schema=MCP_SERVER_WHOLE,
                        example=MCP_WHOLE_EXAMPLE,
                    ),
                },
                errors=("conflict", "precondition_failed"),
            ),
            *_deeds(whole),
            *_logins(whole),
        ]

    async def list(self, request: Request) -> Response:
        found = self._repository.all(caller_of(request).workspace)
        return self._pages.of_all(request, _LIST, found, lambda saved: saved.id, self._brief)

    async def get(self, request: Request) -> Response:
        saved = self._repository.get(caller_of(request).workspace, request.path_params["server_id"])
        # What is shown changes without anybody saving it, so no reader is told that it has this already.
        return JsonAnswer(self._whole(saved), headers={"etag": tag_of(saved.revision)})

    async def put(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        body = named_by_path(await read_body(request), "server_id", name)
        before = self._repository.find(caller.workspace, name)
        edited = edited_revision(request, None if before is None else before.revision, body)
        if edited is None and isinstance(body.get("revision"), int):
            edited = parsed(SavedMcpServer, body).revision
        with held_to_match(request):
            saved = await self._source.save(body, caller.workspace, name, by=caller.name, edited=edited)
        return revised(request, self._whole(saved), saved.revision, status_code=201 if saved.revision == 1 else 200)

    async def consent(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        self._repository.get(caller.workspace, name)
        given = parsed(ConsentMcpTools, await read_body(request))
        saved = await self._source.consent(caller.workspace, name, given, caller.name)
        return revised(request, self._whole(saved), saved.revision)

    async def refresh(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        await self._source.refresh(caller.workspace, name)
        return JsonAnswer(self._whole(self._repository.get(caller.workspace, name)))

    async def delete(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        edited = edited_revision(request, self._repository.get(caller.workspace, name).revision)
        with held_to_match(request):
            await self._repository.delete(caller.workspace, name, by=caller.name, edited=edited)
        return JsonAnswer({"server_id": name, "deleted": True})

    async def login(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        self._repository.get(caller.workspace, name)
        given = parsed(BeginMcpLogin, await read_body(request))
        begun = await self._source.begin_login(caller.workspace, name, given.redirect_uri, caller.name)
        return JsonAnswer(
            {"authorization_url": begun.url, "state": begun.state, "expires_at": begun.expires_ms / 1000},
            headers={"cache-control": "no-store"},
        )

    async def complete_login(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        self._repository.get(caller.workspace, name)
        given = parsed(CompleteMcpLogin, await read_body(request))
        saved = await self._source.complete_login(caller.workspace, name, given, caller.name)
        return JsonAnswer(self._whole(saved))

    async def logout(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["server_id"]
        return JsonAnswer(self._whole(await self._source.logout(caller.workspace, name, caller.name)))

    def _brief(self, saved: Saved[ServerRecord]) -> JsonObject:
        connection = self._source.connection(saved.workspace, saved.id)
        said = None if connection is None else connection.said
        tools = [] if connection is None else connection.tools
        return {
            **server_to_wire(saved.thing.server),
            "status": "disabled" if connection is None else connection.status,
            "problem": "" if connection is None else connection.problem,
            "hint": "" if connection is None else connection.hint,
            "protocol_version": None if said is None else said.protocol,
            "server_name": None if said is None else said.server_name,
            "server_version": None if said is None else said.server_version,
            "offered": sum(tool.state == "offered" for tool in tools),
            "waiting": sum(tool.state in {"new", "changed"} for tool in tools),
            "revision": saved.revision,
        }

    def _whole(self, saved: Saved[ServerRecord]) -> JsonObject:
        connection = self._source.connection(saved.workspace, saved.id)
        tools = [] if connection is None else [tool_shown(tool) for tool in connection.tools]
        return {**self._brief(saved), "tools": [*tools], "log": [] if connection is None else [*connection.log]}


def _deeds(whole: Answer) -> list[Operation]:
    return [
        Operation(
            method="POST",
            path=f"{_SERVER}/consent",
            handler=McpServers.consent,
            name="consentMcpTools",
            tag="mcp",
            summary="Say yes to tools as they are defined now, and withdraw the yes to others.",
            description="A yes is to the definition with this digest; one that changed needs another. What is left out "
            "of risk, flow, effects and approval is taken as it is shown.",
            right="mcp.write",
            body=ConsentMcpTools,
            body_example={"tools": [{"name": "create_issue", "definition_sha256": "0" * 64, "risk": "medium"}]},
            answers={200: whole},
            errors=("not_found", "conflict"),
        ),
        Operation(
            method="POST",
            path=f"{_SERVER}/refresh",
            handler=McpServers.refresh,
            name="refreshMcpServer",
            tag="mcp",
            summary="Connect now, or ask a connected server for its tools again, and wait for what comes of it.",
            right="mcp.write",
            answers={200: whole},
            errors=("not_found", "conflict"),
        ),
        Operation(
            method="DELETE",
            path=_SERVER,
            handler=McpServers.delete,
            name="deleteMcpServer",
            tag="mcp",
            summary="Forget an MCP server and all that was agreed to. Its process is ended.",
            right="mcp.write",
            query=(REVISION,),
            editable=True,
            answers={
                200: Answer(
                    summary="It is gone.",
                    schema=fields(server_id=TEXT, deleted=FLAG),
                    example={"server_id": "github", "deleted": True},
                )
            },
            errors=("not_found", "conflict", "precondition_failed"),
        ),
    ]


def _logins(whole: Answer) -> list[Operation]:
    return [
        Operation(
            method="POST",
            path=f"{_SERVER}/login",
            handler=McpServers.login,
            name="beginMcpLogin",
            tag="mcp",
            summary="Begin a login for a server with `auth: oauth`, and learn where a browser must go.",
            description="The browser comes back to `redirect_uri` with `code` and `state`, which whoever began the "
            "login gives to `…/login/complete` within ten minutes, once. Only loopback addresses are taken.",
            right="mcp.write",
            body=BeginMcpLogin,
            body_example={"redirect_uri": "http://127.0.0.1:53682/callback"},
            answers={
                200: Answer(
                    summary="Where to go.",
                    schema=fields(authorization_url=TEXT, state=TEXT, expires_at=TIME),
                    example={
                        "authorization_url": "https://login.example.org/authorize?response_type=code&state=Zq0…",
                        "state": "Zq0…",
                        "expires_at": 1767226200.0,
                    },
                )
            },
            errors=("not_found", "conflict"),
        ),
        Operation(
            method="POST",
            path=f"{_SERVER}/login/complete",
            handler=McpServers.complete_login,
            name="completeMcpLogin",
            tag="mcp",
            summary="Complete a login with what the browser came back with. The server is connected anew.",
            right="mcp.write",
            body=CompleteMcpLogin,
            body_example={"code": "SplxlOBeZQQYbYS6WxSbIA", "state": "Zq0"},
            answers={200: whole},
            errors=("not_found", "conflict"),
        ),
        Operation(
            method="POST",
            path=f"{_SERVER}/logout",
            handler=McpServers.logout,
            name="logoutMcpServer",
            tag="mcp",
            summary="Forget the tokens of a server. Its tools are gone until somebody logs in again.",
            right="mcp.write",
            answers={200: whole},
            errors=("not_found", "conflict"),
        ),
    ]
